//! What is due: for an owner that decides alone, and for one that has to ask others first.

use crate::command::EventSink;
use crate::node::{Node, State};
use crate::table::{Due, LockTable};
use crate::time::Instant;

impl LockTable {
    /// When the owner should next ask for what is due; `None` when nothing will be. Reads state,
    /// changes nothing. What was due then may have gone in the meantime: asking finds nothing, and
    /// from then on this is exact again.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    /// Applies `Expire` and `TimeOut` for what is due, in the order of deadlines, at most
    /// `count_max` of them, and says how many it applied. For an owner that decides alone.
    pub fn apply_due(
        &mut self,
        now: Instant,
        count_max: usize,
        events: &mut impl EventSink,
    ) -> usize {
        self.advance_clock(now);
        for count in 0..count_max {
            let Some(request) = self.timers.due(self.clock) else {
                return count;
            };
            if self.nodes.get(request).state == State::Holding {
                self.expire_grant(request, events);
            } else {
                self.time_out_waiter(request, events);
            }
        }
        count_max
    }

    /// Takes the next thing that is due off the timers and names it, for an owner that has to
    /// propose the command first. It is named once; [`LockTable::rearm_due`] names it again.
    pub fn poll_due(&mut self, now: Instant) -> Option<Due<'_>> {
        self.advance_clock(now);
        let request = self.timers.due(self.clock)?;
        self.timers.mark_named(&self.nodes, request);
        let Node { number, lease_seconds, .. } = *self.nodes.get(request);
        Some(if self.nodes.get(request).state == State::Holding {
            let link = self.nodes.first_link(request);
            let key = self.keys.bytes(self.nodes.get(link).key);
            Due::Lease { token: number, lease_seconds, key }
        } else {
            Due::Wait { arrival: number }
        })
    }

    /// Puts everything that [`LockTable::poll_due`] named and no command ended back on the timers,
    /// due at once: for an owner whose proposals may have been lost.
    pub fn rearm_due(&mut self) {
        self.timers.rearm(&self.nodes);
    }
}
