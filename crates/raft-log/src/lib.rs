//! Replicated log over raft-rs, without I/O.
//!
//! [`RaftLog`] turns ticks, peer messages and proposals into messages to send and entries applied
//! to a [`StateMachine`]. It opens no socket, reads no clock and draws its election timeouts from a
//! seed, so a whole cluster runs deterministically in a test. Everything is in memory: a process
//! that ends loses its log, and its [`NodeId`] never comes back.
//!
//! raft-rs stops the process on input it distrusts, so nothing a peer sent reaches it before
//! [`RaftLog::step`] has checked it, and no decoder but the caller's own sees network bytes.
#![forbid(unsafe_code)]

mod check;
mod compaction;
mod convert;
mod drive;
mod election;
mod error;
mod id;
pub mod limits;
mod machine;
mod membership;
mod message;
mod node;
mod random;
mod storage;

pub use error::{MembershipFault, ProposeError, SnapshotFault, StepFault};
pub use id::NodeId;
pub use machine::{Applied, StateMachine};
pub use membership::{Membership, MembershipChange};
pub use message::{Body, Entry, Message, Payload, SnapshotMeta, VoteKind};
pub use node::{Event, MemberStatus, Output, ProposalId, RaftLog, Role, SnapshotOutcome, Status};
