//! Any bytes as a snapshot of the lock table: refused by name, or a sound table with those bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ticketing_lock_core::{Instant, LockTable};

fuzz_target!(|bytes: &[u8]| {
    let Ok(table) = LockTable::decode_snapshot(bytes, [1; 16], Instant::from_nanos(0)) else {
        return;
    };
    table.check_invariants();
    let mut again = Vec::new();
    table.encode_snapshot(&mut again);
    let second = LockTable::decode_snapshot(&again, [2; 16], Instant::from_nanos(0));
    let second = second.expect("its own snapshot is valid");
    assert_eq!(second.digest(), table.digest());
});
