//! The lock table as every node computes it from the log.

use super::batch::{Comparison, Operation, Operations};
use crate::limits::{COMPARE_EVERY_ENTRIES, SNAPSHOT_SLICE_NODE_COUNT};
use bytes::Bytes;
use std::collections::VecDeque;
use ticketing_lock_core::{Command, Event, Instant, LockTable, TableLimits};
use ticketing_raft_log::{Applied, ProposalId, SnapshotFault, StateMachine};

/// Checksums kept for comparison with the leader's, which arrive some entries later.
const COMPARISONS_KEPT: usize = 64;

/// What applied entries tell the node that proposed them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// An effect of one of its commands.
    Event(Cause, Event),
    /// The entry is done; everything before was about it.
    Done(ProposalId),
}

/// Which kind of command an event came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Acquire,
    ClearWaiters,
    Other,
    Release,
    ReleaseSet,
}

/// The replicated state.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) table: LockTable,
    /// The time at which entries are applied; the driver keeps it.
    pub(crate) now: Instant,
    /// What the driver is to route, in order.
    pub(crate) answers: Vec<Answer>,
    /// A leader's checksum that differs from ours: this state must not be served or spread.
    pub(crate) diverged_at: Option<u64>,
    pub(crate) expired_count: u64,
    /// Own checksums that nobody has compared yet.
    comparisons: VecDeque<Comparison>,
    hash_seed: [u8; 16],
    snapshot: Vec<u8>,
    /// Every grant, with its entry's term, for those who check that refused requests have none.
    #[cfg(test)]
    pub(crate) granted: Vec<(u64, ticketing_lock_core::Owner)>,
}

impl Replica {
    pub(crate) fn new(hash_seed: [u8; 16], limits: TableLimits) -> Self {
        Self {
            table: LockTable::new(hash_seed, limits),
            now: Instant::from_nanos(0),
            answers: Vec::new(),
            diverged_at: None,
            expired_count: 0,
            comparisons: VecDeque::new(),
            hash_seed,
            snapshot: Vec::new(),
            #[cfg(test)]
            granted: Vec::new(),
        }
    }

    /// The newest checksum, for a leader to spread.
    pub(crate) fn comparison(&self) -> Option<Comparison> {
        self.comparisons.back().copied()
    }

    fn command(&mut self, command: Command<'_>, entry: &Applied<'_>) {
        let cause = match command {
            Command::Acquire { .. } => Cause::Acquire,
            Command::ClearWaiters => Cause::ClearWaiters,
            Command::Release { keys: [_], .. } => Cause::Release,
            Command::Release { .. } => Cause::ReleaseSet,
            _ => Cause::Other,
        };
        let is_own = entry.proposal.is_some();
        let Self { table, answers, expired_count, .. } = self;
        table.apply(command, self.now, &mut |event| {
            #[cfg(test)]
            if let Event::Granted { owner, .. } = event {
                self.granted.push((entry.term, owner));
            }
            if let Event::Expired { .. } = event {
                *expired_count += 1;
            } else if is_own {
                answers.push(Answer::Event(cause, event));
            }
        });
    }

    fn compare(&mut self, theirs: Comparison) {
        let ours = self.comparisons.iter().find(|ours| ours.index == theirs.index);
        if ours.is_some_and(|ours| ours.history != theirs.history) {
            self.diverged_at = Some(theirs.index);
        }
    }
}

impl StateMachine for Replica {
    type Image = LockTable;

    fn apply(&mut self, entry: Applied<'_>) {
        let mut operations = Operations::new(entry.data);
        while let Some(operation) = operations.next() {
            match operation {
                Operation::Command(command) => self.command(command, &entry),
                Operation::Compare(theirs) => self.compare(theirs),
            }
        }
        if entry.index.is_multiple_of(COMPARE_EVERY_ENTRIES) {
            if self.comparisons.len() == COMPARISONS_KEPT {
                self.comparisons.pop_front();
            }
            let history = self.table.history();
            self.comparisons.push_back(Comparison { index: entry.index, history });
        }
        if let Some(proposal) = entry.proposal {
            self.answers.push(Answer::Done(proposal));
        }
    }

    fn begin_snapshot(&mut self) {
        self.snapshot.clear();
        self.table.begin_snapshot();
    }

    fn continue_snapshot(&mut self) -> Option<Bytes> {
        let has_more = self.table.continue_snapshot(SNAPSHOT_SLICE_NODE_COUNT, &mut self.snapshot);
        (!has_more).then(|| std::mem::take(&mut self.snapshot).into())
    }

    fn decode(&self, snapshot: &[u8]) -> Result<LockTable, SnapshotFault> {
        LockTable::decode_snapshot(snapshot, self.hash_seed, self.now).map_err(|_| SnapshotFault)
    }

    fn install(&mut self, image: LockTable) {
        self.table = image;
        self.comparisons.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::batch::Batch;
    use ticketing_lock_core::{Owner, SessionId};

    fn replica() -> Replica {
        Replica::new([1; 16], TableLimits { key_count_max: 1_000, waiters_per_key_max: 10 })
    }

    fn apply(replica: &mut Replica, index: u64, batch: Batch) {
        let data = batch.into_bytes();
        replica.apply(Applied { index, term: 1, proposal: None, data: &data });
    }

    fn grant(index: u64) -> Batch {
        let owner = Owner { session: SessionId::new(0, 0), request_id: index };
        let mut batch = Batch::new();
        let (key, wait_seconds, lease_seconds) = (index.to_be_bytes(), 0, 30);
        let keys: &[&[u8]] = &[&key];
        batch.push(Command::Acquire { owner, wait_seconds, lease_seconds, keys });
        batch
    }

    #[test]
    fn a_replica_that_went_another_way_finds_out_at_the_next_comparison() {
        let (mut leader, mut same, mut other) = (replica(), replica(), replica());
        for index in 1..=COMPARE_EVERY_ENTRIES {
            for replica in [&mut leader, &mut same, &mut other] {
                apply(replica, index, grant(index));
            }
            // One flipped bit of broken memory, long ago.
            if index == 3 {
                other.table.apply(
                    Command::Reclaim { session: SessionId::new(0, 0), token: 1 },
                    other.now,
                    &mut |_| {},
                );
            }
        }
        let comparison = leader.comparison().expect("due");
        assert_eq!(comparison.index, COMPARE_EVERY_ENTRIES);
        for replica in [&mut leader, &mut same, &mut other] {
            let mut batch = Batch::new();
            batch.push_comparison(comparison);
            apply(replica, COMPARE_EVERY_ENTRIES + 1, batch);
        }
        assert_eq!((leader.diverged_at, same.diverged_at), (None, None));
        assert_eq!(other.diverged_at, Some(COMPARE_EVERY_ENTRIES));
    }

    #[test]
    fn a_comparison_that_came_with_a_snapshot_in_between_says_nothing() {
        let mut replica = replica();
        let mut batch = Batch::new();
        batch.push_comparison(Comparison { index: COMPARE_EVERY_ENTRIES, history: 1 });
        apply(&mut replica, COMPARE_EVERY_ENTRIES + 1, batch);
        assert_eq!(replica.diverged_at, None);
    }
}
