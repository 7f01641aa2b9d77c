//! Snapshots: the bytes, what they must survive, and what commands of any content must.

use proptest::prelude::*;
use ticketing_lock_core::{
    Command, Event, Instant, LockTable, Owner, SessionId, SnapshotFault, TableLimits,
};

const LIMITS: TableLimits = TableLimits { key_count_max: 1_000, waiters_per_key_max: 100 };
const NOW: Instant = Instant::from_nanos(7);
/// Version, two limits, token, arrival, history, two counts.
const HEAD_SIZE_BYTES: usize = 44;

fn acquire(table: &mut LockTable, request_id: u64, wait_seconds: u8, keys: &[&[u8]]) {
    let owner = Owner { session: SessionId::new(2, 1), request_id };
    let command = Command::Acquire { owner, wait_seconds, lease_seconds: 30, keys };
    table.apply(command, NOW, &mut |_| {});
}

/// One single and one set hold, and one of each waits.
fn small_table() -> LockTable {
    let mut table = LockTable::new([1; 16], LIMITS);
    acquire(&mut table, 1, 0, &[b"a"]);
    acquire(&mut table, 2, 5, &[b"b", b"c"]);
    acquire(&mut table, 3, 5, &[b"a"]);
    acquire(&mut table, 4, 6, &[b"a", b"b", b"d"]);
    table
}

fn encoded(table: &LockTable) -> Vec<u8> {
    let mut bytes = Vec::new();
    table.encode_snapshot(&mut bytes);
    bytes
}

fn decode(bytes: &[u8]) -> Result<LockTable, SnapshotFault> {
    LockTable::decode_snapshot(bytes, [2; 16], NOW)
}

/// A record as the format describes it.
fn record(number: u64, wait_seconds: u8, keys: &[&[u8]]) -> Vec<u8> {
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.extend_from_slice(&SessionId::new(2, 1).get().to_be_bytes());
    bytes.extend_from_slice(&9_u64.to_be_bytes());
    bytes.extend_from_slice(&[wait_seconds, 30, keys.len() as u8]);
    for key in keys {
        bytes.push(key.len() as u8);
        bytes.extend_from_slice(key);
    }
    bytes
}

/// Tokens and arrivals up to 100, and these records.
fn snapshot(grants: &[Vec<u8>], waiters: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [1_u32, 1_000, 100] {
        bytes.extend_from_slice(&word.to_be_bytes());
    }
    for word in [100_u64, 100, 0] {
        bytes.extend_from_slice(&word.to_be_bytes());
    }
    bytes.extend_from_slice(&(grants.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&(waiters.len() as u32).to_be_bytes());
    assert_eq!(bytes.len(), HEAD_SIZE_BYTES);
    bytes.extend(grants.iter().chain(waiters).flatten());
    bytes
}

#[test]
fn the_bytes_are_as_documented() {
    let table = small_table();
    let bytes = encoded(&table);
    let mut head = Vec::new();
    for word in [1_u32, 1_000, 100] {
        head.extend_from_slice(&word.to_be_bytes());
    }
    for word in [2_u64, 2, table.history()] {
        head.extend_from_slice(&word.to_be_bytes());
    }
    for word in [2_u32, 2] {
        head.extend_from_slice(&word.to_be_bytes());
    }
    assert_eq!(bytes[..HEAD_SIZE_BYTES], head);
    let single = [
        &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1][..],
        &[0, 30, 1, 1, b'a'],
    ];
    assert_eq!(bytes[HEAD_SIZE_BYTES..][..29], single.concat());
    let set = [
        &[0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 4][..],
        &[6, 30, 3, 1, b'a', 1, b'b', 1, b'd'],
    ];
    assert!(bytes.ends_with(&set.concat()));
}

#[test]
fn the_digest_is_blake3_over_the_bytes() {
    let table = small_table();
    assert_eq!(table.digest(), *blake3::hash(&encoded(&table)).as_bytes());
}

#[test]
fn a_restored_table_goes_on_where_the_other_was() {
    let mut original = small_table();
    let mut restored = decode(&encoded(&original)).expect("valid");
    restored.check_invariants();
    let owner = Owner { session: SessionId::new(3, 0), request_id: 1 };
    for command in [
        Command::Release { owner, token: 1, keys: &[b"a"] },
        Command::Reclaim { session: SessionId::new(2, 1), token: 2 },
        Command::Expire { token: 3, key: b"a" },
        Command::CloseSession { session: SessionId::new(2, 1) },
    ] {
        let mut events = [Vec::new(), Vec::new()];
        original.apply(command, NOW, &mut |event| events[0].push(event));
        restored.apply(command, NOW, &mut |event| events[1].push(event));
        assert_eq!(events[0], events[1]);
        assert_eq!(original.digest(), restored.digest());
    }
    assert_eq!(original.token_last(), 4);
}

#[test]
fn leases_and_waits_begin_anew() {
    let original = small_table();
    let later = Instant::from_nanos(1_000_000_000_000);
    let restored = LockTable::decode_snapshot(&encoded(&original), [2; 16], later).expect("valid");
    assert_eq!(restored.next_deadline(), Some(later.after_seconds(5)));
}

#[test]
fn every_contradiction_is_found() {
    let a: &[u8] = b"a";
    let b: &[u8] = b"b";
    let long = [b'k'; 129];
    let cases: &[(&str, Vec<u8>, SnapshotFault)] = &[
        ("nothing", Vec::new(), SnapshotFault::Size),
        ("half a head", snapshot(&[], &[])[..43].to_vec(), SnapshotFault::Size),
        ("no record", snapshot(&[Vec::new()], &[]), SnapshotFault::Size),
        ("one too many", [snapshot(&[], &[]), record(1, 0, &[a])].concat(), SnapshotFault::Size),
        ("a waiter as grant", snapshot(&[record(1, 1, &[a])], &[]), SnapshotFault::Size),
        ("token 0", snapshot(&[record(0, 0, &[a])], &[]), SnapshotFault::OutOfRange),
        ("token 101", snapshot(&[record(101, 0, &[a])], &[]), SnapshotFault::OutOfRange),
        ("no key", snapshot(&[record(1, 0, &[b"", a])], &[]), SnapshotFault::OutOfRange),
        ("long key", snapshot(&[record(1, 0, &[&long])], &[]), SnapshotFault::OutOfRange),
        ("order", snapshot(&[record(1, 0, &[b, a])], &[]), SnapshotFault::OutOfRange),
        (
            "one token twice",
            snapshot(&[record(1, 0, &[a]), record(1, 0, &[b])], &[]),
            SnapshotFault::Repeated,
        ),
        (
            "one arrival twice",
            snapshot(&[record(1, 0, &[a])], &[record(4, 1, &[a]), record(4, 1, &[a])]),
            SnapshotFault::Repeated,
        ),
        (
            "one key twice",
            snapshot(&[record(1, 0, &[a]), record(2, 0, &[a, b])], &[]),
            SnapshotFault::HeldTwice,
        ),
        ("nobody holds", snapshot(&[], &[record(1, 1, &[a])]), SnapshotFault::WaitsForNothing),
        (
            "nobody holds all",
            snapshot(&[record(1, 0, &[a])], &[record(1, 1, &[a, b]), record(2, 1, &[b"c"])]),
            SnapshotFault::WaitsForNothing,
        ),
    ];
    for (name, bytes, fault) in cases {
        assert_eq!(decode(bytes).err(), Some(*fault), "{name}");
    }
    let mut other = snapshot(&[], &[]);
    other[3] = 2;
    assert_eq!(decode(&other).err(), Some(SnapshotFault::Version { found: 2 }));
    // A count that only a lie can explain takes no memory.
    let mut lie = snapshot(&[], &[]);
    lie[36..44].fill(0xff);
    assert_eq!(decode(&lie).err(), Some(SnapshotFault::Size));
}

#[test]
fn records_may_come_in_any_order() {
    let grants = [record(9, 0, &[b"a"]), record(3, 0, &[b"b"])];
    let waiters = [record(8, 1, &[b"a"]), record(2, 1, &[b"a", b"b"])];
    let table = decode(&snapshot(&grants, &waiters)).expect("valid");
    let sorted = |records: &[Vec<u8>; 2]| [records[1].clone(), records[0].clone()];
    assert_eq!(encoded(&table), snapshot(&sorted(&grants), &sorted(&waiters)));
}

#[test]
fn waiters_survive_the_end_of_all_tokens() {
    let mut table = small_table();
    table.apply(Command::RaiseTokenFloor { floor: u64::MAX }, NOW, &mut |_| {});
    table.apply(Command::Expire { token: 1, key: b"a" }, NOW, &mut |event| {
        assert_eq!(event, Event::Expired { token: 1 });
    });
    let restored = decode(&encoded(&table)).expect("valid");
    restored.check_invariants();
    assert_eq!(restored.waiter_count(), 2);
}

#[test]
fn a_snapshot_in_slices_is_of_the_moment_it_began() {
    let mut table = small_table();
    let digest = table.digest();
    table.begin_snapshot();
    let mut bytes = Vec::new();
    assert!(table.continue_snapshot(1, &mut bytes));
    acquire(&mut table, 5, 0, &[b"new"]);
    let owner = Owner { session: SessionId::new(3, 0), request_id: 1 };
    table.apply(Command::Release { owner, token: 1, keys: &[b"a"] }, NOW, &mut |_| {});
    table.apply(Command::Expire { token: 2, key: b"c" }, NOW, &mut |_| {});
    while table.continue_snapshot(1, &mut bytes) {
        acquire(&mut table, 6, 0, &[b"newer"]);
    }
    assert_eq!(decode(&bytes).expect("valid").digest(), digest);
    // Nothing is on its way any more.
    assert!(!table.continue_snapshot(1, &mut bytes));
    table.begin_snapshot();
    table.abandon_snapshot();
    let size = bytes.len();
    assert!(!table.continue_snapshot(1, &mut bytes));
    assert_eq!(bytes.len(), size);
}

fn any_owner() -> impl Strategy<Value = Owner> {
    let session = prop_oneof![3 => 0..4_u64, 1 => any::<u64>()];
    (session, any::<u64>()).prop_map(|(session, request_id)| Owner {
        session: SessionId::from_u64(session),
        request_id,
    })
}

fn any_keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let key = prop_oneof![
        8 => prop::collection::vec(0..3_u8, 1..3),
        1 => prop::collection::vec(any::<u8>(), 0..140),
    ];
    prop_oneof![
        8 => prop::collection::btree_set(key.clone(), 1..4)
            .prop_map(|keys| keys.into_iter().collect::<Vec<_>>()),
        1 => prop::collection::vec(key, 0..20),
    ]
}

fn any_number() -> impl Strategy<Value = u64> {
    prop_oneof![10 => 0..40_u64, 1 => any::<u64>(), 1 => Just(u64::MAX)]
}

/// The command's kind, and values for its fields.
type Raw = (u8, Owner, u8, u8, Vec<Vec<u8>>, u64);

fn apply_raw(table: &mut LockTable, raw: &Raw, now: Instant) -> Vec<Event> {
    let (kind, owner, wait_seconds, lease_seconds, keys, number) = raw;
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let (owner, number) = (*owner, *number);
    let command = match kind {
        0..8 => Command::Acquire {
            owner,
            wait_seconds: *wait_seconds,
            lease_seconds: *lease_seconds,
            keys: &keys,
        },
        8..11 => Command::Release { owner, token: number, keys: &keys },
        11 => Command::Expire { token: number, key: keys.first().copied().unwrap_or_default() },
        12 => Command::TimeOut { arrival: number },
        13 => Command::Reclaim { session: owner.session, token: number },
        14 => Command::CloseSession { session: owner.session },
        15 => Command::RaiseTokenFloor { floor: number },
        16 => Command::ClearWaiters,
        _ => Command::Configure {
            limits: TableLimits {
                key_count_max: number as u32,
                waiters_per_key_max: (number >> 32) as u32 ^ number as u32,
            },
        },
    };
    let mut events = Vec::new();
    table.apply(command, now, &mut |event| events.push(event));
    events
}

proptest! {
    #[test]
    fn any_command_at_any_time_is_taken(
        commands in prop::collection::vec(
            (
                (0..18_u8, any_owner(), 0..4_u8, any::<u8>(), any_keys(), any_number()),
                prop_oneof![0..9_000_000_000_u64, any::<u64>()],
            ),
            1..80,
        ),
    ) {
        let mut first = LockTable::new([1; 16], LIMITS);
        let mut second = LockTable::new([9; 16], LIMITS);
        for (raw, nanos) in &commands {
            // The replica's clock shows something else.
            let events = apply_raw(&mut first, raw, Instant::from_nanos(*nanos));
            let same = apply_raw(&mut second, raw, Instant::from_nanos(nanos.rotate_left(7)));
            prop_assert_eq!(events, same);
            first.check_invariants();
            prop_assert_eq!(first.digest(), second.digest());
        }
        let bytes = encoded(&first);
        let restored = decode(&bytes).expect("valid");
        restored.check_invariants();
        prop_assert_eq!(encoded(&restored), bytes);
    }

    #[test]
    fn any_bytes_give_a_fault_or_a_sound_table(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in prop::option::weighted(0.3, any::<prop::sample::Index>()),
        extra in prop::collection::vec(any::<u8>(), 0..3),
    ) {
        let mut bytes = encoded(&small_table());
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        bytes.extend(extra);
        if let Ok(table) = decode(&bytes) {
            table.check_invariants();
            prop_assert_eq!(encoded(&table).len(), bytes.len());
        }
    }
}
