//! The shell around the engine: sockets, tasks, time and signals.

mod admin;
mod connection;
mod disk;
mod engines;
mod handshake;
mod linger;
mod listener;
mod lobby;
mod peers;
mod runtime;
mod seldom;
mod server;
mod shared;
mod socket;
mod tls;
mod transport;

pub use admin::AdminError;
pub use listener::ListenError;
pub use runtime::runtime;
pub use server::{End, Server, StartError};
pub use tls::TlsError;
