//! The only file of the command line that reads clocks.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[expect(clippy::disallowed_methods, reason = "this is clock.rs")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Time since the Unix epoch; zero on a clock that stands before it.
#[expect(clippy::disallowed_methods, reason = "this is clock.rs")]
pub(crate) fn unix_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
