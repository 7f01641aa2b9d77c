//! The table against a naive model, and replicas against each other, under random commands.

mod common;

use common::Model;
use proptest::prelude::*;
use ticketing_lock_core::{
    Command, Due, Event, Instant, LockTable, Owner, SessionId, TableLimits, limits,
};

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const KEY_COUNT: u8 = 7;

#[derive(Clone, Debug)]
enum Op {
    Acquire {
        session: SessionId,
        wait_seconds: u8,
        lease_seconds: u8,
        keys: Vec<u8>,
    },
    /// Starts a snapshot in slices.
    BeginSnapshot,
    Clear,
    Close {
        session: SessionId,
    },
    Configure {
        limits: TableLimits,
    },
    /// Named by a replica, then applied everywhere or lost.
    Due {
        is_lost: bool,
    },
    /// Lets time pass, and applies what is due.
    Pass {
        nanos: u64,
        count_max: usize,
    },
    RaiseFloor {
        by: u64,
    },
    /// What was named and lost is named again.
    Rearm,
    Reclaim {
        session: Option<SessionId>,
        grant: usize,
    },
    /// `keys` of `None`: exactly those of the grant.
    Release {
        grant: usize,
        token_offset: u64,
        keys: Option<Vec<u8>>,
    },
    /// Replaces a replica by one made from its snapshot.
    Restore,
    Slice {
        node_count_max: u32,
    },
    TimeOut {
        waiter: usize,
    },
}

fn any_session() -> impl Strategy<Value = SessionId> {
    let index = prop_oneof![20 => 0..3_u32, 1 => Just(limits::SESSION_COUNT_MAX)];
    (index, 0..2_u32).prop_map(|(index, generation)| SessionId::new(index, generation))
}

fn any_keys() -> impl Strategy<Value = Vec<u8>> {
    let key = || 0..KEY_COUNT;
    prop_oneof![
        6 => key().prop_map(|key| vec![key]),
        6 => prop::collection::btree_set(key(), 2..5).prop_map(|keys| keys.into_iter().collect()),
        1 => prop::collection::vec(key(), 0..4),
    ]
}

fn any_op() -> impl Strategy<Value = Op> {
    let wait = prop_oneof![1 => Just(0), 6 => 1..4_u8, 1 => any::<u8>()];
    let lease = prop_oneof![8 => 1..4_u8, 1 => any::<u8>()];
    let acquire = (any_session(), wait, lease, any_keys()).prop_map(
        |(session, wait_seconds, lease_seconds, keys)| Op::Acquire {
            session,
            wait_seconds,
            lease_seconds,
            keys,
        },
    );
    let release = (any::<usize>(), prop_oneof![5 => Just(0), 1 => 0..3_u64]);
    let release = (release, prop::option::weighted(0.2, any_keys()))
        .prop_map(|((grant, token_offset), keys)| Op::Release { grant, token_offset, keys });
    let nanos = prop_oneof![
        Just(0),
        Just(NANOS_PER_SECOND),
        Just(NANOS_PER_SECOND - 1),
        0..5 * NANOS_PER_SECOND
    ];
    let limits = (0..9_u32, 0..5_u32).prop_map(|(key_count_max, waiters_per_key_max)| {
        TableLimits { key_count_max, waiters_per_key_max }
    });
    prop_oneof![
        40 => acquire,
        16 => release,
        8 => (nanos, 0..4_usize).prop_map(|(nanos, count_max)| Op::Pass { nanos, count_max }),
        4 => any::<bool>().prop_map(|is_lost| Op::Due { is_lost }),
        2 => Just(Op::Rearm),
        4 => any_session().prop_map(|session| Op::Close { session }),
        4 => (prop::option::weighted(0.2, any_session()), any::<usize>())
            .prop_map(|(session, grant)| Op::Reclaim { session, grant }),
        3 => any::<usize>().prop_map(|waiter| Op::TimeOut { waiter }),
        2 => limits.prop_map(|limits| Op::Configure { limits }),
        2 => Just(Op::Restore),
        1 => Just(Op::Clear),
        1 => prop_oneof![9 => 0..5_u64, 1 => Just(u64::MAX)].prop_map(|by| Op::RaiseFloor { by }),
        2 => Just(Op::BeginSnapshot),
        6 => (0..4_u32).prop_map(|node_count_max| Op::Slice { node_count_max }),
    ]
}

/// Keys of different sizes, in the order of their numbers.
fn key(number: u8) -> Vec<u8> {
    let mut key = vec![b'a' + number];
    key.resize(1 + usize::from(number) * 21, b'k');
    key
}

struct Harness {
    model: Model,
    /// Decides alone, by its own deadlines.
    single: LockTable,
    /// Follow by commands; they hash differently, and the second is replaced by its snapshot at
    /// times.
    replicas: [LockTable; 2],
    now: u64,
    request_id: u64,
    /// The slices so far, and the digest they must have.
    slices: Option<(Vec<u8>, [u8; 32])>,
}

impl Harness {
    fn new() -> Self {
        let limits = TableLimits { key_count_max: 6, waiters_per_key_max: 3 };
        let table = |seed: u8| LockTable::new([seed; 16], limits);
        Self {
            model: Model::new(limits),
            single: table(1),
            replicas: [table(2), table(3)],
            now: 0,
            request_id: 0,
            slices: None,
        }
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    fn step(&mut self, op: &Op) {
        match op {
            Op::Acquire { session, wait_seconds, lease_seconds, keys } => {
                let owner = self.owner(*session);
                with_keys(keys, |keys| {
                    self.everywhere(Command::Acquire {
                        owner,
                        wait_seconds: *wait_seconds,
                        lease_seconds: *lease_seconds,
                        keys,
                    });
                });
            }
            Op::BeginSnapshot => {
                self.replicas[0].begin_snapshot();
                self.slices = Some((Vec::new(), self.replicas[0].digest()));
            }
            Op::Clear => self.everywhere(Command::ClearWaiters),
            Op::Close { session } => self.everywhere(Command::CloseSession { session: *session }),
            Op::Configure { limits } => self.everywhere(Command::Configure { limits: *limits }),
            Op::Due { is_lost } => self.due(*is_lost),
            Op::Pass { nanos, count_max } => self.pass(*nanos, *count_max),
            Op::Rearm => {
                self.single.rearm_due();
                for request in &mut self.model.requests {
                    request.is_named = false;
                }
            }
            Op::RaiseFloor { by } => {
                let floor = self.model.token_last.saturating_add(*by);
                self.everywhere(Command::RaiseTokenFloor { floor });
            }
            Op::Reclaim { session, grant } => {
                if let Some((token, own, _)) = self.pick_grant(*grant) {
                    let session = session.unwrap_or(own);
                    self.everywhere(Command::Reclaim { session, token });
                }
            }
            Op::Release { grant, token_offset, keys } => self.release(*grant, *token_offset, keys),
            Op::Restore => self.restore(),
            Op::Slice { node_count_max } => self.slice(*node_count_max),
            Op::TimeOut { waiter } => {
                let arrivals: Vec<u64> =
                    self.model.waiters().map(|waiter| waiter.arrival).chain([0]).collect();
                let arrival = arrivals[waiter % arrivals.len()];
                self.everywhere(Command::TimeOut { arrival });
            }
        }
        self.check();
    }

    fn owner(&mut self, session: SessionId) -> Owner {
        self.request_id += 1;
        Owner { session, request_id: self.request_id }
    }

    fn pick_grant(&self, number: usize) -> Option<(u64, SessionId, Vec<Vec<u8>>)> {
        let grants: Vec<_> =
            self.model.requests.iter().filter(|request| request.token > 0).collect();
        let grant = grants.get(number % grants.len().max(1))?;
        Some((grant.token, grant.owner.session, grant.keys.clone()))
    }

    fn release(&mut self, grant: usize, token_offset: u64, keys: &Option<Vec<u8>>) {
        let owner = self.owner(SessionId::new(9, 9));
        let (token, _, own) = self.pick_grant(grant).unwrap_or((1, owner.session, vec![key(1)]));
        let token = token.wrapping_add(token_offset);
        let keys = keys.as_ref().map_or(own, |keys| keys.iter().map(|n| key(*n)).collect());
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        self.everywhere(Command::Release { owner, token, keys: &keys });
    }

    /// Applies a command to all, and compares what came of it.
    fn everywhere(&mut self, command: Command<'_>) {
        let now = self.now();
        self.model.events.clear();
        self.model.apply(command, now);
        for table in [&mut self.single].into_iter().chain(&mut self.replicas) {
            assert_eq!(events_of(table, command, now), self.model.events, "{command:?}");
        }
    }

    fn pass(&mut self, nanos: u64, count_max: usize) {
        self.now += nanos;
        let now = self.now();
        self.model.clock = self.model.clock.max(now);
        self.model.events.clear();
        let mut replicas_events = [Vec::new(), Vec::new()];
        let mut count = 0;
        while count < count_max
            && let Some(at) = self.model.due()
        {
            let request = &self.model.requests[at];
            let command = match request.token {
                0 => Command::TimeOut { arrival: request.arrival },
                token => Command::Expire { token, key: &request.keys[0] },
            };
            for (replica, events) in self.replicas.iter_mut().zip(&mut replicas_events) {
                events.extend(events_of(replica, command, now));
            }
            self.model.end(at);
            count += 1;
        }
        let mut events = Vec::new();
        let applied = self.single.apply_due(now, count_max, &mut |event| events.push(event));
        assert_eq!(applied, count);
        assert_eq!(events, self.model.events);
        assert_eq!(replicas_events, [events.clone(), events]);
    }

    fn due(&mut self, is_lost: bool) {
        let now = self.now();
        self.model.clock = self.model.clock.max(now);
        let mut named = Vec::new();
        // Everything is named once, in the model's order, and nothing twice.
        while let Some(at) = self.model.due() {
            let request = &mut self.model.requests[at];
            request.is_named = true;
            let expected = match request.token {
                0 => Due::Wait { arrival: request.arrival },
                token => Due::Lease {
                    token,
                    lease_seconds: request.lease_seconds,
                    key: &request.keys[0],
                },
            };
            assert_eq!(self.single.poll_due(now), Some(expected));
            self.single.check_invariants();
            named.push(match request.token {
                0 => (request.arrival, None),
                token => (token, Some(request.keys[0].clone())),
            });
        }
        assert_eq!(self.single.poll_due(now), None);
        if !is_lost {
            for (number, key) in named {
                self.everywhere(match &key {
                    None => Command::TimeOut { arrival: number },
                    Some(key) => Command::Expire { token: number, key },
                });
            }
        }
    }

    fn restore(&mut self) {
        let mut bytes = Vec::new();
        self.replicas[1].encode_snapshot(&mut bytes);
        self.replicas[1] = LockTable::decode_snapshot(&bytes, [4; 16], self.now()).expect("valid");
        let mut again = Vec::new();
        self.replicas[1].encode_snapshot(&mut again);
        assert_eq!(bytes, again);
    }

    fn slice(&mut self, node_count_max: u32) {
        let Some((bytes, digest)) = &mut self.slices else { return };
        if !self.replicas[0].continue_snapshot(node_count_max, bytes) {
            let table = LockTable::decode_snapshot(bytes, [5; 16], Instant::from_nanos(0));
            let table = table.expect("valid");
            table.check_invariants();
            assert_eq!(table.digest(), *digest);
            self.slices = None;
        }
    }

    fn check(&self) {
        for table in [&self.single].into_iter().chain(&self.replicas) {
            table.check_invariants();
            assert_eq!(table.token_last(), self.model.token_last);
            assert_eq!(table.key_count(), self.model.key_count());
            assert_eq!(table.waiter_count(), self.model.waiters().count());
            assert_eq!(table.grant_count() + table.waiter_count(), self.model.requests.len());
            assert_eq!(table.history(), self.single.history());
            assert_eq!(table.digest(), self.single.digest());
        }
        let (ours, exact) = (self.single.next_deadline(), self.model.next_deadline());
        assert_eq!(ours.is_some(), exact.is_some());
        assert!(ours <= exact, "a deadline would be missed");
    }
}

fn events_of(table: &mut LockTable, command: Command<'_>, now: Instant) -> Vec<Event> {
    let mut events = Vec::new();
    table.apply(command, now, &mut |event| events.push(event));
    events
}

fn with_keys(numbers: &[u8], then: impl FnOnce(&[&[u8]])) {
    let keys: Vec<Vec<u8>> = numbers.iter().map(|number| key(*number)).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    then(&keys);
}

proptest! {
    #[test]
    fn table_and_replicas_do_what_the_model_does(ops in prop::collection::vec(any_op(), 1..150)) {
        let mut harness = Harness::new();
        for op in &ops {
            harness.step(op);
        }
    }
}
