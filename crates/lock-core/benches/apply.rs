//! What one command costs, and what the state as a whole costs.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ticketing_lock_core::{Command, Event, Instant, LockTable, Owner, SessionId, TableLimits};

const SESSION_COUNT: u64 = 64;
const LIMITS: TableLimits = TableLimits { key_count_max: 1 << 21, waiters_per_key_max: 1_024 };

/// Keys of 32 bytes, as many as there are numbers below `count`.
fn keys(count: u64) -> Vec<[u8; 32]> {
    let key = |number: u64| {
        let mut key = *b"order-0000000000-of-some-account";
        let mut rest = number;
        for digit in key[6..16].iter_mut().rev() {
            *digit += (rest % 10) as u8;
            rest /= 10;
        }
        key
    };
    (0..count).map(key).collect()
}

fn owner(request_id: u64) -> Owner {
    Owner { session: SessionId::new((request_id % SESSION_COUNT) as u32, 1), request_id }
}

/// Acquires and gives the token, or 0 when it waits.
fn acquire(table: &mut LockTable, request_id: u64, wait_seconds: u8, key: &[u8]) -> u64 {
    let mut granted = 0;
    let command = Command::Acquire {
        owner: owner(request_id),
        wait_seconds,
        lease_seconds: 30,
        keys: &[key],
    };
    table.apply(command, Instant::from_nanos(request_id), &mut |event| {
        if let Event::Granted { token, .. } = event {
            granted = token;
        }
    });
    granted
}

/// Releases and gives the token of whoever is next.
fn release(table: &mut LockTable, request_id: u64, token: u64, key: &[u8]) -> u64 {
    let mut granted = 0;
    let command = Command::Release { owner: owner(request_id), token, keys: &[key] };
    table.apply(command, Instant::from_nanos(request_id), &mut |event| {
        if let Event::Granted { token, .. } = event {
            granted = token;
        }
    });
    granted
}

/// A table that holds the first so many keys, and the tokens by key.
fn table_with(keys: &[[u8; 32]], held_count: usize) -> (LockTable, Vec<u64>) {
    let mut table = LockTable::new([7; 16], LIMITS);
    let mut tokens = vec![0; keys.len()];
    for (number, key) in keys[..held_count].iter().enumerate() {
        tokens[number] = acquire(&mut table, number as u64, 0, key);
    }
    (table, tokens)
}

/// Acquire one, release the one held longest.
fn uncontended(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("acquire and release");
    group.throughput(Throughput::Elements(2));
    for held_count in [1_000, 10_000, 1_000_000_usize] {
        let keys = keys(held_count as u64 * 5 / 4);
        let (mut table, mut tokens) = table_with(&keys, held_count);
        let mut number = held_count as u64;
        let mut at = held_count % keys.len();
        let mut oldest = 0;
        group.bench_function(format!("{held_count} held"), |bencher| {
            bencher.iter(|| {
                number += 1;
                tokens[at] = acquire(&mut table, number, 0, &keys[at]);
                release(&mut table, number, tokens[oldest], &keys[oldest]);
                at = if at + 1 == keys.len() { 0 } else { at + 1 };
                oldest = if oldest + 1 == keys.len() { 0 } else { oldest + 1 };
            });
        });
        assert_eq!(table.grant_count(), held_count);
    }
}

/// 64 want one key: release hands it on, and who had it queues again.
fn hand_off(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hand-off");
    group.throughput(Throughput::Elements(2));
    let key = keys(1)[0];
    let mut table = LockTable::new([7; 16], LIMITS);
    let mut token = acquire(&mut table, 0, 60, &key);
    for number in 1..64 {
        acquire(&mut table, number, 60, &key);
    }
    let mut number = 64;
    group.bench_function("64 want one key", |bencher| {
        bencher.iter(|| {
            number += 1;
            token = release(&mut table, number, token, &key);
            acquire(&mut table, number, 60, &key)
        });
    });
    assert_eq!(table.waiter_count(), 63);
}

/// Acquire one; the lease of the oldest ends.
fn expiry(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("acquire and expire");
    group.throughput(Throughput::Elements(2));
    let keys = keys(10_000);
    let (mut table, _) = table_with(&keys, 8_000);
    let mut number = 8_000;
    group.bench_function("8000 held", |bencher| {
        bencher.iter(|| {
            acquire(&mut table, number, 0, &keys[number as usize % keys.len()]);
            number += 1;
            let now = Instant::from_nanos(30_000_000_000 + number - 8_000);
            table.apply_due(now, 1, &mut |_| {})
        });
    });
}

/// A set of four, released as a set.
fn sets(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("set of 4");
    group.throughput(Throughput::Elements(2));
    let keys = keys(4_000);
    let (mut table, _) = table_with(&keys, 0);
    let mut number = 0;
    group.bench_function("acquire and release", |bencher| {
        bencher.iter(|| {
            number += 1;
            let first = number as usize * 4 % keys.len();
            let set: [&[u8]; 4] = std::array::from_fn(|at| &keys[first + at][..]);
            let (owner, now) = (owner(number), Instant::from_nanos(number));
            let acquire =
                Command::Acquire { owner, wait_seconds: 0, lease_seconds: 30, keys: &set };
            table.apply(acquire, now, &mut |event| {
                black_box(event);
            });
            let token = table.token_last();
            table.apply(Command::Release { owner, token, keys: &set }, now, &mut |event| {
                black_box(event);
            });
        });
    });
}

/// Everything at once, for a million held keys.
fn whole_state(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("1000000 held");
    group.sample_size(10);
    let (mut table, _) = table_with(&keys(1_000_000), 1_000_000);
    let mut out = Vec::new();
    group.bench_function("encode snapshot", |bencher| {
        bencher.iter(|| {
            out.clear();
            table.encode_snapshot(&mut out);
        });
    });
    group.bench_function("decode snapshot", |bencher| {
        bencher.iter(|| LockTable::decode_snapshot(&out, [8; 16], Instant::from_nanos(0)));
    });
    group.bench_function("digest", |bencher| bencher.iter(|| table.digest()));
    group.bench_function("one slice of 4096 requests", |bencher| {
        bencher.iter(|| {
            out.clear();
            if !table.continue_snapshot(4_096, &mut out) {
                table.begin_snapshot();
            }
        });
    });
}

criterion_group!(benches, uncontended, hand_off, expiry, sets, whole_state);
criterion_main!(benches);
