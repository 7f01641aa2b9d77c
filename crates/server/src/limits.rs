//! Bounds of the server, with their units. What an operator may change is a default here.

use std::time::Duration;
use ticketing_wire_codec::limits::REQUEST_SIZE_BYTES_MAX;

/// Authenticated connections, unless `TICKETING_MAX_CONNECTIONS` says otherwise.
pub const CONNECTION_COUNT_DEFAULT: u32 = 16_384;
/// No setting may ask for more authenticated connections: the core's bound on sessions.
pub const CONNECTION_COUNT_MAX: u32 = ticketing_lock_core::limits::SESSION_COUNT_MAX;
/// Keys held or waited for at once, unless `TICKETING_MAX_KEYS` says otherwise.
pub const KEY_COUNT_DEFAULT: u32 = 4_000_000;
/// Requests waiting for one key, unless `TICKETING_MAX_WAITERS_PER_KEY` says otherwise.
pub const WAITERS_PER_KEY_DEFAULT: u32 = 65_536;
/// Unanswered requests of one connection, unless `TICKETING_MAX_IN_FLIGHT` says otherwise: the
/// pending limit of the official clients and a margin.
pub const IN_FLIGHT_COUNT_DEFAULT: u32 = 16_512;
/// Unanswered requests of all connections together, some hundred bytes each: what the other bounds
/// allow in product is more than any memory.
pub const IN_FLIGHT_TOTAL_COUNT_MAX: u64 = 4_000_000;
/// Most I/O threads a setting may ask for.
pub const THREAD_COUNT_MAX: u32 = 256;

/// Connections that have not authenticated yet. One more displaces the oldest of them, so a flood
/// of silent connections cannot keep others from authenticating.
pub const UNAUTHENTICATED_COUNT_MAX: usize = 1_024;
/// Connections that wait in the kernel until they are accepted.
pub const LISTEN_BACKLOG: i32 = 1_024;
/// Descriptors for everything but connections of clients: listeners, epoll, standard streams, state
/// files, and in a cluster the peer port.
pub const DESCRIPTOR_RESERVE_COUNT: u64 = 160;

/// TLS, hello, proof and verdict together. Protocol, "Connection".
pub const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(5);
/// From the first byte of a frame to its last. Protocol, "What ends a connection".
pub const FRAME_TIME_MAX: Duration = Duration::from_secs(3);
/// Unwritten replies without any progress. Protocol, "What ends a connection".
pub const DRAIN_TIME_MAX: Duration = Duration::from_secs(10);
/// After the last reply of a connection that the server ends: time for the peer to read it and
/// close. Closing at once could reset the connection under the replies.
pub const LINGER_TIME_MAX: Duration = Duration::from_secs(2);
/// Connections that linger at once; one more is closed at once.
pub const LINGER_COUNT_MAX: usize = 256;
/// Bytes thrown away while lingering before the connection is reset after all.
pub const LINGER_SIZE_BYTES_MAX: usize = 1024 * 1024;
/// From a stop signal to exit, whatever clients do.
pub const SHUTDOWN_TIME_MAX: Duration = Duration::from_secs(4);
/// Bytes of the log that wait to be written; lines beyond them are dropped and counted. As many may
/// be in the write that is under way.
pub const LOG_SIZE_BYTES_MAX: usize = 128 * 1024;
/// For what waits of the log when the process ends: whoever reads it may hang.
pub const LOG_FLUSH_TIME_MAX: Duration = Duration::from_millis(750);
/// Pause after a failed write to the state directory.
pub const DISK_RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Pause after a failed accept (out of descriptors, usually), so that failing costs no CPU.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Pause after a failed accept for which a connection was given up: until that one is closed.
pub const MADE_ROOM_PAUSE: Duration = Duration::from_millis(1);

/// Between two warnings that clients or nodes can cause as often as they like.
pub const WARNING_PAUSE: Duration = Duration::from_secs(10);

/// Silence before the kernel probes whether the peer still exists.
pub const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
/// Time between two probes.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// Unanswered probes that end the connection.
pub const KEEPALIVE_PROBE_COUNT: u32 = 3;
/// Unacknowledged data or probes end the connection after this, so a vanished host's waiters leave
/// their queues within 30 s.
pub const PEER_SILENCE_TIME_MAX: Duration = Duration::from_secs(20);

/// What one read takes in. A few hundred requests: even when many connections send without end,
/// everybody gets a turn, and what the clock caused gets out, within milliseconds.
pub const READ_SIZE_BYTES: usize = 16 * 1024;
/// Reads of one connection before others get their turn. The second usually finds nothing.
pub const READS_PER_POLL_MAX: usize = 2;
/// Unwritten reply bytes of one connection beyond which nothing more is read from it.
pub const UNWRITTEN_SIZE_BYTES_MAX: usize = 64 * 1024;
/// Plaintext of one TLS record: a record either reached the socket whole or was never readable.
pub const TLS_RECORD_SIZE_BYTES_MAX: usize = 16 * 1024;
/// Empty buffers kept for the next session that needs one.
pub const POOLED_BUFFER_COUNT_MAX: usize = 128;
/// Larger buffers go back to the allocator instead of into the pool.
pub const POOLED_BUFFER_SIZE_BYTES_MAX: usize = 8 * 1024;
/// Expiries and timeouts applied under one hold of the lock.
pub const DUE_COUNT_PER_TURN_MAX: usize = 512;
/// Longest sleep of the timer. Every deadline begins at least this far ahead, so the timer never
/// has to be told of a new one.
pub const TIMER_SLEEP_MAX: Duration = Duration::from_secs(1);

/// A timer this late means that the whole process did not run (stopped, suspended, its machine
/// paused). The time of frames and of draining starts over then.
pub const STANDSTILL_TIME_MIN: Duration = Duration::from_millis(500);

const _: () = {
    // A vanished host's waiters leave within 30 s, idle or not.
    assert!(
        KEEPALIVE_IDLE.as_secs() + KEEPALIVE_PROBE_COUNT as u64 * KEEPALIVE_INTERVAL.as_secs() < 30
    );
    assert!(PEER_SILENCE_TIME_MAX.as_secs() + KEEPALIVE_INTERVAL.as_secs() < 30);
    // A stop signal ends the process within 5 s.
    assert!(SHUTDOWN_TIME_MAX.as_millis() + LOG_FLUSH_TIME_MAX.as_millis() < 5_000);
    // A leader without a successor has time left for the flush.
    let hand_over = HAND_OVER_TIME_MAX.as_millis() + 2 * MOVE_ON_TIME.as_millis();
    assert!(hand_over + 1_000 < SHUTDOWN_TIME_MAX.as_millis());
    assert!(FRAME_TIME_MAX.as_nanos() >= TIMER_SLEEP_MAX.as_nanos());
    assert!(DRAIN_TIME_MAX.as_nanos() >= TIMER_SLEEP_MAX.as_nanos());
    // What a standstill that is too short to be noticed takes from a frame is half of its time.
    assert!(
        2 * (TIMER_SLEEP_MAX.as_millis() + STANDSTILL_TIME_MIN.as_millis())
            <= FRAME_TIME_MAX.as_millis()
    );
    // The shortest lease and the shortest wait that queues.
    assert!(TIMER_SLEEP_MAX.as_secs() <= 1);
    assert!(READ_SIZE_BYTES > REQUEST_SIZE_BYTES_MAX);
    assert!(POOLED_BUFFER_SIZE_BYTES_MAX > REQUEST_SIZE_BYTES_MAX);
};

/// Fencing tokens set aside on disk at a time: hours of them at full load, so that a restart skips
/// few and the disk sees little.
pub const TOKEN_BLOCK_SIZE: u64 = 1 << 36;
/// Tokens at the end of a block that only waiting requests may still get. More cannot wait.
pub const TOKEN_MARGIN: u64 = 1 << 32;

/// Log entries that wait for their majority before the next is proposed. What arrives meanwhile
/// becomes one entry, so batches form by themselves.
pub const ENTRIES_IN_FLIGHT_MAX: usize = 2;
/// Operations that wait to be proposed are split into entries of at most about this size.
pub const BATCH_SIZE_BYTES: usize = 256 * 1024;
/// Beyond this many bytes of operations that wait to be proposed, sessions stop being read.
pub const PENDING_SIZE_BYTES_MAX: usize = 1024 * 1024;
/// The leader spreads a checksum of its state every so many entries.
pub const COMPARE_EVERY_ENTRIES: u64 = 256;
/// Requests encoded into a snapshot in one step, once a tick: a million of them take 0.6 s, and
/// serving goes on meanwhile.
pub const SNAPSHOT_SLICE_NODE_COUNT: u32 = 16_384;

/// How often a process that is no member says so to all slots.
pub const STATUS_PAUSE: Duration = Duration::from_millis(100);
/// What a slot said counts for this long.
pub const PEER_STATUS_TIME_MAX: Duration = Duration::from_secs(1);
/// One round of beginning a cluster.
pub const BOOTSTRAP_ROUND_TIME_MAX: Duration = Duration::from_secs(2);
/// How often a joiner asks the leader.
pub const JOIN_ASK_PAUSE: Duration = Duration::from_millis(50);
/// From a planned stop to its end without a successor.
pub const HAND_OVER_TIME_MAX: Duration = Duration::from_secs(2);
/// How often a planned stop looks whether leadership is handed over.
pub const HAND_OVER_PAUSE: Duration = Duration::from_millis(5);
/// A cluster's leader waits this part of a lease longer before it ends it, so that no lease ends
/// early for its holder although clocks of nodes may run up to 10 % too fast.
pub const LEASE_MARGIN_DIVISOR: u64 = 8;
/// After a hand-over, or when a follower stops: for so long clients are still answered, with the
/// leader's slot, so that whoever was about to ask moves on before the connection ends.
pub const MOVE_ON_TIME: Duration = Duration::from_millis(250);
/// Whoever asks for the status takes it within this time, or not at all.
pub const ADMIN_WRITE_TIME_MAX: Duration = Duration::from_secs(1);
