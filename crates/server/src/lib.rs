//! The Ticketing lock server: a sans-I/O engine in a thin tokio shell.
//!
//! [`engine`] is everything between bytes and locks and touches neither sockets nor clocks;
//! [`net`] moves bytes; [`config`] reads settings.

pub mod clock;
mod cluster;
pub mod config;
pub mod engine;
pub mod limits;
pub mod net;
mod peer;
mod state;
mod system;

pub use state::StateError;
pub use system::{is_signal_ignored, raise_file_limit};

/// Plays bytes to a node as if they came from its peers, for the fuzz target `peer_message`.
///
/// # Panics
/// When they break the node.
#[cfg(fuzzing)]
pub fn exercise_peer(bytes: &[u8]) {
    peer::exercise::exercise(bytes);
}
