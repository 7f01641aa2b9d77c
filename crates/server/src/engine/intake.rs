//! From a connection's bytes to requests that are carried out, in the order of the protocol page:
//! values, role, capacity.

use super::locks::{Admission, Locks};
use super::replies::Current;
use super::{EndReason, Engine, Turn};
use ticketing_lock_core::{Instant, Owner, SessionId};
use ticketing_wire_codec::limits::REQUEST_SIZE_BYTES_MAX;
use ticketing_wire_codec::{Operation, Reply, RequestFault, RequestFrame, Step, decode_request};

/// Why the taking in of requests stopped.
enum Stop {
    Fault(RequestFault),
    /// The rest is the beginning of a frame, or nothing.
    Incomplete,
    /// What comes first in the rest has to wait.
    Stall,
}

#[expect(private_bounds, reason = "the seam between sessions and locks is this crate's business")]
impl<L: Locks> Engine<L> {
    pub(super) fn take_in(
        &mut self,
        session: SessionId,
        input: &[u8],
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Turn {
        let mut current = Current { session, out };
        let slot = self.sessions.get(session);
        let was_stalled = std::mem::take(&mut slot.is_stalled);
        let (used, stop) = if slot.held.is_empty() {
            if input.is_empty() {
                return Turn::Serve;
            }
            let (used, stop) = self.carry_out(&mut current, input, now);
            self.keep_rest(session, &input[used..], &stop);
            (used, stop)
        } else if was_stalled {
            assert!(input.is_empty(), "a stalled connection reads nothing");
            let held = std::mem::take(&mut slot.held);
            let (used, stop) = self.carry_out(&mut current, &held, now);
            self.keep_rest(session, &held[used..], &stop);
            self.sessions.recycle(held);
            (used, stop)
        } else {
            self.complete_held(&mut current, input, now)
        };
        self.settle(session, used, stop, now)
    }

    /// Completes the frame that had begun, then goes on in the input without copying.
    fn complete_held(
        &mut self,
        current: &mut Current<'_>,
        input: &[u8],
        now: Instant,
    ) -> (usize, Stop) {
        let session = current.session;
        let mut held = std::mem::take(&mut self.sessions.get(session).held);
        let held_size = held.len();
        let moved = input.len().min(REQUEST_SIZE_BYTES_MAX - held_size);
        held.extend_from_slice(&input[..moved]);
        let (mut used, mut stop) = self.carry_out(current, &held, now);
        if used < held_size {
            // Nothing was complete, so all input was moved; or the first request stalls.
            self.sessions.get(session).held = held;
            if matches!(stop, Stop::Stall) {
                self.sessions.get(session).held.extend_from_slice(&input[moved..]);
            }
            return (used, stop);
        }
        self.sessions.recycle(held);
        let mut rest = &input[used - held_size..];
        if matches!(stop, Stop::Incomplete) && !rest.is_empty() {
            let (more, last) = self.carry_out(current, rest, now);
            rest = &rest[more..];
            used += more;
            stop = last;
        }
        self.keep_rest(session, rest, &stop);
        (used, stop)
    }

    /// Carries out the whole frames in `bytes`; returns the size of what is done.
    fn carry_out(
        &mut self,
        current: &mut Current<'_>,
        bytes: &[u8],
        now: Instant,
    ) -> (usize, Stop) {
        let mut used = 0;
        loop {
            match decode_request(&bytes[used..]) {
                Ok(Step::Complete { value, size }) => {
                    if !self.request(current, &value, now) {
                        return (used, Stop::Stall);
                    }
                    used += size;
                }
                Ok(Step::Incomplete) => return (used, Stop::Incomplete),
                // The replies to the requests before are owed first; then this comes up again.
                Err(_) if self.locks.is_undecided(current.session) => return (used, Stop::Stall),
                Err(fault) => return (used, Stop::Fault(fault)),
            }
        }
    }

    /// One request; `false` when it has to wait.
    #[inline]
    fn request(
        &mut self,
        current: &mut Current<'_>,
        frame: &RequestFrame<'_>,
        now: Instant,
    ) -> bool {
        let request_id = frame.request_id;
        let operation = match frame.operation {
            Ok(operation) => operation,
            Err(code) => {
                current.reply(Reply::Refused { request_id, code });
                return true;
            }
        };
        if let Some(reply) = self.locks.refusal(request_id, now) {
            current.reply(reply);
            return true;
        }
        let is_acquire = matches!(operation, Operation::Acquire { .. });
        if is_acquire && !self.sessions.may_wait(current.session, self.in_flight_count_max) {
            current.reply(Reply::Busy { request_id });
            return true;
        }
        match self.locks.admit(&operation) {
            Admission::Later => return false,
            Admission::Never(code) => {
                current.reply(Reply::Refused { request_id, code });
                return true;
            }
            Admission::Now => {}
        }
        let owner = Owner { session: current.session, request_id: request_id.get() };
        self.locks.carry_out(&mut self.sessions, current, owner, operation, now);
        true
    }

    fn keep_rest(&mut self, session: SessionId, rest: &[u8], stop: &Stop) {
        if !rest.is_empty() && !matches!(stop, Stop::Fault(_)) {
            self.sessions.hold(session, rest);
        }
    }

    /// Sets the session's state and the time of a begun frame to how far this turn came.
    fn settle(&mut self, session: SessionId, used: usize, stop: Stop, now: Instant) -> Turn {
        match stop {
            Stop::Fault(fault) => {
                let reason = EndReason::Fault(fault);
                self.end(session, reason, now);
                Turn::End(reason)
            }
            Stop::Incomplete => {
                let has_begun = !self.sessions.get(session).held.is_empty();
                let runs = self.sessions.is_frame_timed(session);
                // The time belongs to the frame: a turn that finished one starts it anew.
                if !has_begun {
                    self.sessions.set_frame_begun(session, None);
                } else if used > 0 || !runs {
                    self.sessions.set_frame_begun(session, Some(now));
                }
                Turn::Serve
            }
            Stop::Stall => {
                self.sessions.set_frame_begun(session, None);
                self.sessions.get(session).is_stalled = true;
                Turn::Stall
            }
        }
    }
}
