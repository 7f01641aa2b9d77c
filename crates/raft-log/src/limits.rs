//! Bounds of the replicated log, with their units.

/// Slots of the largest cluster.
pub const SLOT_COUNT_MAX: usize = 5;

/// What one [`crate::RaftLog::tick`] stands for. The owner calls it this often.
pub const TICK_MILLISECONDS: u64 = 10;
/// A leader lets every peer hear from it at least this often.
pub const HEARTBEAT_TICKS: usize = 5;
/// Shortest election timeout; also how long a leader stays one without hearing from a majority. Ten
/// heartbeats, so that a machine which runs its processes late loses no leader by it.
pub const ELECTION_TICKS_MIN: usize = 50;
/// Election timeouts are below this. The first of the followers to notice decides how long service
/// is gone, and the last one has to have noticed when it asks: a wide range delays both.
pub const ELECTION_TICKS_MAX: usize = 70;
const _: () = assert!(HEARTBEAT_TICKS * 4 < ELECTION_TICKS_MIN);

/// A follower whose link to the leader was closed asks for votes after at most this long. Whenever
/// asking leads to nothing, it asks again after from half to twice this, so that two of them rarely
/// collide again.
pub const CAMPAIGN_PAUSE_TICKS_MAX: usize = 12;
/// How often it asks again before it falls back to its election timeout.
pub const CAMPAIGN_COUNT_MAX: usize = 6;

/// A peer that answered within this counts as living.
pub const HEARD_TICKS_MAX: u64 = 100;
const _: () = assert!(HEARD_TICKS_MAX > ELECTION_TICKS_MAX as u64);

/// Largest payload of one entry. A larger proposal is refused.
pub const ENTRY_SIZE_BYTES_MAX: usize = 1 << 20;
/// Entries of one append message take at most this much, or there is only one.
pub const APPEND_SIZE_BYTES_MAX: u64 = 1 << 20;
/// Append messages on their way to one peer before the leader waits for its answers. A peer that
/// catches up after a snapshot is sent that many full ones at once.
pub const APPENDS_IN_FLIGHT_MAX: usize = 8;
/// Payload of all entries that a leader has appended and not yet seen committed. Proposals beyond
/// it are refused.
pub const UNCOMMITTED_SIZE_BYTES_MAX: u64 = 16 << 20;
const _: () = assert!(UNCOMMITTED_SIZE_BYTES_MAX >= 2 * ENTRY_SIZE_BYTES_MAX as u64);

/// What an entry costs in memory on top of its payload.
pub const ENTRY_OVERHEAD_SIZE_BYTES: usize = 128;
/// Applied entries are kept up to this size, for peers that are a little behind.
pub const LOG_KEPT_SIZE_BYTES: usize = 2 << 20;
/// Applied entries are kept up to this size for a peer that is known to need them. A peer further
/// behind gets a snapshot.
pub const LOG_SIZE_BYTES_MAX: usize = 64 << 20;
/// And up to this size while a peer is brought in by a snapshot: everything that is proposed from
/// its beginning until the peer has read it and caught up. With less, a busy cluster would send one
/// snapshot after the other.
pub const LOG_FOR_SNAPSHOT_SIZE_BYTES_MAX: usize = 512 << 20;
const _: () = assert!(LOG_FOR_SNAPSHOT_SIZE_BYTES_MAX > LOG_SIZE_BYTES_MAX);
/// Entries that are dropped in one go, so that giving up a long log keeps nobody waiting. More than
/// one message appends.
pub const DROPPED_ENTRIES_MAX: usize = 16_384;
const _: () =
    assert!(DROPPED_ENTRIES_MAX >= 2 * APPEND_SIZE_BYTES_MAX as usize / ENTRY_OVERHEAD_SIZE_BYTES);

/// Terms and indices from peers are below this, so that no sum with them overflows.
pub const TERM_OR_INDEX_LIMIT: u64 = 1 << 56;
