//! Steady load allocates nothing, and a held key costs what it may: counted by the allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use ticketing_lock_core::{Command, Event, Instant, LockTable, Owner, SessionId, TableLimits};

/// Counts what the current thread does, so that tests do not disturb each other.
struct Counting;

thread_local! {
    static ALLOCATION_COUNT: Cell<u64> = const { Cell::new(0) };
    static LIVE_BYTES: Cell<i64> = const { Cell::new(0) };
}

fn count(allocations: u64, bytes: i64) {
    ALLOCATION_COUNT.set(ALLOCATION_COUNT.get() + allocations);
    LIVE_BYTES.set(LIVE_BYTES.get() + bytes);
}

// SAFETY: every call goes on to the system allocator unchanged; counting touches only
// const-initialised thread locals without destructors, which never allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, -(layout.size() as i64));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, size as i64 - layout.size() as i64);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The goal for the whole server is 150. The pools grow by doubling, so that a part of this is
/// memory taken and not yet touched.
const BYTES_PER_HELD_KEY_MAX: i64 = 135;
const HELD_KEY_COUNT: u64 = 1_000_000;

const KEY_COUNT: u64 = 512;
const SESSION_COUNT: u32 = 32;
const LIMITS: TableLimits = TableLimits { key_count_max: 1 << 21, waiters_per_key_max: 8 };

/// A key of 32 bytes.
fn key_of_32(number: u64) -> [u8; 32] {
    let mut key = *b"order-0000000000-of-some-account";
    let mut rest = number;
    for digit in key[6..16].iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// A plain generator; the run is the same every time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Requests at random and remembers what was granted and queued, in memory taken beforehand.
struct Load {
    table: LockTable,
    random: Random,
    now_nanos: u64,
    request_id: u64,
    keys: Vec<Vec<u8>>,
    /// Session, token and the range of keys it holds.
    grants: Vec<(SessionId, u64, usize, usize)>,
    /// What each recent request asked for, by request id.
    asked: Vec<(usize, usize)>,
    seen: Seen,
}

/// How often each thing happened, so that a workload that misses one cannot pass.
#[derive(Debug, Default)]
struct Seen {
    granted: u64,
    sets_granted: u64,
    queued: u64,
    timed_out: u64,
    expired: u64,
    dropped: u64,
    released: u64,
    not_held: u64,
    refused: u64,
}

impl Load {
    fn new() -> Self {
        let mut keys: Vec<Vec<u8>> = (0..KEY_COUNT)
            .map(|number| {
                let mut key = format!("{number:04}").into_bytes();
                key.resize(4 + (number as usize * 7) % 125, b'.');
                key
            })
            .collect();
        keys.sort();
        Self {
            table: LockTable::new([3; 16], LIMITS),
            random: Random(0x1234_5678_9abc_def1),
            now_nanos: 0,
            request_id: 0,
            keys,
            grants: Vec::with_capacity(1 << 16),
            asked: vec![(0, 0); 1 << 16],
            seen: Seen::default(),
        }
    }

    fn apply(&mut self, command: Command<'_>) {
        let now = Instant::from_nanos(self.now_nanos);
        let (table, grants, asked, seen) =
            (&mut self.table, &mut self.grants, &self.asked, &mut self.seen);
        table.apply(command, now, &mut |event| note(event, grants, asked, seen));
    }

    fn acquire(&mut self, first: usize, count: usize, wait_seconds: u8) {
        self.request_id += 1;
        let slot = self.request_id as usize % self.asked.len();
        self.asked[slot] = (first, count);
        let index = self.random.below(u64::from(SESSION_COUNT)) as u32;
        let owner = Owner { session: SessionId::new(index, 1), request_id: self.request_id };
        let lease_seconds = 1 + self.random.below(20) as u8;
        let mut keys: [&[u8]; 16] = [&[]; 16];
        let all = std::mem::take(&mut self.keys);
        for (slot, key) in keys.iter_mut().zip(&all[first..first + count]) {
            *slot = key;
        }
        let keys = &keys[..count];
        self.apply(Command::Acquire { owner, wait_seconds, lease_seconds, keys });
        self.keys = all;
    }

    fn release(&mut self) {
        if self.grants.is_empty() {
            return;
        }
        let at = self.random.below(self.grants.len() as u64) as usize;
        let (session, token, first, count) = self.grants.swap_remove(at);
        let owner = Owner { session, request_id: 0 };
        let mut keys: [&[u8]; 16] = [&[]; 16];
        let all = std::mem::take(&mut self.keys);
        for (slot, key) in keys.iter_mut().zip(&all[first..first + count]) {
            *slot = key;
        }
        self.apply(Command::Release { owner, token, keys: &keys[..count] });
        self.keys = all;
    }

    /// More at once than the steady load ever has.
    fn flood(&mut self) {
        for wait_seconds in [0, 60, 60, 60] {
            for first in 0..KEY_COUNT as usize {
                self.acquire(first, 1, wait_seconds);
            }
            for first in 0..KEY_COUNT as usize - 16 {
                self.acquire(first, 2 + first % 15, 60);
            }
        }
        // Who is handed a key holds it for a lease of its own.
        while self.table.key_count() > 0 {
            self.pass(400);
            self.grants.clear();
        }
    }

    fn pass(&mut self, seconds: u64) {
        self.now_nanos += seconds * 1_000_000_000;
        let now = Instant::from_nanos(self.now_nanos);
        let (table, grants, asked, seen) =
            (&mut self.table, &mut self.grants, &self.asked, &mut self.seen);
        table.apply_due(now, usize::MAX, &mut |event| note(event, grants, asked, seen));
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..40 => {
                let first = self.random.below(KEY_COUNT) as usize;
                let wait_seconds = self.random.below(6) as u8;
                self.acquire(first, 1, wait_seconds);
            }
            40..48 => {
                let count = 2 + self.random.below(15) as usize;
                let first = self.random.below(KEY_COUNT - count as u64) as usize;
                let wait_seconds = self.random.below(4) as u8;
                self.acquire(first, count, wait_seconds);
            }
            48..96 => self.release(),
            96 => {
                let index = self.random.below(u64::from(SESSION_COUNT)) as u32;
                self.apply(Command::CloseSession { session: SessionId::new(index, 1) });
            }
            97 => {
                if let Some((session, token, ..)) = self.grants.pop() {
                    self.apply(Command::Reclaim { session, token });
                }
            }
            98 => {
                let last = self.grants.len().min(4);
                self.grants.truncate(self.grants.len() - last);
                self.pass(self.request_id % 2);
            }
            _ => self.now_nanos += 50_000_000,
        }
        assert!(self.table.next_deadline().is_some() || self.table.grant_count() == 0);
    }
}

fn note(
    event: Event,
    grants: &mut Vec<(SessionId, u64, usize, usize)>,
    asked: &[(usize, usize)],
    seen: &mut Seen,
) {
    match event {
        Event::Granted { owner, token, key_count } => {
            let (first, count) = asked[owner.request_id as usize % asked.len()];
            assert_eq!(usize::from(key_count), count);
            assert!(grants.len() < grants.capacity());
            grants.push((owner.session, token, first, count));
            seen.granted += 1;
            seen.sets_granted += u64::from(key_count > 1);
        }
        Event::Queued { .. } => seen.queued += 1,
        Event::TimedOut { .. } => seen.timed_out += 1,
        Event::Expired { .. } => seen.expired += 1,
        Event::WaiterDropped { .. } => seen.dropped += 1,
        Event::Released { .. } => seen.released += 1,
        Event::NotHeld { .. } => seen.not_held += 1,
        Event::Refused { .. } => seen.refused += 1,
        Event::GroupMismatch { .. } => {}
    }
}

#[test]
fn steady_mixed_load_allocates_nothing() {
    let mut load = Load::new();
    load.flood();
    load.seen = Seen::default();
    let before = ALLOCATION_COUNT.get();
    for _ in 0..200_000 {
        load.step();
    }
    assert_eq!(ALLOCATION_COUNT.get() - before, 0);
    let Seen { granted, sets_granted, queued, timed_out, expired, dropped, released, .. } =
        load.seen;
    let counts = [granted, sets_granted, queued, timed_out, expired, dropped, released];
    assert!(counts.iter().all(|count| *count > 1_000), "{:?}", load.seen);
    load.table.check_invariants();
}

#[test]
fn a_held_key_of_32_bytes_is_cheap_and_leaves_its_memory() {
    let fill = |table: &mut LockTable, from: u64| {
        for number in from..from + HELD_KEY_COUNT {
            let session = SessionId::new(number as u32 % 64, 1);
            let key = key_of_32(number);
            let command = Command::Acquire {
                owner: Owner { session, request_id: number },
                wait_seconds: 0,
                lease_seconds: 30,
                keys: &[&key],
            };
            table.apply(command, Instant::from_nanos(number), &mut |event| {
                assert!(matches!(event, Event::Granted { .. }));
            });
        }
    };
    let before = LIVE_BYTES.get();
    let mut table = LockTable::new([3; 16], LIMITS);
    fill(&mut table, 0);
    let bytes = LIVE_BYTES.get() - before;
    println!("{} bytes per held key", bytes as f64 / HELD_KEY_COUNT as f64);
    assert!(bytes <= BYTES_PER_HELD_KEY_MAX * HELD_KEY_COUNT as i64);

    // After they are gone a million others find the same memory.
    let later = Instant::from_nanos(60_000_000_000);
    let ended = table.apply_due(later, usize::MAX, &mut |_| {});
    assert_eq!(ended as u64, HELD_KEY_COUNT);
    let allocations = ALLOCATION_COUNT.get();
    fill(&mut table, HELD_KEY_COUNT);
    assert_eq!(ALLOCATION_COUNT.get() - allocations, 0);
    assert_eq!(table.key_count() as u64, HELD_KEY_COUNT);
}
