//! One request on its way: `queued → maybe sent → answered | lost`. BEHAVIOUR.md, "Acquire".
//!
//! L5 and L7 hang on who decides what: every transition is made under one lock, by the caller
//! (queue, abandon, take the outcome) or by the connection that has the request (send, answer,
//! lose). A request is in the hands of one connection at most.

use crate::clock::Instant;
use crate::keys::Keys;
use crate::sync::{Permit, lock};
use std::mem;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use ticketing_wire_codec::{Reply, RequestKind, Token};

/// What a request asks for.
#[derive(Clone, Copy)]
pub(crate) enum Order {
    Acquire {
        /// Whether the wait is 0: an immediate try stays one, however long the search takes.
        is_immediate: bool,
        lease_seconds: u8,
    },
    Release {
        token: Token,
    },
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Answered {
        reply: Reply,
        /// Taken before the first byte was handed to the socket.
        sent_at: Instant,
    },
    /// Sent, at least in part and perhaps, and no answer can be waited for any more.
    Unanswered,
    /// Not one byte was sent.
    Unsent,
}

/// What the caller leaves behind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Abandoned {
    /// A grant that nobody took.
    Grant(Token),
    Nothing,
}

enum Phase {
    /// With the caller.
    Idle,
    Queued,
    MaybeSent {
        sent_at: Instant,
    },
    Done(Outcome),
    /// The caller is gone. If it was sent, a tombstone: a grant that still comes is unwanted.
    Abandoned,
}

struct State {
    phase: Phase,
    /// Whether the connection still has an answer to come, whoever waits for it.
    is_owed: bool,
    /// The place in the quota, kept as long as the caller waits or an answer is owed.
    permit: Option<Permit>,
    waker: Option<Waker>,
}

/// A request, shared by its caller and the connection that has it.
pub(crate) struct Call {
    pub(crate) keys: Keys,
    pub(crate) order: Order,
    /// Nothing is sent from then on.
    pub(crate) deadline: Instant,
    state: Mutex<State>,
}

impl Call {
    pub(crate) fn new(keys: Keys, order: Order, deadline: Instant, permit: Option<Permit>) -> Self {
        let state = State { phase: Phase::Idle, is_owed: false, permit, waker: None };
        Self { keys, order, deadline, state: Mutex::new(state) }
    }

    pub(crate) fn kind(&self) -> RequestKind {
        match (&self.order, &self.keys) {
            (Order::Acquire { .. }, Keys::One(_)) => RequestKind::Acquire,
            (Order::Acquire { .. }, Keys::Set(_)) => RequestKind::AcquireSet,
            (Order::Release { .. }, Keys::One(_)) => RequestKind::Release,
            (Order::Release { .. }, Keys::Set(_)) => RequestKind::ReleaseSet,
        }
    }

    /// The wait in the request if it leaves now: what remains of the call's, rounded up.
    pub(crate) fn wait_seconds(&self, now: Instant) -> u8 {
        if matches!(self.order, Order::Acquire { is_immediate: true, .. }) {
            return 0;
        }
        let remaining = self.deadline.saturating_duration_since(now);
        let seconds = remaining.as_secs() + u64::from(remaining.subsec_nanos() != 0);
        u8::try_from(seconds).expect("a checked wait is at most 255 s")
    }

    /// By the caller: about to be put into a connection's queue.
    pub(crate) fn queue(&self) {
        lock(&self.state).phase = Phase::Queued;
    }

    /// By the caller: how the attempt ended.
    pub(crate) fn poll_outcome(&self, cx: &mut Context<'_>) -> Poll<Outcome> {
        let mut state = lock(&self.state);
        if let Phase::Done(outcome) = state.phase {
            state.phase = Phase::Idle;
            return Poll::Ready(outcome);
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// By the caller: no longer interested.
    pub(crate) fn abandon(&self) -> Abandoned {
        let mut state = lock(&self.state);
        state.waker = None;
        if !state.is_owed {
            state.permit = None;
        }
        match mem::replace(&mut state.phase, Phase::Abandoned) {
            Phase::Done(Outcome::Answered {
                reply: Reply::Granted { token, .. } | Reply::GrantedSet { token, .. },
                ..
            }) => Abandoned::Grant(token),
            _ => Abandoned::Nothing,
        }
    }

    /// By the connection, before the first byte is handed to the socket: whether to send it.
    pub(crate) fn depart(&self, now: Instant) -> bool {
        let mut state = lock(&self.state);
        if !matches!(state.phase, Phase::Queued) {
            return false;
        }
        if now >= self.deadline {
            finish(state, Outcome::Unsent);
            return false;
        }
        state.phase = Phase::MaybeSent { sent_at: now };
        state.is_owed = true;
        true
    }

    /// By the connection: an answer. Returns whether somebody waits for it; a grant that nobody
    /// waits for has to be released.
    pub(crate) fn answer(&self, reply: Reply) -> bool {
        let mut state = lock(&self.state);
        state.is_owed = false;
        if let Phase::MaybeSent { sent_at } = state.phase {
            finish(state, Outcome::Answered { reply, sent_at });
            true
        } else {
            settle(state);
            false
        }
    }

    /// By the connection: the caller should wait no longer, but the answer is still owed.
    pub(crate) fn give_up(&self, outcome: Outcome) {
        let state = lock(&self.state);
        if matches!(state.phase, Phase::Queued | Phase::MaybeSent { .. }) {
            finish(state, outcome);
        }
    }

    /// By the connection: no answer can come any more.
    pub(crate) fn lose(&self, outcome: Outcome) {
        let mut state = lock(&self.state);
        state.is_owed = false;
        if matches!(state.phase, Phase::Queued | Phase::MaybeSent { .. }) {
            finish(state, outcome);
        } else {
            settle(state);
        }
    }
}

/// Ends the attempt and wakes the caller, outside the lock.
fn finish(mut state: MutexGuard<'_, State>, outcome: Outcome) {
    state.phase = Phase::Done(outcome);
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// An answer is owed no more: a tombstone gives its place back, a caller does so itself.
fn settle(mut state: MutexGuard<'_, State>) {
    if matches!(state.phase, Phase::Abandoned) {
        state.permit = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::sync::Quota;
    use std::time::Duration;
    use ticketing_wire_codec::RequestId;

    fn call(permit: Option<Permit>) -> Call {
        let keys = Keys::one(b"k").expect("a key");
        let order = Order::Acquire { is_immediate: false, lease_seconds: 30 };
        Call::new(keys, order, clock::now() + Duration::from_secs(5), permit)
    }

    fn outcome(call: &Call) -> Poll<Outcome> {
        call.poll_outcome(&mut Context::from_waker(Waker::noop()))
    }

    fn grant() -> Reply {
        let (request_id, token) = (RequestId::new(1), Token::new(7));
        Reply::Granted { request_id: request_id.expect("not 0"), token: token.expect("not 0") }
    }

    #[test]
    fn what_is_abandoned_in_the_queue_is_not_sent() {
        let call = call(None);
        call.queue();
        assert_eq!(call.abandon(), Abandoned::Nothing);
        assert!(!call.depart(clock::now()));
    }

    #[test]
    fn nothing_is_sent_once_the_time_is_over() {
        let call = call(None);
        call.queue();
        assert!(!call.depart(call.deadline));
        assert_eq!(outcome(&call), Poll::Ready(Outcome::Unsent));
    }

    #[test]
    fn a_grant_has_exactly_one_taker() {
        // The caller, the caller on its way out, or the connection.
        let taken = call(None);
        taken.queue();
        let sent_at = clock::now();
        assert!(taken.depart(sent_at) && outcome(&taken).is_pending() && taken.answer(grant()));
        assert_eq!(outcome(&taken), Poll::Ready(Outcome::Answered { reply: grant(), sent_at }));
        assert_eq!(taken.abandon(), Abandoned::Nothing);

        let left = call(None);
        left.queue();
        assert!(left.depart(sent_at) && left.answer(grant()));
        assert!(matches!(left.abandon(), Abandoned::Grant(token) if token.get() == 7));

        let late = call(None);
        late.queue();
        assert!(late.depart(sent_at));
        assert_eq!(late.abandon(), Abandoned::Nothing);
        assert!(!late.answer(grant()), "for the connection to release");

        let overdue = call(None);
        overdue.queue();
        assert!(overdue.depart(sent_at));
        overdue.give_up(Outcome::Unanswered);
        assert!(!overdue.answer(grant()), "for the connection to release");
        assert_eq!(outcome(&overdue), Poll::Ready(Outcome::Unanswered));
    }

    #[test]
    fn the_place_in_the_quota_is_kept_until_no_answer_is_owed() {
        let quota = Quota::new(1);
        for is_answered in [true, false] {
            let call = call(quota.try_take());
            call.queue();
            assert!(call.depart(clock::now()));
            call.give_up(Outcome::Unanswered);
            call.abandon();
            assert!(quota.try_take().is_none());
            if is_answered {
                call.answer(grant());
            } else {
                call.lose(Outcome::Unanswered);
            }
            assert!(quota.try_take().is_some());
        }
        let unsent = call(quota.try_take());
        unsent.queue();
        unsent.abandon();
        assert!(quota.try_take().is_some());
    }
}
