//! The only place of this crate that reads a clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};
use ticketing_lock_core::Instant;

/// A monotonic clock with its own origin.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: std::time::Instant,
}

impl Clock {
    /// A clock that starts at zero.
    #[expect(clippy::disallowed_methods, reason = "this is clock.rs")]
    pub fn start() -> Self {
        Self { origin: std::time::Instant::now() }
    }

    /// Nanoseconds since the start.
    pub fn now(&self) -> Instant {
        // 584 years fit.
        Instant::from_nanos(self.origin.elapsed().as_nanos() as u64)
    }
}

/// Milliseconds since the Unix epoch; 0 on a clock set before it.
#[expect(clippy::disallowed_methods, reason = "this is clock.rs")]
pub fn unix_milliseconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

/// A millisecond since the Unix epoch that belongs to this run alone: it has begun when this
/// returns, and no run that ended before the call can have had it.
pub fn own_unix_millisecond() -> u64 {
    let before = unix_milliseconds();
    std::thread::sleep(Duration::from_millis(1));
    before + 1
}
