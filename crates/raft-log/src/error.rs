//! What can be wrong, by whose fault it is.

use core::fmt;

/// Why a peer's message was not taken. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepFault {
    /// Addressed to another node.
    Addressee,
    /// Says that something is committed which this node does not have.
    Commit,
    /// Entries that do not follow one another, or with terms that cannot be.
    Entries,
    /// An index or term out of range, or a pair that cannot be.
    Position,
    /// The sender's slot has been taken over by a younger process: it should be told and exit.
    SenderRemoved,
    /// An answer from a node that is no member (any more); a late one, most of the time.
    SenderUnknown,
    /// A snapshot that cannot be installed.
    Snapshot,
}

impl StepFault {
    /// Whether only a broken or hostile peer sends this. Its connection should be closed.
    pub const fn is_violation(self) -> bool {
        !matches!(self, Self::Addressee | Self::SenderRemoved | Self::SenderUnknown)
    }
}

impl fmt::Display for StepFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Addressee => "message for another node",
            Self::Commit => "commit index beyond this node's log",
            Self::Entries => "entries out of order or with impossible terms",
            Self::Position => "index or term out of range",
            Self::SenderRemoved => "the sender's slot has been taken over by a younger process",
            Self::SenderUnknown => "answer from a node that is not a member",
            Self::Snapshot => "snapshot that cannot be installed",
        })
    }
}

impl core::error::Error for StepFault {}

/// Why a proposal was not made. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProposeError {
    /// Too much is uncommitted, or leadership is being handed over: later, or elsewhere.
    Busy,
    /// The membership does not allow the change.
    Membership(MembershipFault),
    /// This node is not the leader.
    NotLeader,
    /// Larger than [`crate::limits::ENTRY_SIZE_BYTES_MAX`].
    TooLarge,
}

impl fmt::Display for ProposeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("too much is uncommitted, or leadership is handed over"),
            Self::Membership(fault) => write!(f, "membership change refused: {fault}"),
            Self::NotLeader => f.write_str("this node is not the leader"),
            Self::TooLarge => f.write_str("entry larger than the limit"),
        }
    }
}

impl core::error::Error for ProposeError {}

/// Why a membership is none, or does not allow a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MembershipFault {
    /// A generation that has been given out before.
    GenerationUsed,
    /// A replacement is under way.
    Joint,
    /// Nothing to leave.
    NotJoint,
    /// The node is not a learner.
    NotLearner,
    /// The node is not a voter, or not of the same slot.
    NotVoter,
    /// An earlier change is not applied yet.
    Pending,
    /// The leader would remove itself.
    RemovesLeader,
    /// Lists that contradict each other.
    Shape,
    /// The slot already has a learner.
    SlotTaken,
}

impl fmt::Display for MembershipFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::GenerationUsed => "the generation has been given out before",
            Self::Joint => "a replacement is under way",
            Self::NotJoint => "no replacement is under way",
            Self::NotLearner => "the node is not a learner",
            Self::NotVoter => "the node to replace is not a voter of that slot",
            Self::Pending => "an earlier change is not applied yet",
            Self::RemovesLeader => "the leader cannot replace itself",
            Self::Shape => "the lists of members contradict each other",
            Self::SlotTaken => "the slot already has a learner",
        })
    }
}

impl core::error::Error for MembershipFault {}

/// Bytes that are no snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotFault;

impl fmt::Display for SnapshotFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a valid snapshot")
    }
}

impl core::error::Error for SnapshotFault {}
