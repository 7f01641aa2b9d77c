//! What the shell of a cluster node asks of its engine.

use super::life::Waiting;
use super::replicated::{Exit, PeerViolation, Replicated};
use crate::engine::Engine;
use crate::peer::message::PeerMessage;
use ticketing_lock_core::Instant;
use ticketing_raft_log::{Message, NodeId, SnapshotOutcome, Status};

/// A look at a node, for its operator.
#[derive(Clone, Debug)]
pub(crate) struct NodeStatus {
    /// The log's, once the process is a member.
    pub(crate) log: Option<Status>,
    /// Why it is none yet.
    pub(crate) waiting: Option<Waiting>,
    /// Locks held, a set as one.
    pub(crate) grant_count: usize,
    /// Requests that wait for their turn.
    pub(crate) waiter_count: usize,
    /// Over everything that ever happened; equal on all nodes at the same applied index.
    pub(crate) checksum: u64,
}

impl Engine<Replicated> {
    /// A peer has opened its link to this node.
    pub(crate) fn peer_connected(&mut self, slot: u8, incarnation: u64) {
        self.locks.peer_connected(slot, incarnation);
    }

    /// A peer's side has closed a link.
    pub(crate) fn peer_closed(&mut self, slot: u8, incarnation: u64, now: Instant) {
        self.locks.peer_closed(&mut self.sessions, slot, incarnation, now);
    }

    /// A message from a peer.
    pub(crate) fn peer_message(
        &mut self,
        slot: u8,
        incarnation: u64,
        message: PeerMessage,
        now: Instant,
    ) -> Result<(), PeerViolation> {
        self.locks.peer_message(&mut self.sessions, slot, incarnation, message, now)
    }

    /// The link to a peer is open, to the process of that incarnation, or not. Frames for one
    /// without a link are dropped: raft sends again what is still needed.
    pub(crate) fn set_link(&mut self, slot: u8, incarnation: Option<u64>) {
        self.locks.set_link(slot, incarnation);
    }

    /// Sending a snapshot ended.
    pub(crate) fn snapshot_sent(&mut self, to: NodeId, outcome: SnapshotOutcome, now: Instant) {
        self.locks.snapshot_sent(&mut self.sessions, to, outcome, now);
    }

    /// Frames for a peer.
    pub(crate) fn take_frames(&mut self, slot: u8) -> Vec<u8> {
        self.locks.take_frames(slot)
    }

    /// How many bytes of them there are.
    pub(crate) fn frames_size_bytes(&self, slot: u8) -> usize {
        self.locks.frames_size_bytes(slot)
    }

    /// Whether there is a snapshot to send or a reason to exit.
    pub(crate) fn has_news(&self) -> bool {
        self.locks.has_news()
    }

    /// Snapshots to be sent, each with its group.
    pub(crate) fn take_snapshots(&mut self) -> Vec<(u64, Message)> {
        self.locks.take_snapshots()
    }

    /// Why the process has to end, if so.
    pub(crate) fn exit(&self) -> Option<Exit> {
        self.locks.exit()
    }

    /// The cluster's group and who this is in it, once it takes part.
    pub(crate) fn member(&self) -> Option<(u64, NodeId)> {
        self.locks.life.member()
    }

    /// Whether it has become a member since the last call.
    pub(crate) fn take_has_joined(&mut self) -> bool {
        self.locks.take_has_joined()
    }

    /// Starts a planned stop.
    pub(crate) fn begin_hand_over(&mut self, now: Instant) {
        self.locks.begin_hand_over(&mut self.sessions, now);
    }

    /// Whether leadership is handed over, or cannot be.
    pub(crate) fn is_handed_over(&self, now: Instant) -> bool {
        self.locks.is_handed_over(now)
    }

    /// A look at the node.
    pub(crate) fn status(&self, now: Instant) -> NodeStatus {
        let log = self.locks.log.as_ref().map(|log| log.status());
        let waiting = log.is_none().then(|| self.locks.waiting(now));
        let table = &self.locks.replica.table;
        let (grant_count, waiter_count) = (table.grant_count(), table.waiter_count());
        NodeStatus { log, waiting, grant_count, waiter_count, checksum: table.history() }
    }
}
