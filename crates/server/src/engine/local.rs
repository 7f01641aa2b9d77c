//! Carries out admitted requests at once, on a table of its own: the single server.

use super::locks::{Admission, Locks};
use super::replies::{Cause, Current, Replies};
use super::sessions::Sessions;
use super::{Counters, EngineSettings};
use crate::limits::{DUE_COUNT_PER_TURN_MAX, TOKEN_BLOCK_SIZE, TOKEN_MARGIN};
use std::time::Duration;
use ticketing_lock_core::limits::SET_KEY_COUNT_MAX;
use ticketing_lock_core::{Command, Instant, LockTable, Owner, SessionId};
use ticketing_wire_codec::{ErrorCode, Keys, Operation, Reply, RequestId, SetKeys, Token};

/// What a state directory guarantees across a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Persisted {
    /// No longer lease may be granted.
    pub lease_seconds_max: u8,
    /// No larger token may be granted.
    pub token_ceiling: u64,
}

/// How far granting may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// This is on disk, and writing more fails: whoever needs more is answered `NotActive`.
    Failing,
    /// This is on disk; whoever needs more waits for it.
    Written(Persisted),
}

impl Persisted {
    /// Without a state directory nothing is promised and nothing waited for.
    pub const UNLIMITED: Self = Self { lease_seconds_max: u8::MAX, token_ceiling: u64::MAX };
}

/// The lock table of a single server, and what it may do with it.
#[derive(Debug)]
pub struct Local {
    table: LockTable,
    counters: Counters,
    token_last: u64,
    active_from: Instant,
    persisted: Persisted,
    is_writing_failing: bool,
    /// The longest lease anybody asked for.
    lease_seconds_wanted: u8,
    /// No lease that runs ends after it.
    lease_end_max: Instant,
}

impl Local {
    pub(crate) fn new(settings: &EngineSettings) -> Self {
        let mut table = LockTable::new(settings.hash_seed, settings.table);
        let floor = settings.token_floor;
        let now = Instant::from_nanos(0);
        table.apply(Command::RaiseTokenFloor { floor }, now, &mut |_| {});
        Self {
            table,
            counters: Counters::default(),
            token_last: floor,
            active_from: settings.active_from,
            persisted: settings.persisted,
            is_writing_failing: false,
            lease_seconds_wanted: 0,
            lease_end_max: now,
        }
    }

    pub(crate) fn wanted(&self) -> Option<Persisted> {
        let Persisted { lease_seconds_max, token_ceiling } = self.persisted;
        let is_token_short = self.token_last >= token_ceiling.saturating_sub(TOKEN_BLOCK_SIZE / 2);
        let is_limited = self.persisted != Persisted::UNLIMITED;
        (is_limited && (is_token_short || self.lease_seconds_wanted > lease_seconds_max)).then(
            || Persisted {
                lease_seconds_max: self.lease_seconds_wanted.max(lease_seconds_max),
                token_ceiling: self.token_last.saturating_add(TOKEN_BLOCK_SIZE),
            },
        )
    }

    pub(crate) fn set_durability(&mut self, durability: Durability) {
        self.is_writing_failing = durability == Durability::Failing;
        if let Durability::Written(persisted) = durability {
            self.persisted = persisted;
        }
    }

    pub(crate) fn final_promise(&self, now: Instant) -> (Persisted, Duration) {
        let Persisted { lease_seconds_max, .. } = self.persisted;
        let promise = Persisted { lease_seconds_max, token_ceiling: self.token_last };
        // Without any timer nothing is held. Leases of the predecessor may still run, though.
        let own = self.table.next_deadline().map_or(Duration::ZERO, |_| {
            let longest = Duration::from_secs(self.lease_seconds_wanted.into());
            now.until(self.lease_end_max).min(longest)
        });
        (promise, own.max(self.time_to_active(now)))
    }

    pub(crate) fn time_to_active(&self, now: Instant) -> Duration {
        now.until(self.active_from)
    }

    fn note_lease(&mut self, wait_seconds: u8, lease_seconds: u8, now: Instant) {
        self.lease_seconds_wanted = self.lease_seconds_wanted.max(lease_seconds);
        let granted_at_latest = now.after_seconds(wait_seconds);
        self.lease_end_max = self.lease_end_max.max(granted_at_latest.after_seconds(lease_seconds));
    }

    #[inline]
    fn apply<'o>(
        &mut self,
        sessions: &mut Sessions,
        current: Option<&mut Current<'o>>,
        cause: Cause,
        command: Command<'_>,
        now: Instant,
    ) {
        let Self { table, counters, token_last, .. } = self;
        let mut replies = Replies { sessions, counters, token_last, current, cause };
        table.apply(command, now, &mut replies);
    }
}

impl Locks for Local {
    fn refusal(&self, request_id: RequestId, now: Instant) -> Option<Reply> {
        let code = ErrorCode::NotActive;
        (now < self.active_from).then_some(Reply::Refused { request_id, code })
    }

    fn admit(&mut self, operation: &Operation<'_>) -> Admission {
        let Operation::Acquire { lease_seconds, .. } = *operation else { return Admission::Now };
        let is_token_left =
            self.token_last < self.persisted.token_ceiling.saturating_sub(TOKEN_MARGIN);
        if lease_seconds <= self.persisted.lease_seconds_max && is_token_left {
            return Admission::Now;
        }
        // Even if it is refused now: the disk should be ready for the next.
        self.lease_seconds_wanted = self.lease_seconds_wanted.max(lease_seconds);
        if self.is_writing_failing {
            Admission::Never(ErrorCode::NotActive)
        } else {
            Admission::Later
        }
    }

    #[inline]
    fn carry_out(
        &mut self,
        sessions: &mut Sessions,
        current: &mut Current<'_>,
        owner: Owner,
        operation: Operation<'_>,
        now: Instant,
    ) {
        let buffer: [&[u8]; SET_KEY_COUNT_MAX];
        let (Operation::Acquire { keys, .. } | Operation::Release { keys, .. }) = operation;
        let one: [&[u8]; 1];
        let (keys, is_set): (&[&[u8]], bool) = match keys {
            Keys::One(key) => {
                one = [key];
                (&one, false)
            }
            Keys::Set(set) => {
                buffer = gather(set);
                (&buffer[..set.len()], true)
            }
        };
        let (command, cause) = match operation {
            Operation::Acquire { wait_seconds, lease_seconds, .. } => {
                self.note_lease(wait_seconds, lease_seconds, now);
                (Command::Acquire { owner, wait_seconds, lease_seconds, keys }, Cause::Acquire)
            }
            Operation::Release { token, .. } => {
                let cause = if is_set { Cause::ReleaseSet } else { Cause::Release };
                (Command::Release { owner, token: token.get(), keys }, cause)
            }
        };
        self.apply(sessions, Some(current), cause, command, now);
    }

    fn drop_waiters(&mut self, sessions: &mut Sessions, session: SessionId, now: Instant) {
        self.apply(sessions, None, Cause::Engine, Command::CloseSession { session }, now);
    }

    fn reclaim(&mut self, sessions: &mut Sessions, session: SessionId, token: Token, now: Instant) {
        self.counters.reclaimed += 1;
        let command = Command::Reclaim { session, token: token.get() };
        self.apply(sessions, None, Cause::Engine, command, now);
    }

    fn advance(&mut self, sessions: &mut Sessions, now: Instant) {
        let Self { table, counters, token_last, .. } = self;
        let cause = Cause::Engine;
        let mut replies = Replies { sessions, counters, token_last, current: None, cause };
        table.apply_due(now, DUE_COUNT_PER_TURN_MAX, &mut replies);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.table.next_deadline()
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

pub(crate) fn gather(set: SetKeys<'_>) -> [&[u8]; SET_KEY_COUNT_MAX] {
    let mut keys: [&[u8]; SET_KEY_COUNT_MAX] = [&[]; SET_KEY_COUNT_MAX];
    for (place, key) in keys.iter_mut().zip(set) {
        *place = key;
    }
    keys
}
