//! Keeps the state directory ahead of the engine, without the engine waiting for the disk.

use super::shared::Shared;
use crate::engine::{Durability, Persisted};
use crate::limits::DISK_RETRY_PAUSE;
use crate::state::StateDir;
use std::sync::{Arc, Mutex, PoisonError};
use tracing::{error, info, warn};

/// The directory, shared with writes that are under way.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    state: Arc<Mutex<StateDir>>,
}

impl Disk {
    pub(crate) fn new(state: StateDir) -> Self {
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Writes what the engine wants, whenever it wants more, for ever.
    pub(crate) async fn keep_ahead(self, shared: Arc<Shared>) {
        loop {
            shared.disk.notified().await;
            while let Some(wanted) = shared.wanted() {
                if self.promise(wanted).await {
                    shared.set_durability(Durability::Written(wanted));
                } else {
                    shared.set_durability(Durability::Failing);
                    tokio::time::sleep(DISK_RETRY_PAUSE).await;
                }
            }
        }
    }

    /// The clean end of a run.
    pub(crate) async fn seal(self, shared: &Shared) {
        let (persisted, left) = shared.final_promise();
        let state = self.state;
        let sealed = tokio::task::spawn_blocking(move || {
            state.lock().unwrap_or_else(PoisonError::into_inner).seal(persisted, left)
        });
        match sealed.await {
            Ok(Ok(())) => info!(lease_seconds_left = left.as_secs_f64(), "state sealed"),
            Ok(Err(error)) => warn!(%error, "the next start will wait as after a crash"),
            Err(error) => warn!(%error, "the next start will wait as after a crash"),
        }
    }

    async fn promise(&self, wanted: Persisted) -> bool {
        let state = Arc::clone(&self.state);
        let written = tokio::task::spawn_blocking(move || {
            state.lock().unwrap_or_else(PoisonError::into_inner).promise(wanted)
        });
        match written.await {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => error!(%error, "longer leases are refused until this works"),
            Err(error) => error!(%error, "longer leases are refused until this works"),
        }
        false
    }
}
