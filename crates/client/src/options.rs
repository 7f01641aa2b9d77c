//! What one acquire asks for.

use crate::error::Error;
use std::time::Duration;
use ticketing_wire_codec::limits::{LEASE_SECONDS_MAX, LEASE_SECONDS_MIN, WAIT_SECONDS_MAX};

/// Wait, lease and work budget of one acquire.
///
/// The lease is counted from before the request was sent, because nobody but the server knows
/// when it was granted. So a lock that came after a long time in the queue has that much less of
/// its lease left: choose a lease that covers the wait and the work.
///
/// ```
/// use std::time::Duration;
/// use ticketing_client::AcquireOptions;
///
/// let options = AcquireOptions::new()
///     .wait(Duration::from_secs(10))
///     .lease(Duration::from_secs(60))
///     .budget(Duration::from_secs(20));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcquireOptions {
    wait: Duration,
    lease: Duration,
    budget: Duration,
}

/// The same, checked and in the protocol's units.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) wait_seconds: u8,
    pub(crate) lease_seconds: u8,
    pub(crate) budget: Duration,
}

impl AcquireOptions {
    /// Wait up to 30 s, lease of 60 s, no work budget.
    pub const fn new() -> Self {
        Self {
            wait: Duration::from_secs(30),
            lease: Duration::from_secs(60),
            budget: Duration::ZERO,
        }
    }

    /// How long to queue: 0 to 255 s. Fractions are rounded up to whole seconds; 0 is one
    /// immediate try.
    #[must_use]
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// After which time the server takes the lock back: 1 to 250 s, whole seconds only.
    #[must_use]
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// The least time the work needs: less than the lease. A grant with less time left is
    /// released and reported as [`Error::InsufficientLease`].
    #[must_use]
    pub const fn budget(mut self, budget: Duration) -> Self {
        self.budget = budget;
        self
    }

    pub(crate) fn check(&self) -> Result<Terms, Error> {
        let fraction = u64::from(self.wait.subsec_nanos() != 0);
        let wait_seconds = self.wait.as_secs().saturating_add(fraction);
        let wait_seconds = u8::try_from(wait_seconds).map_err(|_| {
            let wait = self.wait;
            Error::invalid(format!("wait {wait:?}: it may be at most {WAIT_SECONDS_MAX} s"))
        })?;
        let lease_seconds = u8::try_from(self.lease.as_secs()).unwrap_or(u8::MAX);
        if self.lease.subsec_nanos() != 0
            || !(LEASE_SECONDS_MIN..=LEASE_SECONDS_MAX).contains(&lease_seconds)
        {
            return Err(Error::invalid(format!(
                "lease {:?}: it must be {LEASE_SECONDS_MIN} to {LEASE_SECONDS_MAX} whole seconds",
                self.lease
            )));
        }
        if self.budget >= self.lease {
            return Err(Error::invalid(format!(
                "work budget {:?}: it must be less than the lease of {:?}",
                self.budget, self.lease
            )));
        }
        Ok(Terms { wait_seconds, lease_seconds, budget: self.budget })
    }
}

impl Default for AcquireOptions {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn waits_are_rounded_up_and_never_clamped() {
        let sent = |wait| AcquireOptions::new().wait(wait).check().map(|terms| terms.wait_seconds);
        for (wait, seconds) in
            [(0, 0), (1, 1), (1000, 1), (1001, 2), (254_001, 255), (255_000, 255)]
        {
            assert_eq!(sent(millis(wait)), Ok(seconds));
        }
        assert_eq!(sent(Duration::from_nanos(1)), Ok(1));
        assert!(sent(millis(255_001)).is_err());
        assert!(sent(Duration::MAX).is_err());
    }

    #[test]
    fn leases_are_whole_seconds_within_bounds() {
        let check = |lease| AcquireOptions::new().lease(lease).check().map(|t| t.lease_seconds);
        assert_eq!(check(millis(1000)), Ok(1));
        assert_eq!(check(millis(250_000)), Ok(250));
        for lease in [millis(0), millis(999), millis(1500), millis(251_000), Duration::MAX] {
            assert!(check(lease).is_err(), "{lease:?}");
        }
    }

    #[test]
    fn budgets_stay_below_the_lease() {
        let check = |budget| AcquireOptions::new().lease(millis(1000)).budget(budget).check();
        assert!(check(millis(999)).is_ok());
        assert!(check(millis(1000)).is_err());
    }
}
