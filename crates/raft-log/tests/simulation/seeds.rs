//! Many seeds at once, or the one that `SEED` names.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs the seeds below `COUNT`, or below `count` without that, on all processors.
pub(crate) fn run(count: u64, simulate: impl Fn(u64) + Sync) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("SEED") {
        return simulate(seed);
    }
    let count = number("COUNT").unwrap_or(count);
    let (next, failed) = (AtomicU64::new(0), Mutex::new(None));
    let simulate_all = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= count {
                return;
            }
            if catch_unwind(AssertUnwindSafe(|| simulate(seed))).is_err() {
                // The others stop after the seed that they are at.
                next.store(count, Ordering::Relaxed);
                *failed.lock().expect("no panic while it is held") = Some(seed);
            }
        }
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..processors {
            scope.spawn(simulate_all);
        }
    });
    if let Some(seed) = failed.into_inner().expect("no panic while it was held") {
        panic!("seed {seed} failed; SEED={seed} replays it");
    }
}
