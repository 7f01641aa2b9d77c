//! What carries out admitted requests: at once, or after a majority has recorded them.

use super::Counters;
use super::replies::Current;
use super::sessions::Sessions;
use ticketing_lock_core::{Instant, Owner, SessionId};
use ticketing_wire_codec::{ErrorCode, Operation, Reply, RequestId, Token};

/// Whether a request may be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Something has to be done first. Its session reads nothing more until it is called.
    Later,
    /// It is refused.
    Never(ErrorCode),
    /// It may.
    Now,
}

/// The locks behind an engine.
pub(crate) trait Locks {
    /// The answer to every request now, if none is taken.
    fn refusal(&self, request_id: RequestId, now: Instant) -> Option<Reply>;

    /// Whether this request may be carried out now.
    fn admit(&mut self, operation: &Operation<'_>) -> Admission;

    /// Carries out a request. Its answer goes to `current`, or to its session later.
    fn carry_out(
        &mut self,
        sessions: &mut Sessions,
        current: &mut Current<'_>,
        owner: Owner,
        operation: Operation<'_>,
        now: Instant,
    );

    /// Whether requests of the session are taken in whose effect is not decided yet. It ends in
    /// bounded time, and a session that was stalled for it is called then.
    fn is_undecided(&self, _session: SessionId) -> bool {
        false
    }

    /// Takes a closing or ending session's waiters out of their queues.
    fn drop_waiters(&mut self, sessions: &mut Sessions, session: SessionId, now: Instant);

    /// Takes back a grant that cannot be delivered.
    fn reclaim(&mut self, sessions: &mut Sessions, session: SessionId, token: Token, now: Instant);

    /// A session was opened.
    fn opened(&mut self, _sessions: &mut Sessions, _session: SessionId) {}

    /// Everything of this turn was taken in.
    fn settle(&mut self, _sessions: &mut Sessions, _now: Instant) {}

    /// Does what is due, a bounded part of it.
    fn advance(&mut self, sessions: &mut Sessions, now: Instant);

    /// When something is due next.
    fn next_deadline(&self) -> Option<Instant>;

    /// Figures, but for those of sessions.
    fn counters(&self) -> Counters;
}
