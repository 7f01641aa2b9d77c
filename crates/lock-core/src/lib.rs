//! Deterministic FIFO, lease and fencing state machine.
//!
//! `apply(command, now)` changes the state and hands [`Event`]s to the caller's sink. No clock, no
//! randomness, no I/O and no hash order reaches the result: the same commands give the same events
//! and the same digest on every replica. `now` sets local deadlines and nothing else.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod check;
mod command;
mod due;
mod export;
mod hand_off;
mod hash_index;
mod history;
mod keys;
pub mod limits;
mod node;
mod restore;
mod sessions;
mod snapshot;
mod table;
mod time;
mod timers;

pub use command::{Command, Event, EventSink, Owner, RefusedReason, SessionId, TableLimits};
pub use restore::SnapshotFault;
pub use table::{Due, LockTable};
pub use time::Instant;
