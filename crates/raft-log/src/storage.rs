//! The log in memory, as raft-rs reads it.

use crate::limits::ENTRY_OVERHEAD_SIZE_BYTES;
use raft::eraftpb::{ConfState, Entry, HardState, Snapshot};
use raft::{GetEntriesContext, RaftState, Storage, StorageError};
use std::cell::RefCell;
use std::collections::VecDeque;

/// Entries after a base place. The base is what a snapshot or compaction ended with; its term is
/// kept, the entry is not.
#[derive(Debug)]
pub(crate) struct Log {
    base_index: u64,
    base_term: u64,
    entries: VecDeque<Entry>,
    size_bytes: usize,
    initial: RaftState,
    /// Peers that raft-rs wanted to send a snapshot to while there was none.
    snapshot_wanted: RefCell<Vec<u64>>,
    /// One made for them, for as long as it takes to hand it out.
    snapshot: Option<Snapshot>,
}

impl Log {
    /// A log that begins after `(index, term)`, with these members; `(0, 0)` and none for a node
    /// that has yet to receive everything.
    pub(crate) fn new(base_index: u64, base_term: u64, conf_state: ConfState) -> Self {
        let hard_state = HardState { term: base_term, commit: base_index, ..HardState::default() };
        Self {
            base_index,
            base_term,
            entries: VecDeque::new(),
            size_bytes: 0,
            initial: RaftState::new(hard_state, conf_state),
            snapshot_wanted: RefCell::default(),
            snapshot: None,
        }
    }

    /// Appends entries, after dropping what they replace.
    pub(crate) fn append(&mut self, entries: Vec<Entry>) {
        let Some(first) = entries.first() else { return };
        assert!(first.index > self.base_index, "appends below the base");
        let kept = (first.index - self.base_index - 1) as usize;
        assert!(kept <= self.entries.len(), "leaves no gap");
        for dropped in self.entries.drain(kept..) {
            self.size_bytes -= size_bytes(&dropped);
        }
        for entry in entries {
            self.size_bytes += size_bytes(&entry);
            self.entries.push_back(entry);
        }
    }

    /// Forgets everything up to and including `index`.
    pub(crate) fn compact(&mut self, index: u64) {
        while self.base_index < index {
            let Some(entry) = self.entries.pop_front() else { return };
            self.size_bytes -= size_bytes(&entry);
            self.base_index = entry.index;
            self.base_term = entry.term;
        }
    }

    /// Begins again after an installed snapshot.
    pub(crate) fn restart(&mut self, index: u64, term: u64) {
        self.entries.clear();
        self.size_bytes = 0;
        self.base_index = index;
        self.base_term = term;
    }

    /// The first index that is still here.
    pub(crate) fn first(&self) -> u64 {
        self.base_index + 1
    }

    /// The last index; the base when nothing follows it.
    pub(crate) fn last(&self) -> u64 {
        self.base_index + self.entries.len() as u64
    }

    /// Memory of all entries.
    pub(crate) fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Peers that wait for a snapshot.
    pub(crate) fn take_snapshot_wanted(&mut self) -> Vec<u64> {
        std::mem::take(self.snapshot_wanted.get_mut())
    }

    /// Sets or drops the snapshot that [`Storage::snapshot`] hands out.
    pub(crate) fn set_snapshot(&mut self, snapshot: Option<Snapshot>) {
        self.snapshot = snapshot;
    }
}

fn size_bytes(entry: &Entry) -> usize {
    entry.data.len() + entry.context.len() + ENTRY_OVERHEAD_SIZE_BYTES
}

impl Storage for Log {
    fn initial_state(&self) -> raft::Result<RaftState> {
        Ok(self.initial.clone())
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        if low <= self.base_index {
            return Err(StorageError::Compacted.into());
        }
        if high > self.last() + 1 {
            return Err(StorageError::Unavailable.into());
        }
        let range = (low - self.base_index - 1) as usize..(high - self.base_index - 1) as usize;
        let budget = max_size.into().unwrap_or(u64::MAX);
        let mut size = 0;
        let within = |entry: &&Entry| {
            let is_first = size == 0;
            size += size_bytes(entry) as u64;
            is_first || size <= budget
        };
        Ok(self.entries.range(range).take_while(within).cloned().collect())
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        if index == self.base_index {
            return Ok(self.base_term);
        }
        if index < self.base_index {
            return Err(StorageError::Compacted.into());
        }
        let at = (index - self.base_index - 1) as usize;
        self.entries.get(at).map(|entry| entry.term).ok_or(StorageError::Unavailable.into())
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.first())
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last())
    }

    fn snapshot(&self, request_index: u64, to: u64) -> raft::Result<Snapshot> {
        match &self.snapshot {
            Some(snapshot) if snapshot.get_metadata().index >= request_index => {
                Ok(snapshot.clone())
            }
            _ => {
                let mut wanted = self.snapshot_wanted.borrow_mut();
                if !wanted.contains(&to) {
                    wanted.push(to);
                }
                Err(StorageError::SnapshotTemporarilyUnavailable.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: u64, term: u64) -> Entry {
        Entry { index, term, data: vec![0; 10].into(), ..Entry::default() }
    }

    fn log() -> Log {
        let mut log = Log::new(1, 1, ConfState::default());
        log.append((2..=5).map(|index| entry(index, 1)).collect());
        log
    }

    fn read(log: &Log, low: u64, high: u64, size: u64) -> Vec<(u64, u64)> {
        let entries = log.entries(low, high, size, GetEntriesContext::empty(false)).expect("there");
        entries.iter().map(|entry| (entry.index, entry.term)).collect()
    }

    #[test]
    fn appending_replaces_the_tail() {
        let mut log = log();
        log.append(vec![entry(4, 2)]);
        assert_eq!(read(&log, 2, 5, u64::MAX), [(2, 1), (3, 1), (4, 2)]);
        assert_eq!(log.size_bytes(), 3 * (10 + ENTRY_OVERHEAD_SIZE_BYTES));
        assert_eq!(log.last(), 4);
    }

    #[test]
    fn compaction_keeps_the_term_of_its_end() {
        let mut log = log();
        log.compact(3);
        assert_eq!((log.first(), log.last()), (4, 5));
        assert_eq!(log.term(3), Ok(1));
        assert_eq!(log.term(2), Err(StorageError::Compacted.into()));
        assert_eq!(log.term(6), Err(StorageError::Unavailable.into()));
        let below = log.entries(3, 5, None, GetEntriesContext::empty(false));
        assert_eq!(below, Err(StorageError::Compacted.into()));
        log.compact(100);
        assert_eq!((log.first(), log.size_bytes()), (6, 0));
    }

    #[test]
    fn a_read_is_bounded_in_size_and_gives_at_least_one_entry() {
        let log = log();
        assert_eq!(read(&log, 2, 6, 0).len(), 1);
        assert_eq!(read(&log, 2, 6, 2 * (10 + ENTRY_OVERHEAD_SIZE_BYTES) as u64).len(), 2);
    }
}
