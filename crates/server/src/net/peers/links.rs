//! Which processes have a link open to this node.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Links that are open, by the slot and incarnation of who opened them. After a cut network a
/// process may have a new one before the end of its old one is noticed, and is not gone then.
#[derive(Debug, Default)]
pub(super) struct Links(Mutex<BTreeMap<(u8, u64), usize>>);

impl Links {
    pub(super) fn opened(&self, slot: u8, incarnation: u64) {
        *self.lock().entry((slot, incarnation)).or_default() += 1;
    }

    /// Whether it was the last one of that process.
    pub(super) fn closed(&self, slot: u8, incarnation: u64) -> bool {
        let mut links = self.lock();
        let count = links.get_mut(&(slot, incarnation)).expect("opened before");
        *count -= 1;
        let was_last = *count == 0;
        if was_last {
            links.remove(&(slot, incarnation));
        }
        was_last
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(u8, u64), usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_gone_with_its_last_link() {
        let links = Links::default();
        links.opened(1, 7);
        links.opened(1, 7);
        links.opened(1, 8);
        assert!(!links.closed(1, 7));
        assert!(links.closed(1, 8));
        assert!(links.closed(1, 7));
        assert!(links.lock().is_empty());
    }
}
