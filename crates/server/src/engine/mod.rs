//! Everything between bytes and locks, without I/O: sessions, decoding, limits, role, replies.
//!
//! In: connections opened and closed, bytes, time. Out: bytes per connection, connections to call,
//! connections to end, the next deadline. Whoever drives it owns the sockets and the clock.

mod deadlines;
mod intake;
pub(crate) mod local;
pub(crate) mod locks;
mod outgoing;
pub(crate) mod replies;
pub(crate) mod sessions;
#[cfg(test)]
mod tests;

use crate::limits::{DRAIN_TIME_MAX, DUE_COUNT_PER_TURN_MAX, FRAME_TIME_MAX};
use local::Local;
use locks::Locks;
use sessions::Sessions;
use std::fmt;
use std::time::Duration;
use ticketing_lock_core::{Instant, SessionId, TableLimits};
use ticketing_wire_codec::RequestFault;

pub use local::{Durability, Persisted};
pub use outgoing::Outgoing;

/// What an engine starts with.
#[derive(Clone, Copy, Debug)]
pub struct EngineSettings {
    /// Sessions at once.
    pub connection_count_max: u32,
    /// Waiting requests of one session.
    pub in_flight_count_max: u32,
    /// Capacity of the lock table.
    pub table: TableLimits,
    /// Secret of the table's hash: keys come from outside.
    pub hash_seed: [u8; 16],
    /// Every token granted is above it.
    pub token_floor: u64,
    /// What the disk promises; unlimited without a state directory.
    pub persisted: Persisted,
    /// Requests are answered `NotActive` before it.
    pub active_from: Instant,
}

/// How a connection goes on after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Turn {
    /// Write the replies, read nothing more, and close.
    End(EndReason),
    /// Write the replies and read on.
    Serve,
    /// Write the replies and read nothing until called.
    Stall,
}

/// Why the server ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// Replies were not drained in time. What is unwritten stays so.
    DrainTime,
    /// It broke the protocol.
    Fault(RequestFault),
    /// A frame was begun and not finished in time.
    FrameTime,
    /// The server stops.
    Shutdown,
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DrainTime => {
                write!(f, "no reply was read for {DRAIN_TIME_MAX:?}; look why the client is stuck")
            }
            Self::Fault(fault) => {
                write!(f, "{fault}; use a client that keeps to the protocol, in this version")
            }
            Self::FrameTime => write!(
                f,
                "a request was not finished within {FRAME_TIME_MAX:?}; look why the client is \
                 stuck, or what else connects here"
            ),
            Self::Shutdown => f.write_str("the server stops; start it again"),
        }
    }
}

/// What a connection could not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backlog {
    /// The socket took something, or the backlog has just begun; the time to drain starts over.
    Moving,
    /// All is written.
    None,
}

/// Figures for logs and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Grants that their connection could not take and that went on to the next.
    pub reclaimed: u64,
    /// Leases that ended.
    pub expired: u64,
    /// Grants.
    pub granted: u64,
    /// Requests that wait for their turn now.
    pub in_flight: u64,
    /// Sessions open now.
    pub sessions: usize,
}

/// The engine, over locks of its own (`Local`: a single server) or replicated ones.
#[derive(Debug)]
pub struct Engine<L = Local> {
    pub(crate) sessions: Sessions,
    pub(crate) locks: L,
    connection_count_max: usize,
    in_flight_count_max: u32,
}

impl Engine {
    /// The engine of a single server, without sessions.
    pub fn new(settings: &EngineSettings) -> Self {
        let EngineSettings { connection_count_max, in_flight_count_max, .. } = *settings;
        Self::over(Local::new(settings), connection_count_max, in_flight_count_max)
    }

    /// What should be on disk, when it is more than what is.
    pub fn wanted(&self) -> Option<Persisted> {
        self.locks.wanted()
    }

    /// Notes what is on disk, or that it cannot be written, and lets stalled sessions go on.
    pub fn set_durability(&mut self, durability: Durability) {
        self.locks.set_durability(durability);
        self.sessions.call_stalled();
    }

    /// How long requests are still answered `NotActive`; zero when they are not.
    pub fn time_to_active(&self, now: Instant) -> Duration {
        self.locks.time_to_active(now)
    }

    /// What holds for whoever comes after: the largest lease and token, and how long leases may
    /// still run at most.
    pub fn final_promise(&self, now: Instant) -> (Persisted, Duration) {
        self.locks.final_promise(now)
    }
}

#[expect(private_bounds, reason = "the seam between sessions and locks is this crate's business")]
impl<L: Locks> Engine<L> {
    /// An engine without sessions.
    pub(crate) fn over(locks: L, connection_count_max: u32, in_flight_count_max: u32) -> Self {
        let sessions = Sessions::new();
        let connection_count_max = connection_count_max as usize;
        Self { sessions, locks, connection_count_max, in_flight_count_max }
    }

    /// Opens a session for an authenticated connection; `None` when there are too many.
    pub fn open(&mut self) -> Option<SessionId> {
        if self.sessions.open_count() >= self.connection_count_max {
            return None;
        }
        let session = self.sessions.open();
        self.locks.opened(&mut self.sessions, session);
        Some(session)
    }

    /// Takes in what the connection has read, which may be nothing, and appends to `out` every
    /// reply there is for it: to these requests, and what was posted since the last turn.
    pub fn turn(
        &mut self,
        session: SessionId,
        input: &[u8],
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Turn {
        let turn = match self.sessions.get(session).ending {
            Some(reason) => Turn::End(reason),
            None => self.take_in(session, input, now, out),
        };
        self.locks.settle(&mut self.sessions, now);
        self.sessions.fetch(session, out);
        turn
    }

    /// Notes how writing to the connection goes.
    pub fn set_backlog(&mut self, session: SessionId, backlog: Backlog, now: Instant) {
        self.sessions.set_backlog(session, backlog, now);
    }

    /// Closes the session. Its waiters leave their queues, and the grants that its socket has not
    /// taken completely (in `outgoing`, or not even fetched) go on to the next, in this one step.
    pub fn close(&mut self, session: SessionId, outgoing: &Outgoing, now: Instant) {
        self.locks.drop_waiters(&mut self.sessions, session, now);
        let unfetched = self.sessions.close(session);
        let unfetched_grants = outgoing::undelivered_grants(&unfetched, 0);
        for token in outgoing.undelivered_grants().chain(unfetched_grants) {
            self.locks.reclaim(&mut self.sessions, session, token, now);
        }
        self.sessions.recycle(unfetched);
        self.locks.settle(&mut self.sessions, now);
    }

    /// Does what is due, a bounded part of it; asked again at once, it goes on.
    pub fn advance(&mut self, now: Instant) {
        self.locks.advance(&mut self.sessions, now);
        for _ in 0..DUE_COUNT_PER_TURN_MAX {
            let Some((session, reason)) = self.sessions.pop_overdue(now) else { break };
            self.end(session, reason, now);
        }
        self.locks.settle(&mut self.sessions, now);
    }

    /// Nobody could take a turn for a while, because the whole process did not run: that is not the
    /// clients' delay, so those who have to finish a frame or to drain replies have their time
    /// again. Leases and waits are promises in real time and end all the same.
    pub fn stood_still(&mut self, now: Instant) {
        self.sessions.start_over(now);
    }

    /// When something is due next.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.locks.next_deadline().into_iter().chain(self.sessions.next_deadline()).min()
    }

    /// Ends every session, for good: no other can be opened.
    pub fn shut_down(&mut self, now: Instant) {
        self.connection_count_max = 0;
        for session in self.sessions.ids() {
            self.end(session, EndReason::Shutdown, now);
        }
    }

    /// The sessions, by index, whose connections have to take a turn; each is named once until it
    /// has taken it.
    pub fn drain_called(&mut self) -> std::vec::Drain<'_, u32> {
        self.sessions.drain_called()
    }

    /// Figures.
    pub fn counters(&self) -> Counters {
        Counters {
            in_flight: self.sessions.in_flight_count(),
            sessions: self.sessions.open_count(),
            ..self.locks.counters()
        }
    }

    /// Its waiters leave at once; the connection is called to write what it has and to close.
    fn end(&mut self, session: SessionId, reason: EndReason, now: Instant) {
        self.locks.drop_waiters(&mut self.sessions, session, now);
        self.sessions.set_frame_begun(session, None);
        // A later reason overrules: draining may fail after the end was decided.
        self.sessions.get(session).ending = Some(reason);
        self.sessions.call(session.index());
    }
}
