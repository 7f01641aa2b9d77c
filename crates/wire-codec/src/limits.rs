//! Every size and bound of the protocol, with its unit. Protocol, "Request frames".

/// Opcode u8 and body length u16.
pub const HEAD_SIZE_BYTES: usize = 3;
/// Shortest key.
pub const KEY_SIZE_BYTES_MIN: usize = 1;
/// Longest key.
pub const KEY_SIZE_BYTES_MAX: usize = 128;
/// Fewest keys of a set; one key is not a set.
pub const SET_KEY_COUNT_MIN: usize = 2;
/// Most keys of a set.
pub const SET_KEY_COUNT_MAX: usize = 16;
/// Longest wait. 0 is one immediate try.
pub const WAIT_SECONDS_MAX: u8 = 255;
/// Shortest lease.
pub const LEASE_SECONDS_MIN: u8 = 1;
/// Longest lease.
pub const LEASE_SECONDS_MAX: u8 = 250;

/// `A` before its key: request id u64, wait u8, lease u8.
pub const ACQUIRE_FIXED_SIZE_BYTES: usize = 10;
/// `R` before its key: request id u64, token u64.
pub const RELEASE_FIXED_SIZE_BYTES: usize = 16;
/// `S` before its records: request id u64, wait u8, lease u8, count u8.
pub const ACQUIRE_SET_FIXED_SIZE_BYTES: usize = 11;
/// `G` before its records: request id u64, token u64, count u8.
pub const RELEASE_SET_FIXED_SIZE_BYTES: usize = 17;
/// The largest possible records of a set: sixteen of a length byte and 128 bytes.
pub const SET_RECORDS_SIZE_BYTES_MAX: usize = SET_KEY_COUNT_MAX * (1 + KEY_SIZE_BYTES_MAX);

/// Largest body of `A`. The smallest has no key at all: a bad value (`E` 1), not a broken frame.
pub const ACQUIRE_BODY_SIZE_BYTES_MAX: usize = ACQUIRE_FIXED_SIZE_BYTES + KEY_SIZE_BYTES_MAX;
/// Largest body of `R`.
pub const RELEASE_BODY_SIZE_BYTES_MAX: usize = RELEASE_FIXED_SIZE_BYTES + KEY_SIZE_BYTES_MAX;
/// Largest body of `S`.
pub const ACQUIRE_SET_BODY_SIZE_BYTES_MAX: usize =
    ACQUIRE_SET_FIXED_SIZE_BYTES + SET_RECORDS_SIZE_BYTES_MAX;
/// Largest body of `G`.
pub const RELEASE_SET_BODY_SIZE_BYTES_MAX: usize =
    RELEASE_SET_FIXED_SIZE_BYTES + SET_RECORDS_SIZE_BYTES_MAX;
/// Largest request frame, header included.
pub const REQUEST_SIZE_BYTES_MAX: usize = HEAD_SIZE_BYTES + RELEASE_SET_BODY_SIZE_BYTES_MAX;

/// Largest reply frame, header included: request id u64 and token u64.
pub const REPLY_SIZE_BYTES_MAX: usize = HEAD_SIZE_BYTES + 16;

/// Server hello.
pub const HELLO_SIZE_BYTES: usize = 28;
/// Fresh random bytes within the hello.
pub const NONCE_SIZE_BYTES: usize = 16;
/// Client proof.
pub const PROOF_SIZE_BYTES: usize = 32;
/// Identity fingerprint within the proof's message.
pub const FINGERPRINT_SIZE_BYTES: usize = 32;
/// Highest slot of a cluster of five.
pub const SLOT_MAX: u8 = 4;

const _: () = {
    // The figures of the protocol page.
    assert!(ACQUIRE_BODY_SIZE_BYTES_MAX == 138);
    assert!(RELEASE_BODY_SIZE_BYTES_MAX == 144);
    assert!(ACQUIRE_SET_BODY_SIZE_BYTES_MAX == 2_075);
    assert!(RELEASE_SET_BODY_SIZE_BYTES_MAX == 2_081);
};
