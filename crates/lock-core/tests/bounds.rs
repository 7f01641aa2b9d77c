//! Limits at their edges, and work that nobody may make expensive.

use ticketing_lock_core::{
    Command, Event, Instant, LockTable, Owner, RefusedReason, SessionId, TableLimits, limits,
};

const LIMITS: TableLimits = TableLimits { key_count_max: 1 << 20, waiters_per_key_max: 1 << 20 };
const NOW: Instant = Instant::from_nanos(0);
const SESSION: SessionId = SessionId::new(1, 1);

fn apply(table: &mut LockTable, command: Command<'_>) -> Vec<Event> {
    let mut events = Vec::new();
    table.apply(command, NOW, &mut |event| events.push(event));
    events
}

fn acquire(table: &mut LockTable, session: SessionId, keys: &[&[u8]]) -> Event {
    let owner = Owner { session, request_id: 1 };
    let command = Command::Acquire { owner, wait_seconds: 9, lease_seconds: 9, keys };
    let events = apply(table, command);
    assert_eq!(events.len(), 1);
    events[0]
}

fn is_malformed(event: Event) -> bool {
    matches!(event, Event::Refused { reason: RefusedReason::Malformed, .. })
}

#[test]
fn key_sizes() {
    let mut table = LockTable::new([1; 16], LIMITS);
    for size in 0..=limits::KEY_SIZE_BYTES_MAX + 1 {
        let key = vec![b'k'; size];
        let fits = (1..=limits::KEY_SIZE_BYTES_MAX).contains(&size);
        assert_eq!(is_malformed(acquire(&mut table, SESSION, &[&key])), !fits, "{size} bytes");
    }
    assert_eq!(table.key_count(), limits::KEY_SIZE_BYTES_MAX);
}

#[test]
fn key_counts() {
    let mut table = LockTable::new([1; 16], LIMITS);
    let names: Vec<[u8; 1]> = (0..=limits::SET_KEY_COUNT_MAX as u8).map(|name| [name]).collect();
    let keys: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
    assert!(is_malformed(acquire(&mut table, SESSION, &[])));
    assert!(is_malformed(acquire(&mut table, SESSION, &keys)));
    assert!(!is_malformed(acquire(&mut table, SESSION, &keys[1..])));
    assert_eq!((table.key_count(), table.grant_count()), (limits::SET_KEY_COUNT_MAX, 1));
}

#[test]
fn session_indices() {
    let mut table = LockTable::new([1; 16], LIMITS);
    let last = SessionId::new(limits::SESSION_COUNT_MAX - 1, u32::MAX);
    assert!(!is_malformed(acquire(&mut table, last, &[b"a"])));
    let beyond = SessionId::new(limits::SESSION_COUNT_MAX, 0);
    assert!(is_malformed(acquire(&mut table, beyond, &[b"b"])));
    assert!(is_malformed(acquire(&mut table, SessionId::from_u64(u64::MAX), &[b"b"])));
    for session in [beyond, SessionId::from_u64(u64::MAX)] {
        assert!(apply(&mut table, Command::CloseSession { session }).is_empty());
        assert!(apply(&mut table, Command::Reclaim { session, token: 1 }).is_empty());
    }
    assert_eq!(table.grant_count(), 1);
}

/// Were each search to begin anew from the newest grant, this would take five thousand million
/// steps.
#[test]
fn giving_back_many_grants_is_cheap_in_either_order() {
    const GRANT_COUNT: u64 = 100_000;
    let mut table = LockTable::new([1; 16], LIMITS);
    for is_upward in [true, false] {
        let floor = table.token_last();
        for number in 0..GRANT_COUNT {
            acquire(&mut table, SESSION, &[&number.to_be_bytes()]);
        }
        for number in 1..=GRANT_COUNT {
            let token = floor + if is_upward { number } else { GRANT_COUNT + 1 - number };
            apply(&mut table, Command::Reclaim { session: SESSION, token });
        }
        assert_eq!(table.grant_count(), 0);
    }
}

/// Were each removal to search the queue, this would take as many steps.
#[test]
fn leaving_a_long_queue_is_cheap() {
    const WAITER_COUNT: usize = 100_000;
    let mut table = LockTable::new([1; 16], LIMITS);
    let other = SessionId::new(2, 1);
    acquire(&mut table, other, &[b"a"]);
    for _ in 0..WAITER_COUNT {
        acquire(&mut table, SESSION, &[b"a"]);
    }
    acquire(&mut table, other, &[b"a"]);
    let dropped = apply(&mut table, Command::CloseSession { session: SESSION });
    assert_eq!(dropped.len(), WAITER_COUNT);
    assert_eq!(table.waiter_count(), 1);
}
