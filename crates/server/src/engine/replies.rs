//! From the core's events to reply frames in the right place.

use super::Counters;
use super::sessions::Sessions;
use ticketing_lock_core::{Event, EventSink, Owner, RefusedReason, SessionId};
use ticketing_wire_codec::{ErrorCode, Reply, RequestId, Token};

/// What the events of a command answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// An acquire; its own answer comes without its having waited.
    Acquire,
    /// Nobody's request: time, or an end of a session.
    Engine,
    /// A release of one key.
    Release,
    /// A release of a set.
    ReleaseSet,
}

/// The session whose turn it is, and where its replies go.
pub(crate) struct Current<'a> {
    pub(crate) session: SessionId,
    pub(crate) out: &'a mut Vec<u8>,
}

/// The sink of one command's events.
pub(crate) struct Replies<'a, 'o> {
    pub(crate) sessions: &'a mut Sessions,
    pub(crate) counters: &'a mut Counters,
    pub(crate) token_last: &'a mut u64,
    pub(crate) current: Option<&'a mut Current<'o>>,
    pub(crate) cause: Cause,
}

impl Current<'_> {
    pub(crate) fn reply(&mut self, reply: Reply) {
        self.out.extend_from_slice(reply.encode().as_bytes());
    }
}

impl Replies<'_, '_> {
    fn reply(&mut self, session: SessionId, reply: Reply) {
        match &mut self.current {
            Some(current) if current.session == session => current.reply(reply),
            _ => self.sessions.post(session, reply),
        }
    }

    /// A request that waited does so no longer.
    fn leave_queue(&mut self, session: SessionId) {
        if self.cause != Cause::Acquire {
            self.sessions.end_waiting(session);
        }
    }

    fn granted(&mut self, owner: Owner, token: u64, key_count: u8) {
        assert!(token > *self.token_last, "tokens grow with every grant");
        *self.token_last = token;
        self.counters.granted += 1;
        let request_id = request_id(owner);
        let token = Token::new(token).expect("larger than another token");
        self.leave_queue(owner.session);
        let reply = if key_count > 1 {
            Reply::GrantedSet { request_id, token }
        } else {
            Reply::Granted { request_id, token }
        };
        self.reply(owner.session, reply);
    }
}

impl EventSink for Replies<'_, '_> {
    #[inline]
    fn event(&mut self, event: Event) {
        match event {
            Event::Expired { .. } => self.counters.expired += 1,
            Event::Granted { owner, token, key_count } => self.granted(owner, token, key_count),
            Event::GroupMismatch { owner } => {
                let (request_id, code) = (request_id(owner), ErrorCode::GroupMismatch);
                self.reply(owner.session, Reply::Refused { request_id, code });
            }
            Event::NotHeld { owner } => {
                self.reply(owner.session, Reply::NotHeld { request_id: request_id(owner) });
            }
            Event::Queued { owner, .. } => self.sessions.begin_waiting(owner.session),
            Event::Refused { owner, reason } => {
                let request_id = request_id(owner);
                let reply = match reason {
                    RefusedReason::Capacity => Reply::Busy { request_id },
                    // Cannot happen: the codec checks the same rules.
                    RefusedReason::Malformed => {
                        debug_assert!(false, "the core refuses what the codec takes");
                        Reply::Refused { request_id, code: ErrorCode::BadKey }
                    }
                };
                self.reply(owner.session, reply);
            }
            Event::Released { owner } => {
                let request_id = request_id(owner);
                let reply = if self.cause == Cause::ReleaseSet {
                    Reply::ReleasedSet { request_id }
                } else {
                    Reply::Released { request_id }
                };
                self.reply(owner.session, reply);
            }
            Event::TimedOut { owner, .. } => {
                self.leave_queue(owner.session);
                self.reply(owner.session, Reply::TimedOut { request_id: request_id(owner) });
            }
            Event::WaiterDropped { owner } => self.leave_queue(owner.session),
        }
    }
}

fn request_id(owner: Owner) -> RequestId {
    RequestId::new(owner.request_id).expect("the codec takes no request id 0")
}
