//! Every bound and period of the client, with its unit. BEHAVIOUR.md, "Settings" and "Time".

use std::time::Duration;
use ticketing_wire_codec::limits::REQUEST_SIZE_BYTES_MAX;

/// Acquires between call and answer, over the whole broker, unless set.
pub const PENDING_COUNT_DEFAULT: usize = 1024;
/// Most acquires between call and answer that can be asked for.
pub const PENDING_COUNT_MAX: usize = 16_384;
/// Releases between call and answer.
pub(crate) const RELEASE_COUNT_MAX: usize = 1024;

/// How long the TCP connection may take, name resolution included.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long TLS and the protocol's handshake may take together. Protocol, "Connection".
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// First pause before connecting again.
pub(crate) const BACKOFF_MIN: Duration = Duration::from_millis(100);
/// Longest pause before connecting again.
pub(crate) const BACKOFF_MAX: Duration = Duration::from_millis(3_200);
/// A session that lasted this long was a good one: the back-off starts again.
pub(crate) const GOOD_SESSION: Duration = Duration::from_secs(1);
/// First pause between two attempts of one call.
pub(crate) const PAUSE_MIN: Duration = Duration::from_millis(10);
/// Longest pause between two attempts of one call.
pub(crate) const PAUSE_MAX: Duration = Duration::from_millis(100);

/// How long an immediate try may look for a server that takes it.
pub(crate) const SEARCH_WINDOW: Duration = Duration::from_secs(5);
/// How long after the wait that was sent an answer may still come.
pub(crate) const ANSWER_GRACE: Duration = Duration::from_secs(5);
/// Overdue answers are looked for at most this often, so that looking stays cheap.
pub(crate) const SWEEP_PERIOD: Duration = Duration::from_millis(100);
/// How long a release is tried, from its call.
pub(crate) const RELEASE_WINDOW: Duration = Duration::from_secs(5);
/// How long one attempt of a release may go unanswered before the next is made.
pub(crate) const RELEASE_ATTEMPT: Duration = Duration::from_secs(2);
/// How long a connection is given to end in good order.
pub(crate) const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);
/// How long `close` lets queued releases finish.
pub(crate) const CLOSE_WINDOW: Duration = Duration::from_secs(5);

/// First keepalive probe after this much silence.
pub(crate) const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
/// Further probes after this much silence each.
pub(crate) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// Requests in wire form that wait for the socket. Past it they stay queued, and so unsent.
pub(crate) const OUTPUT_SIZE_BYTES_MAX: usize = 64 * 1024;
/// Replies are read this much at a time.
pub(crate) const INPUT_SIZE_BYTES: usize = 16 * 1024;
/// Requests taken from the queue at a time.
pub(crate) const TAKE_COUNT_MAX: usize = 256;
/// Answers that one connection may owe. Past it requests stay queued.
pub(crate) const OWED_COUNT_MAX: usize = 32_768;
/// Two connections when there is only one address (L1).
pub(crate) const SINGLE_CONNECTION_COUNT: usize = 2;

const _: () = {
    assert!(OUTPUT_SIZE_BYTES_MAX > REQUEST_SIZE_BYTES_MAX);
    assert!(OWED_COUNT_MAX >= PENDING_COUNT_MAX + RELEASE_COUNT_MAX);
};
