//! Warnings that others can cause as often as they like.

use crate::limits::WARNING_PAUSE;
use std::sync::atomic::{AtomicU64, Ordering};
use ticketing_lock_core::Instant;

/// When a warning was given last, in nanoseconds; 0 if never.
#[derive(Debug, Default)]
pub(crate) struct Seldom(AtomicU64);

impl Seldom {
    /// Whether to warn now. Then not again for [`WARNING_PAUSE`].
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let last = self.0.load(Ordering::Relaxed);
        let is_due = last == 0 || Instant::from_nanos(last).until(now) >= WARNING_PAUSE;
        let now = now.as_nanos().max(1);
        is_due && self.0.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_due_again_after_its_pause() {
        let at = |nanoseconds: u128| Instant::from_nanos(nanoseconds as u64);
        let (seldom, pause) = (Seldom::default(), WARNING_PAUSE.as_nanos());
        assert!(seldom.is_due(at(0)));
        assert!(!seldom.is_due(at(2)) && !seldom.is_due(at(pause)));
        assert!(seldom.is_due(at(pause + 1)));
        assert!(!seldom.is_due(at(2 * pause)));
    }
}
