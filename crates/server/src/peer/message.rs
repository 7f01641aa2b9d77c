//! What nodes tell each other.

use ticketing_raft_log::{Message, NodeId};

/// One message on a link. Who sends it (slot and incarnation) is known from the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PeerMessage {
    /// Leader to joiner: you are that node now.
    Admitted {
        /// The cluster's run since its bootstrap.
        group: u64,
        /// The joiner's id.
        node: NodeId,
    },
    /// Coordinator, or a member, to a fresh node: the cluster begins with these processes.
    Commit {
        /// The round, which becomes the group.
        round: u64,
        /// By slot.
        incarnations: Vec<u64>,
    },
    /// Joiner to leader: my slot's old process is gone, let me in.
    Join,
    /// Coordinator to a fresh node: will you begin the cluster in this round?
    Prepare {
        /// The round.
        round: u64,
        /// With which processes, by slot.
        incarnations: Vec<u64>,
    },
    /// Fresh node to coordinator: in this round, and in none before it.
    Promise {
        /// The round.
        round: u64,
    },
    /// Raft.
    Raft {
        /// The cluster's run since its bootstrap; messages of another are not for us.
        group: u64,
        /// The message; a snapshot's state travels on a connection of its own.
        message: Message,
    },
    /// Member to a process that was removed: exit.
    Removed {
        /// Who was removed.
        node: NodeId,
    },
    /// Where the sender stands.
    Status(PeerStatus),
}

/// Where a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerStatus {
    /// Knows nothing.
    Fresh {
        /// Whether it would begin a cluster: within the window, and never a member before.
        may_bootstrap: bool,
    },
    /// Takes part.
    Member {
        /// The cluster's run since its bootstrap.
        group: u64,
        /// Who it is.
        node: NodeId,
        /// Who leads, as far as it knows.
        leader_slot: Option<u8>,
    },
}
