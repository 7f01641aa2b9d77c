//! How to ask each system for a lock: one small driver per wire protocol, all our own.

mod dflockd;
mod etcd;
mod grpc;
mod redis;
mod ticketing;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub use dflockd::DflockdDriver;
pub use etcd::EtcdDriver;
pub use redis::RedisDriver;
pub use ticketing::TicketingDriver;

/// Lease asked for in throughput cells: far longer than a run.
pub const LEASE_SECONDS: u8 = 60;
/// Lease asked for while keys are only held.
pub const LEASE_SECONDS_MAX: u8 = ticketing_wire_codec::limits::LEASE_SECONDS_MAX;
/// Wait asked for in throughput cells.
pub const WAIT_SECONDS: u8 = 60;

/// A node that is asked who leads answers within this time or counts as none that does.
const LEADS_TIME_MAX: Duration = Duration::from_secs(1);

/// What a system answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The lane holds its key; the driver has stored what releasing needs.
    Granted {
        /// Index of the lane within its connection.
        lane: usize,
    },
    /// The key is taken and the system does not queue: the lane has to ask again.
    Denied {
        /// Index of the lane within its connection.
        lane: usize,
    },
    /// The lane's release is done.
    Released {
        /// Index of the lane within its connection.
        lane: usize,
    },
    /// Something of the protocol's own, for no lane.
    Housekeeping,
}

/// An answer the driver cannot go on from.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault(pub String);

impl Fault {
    fn unexpected(expected: &str, bytes: &[u8]) -> Self {
        let shown = bytes[..bytes.len().min(80)].escape_ascii();
        Self(format!("expected {expected}, received \"{shown}\""))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// One wire protocol. A *lane* is one worker: at most one request of it is in flight.
pub trait Driver {
    /// What one connection remembers.
    type Session;
    /// What one worker remembers: prepared frames and the grant it holds.
    type Lane;

    /// How long a denied worker pauses before it asks again; systems that queue never deny.
    const POLL_PAUSE_NANOS: u64 = 0;

    /// Connects and does whatever comes before requests. May block.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses the handshake.
    fn open(&self, address: SocketAddr, depth: usize) -> io::Result<(TcpStream, Self::Session)>;

    /// Prepares a worker for `key`.
    fn lane(&self, session: &Self::Session, key: &[u8]) -> Self::Lane;

    /// Changes the key the worker asks for; it has the size of the one before.
    fn rekey(&self, lane: &mut Self::Lane, key: &[u8]);

    /// Appends the worker's acquire.
    fn acquire(
        &self,
        session: &mut Self::Session,
        index: usize,
        lane: &mut Self::Lane,
        output: &mut Vec<u8>,
    );

    /// Appends the release of what the worker holds.
    fn release(
        &self,
        session: &mut Self::Session,
        index: usize,
        lane: &mut Self::Lane,
        output: &mut Vec<u8>,
    );

    /// Reads the next event at the start of `bytes` and says how many bytes it took. `None`: more
    /// bytes are needed. What the protocol itself must answer is appended to `output`.
    ///
    /// # Errors
    /// A [`Fault`] ends the run.
    fn event(
        &self,
        session: &mut Self::Session,
        lanes: &mut [Self::Lane],
        bytes: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<Option<(Event, usize)>, Fault>;
}

/// Replies in the order of the requests: which lane each next reply belongs to.
#[derive(Debug)]
pub struct InOrder(VecDeque<(usize, Asked)>);

/// What the next reply answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Acquire,
    Release,
}

impl InOrder {
    fn new(depth: usize) -> Self {
        Self(VecDeque::with_capacity(depth))
    }

    fn sent(&mut self, lane: usize, asked: Asked) {
        self.0.push_back((lane, asked));
    }

    fn answered(&mut self, bytes: &[u8]) -> Result<(usize, Asked), Fault> {
        self.0.pop_front().ok_or_else(|| Fault::unexpected("nothing", bytes))
    }
}

/// The line at the start of `bytes`, without its ending LF; `None` when it is not all there.
fn line(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some(&bytes[..end])
}
