//! What callers, connections and background releases of one broker share.

use crate::domain::Domain;
use crate::keys::Keys;
use crate::limits::CLOSE_WINDOW;
use crate::pool::{Pool, Stage};
use crate::release;
use crate::sync::Quota;
use std::sync::Arc;
use ticketing_wire_codec::Token;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout;

/// The state of a broker.
pub(crate) struct Shared {
    pub(crate) domain: Domain,
    pub(crate) pool: Pool,
    /// Acquires between call and answer.
    pub(crate) pending: Arc<Quota>,
    /// Releases between call and answer.
    pub(crate) releases: Arc<Quota>,
    /// Held by everything that runs in the background; closing waits until nobody listens.
    stage: watch::Sender<Stage>,
    runtime: Handle,
}

/// Keeps the broker open: each broker handle and ticket has a share, and the last one closes it.
pub(crate) struct Anchor {
    pub(crate) shared: Arc<Shared>,
}

impl Shared {
    pub(crate) fn new(domain: Domain, pool: Pool, pending_count: usize, runtime: Handle) -> Self {
        Self {
            domain,
            pool,
            pending: Quota::new(pending_count),
            releases: Quota::new(crate::limits::RELEASE_COUNT_MAX),
            stage: watch::Sender::new(Stage::Open),
            runtime,
        }
    }

    /// Runs something until it ends or the broker is closed. `close` returns after it.
    pub(crate) fn spawn<F>(&self, task: impl FnOnce(watch::Receiver<Stage>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.runtime.spawn(task(self.stage.subscribe()));
    }

    /// Releases what nobody wants any more, by the rules of a release but without a report (L9).
    /// Past the bound on releases, the lease is the safety net.
    pub(crate) fn release_in_background(self: &Arc<Self>, keys: Keys, token: Token) {
        if let Ok(job) = release::Job::new(self, keys, token) {
            job.finish_in_background();
        }
    }

    /// Refuses new calls, lets releases finish, and ends everything that runs.
    pub(crate) async fn close(&self) {
        self.advance(Stage::Draining);
        // Not in time is fine too: the lease is the safety net.
        let _ = timeout(CLOSE_WINDOW, self.releases.empty()).await;
        self.advance(Stage::Closed);
        self.stage.closed().await;
    }

    fn advance(&self, stage: Stage) {
        self.pool.advance(stage);
        self.stage.send_if_modified(|known| {
            let is_later = *known < stage;
            *known = stage.max(*known);
            is_later
        });
    }
}

impl Drop for Anchor {
    fn drop(&mut self) {
        if self.shared.pool.stage() < Stage::Closed {
            let shared = Arc::clone(&self.shared);
            self.shared.runtime.spawn(async move { shared.close().await });
        }
    }
}
