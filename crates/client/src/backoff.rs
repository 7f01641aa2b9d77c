//! Pauses that double up to a bound.

use crate::limits::{BACKOFF_MAX, BACKOFF_MIN, PAUSE_MAX, PAUSE_MIN};
use std::time::Duration;

/// The next pause, and the longest.
pub(crate) struct Backoff {
    min: Duration,
    max: Duration,
    next: Duration,
}

impl Backoff {
    /// Between two attempts to connect.
    pub(crate) const fn reconnect() -> Self {
        Self { min: BACKOFF_MIN, max: BACKOFF_MAX, next: BACKOFF_MIN }
    }

    /// Between two attempts of one call.
    pub(crate) const fn retry() -> Self {
        Self { min: PAUSE_MIN, max: PAUSE_MAX, next: PAUSE_MIN }
    }

    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.max);
        pause
    }

    pub(crate) const fn reset(&mut self) {
        self.next = self.min;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(backoff: &mut Backoff, count: usize) -> Vec<u128> {
        (0..count).map(|_| backoff.next().as_millis()).collect()
    }

    #[test]
    fn pauses_double_up_to_their_bound() {
        let mut backoff = Backoff::reconnect();
        assert_eq!(millis(&mut backoff, 8), [100, 200, 400, 800, 1600, 3200, 3200, 3200]);
        backoff.reset();
        assert_eq!(millis(&mut backoff, 2), [100, 200]);
        assert_eq!(millis(&mut Backoff::retry(), 6), [10, 20, 40, 80, 100, 100]);
    }
}
