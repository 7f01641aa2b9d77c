//! The two engines behind one face: the choice is made once per turn, not per request.

use crate::cluster::replicated::Replicated;
use crate::engine::{Backlog, Counters, Durability, Engine, Outgoing, Persisted, Turn};
use std::time::Duration;
use ticketing_lock_core::{Instant, SessionId};

/// The engine of this process.
pub(crate) enum Engines {
    Cluster(Box<Engine<Replicated>>),
    Single(Box<Engine>),
}

macro_rules! either {
    ($self:expr, $engine:ident => $call:expr) => {
        match $self {
            Engines::Cluster($engine) => $call,
            Engines::Single($engine) => $call,
        }
    };
}

impl Engines {
    pub(crate) fn open(&mut self) -> Option<SessionId> {
        either!(self, engine => engine.open())
    }

    pub(crate) fn turn(
        &mut self,
        session: SessionId,
        input: &[u8],
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Turn {
        either!(self, engine => engine.turn(session, input, now, out))
    }

    pub(crate) fn set_backlog(&mut self, session: SessionId, backlog: Backlog, now: Instant) {
        either!(self, engine => engine.set_backlog(session, backlog, now));
    }

    pub(crate) fn close(&mut self, session: SessionId, outgoing: &Outgoing, now: Instant) {
        either!(self, engine => engine.close(session, outgoing, now));
    }

    pub(crate) fn advance(&mut self, now: Instant) {
        either!(self, engine => engine.advance(now));
    }

    pub(crate) fn stood_still(&mut self, now: Instant) {
        either!(self, engine => engine.stood_still(now));
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        either!(self, engine => engine.next_deadline())
    }

    pub(crate) fn shut_down(&mut self, now: Instant) {
        either!(self, engine => engine.shut_down(now));
    }

    pub(crate) fn drain_called(&mut self) -> std::vec::Drain<'_, u32> {
        either!(self, engine => engine.drain_called())
    }

    pub(crate) fn counters(&self) -> Counters {
        either!(self, engine => engine.counters())
    }

    /// What a single server wants on disk.
    pub(crate) fn wanted(&self) -> Option<Persisted> {
        match self {
            Self::Cluster(_) => None,
            Self::Single(engine) => engine.wanted(),
        }
    }

    /// How long a single server still waits for its predecessor's leases.
    pub(crate) fn time_to_active(&self, now: Instant) -> Duration {
        match self {
            Self::Cluster(_) => Duration::ZERO,
            Self::Single(engine) => engine.time_to_active(now),
        }
    }

    pub(crate) fn set_durability(&mut self, durability: Durability) {
        if let Self::Single(engine) = self {
            engine.set_durability(durability);
        }
    }

    /// What a single server promises its successor.
    pub(crate) fn final_promise(&self, now: Instant) -> (Persisted, Duration) {
        match self {
            Self::Cluster(_) => (Persisted::UNLIMITED, Duration::ZERO),
            Self::Single(engine) => engine.final_promise(now),
        }
    }

    pub(crate) fn cluster(&mut self) -> Option<&mut Engine<Replicated>> {
        match self {
            Self::Cluster(engine) => Some(engine),
            Self::Single(_) => None,
        }
    }
}
