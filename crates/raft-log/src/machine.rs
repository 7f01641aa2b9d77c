//! What the log is for: a state that every member computes alike.

use crate::error::SnapshotFault;
use crate::node::ProposalId;
use bytes::Bytes;

/// A committed entry, in log order.
#[derive(Clone, Copy, Debug)]
pub struct Applied<'a> {
    /// Its place in the log.
    pub index: u64,
    /// The term of the leader that proposed it.
    pub term: u64,
    /// The proposal, when this node made it and has been leader ever since.
    pub proposal: Option<ProposalId>,
    /// What was proposed.
    pub data: &'a [u8],
}

/// The replicated state. Same entries in, same state out, on every member.
pub trait StateMachine {
    /// A snapshot that was checked and can be installed.
    type Image;

    /// Applies one entry. The content of an entry must never stop the process.
    fn apply(&mut self, entry: Applied<'_>);

    /// Starts a snapshot of the present state. One that was on its way is given up.
    fn begin_snapshot(&mut self);

    /// Does a bounded part of the snapshot's work, while entries go on being applied; the whole of
    /// it, as [`StateMachine::decode`] reads it, once it is complete.
    fn continue_snapshot(&mut self) -> Option<Bytes>;

    /// Checks and reads a peer's snapshot, and leaves the state alone.
    ///
    /// # Errors
    /// The bytes are no snapshot of this state machine.
    fn decode(&self, snapshot: &[u8]) -> Result<Self::Image, SnapshotFault>;

    /// Replaces the state.
    fn install(&mut self, image: Self::Image);
}
