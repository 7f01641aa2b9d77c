//! How late leases and waits end under full load, and whether any ends early.
//!
//! Probes share the generator's loop with a saturating load. Each probe takes a fresh key with the
//! shortest lease and never releases it; one request waits behind it for the lease to end, a
//! second one for its own shortest wait to end. Both bounds are taken from the time the request
//! was *sent*, so a round trip counts as lateness and only a true earliness counts as early.

use std::io::{self, Error, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};

use rustix::event::epoll;
use rustix::fd::OwnedFd;
use serde::Serialize;
use ticketing_wire_codec::limits::REQUEST_SIZE_BYTES_MAX;
use ticketing_wire_codec::{
    Reply, ReplyRules, RequestId, Step, Token, decode_reply, encode_acquire, encode_release,
};

use crate::buffer::Unfinished;
use crate::clock::{NANOS_PER_SECOND, now_nanos};
use crate::driver::{Driver, TicketingDriver};
use crate::histogram::Histogram;
use crate::load::{COMPANION, Companion, KEY_SIZE_BYTES, Load, Shape, key};
use crate::process::Process;

/// Probes at once; each goes round about once a second.
const PROBE_COUNT: usize = 64;
/// Shortest lease and, but for the immediate try, shortest wait.
const SECONDS: u8 = 1;
const BOUND_NANOS: u64 = SECONDS as u64 * NANOS_PER_SECOND;
/// How long the request behind the lease may queue: longer than the lease by far.
const PATIENT_SECONDS: u8 = 30;
/// Larger than what a probe can have unread: three replies.
const INPUT_SIZE_BYTES: usize = 256;

/// Lateness of one kind of deadline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Lateness {
    /// Deadlines watched.
    pub count: u64,
    /// Deadlines that came before their time.
    pub early: u64,
    /// Half were not later than this, in milliseconds.
    pub p50_millis: f64,
    /// The latest, in milliseconds.
    pub max_millis: f64,
}

/// Both kinds, and the load they were measured under.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Deadlines {
    /// Leases that ended: lease end to the next holder's grant.
    pub expiry: Lateness,
    /// Waits that ended: wait end to `T`.
    pub timeout: Lateness,
    /// The load beside it.
    pub pairs_per_second: f64,
}

/// Watches deadlines for `nanos` while `shape` keeps the server busy.
///
/// # Errors
/// When the server fails or answers a probe with something else than the protocol says.
pub fn run(server: &Process, shape: Shape, nanos: u64) -> io::Result<Deadlines> {
    let driver = TicketingDriver::new();
    let mut load = Load::open(&driver, server.address(), shape, now_nanos())?;
    let mut probes = Probes::open(&driver, server.address())?;
    load.register(&probes)?;
    load.start()?;
    probes.start()?;
    let start = now_nanos();
    load.run(nanos, &mut Some(&mut probes))?;
    let seconds = (now_nanos() - start) as f64 / NANOS_PER_SECOND as f64;
    let pairs_per_second = load.tally().pairs as f64 / seconds;
    drop(probes.connections);
    load.drain()?;
    let (expiry, timeout) = (probes.expiry.lateness()?, probes.timeout.lateness()?);
    Ok(Deadlines { expiry, timeout, pairs_per_second })
}

/// Every probe, and what they found.
struct Probes {
    connections: Vec<Probe>,
    expiry: Found,
    timeout: Found,
}

#[derive(Default)]
struct Found {
    late: Histogram,
    early: u64,
    max_nanos: u64,
}

impl Found {
    fn record(&mut self, asked_at: u64, now: u64) {
        match now.checked_sub(asked_at + BOUND_NANOS) {
            Some(late) => {
                self.late.record(late);
                self.max_nanos = self.max_nanos.max(late);
            }
            None => self.early += 1,
        }
    }

    fn lateness(&self) -> io::Result<Lateness> {
        let p50 = self.late.quantile(0.5).ok_or_else(|| Error::other("no deadline came at all"))?;
        let millis = |nanos: u64| nanos as f64 / 1e6;
        Ok(Lateness {
            count: self.late.count() + self.early,
            early: self.early,
            p50_millis: millis(p50),
            max_millis: millis(self.max_nanos),
        })
    }
}

impl Probes {
    fn open(driver: &TicketingDriver, address: SocketAddr) -> io::Result<Self> {
        let open = |number| Probe::open(driver, address, number);
        let connections = (0..PROBE_COUNT).map(open).collect::<io::Result<_>>()?;
        Ok(Self { connections, expiry: Found::default(), timeout: Found::default() })
    }

    fn start(&mut self) -> io::Result<()> {
        self.connections.iter_mut().try_for_each(Probe::hold)
    }
}

impl Companion for Probes {
    fn register(&self, epoll: &OwnedFd) -> io::Result<()> {
        for (number, probe) in self.connections.iter().enumerate() {
            let data = epoll::EventData::new_u64(COMPANION + number as u64);
            epoll::add(epoll, &probe.stream, data, epoll::EventFlags::IN)?;
        }
        Ok(())
    }

    fn ready(&mut self, number: u64) -> io::Result<()> {
        let probe = &mut self.connections[number as usize];
        probe.ready(&mut self.expiry, &mut self.timeout)
    }
}

/// The three requests of one round, told apart by their id modulo 4.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Gets the key and lets its lease end.
    Holder = 0,
    /// Waits for the holder's lease to end.
    Heir = 1,
    /// Waits behind the heir, for less time than it would take.
    Loser = 2,
    /// Gives the heir's lock back.
    Closer = 3,
}

const ROLES: u64 = 4;

/// One connection that goes through its rounds.
struct Probe {
    stream: TcpStream,
    input: Unfinished,
    number: usize,
    /// Of this run's keys: their leases may outlive it.
    salt: u64,
    round: u64,
    held_at: u64,
    queued_at: u64,
    /// The heir's grant, once there.
    heir: Option<Token>,
    /// Whether the loser has been answered.
    lost: bool,
}

impl Probe {
    fn open(driver: &TicketingDriver, address: SocketAddr, number: usize) -> io::Result<Self> {
        let (stream, _) = driver.open(address, 1)?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            input: Unfinished::default(),
            number,
            salt: now_nanos(),
            round: 0,
            held_at: 0,
            queued_at: 0,
            heir: None,
            lost: false,
        })
    }

    fn key(&self) -> [u8; KEY_SIZE_BYTES] {
        key(self.salt + self.round, self.number)
    }

    /// Begins a round.
    fn hold(&mut self) -> io::Result<()> {
        self.round += 1;
        (self.heir, self.lost) = (None, false);
        self.held_at = now_nanos();
        self.acquire(Role::Holder, 0)
    }

    fn ready(&mut self, expiry: &mut Found, timeout: &mut Found) -> io::Result<()> {
        let mut bytes = [0; INPUT_SIZE_BYTES];
        let size = match self.input.read(&mut self.stream, &mut bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            other => other?,
        };
        let now = now_nanos();
        let mut rest = &bytes[..size];
        while let Step::Complete { value, size } = decode_reply(rest, ReplyRules::Single)
            .map_err(|fault| Error::other(format!("bad reply to a probe: {fault:?}")))?
        {
            rest = &rest[size..];
            self.answered(value, now, expiry, timeout)?;
        }
        self.input.keep(rest);
        Ok(())
    }

    fn answered(
        &mut self,
        reply: Reply,
        now: u64,
        expiry: &mut Found,
        timeout: &mut Found,
    ) -> io::Result<()> {
        let role = |id: RequestId| id.get() % ROLES;
        match reply {
            Reply::Granted { request_id, .. } if role(request_id) == Role::Holder as u64 => {
                self.queued_at = now_nanos();
                self.acquire(Role::Heir, PATIENT_SECONDS)?;
                return self.acquire(Role::Loser, SECONDS);
            }
            Reply::Granted { request_id, token } if role(request_id) == Role::Heir as u64 => {
                expiry.record(self.held_at, now);
                self.heir = Some(token);
            }
            Reply::TimedOut { request_id } if role(request_id) == Role::Loser as u64 => {
                timeout.record(self.queued_at, now);
                self.lost = true;
            }
            // `N`: the heir's own lease ended before the loser was answered: very late.
            Reply::Released { .. } | Reply::NotHeld { .. } => return self.hold(),
            other => return Err(Error::other(format!("a probe was answered {other:?}"))),
        }
        match self.heir {
            Some(token) if self.lost => self.release(token),
            _ => Ok(()),
        }
    }

    fn id(&self, role: Role) -> RequestId {
        let id = RequestId::new(self.round * ROLES + role as u64);
        id.expect("rounds begin at 1")
    }

    fn acquire(&mut self, role: Role, wait_seconds: u8) -> io::Result<()> {
        let (mut buffer, key) = ([0; REQUEST_SIZE_BYTES_MAX], self.key());
        let frame = encode_acquire(&mut buffer, self.id(role), wait_seconds, SECONDS, &key);
        self.stream.write_all(frame.expect("the probe's request is valid"))
    }

    fn release(&mut self, token: Token) -> io::Result<()> {
        let (mut buffer, key) = ([0; REQUEST_SIZE_BYTES_MAX], self.key());
        let frame = encode_release(&mut buffer, self.id(Role::Closer), token, &key);
        self.stream.write_all(frame.expect("the probe's request is valid"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_is_not_late() {
        let mut found = Found::default();
        assert!(found.lateness().is_err(), "nothing came");
        found.record(0, BOUND_NANOS - 1);
        found.record(0, BOUND_NANOS);
        found.record(5, 5 + BOUND_NANOS + 3_000_000);
        let lateness = found.lateness().expect("deadlines");
        assert_eq!((lateness.count, lateness.early), (3, 1));
        assert_eq!(lateness.max_millis, 3.0);
    }
}
