//! The shell of the peer protocol: links, snapshots, and whoever knocks on the peer port.
//!
//! Every node opens one link to every other and sends on it; what it hears comes on the links that
//! the others open. A snapshot has a connection of its own.

mod accept;
mod dial;
mod handshake;
mod links;
mod snapshot;
mod tls;

use super::seldom::Seldom;
use super::shared::Shared;
use crate::cluster::engine::NodeStatus;
use crate::cluster::life::Waiting;
use crate::cluster::replicated::Exit;
use crate::config::{ClusterConfig, Mark};
use links::Links;
use std::sync::Arc;
use std::time::Duration;
use ticketing_raft_log::Role;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tracing::{error, info};

pub(crate) use tls::PeerTls;

/// A peer's byte stream, plain or in TLS.
trait PeerStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> PeerStream for T {}

/// How often the log is told where the node stands, when that changed.
const REPORT_PAUSE: Duration = Duration::from_millis(500);

/// What all peer tasks share.
pub(crate) struct Peers {
    shared: Arc<Shared>,
    config: ClusterConfig,
    incarnation: u64,
    tls: Option<PeerTls>,
    mark: Option<Mark>,
    links: Links,
    /// That a peer breaks the protocol: one that does will do it again.
    broken: Seldom,
}

impl Peers {
    pub(crate) fn new(
        shared: Arc<Shared>,
        config: ClusterConfig,
        incarnation: u64,
        tls: Option<PeerTls>,
        mark: Option<Mark>,
    ) -> Arc<Self> {
        let (links, broken) = (Links::default(), Seldom::default());
        Arc::new(Self { shared, config, incarnation, tls, mark, links, broken })
    }

    /// Starts every task. `Err` from one of them is the reason to end the process.
    pub(crate) fn start(self: &Arc<Self>, listener: TcpListener, tasks: &mut JoinSet<()>) {
        tasks.spawn(accept::accept(Arc::clone(self), listener));
        for slot in (0..self.config.slot_count()).filter(|slot| *slot != self.config.slot) {
            tasks.spawn(dial::keep_link(Arc::clone(self), slot));
        }
        tasks.spawn(snapshot::send_all(Arc::clone(self)));
        tasks.spawn(report(Arc::clone(self)));
    }

    /// Returns when the process has to end.
    pub(crate) async fn end(&self) -> Exit {
        loop {
            if let Some(Some(exit)) = self.shared.cluster(|engine, _| engine.exit()) {
                return exit;
            }
            tokio::time::sleep(REPORT_PAUSE).await;
        }
    }

    /// Writes the mark of a member before anything it says leaves this process.
    fn note_membership(&self, has_joined: bool) {
        if let (true, Some(mark)) = (has_joined, &self.mark)
            && let Err(error) = mark.set()
        {
            error!(%error, "cannot note the membership in TICKETING_STATE_DIR; stopping");
            // Ends the process, and not before the log is written.
            panic!("a member without its mark must not take part");
        }
    }
}

/// Logs where the node stands, whenever that has changed.
async fn report(peers: Arc<Peers>) {
    let mut last = String::new();
    loop {
        if let Some(status) = peers.shared.cluster(|engine, now| engine.status(now)) {
            let line = describe(&status);
            if line != last {
                if matches!(status.waiting, Some(Waiting::Doubt | Waiting::Over | Waiting::Used)) {
                    error!("{line}");
                } else {
                    info!("{line}");
                }
                last = line;
            }
        }
        tokio::time::sleep(REPORT_PAUSE).await;
    }
}

fn describe(status: &NodeStatus) -> String {
    match (&status.log, &status.waiting) {
        (Some(log), _) => {
            let role = match log.role {
                Role::Candidate => "candidate",
                Role::Follower => "follower",
                Role::Leader => "leader",
                Role::Learner => "learner",
            };
            let leader = log.leader.map_or("none".to_owned(), |leader| leader.slot().to_string());
            format!("{role} ({}), term {}, leader slot {leader}", log.id, log.term)
        }
        (None, Some(waiting)) => waiting.to_string(),
        (None, None) => String::new(),
    }
}
