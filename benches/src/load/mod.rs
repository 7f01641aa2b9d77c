//! The generator: one thread, one epoll, workers that acquire and release in a closed loop.
//!
//! Per ready connection it receives once, answers everything that came with one send, and reads
//! the clock once; it allocates nothing while running.

mod connection;
mod tally;

use std::collections::VecDeque;
use std::io::{self, Error, ErrorKind};
use std::net::SocketAddr;

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::time::Timespec;

use crate::buffer::{BUFFER_SIZE_BYTES, EVENT_COUNT_MAX};
use crate::clock::{NANOS_PER_SECOND, now_nanos};
use crate::driver::Driver;
use connection::Connection;
pub use tally::Tally;

/// Size of every key the load tool uses.
pub const KEY_SIZE_BYTES: usize = 32;
/// A server that answers nobody for so long has failed.
const STALL_NANOS_MAX: u64 = 20 * NANOS_PER_SECOND;
/// How long the generator sleeps at most when nothing arrives.
const IDLE_NANOS: u64 = 20_000_000;
/// Epoll data of a companion's sockets start here; below are the generator's connections.
pub const COMPANION: u64 = 1 << 32;

/// How many workers, on how many connections, for which keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Connections.
    pub connections: usize,
    /// Workers per connection: requests in flight on each.
    pub depth: usize,
    /// Whether workers contend.
    pub keys: Keys,
}

/// Which keys the workers ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Every worker has its own.
    Private,
    /// So many keys, dealt to the workers in turn.
    Shared(usize),
}

/// Other sockets that are served within the generator's loop, so that their timing does not
/// suffer from a second thread on the generator's core.
pub trait Companion {
    /// Registers its sockets, with [`COMPANION`] plus an own number as data.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn register(&self, epoll: &OwnedFd) -> io::Result<()>;

    /// A socket is readable.
    ///
    /// # Errors
    /// When its connection has failed.
    fn ready(&mut self, number: u64) -> io::Result<()>;
}

/// What all connections of one run share.
#[derive(Debug)]
struct Shared {
    input: Box<[u8]>,
    output: Vec<u8>,
    tally: Tally,
    contended: Vec<Contended>,
    /// Whether a released worker acquires again.
    looping: bool,
    /// Workers that have a request in flight or pause before the next.
    busy: usize,
    /// Denied workers: when each asks again, its connection and its lane. All pauses are equally
    /// long, so the first is always the next.
    pauses: VecDeque<(u64, u64, usize)>,
}

/// A key that several workers want.
#[derive(Clone, Copy, Debug, Default)]
struct Contended {
    waiting: usize,
    /// When its release was sent, while workers were waiting for it.
    released_at: Option<u64>,
}

/// A running load.
pub struct Load<'a, D: Driver> {
    driver: &'a D,
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    connections: Vec<Connection<D>>,
    shared: Shared,
    heard_at: u64,
}

impl<'a, D: Driver> Load<'a, D> {
    /// Opens every connection and prepares every worker. `salt` goes into the keys.
    ///
    /// # Errors
    /// When a connection cannot be opened.
    pub fn open(driver: &'a D, address: SocketAddr, shape: Shape, salt: u64) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut connections = Vec::with_capacity(shape.connections);
        for number in 0..shape.connections {
            let workers = number * shape.depth..(number + 1) * shape.depth;
            let mut connection = Connection::open(driver, address, workers, shape.keys, salt)?;
            connection.register(&epoll, number as u64)?;
            connections.push(connection);
        }
        let contended = match shape.keys {
            Keys::Private => 0,
            Keys::Shared(count) => count,
        };
        let shared = Shared {
            input: vec![0; BUFFER_SIZE_BYTES].into_boxed_slice(),
            output: Vec::with_capacity(BUFFER_SIZE_BYTES),
            tally: Tally::default(),
            contended: vec![Contended::default(); contended],
            looping: false,
            busy: 0,
            pauses: VecDeque::with_capacity(shape.connections * shape.depth),
        };
        let events = Vec::with_capacity(EVENT_COUNT_MAX);
        Ok(Self { driver, epoll, events, connections, shared, heard_at: now_nanos() })
    }

    /// Sends every worker's first acquire.
    ///
    /// # Errors
    /// When a connection has failed.
    pub fn start(&mut self) -> io::Result<()> {
        self.shared.looping = true;
        self.heard_at = now_nanos();
        for connection in &mut self.connections {
            connection.start(self.driver, &mut self.shared, &self.epoll)?;
        }
        Ok(())
    }

    /// Lets the workers work for `nanos`.
    ///
    /// # Errors
    /// When a connection has failed, or the server is silent for too long.
    pub fn run(
        &mut self,
        nanos: u64,
        companion: &mut Option<&mut dyn Companion>,
    ) -> io::Result<()> {
        let end = now_nanos() + nanos;
        while now_nanos() < end {
            self.turn(companion)?;
        }
        Ok(())
    }

    /// Registers a companion's sockets.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn register(&self, companion: &dyn Companion) -> io::Result<()> {
        companion.register(&self.epoll)
    }

    /// Lets every worker finish its pair and stop.
    ///
    /// # Errors
    /// As for [`Load::run`].
    pub fn drain(&mut self) -> io::Result<()> {
        self.shared.looping = false;
        while self.shared.busy > 0 {
            self.turn(&mut None)?;
        }
        Ok(())
    }

    /// What was counted since the last [`Load::reset`].
    pub fn tally(&self) -> &Tally {
        &self.shared.tally
    }

    /// Starts counting from nothing.
    pub fn reset(&mut self) {
        self.shared.tally.clear();
    }

    fn turn(&mut self, companion: &mut Option<&mut dyn Companion>) -> io::Result<()> {
        let timeout = self.end_pauses()?;
        self.events.clear();
        let ready = epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&timeout));
        match ready {
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
            Ok(_) if self.events.is_empty() => return self.check_stall(),
            Ok(_) => self.heard_at = now_nanos(),
        }
        for event in &self.events {
            let number = event.data.u64();
            if number < COMPANION {
                let connection = &mut self.connections[number as usize];
                let flags = event.flags;
                let writable = flags.contains(epoll::EventFlags::OUT);
                connection.ready(self.driver, &mut self.shared, &self.epoll, writable)?;
            } else if let Some(companion) = companion {
                companion.ready(number - COMPANION)?;
            }
        }
        Ok(())
    }

    /// Lets the workers whose pause is over ask again; says how long nobody else will.
    fn end_pauses(&mut self) -> io::Result<Timespec> {
        let mut sleep_nanos = IDLE_NANOS;
        while let Some((due, connection, lane)) = self.shared.pauses.front().copied() {
            let now = now_nanos();
            if due > now {
                sleep_nanos = sleep_nanos.min(due - now);
                break;
            }
            self.shared.pauses.pop_front();
            let connection = &mut self.connections[connection as usize];
            connection.ask_again(self.driver, &mut self.shared, &self.epoll, lane)?;
        }
        // Less than a second.
        Ok(Timespec { tv_sec: 0, tv_nsec: sleep_nanos as i64 })
    }

    fn check_stall(&self) -> io::Result<()> {
        if now_nanos() - self.heard_at < STALL_NANOS_MAX {
            return Ok(());
        }
        let busy = self.shared.busy;
        let text = format!("the server left {busy} requests without an answer for 20 s");
        Err(Error::new(ErrorKind::TimedOut, text))
    }
}

/// The key with this number: always [`KEY_SIZE_BYTES`] long.
pub fn key(salt: u64, number: usize) -> [u8; KEY_SIZE_BYTES] {
    let mut key = [b'0'; KEY_SIZE_BYTES];
    let text = format!("bench/{salt}/{number}");
    key[KEY_SIZE_BYTES - text.len()..].copy_from_slice(text.as_bytes());
    key
}

#[cfg(test)]
mod tests;
