//! What of the log is kept, and for whom.

use crate::id::NodeId;
use crate::limits::{
    DROPPED_ENTRIES_MAX, ENTRY_SIZE_BYTES_MAX, LOG_FOR_SNAPSHOT_SIZE_BYTES_MAX,
    LOG_KEPT_SIZE_BYTES, LOG_SIZE_BYTES_MAX,
};
use crate::machine::StateMachine;
use crate::node::{RaftLog, Role};
use raft::{Progress, ProgressState};

/// A peer this close to the leader's log has caught up after its snapshot, in entries. However
/// large they are, what is kept for every peer is enough from then on.
const CAUGHT_UP_LAG_ENTRIES_MAX: u64 = 32;
const _: () =
    assert!(CAUGHT_UP_LAG_ENTRIES_MAX as usize * 2 * ENTRY_SIZE_BYTES_MAX <= LOG_SIZE_BYTES_MAX);

impl<M: StateMachine> RaftLog<M> {
    /// Drops applied entries that nobody is likely to ask for.
    pub(crate) fn compact(&mut self) {
        if self.raft.store().size_bytes() <= LOG_KEPT_SIZE_BYTES {
            return;
        }
        self.note_caught_up();
        let size_max = if self.brought_in.is_empty() {
            LOG_SIZE_BYTES_MAX
        } else {
            LOG_FOR_SNAPSHOT_SIZE_BYTES_MAX
        };
        let making = self.making.as_ref().map_or(u64::MAX, |(meta, _)| meta.index);
        let needed = self.needed_index().min(making);
        let applied = self.applied;
        let log = self.raft.mut_store();
        for _ in 0..DROPPED_ENTRIES_MAX {
            let (first, size) = (log.first(), log.size_bytes());
            let is_needed = first > needed && size <= size_max;
            if size <= LOG_KEPT_SIZE_BYTES || first > applied || is_needed {
                return;
            }
            log.compact(first);
        }
    }

    /// Forgets those whose snapshot is behind them, or who do not answer any more.
    fn note_caught_up(&mut self) {
        if self.role() != Role::Leader {
            self.brought_in.clear();
            return;
        }
        let mut brought_in = std::mem::take(&mut self.brought_in);
        let last = self.raft.raft.raft_log.last_index();
        brought_in.retain(|id| {
            let is_waiting = self.making.as_ref().is_some_and(|(_, waiting)| waiting.contains(id));
            let is_behind = |progress: &Progress| {
                is_waiting
                    || progress.state != ProgressState::Replicate
                    || progress.matched + CAUGHT_UP_LAG_ENTRIES_MAX < last
            };
            self.counts(*id) && self.raft.raft.prs().get(*id).is_some_and(is_behind)
        });
        self.brought_in = brought_in;
    }

    /// The last index that every peer which counts already has.
    fn needed_index(&self) -> u64 {
        if self.role() != Role::Leader {
            return u64::MAX;
        }
        let of = |(id, progress): (&u64, &Progress)| {
            let at = match progress.state {
                ProgressState::Snapshot => progress.pending_snapshot,
                ProgressState::Probe | ProgressState::Replicate => progress.matched,
            };
            (*id != self.id.get() && self.counts(*id)).then_some(at)
        };
        self.raft.raft.prs().iter().filter_map(of).min().unwrap_or(u64::MAX)
    }

    /// Whether the log is kept for a peer: it answers, or a snapshot is on its way to it. While it
    /// reads a large one it is silent for seconds, and asks for what follows right afterwards; if
    /// it has died, sending the snapshot fails.
    fn counts(&self, id: u64) -> bool {
        let progress = self.raft.raft.prs().get(id);
        progress.is_some_and(|progress| progress.state == ProgressState::Snapshot)
            || NodeId::from_u64(id).is_some_and(|id| self.is_heard(id))
    }
}

#[cfg(test)]
mod tests;
