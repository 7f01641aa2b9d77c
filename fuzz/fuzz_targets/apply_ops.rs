//! Random commands against the naive model: same events, same state, and a snapshot restores it.
#![no_main]

#[path = "../../crates/lock-core/tests/common/mod.rs"]
mod model;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use model::Model;
use ticketing_lock_core::{
    Command, Event, Instant, LockTable, Owner, SessionId, TableLimits, limits,
};

/// Steps of one run: the model takes time in proportion to what is stored.
const OP_COUNT_MAX: usize = 200;
const KEYS: [&[u8]; 5] = [b"a", b"b", b"bb", &[b'c'; 128], b"d"];

#[derive(Arbitrary, Debug)]
enum Op {
    Acquire { session: u8, wait_seconds: u8, lease_seconds: u8, keys: u8 },
    Clear,
    Close { session: u8 },
    Configure { key_count_max: u8, waiters_per_key_max: u8 },
    Expire { grant: u8, key: u8 },
    Pass { milliseconds: u16, count_max: u8 },
    RaiseFloor { by: u64 },
    Reclaim { grant: u8 },
    Release { grant: u8, token_offset: u8, keys: Option<u8> },
    Restore,
    TimeOut { waiter: u8 },
}

fuzz_target!(|ops: Vec<Op>| {
    let limits = TableLimits { key_count_max: 4, waiters_per_key_max: 3 };
    let mut run = Run {
        model: Model::new(limits),
        table: LockTable::new([7; 16], limits),
        now: Instant::from_nanos(0),
        request_id: 0,
    };
    for op in ops.iter().take(OP_COUNT_MAX) {
        run.step(op);
        run.check();
    }
});

struct Run {
    model: Model,
    table: LockTable,
    now: Instant,
    request_id: u64,
}

impl Run {
    fn step(&mut self, op: &Op) {
        match *op {
            Op::Acquire { session, wait_seconds, lease_seconds, keys } => {
                let owner = self.owner(session);
                let keys = chosen(keys);
                self.both(Command::Acquire { owner, wait_seconds, lease_seconds, keys: &keys });
            }
            Op::Clear => self.both(Command::ClearWaiters),
            Op::Close { session } => {
                self.both(Command::CloseSession { session: self.session(session) });
            }
            Op::Configure { key_count_max, waiters_per_key_max } => {
                let limits = TableLimits {
                    key_count_max: key_count_max.into(),
                    waiters_per_key_max: waiters_per_key_max.into(),
                };
                self.both(Command::Configure { limits });
            }
            Op::Expire { grant, key } => {
                let (token, _, _) = self.grant(grant);
                self.both(Command::Expire { token, key: KEYS[usize::from(key) % KEYS.len()] });
            }
            Op::Pass { milliseconds, count_max } => self.pass(milliseconds, count_max),
            Op::RaiseFloor { by } => {
                let floor = self.model.token_last.saturating_add(by);
                self.both(Command::RaiseTokenFloor { floor });
            }
            Op::Reclaim { grant } => {
                let (token, session, _) = self.grant(grant);
                self.both(Command::Reclaim { session, token });
            }
            Op::Release { grant, token_offset, keys } => self.release(grant, token_offset, keys),
            Op::Restore => self.restore(),
            Op::TimeOut { waiter } => {
                let arrivals: Vec<u64> = self.model.waiters().map(|w| w.arrival).collect();
                let arrival = arrivals.get(usize::from(waiter) % arrivals.len().max(1));
                self.both(Command::TimeOut { arrival: arrival.copied().unwrap_or_default() });
            }
        }
    }

    fn session(&self, number: u8) -> SessionId {
        match number {
            255 => SessionId::new(limits::SESSION_COUNT_MAX, 0),
            _ => SessionId::new(u32::from(number % 3), u32::from(number / 128)),
        }
    }

    fn owner(&mut self, session: u8) -> Owner {
        self.request_id += 1;
        Owner { session: self.session(session), request_id: self.request_id }
    }

    /// Some current grant, or values that are none.
    fn grant(&self, number: u8) -> (u64, SessionId, Vec<Vec<u8>>) {
        let grants: Vec<_> = self.model.requests.iter().filter(|r| r.token > 0).collect();
        match grants.get(usize::from(number) % grants.len().max(1)) {
            Some(grant) => (grant.token, grant.owner.session, grant.keys.clone()),
            None => (u64::from(number), self.session(number), vec![b"a".to_vec()]),
        }
    }

    fn release(&mut self, grant: u8, token_offset: u8, keys: Option<u8>) {
        let owner = self.owner(grant);
        let (token, _, own) = self.grant(grant);
        let token = token.wrapping_add((token_offset / 200).into());
        let keys: Vec<&[u8]> = match keys {
            Some(bits) => chosen(bits),
            None => own.iter().map(Vec::as_slice).collect(),
        };
        self.both(Command::Release { owner, token, keys: &keys });
    }

    fn both(&mut self, command: Command<'_>) {
        self.model.events.clear();
        self.model.apply(command, self.now);
        let mut events: Vec<Event> = Vec::new();
        self.table.apply(command, self.now, &mut |event| events.push(event));
        assert_eq!(events, self.model.events, "{command:?}");
    }

    /// Lets time pass, and ends what is due.
    fn pass(&mut self, milliseconds: u16, count_max: u8) {
        self.now = Instant::from_nanos(self.now.as_nanos() + u64::from(milliseconds) * 1_000_000);
        self.model.clock = self.model.clock.max(self.now);
        self.model.events.clear();
        let mut count = 0;
        while count < usize::from(count_max)
            && let Some(at) = self.model.due()
        {
            self.model.end(at);
            count += 1;
        }
        let mut events = Vec::new();
        let sink = &mut |event| events.push(event);
        assert_eq!(self.table.apply_due(self.now, count_max.into(), sink), count);
        assert_eq!(events, self.model.events);
    }

    fn restore(&mut self) {
        let mut bytes = Vec::new();
        self.table.encode_snapshot(&mut bytes);
        let restored = LockTable::decode_snapshot(&bytes, [9; 16], self.now);
        let restored = restored.expect("its own snapshot is valid");
        restored.check_invariants();
        assert_eq!(restored.digest(), self.table.digest());
        assert_eq!(restored.history(), self.table.history());
    }

    fn check(&self) {
        self.table.check_invariants();
        assert_eq!(self.table.token_last(), self.model.token_last);
        assert_eq!(self.table.key_count(), self.model.key_count());
        assert_eq!(self.table.waiter_count(), self.model.waiters().count());
        let count = self.table.grant_count() + self.table.waiter_count();
        assert_eq!(count, self.model.requests.len());
        assert!(self.table.next_deadline() <= self.model.next_deadline());
        for key in KEYS {
            let holder = self.model.holder(key).map(|at| &self.model.requests[at]);
            assert!(holder.is_none_or(|grant| grant.token > 0 && !grant.is_named));
        }
    }
}

/// A bit for each key; the lowest values are lists that are refused.
fn chosen(bits: u8) -> Vec<&'static [u8]> {
    let is_chosen = |number: usize| bits >> (number + 2) & 1 == 1;
    match bits {
        0 => Vec::new(),
        1 => vec![b"b", b"a"],
        2 => vec![b"a", b"a"],
        _ => (0..KEYS.len()).filter(|n| is_chosen(*n)).map(|number| KEYS[number]).collect(),
    }
}
