//! A checksum over everything that ever happened.

use crate::command::{Event, Owner, RefusedReason};

/// Odd, with bits set evenly: the fractional part of the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Rolls one effect after the other into 64 bits. It finds replicas that went different ways, not
/// forgers: they would need the commands, which are authenticated elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct History(u64);

/// Effects that no event tells of.
#[derive(Clone, Copy)]
#[repr(u64)]
pub(crate) enum Silent {
    Configured = 32,
    FloorRaised,
    Reclaimed,
}

impl History {
    pub(crate) const fn new() -> Self {
        Self(0)
    }

    pub(crate) const fn from_u64(value: u64) -> Self {
        Self(value)
    }

    pub(crate) const fn get(self) -> u64 {
        self.0
    }

    pub(crate) fn silent(&mut self, effect: Silent, detail: u64) {
        self.fold(effect as u64, detail);
    }

    #[inline]
    pub(crate) fn event(&mut self, event: &Event) {
        match *event {
            Event::Expired { token } => self.fold(1, token),
            Event::Granted { owner, token, key_count } => {
                self.answer(2 + ((key_count as u64) << 8), owner);
                self.fold(0, token);
            }
            Event::GroupMismatch { owner } => self.answer(3, owner),
            Event::NotHeld { owner } => self.answer(4, owner),
            Event::Queued { owner, arrival } => {
                self.answer(5, owner);
                self.fold(0, arrival);
            }
            Event::Refused { owner, reason: RefusedReason::Capacity } => self.answer(6, owner),
            Event::Refused { owner, reason: RefusedReason::Malformed } => self.answer(7, owner),
            Event::Released { owner } => self.answer(8, owner),
            Event::TimedOut { owner, key_count } => {
                self.answer(9 + ((key_count as u64) << 8), owner);
            }
            Event::WaiterDropped { owner } => self.answer(10, owner),
        }
    }

    fn answer(&mut self, kind: u64, owner: Owner) {
        // The kind moves far enough up to stay clear of request ids as clients choose them.
        self.fold(owner.session.get(), owner.request_id ^ kind << 48);
    }

    /// Both words go into one widening multiplication whose halves are folded together.
    fn fold(&mut self, left: u64, right: u64) {
        let product = u128::from(self.0.rotate_left(23) ^ left ^ MULTIPLIER)
            * u128::from(right.wrapping_mul(MULTIPLIER) ^ self.0 | 1);
        self.0 = (product as u64 ^ (product >> 64) as u64).wrapping_add(MULTIPLIER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::SessionId;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    /// Every event, and each once more with one field changed.
    fn events() -> Vec<Event> {
        let mut events = Vec::from([Event::Expired { token: 1 }, Event::Expired { token: 2 }]);
        for (session, request_id) in [(1, 1), (1, 2), (2, 1)] {
            let owner = Owner { session: SessionId::new(session, 0), request_id };
            let (capacity, malformed) = (RefusedReason::Capacity, RefusedReason::Malformed);
            events.extend([
                Event::Granted { owner, token: 1, key_count: 1 },
                Event::Granted { owner, token: 2, key_count: 1 },
                Event::Granted { owner, token: 1, key_count: 2 },
                Event::GroupMismatch { owner },
                Event::NotHeld { owner },
                Event::Queued { owner, arrival: 1 },
                Event::Queued { owner, arrival: 2 },
                Event::Refused { owner, reason: capacity },
                Event::Refused { owner, reason: malformed },
                Event::Released { owner },
                Event::TimedOut { owner, key_count: 1 },
                Event::TimedOut { owner, key_count: 2 },
                Event::WaiterDropped { owner },
            ]);
        }
        events
    }

    #[test]
    fn every_field_of_every_effect_and_their_order_count() {
        let events = events();
        let mut seen = BTreeSet::from([0]);
        for first in &events {
            let mut history = History::new();
            history.event(first);
            assert!(seen.insert(history.get()), "{first:?}");
            for second in &events {
                let mut history = history;
                history.event(second);
                assert!(seen.insert(history.get()), "{first:?} then {second:?}");
            }
        }
        for effect in [Silent::Configured, Silent::FloorRaised, Silent::Reclaimed] {
            for detail in 0..3 {
                let mut history = History::new();
                history.silent(effect, detail);
                assert!(seen.insert(history.get()));
            }
        }
    }
}
