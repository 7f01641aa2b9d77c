//! Bounds of the core, with their units.

/// Longest key the table stores.
pub const KEY_SIZE_BYTES_MAX: usize = 128;
/// Most keys one grant may hold.
pub const SET_KEY_COUNT_MAX: usize = 16;
/// Longest lease.
pub const LEASE_SECONDS_MAX: u8 = 250;
/// Most sessions that may have waiters at once; a session's index is below it.
pub const SESSION_COUNT_MAX: u32 = 1 << 20;
/// Most requests in one key's queue, whatever the configured limit: the count has 24 bits, and one
/// place is the holder's.
pub const WAITERS_PER_KEY_MAX: u32 = (1 << 24) - 2;
/// Most places for requests in one table; a single takes one, a set of n takes n + 1. Indices have
/// 32 bits, and this many places are 64 GiB.
pub const NODE_COUNT_MAX: u32 = 1 << 30;
