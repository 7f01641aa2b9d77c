//! Time as this crate knows it: a number that callers pass in.

use core::time::Duration;

/// Nanoseconds on the caller's monotonic clock, from an origin of its choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// `nanoseconds` after the origin.
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The instant `seconds` later; saturates 584 years after the origin.
    pub const fn after_seconds(self, seconds: u8) -> Self {
        Self(self.0.saturating_add(seconds as u64 * 1_000_000_000))
    }

    /// How long until `later`; zero when it has passed.
    pub const fn until(self, later: Self) -> Duration {
        Duration::from_nanos(later.0.saturating_sub(self.0))
    }
}
