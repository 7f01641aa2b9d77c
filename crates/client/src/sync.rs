//! Small shared state: an unpoisonable lock, and a counted quota.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Locks. No code of this crate panics while it holds a lock, so a poisoned one is intact.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// So many calls at a time and no more.
pub(crate) struct Quota {
    used: AtomicUsize,
    limit: usize,
    emptied: Notify,
}

/// One place of a quota, given back on drop.
pub(crate) struct Permit {
    quota: Arc<Quota>,
}

impl Quota {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(0), limit, emptied: Notify::new() })
    }

    pub(crate) fn try_take(self: &Arc<Self>) -> Option<Permit> {
        let grow = |used| (used < self.limit).then_some(used + 1);
        self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, grow).ok()?;
        Some(Permit { quota: Arc::clone(self) })
    }

    /// Returns when no place is taken.
    pub(crate) async fn empty(&self) {
        loop {
            let mut emptied = std::pin::pin!(self.emptied.notified());
            // Listening has to begin before looking.
            emptied.as_mut().enable();
            if self.used.load(Ordering::Acquire) == 0 {
                return;
            }
            emptied.await;
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.quota.used.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.quota.emptied.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_quota_ends_at_its_limit_and_tells_when_it_is_empty() {
        let quota = Quota::new(2);
        let first = quota.try_take();
        let second = quota.try_take();
        assert!(first.is_some() && second.is_some() && quota.try_take().is_none());
        drop(first);
        assert!(quota.try_take().is_some());
        let waiting = tokio::spawn({
            let quota = Arc::clone(&quota);
            async move { quota.empty().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(second);
        waiting.await.expect("emptied");
    }
}
