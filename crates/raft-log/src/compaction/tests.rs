//! What a leader keeps while it brings a process in by a snapshot.

use crate::limits::{
    ELECTION_TICKS_MAX, ENTRY_SIZE_BYTES_MAX, HEARD_TICKS_MAX, LOG_FOR_SNAPSHOT_SIZE_BYTES_MAX,
    LOG_KEPT_SIZE_BYTES, LOG_SIZE_BYTES_MAX,
};
use crate::machine::{Applied, StateMachine};
use crate::{Body, Event, Message, NodeId, Output, RaftLog, Role, SnapshotFault, SnapshotOutcome};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// The state is nothing; how long a snapshot of it takes is up to the test.
#[derive(Default)]
struct Slow {
    is_making: bool,
    may_finish: bool,
}

impl StateMachine for Slow {
    type Image = ();

    fn apply(&mut self, _: Applied<'_>) {}

    fn begin_snapshot(&mut self) {
        self.is_making = true;
    }

    fn continue_snapshot(&mut self) -> Option<Bytes> {
        let is_done = self.is_making && self.may_finish;
        self.is_making &= !is_done;
        is_done.then(Bytes::new)
    }

    fn decode(&self, _: &[u8]) -> Result<(), SnapshotFault> {
        Ok(())
    }

    fn install(&mut self, (): ()) {}
}

/// Nodes whose messages arrive at once, but for those to a node that is busy.
#[derive(Default)]
struct Cluster {
    nodes: BTreeMap<NodeId, (RaftLog<Slow>, Slow)>,
    busy: BTreeSet<NodeId>,
    waiting: Vec<Message>,
    /// Snapshots that were sent and have not been taken.
    snapshots: Vec<Message>,
    snapshot_count: usize,
    /// Entries that were sent, by receiver.
    appended: BTreeMap<NodeId, usize>,
    out: Output,
}

fn id(generation: u32, slot: u8) -> NodeId {
    NodeId::new(generation, slot).expect("valid")
}

/// Leads from the start.
fn leader_id() -> NodeId {
    id(1, 0)
}

impl Cluster {
    fn new(slot_count: u8) -> Self {
        let mut cluster = Self::default();
        let voters: Vec<_> = (0..slot_count).map(|slot| id(1, slot)).collect();
        for voter in &voters {
            let log = RaftLog::bootstrap(*voter, &voters, 1);
            cluster.nodes.insert(*voter, (log, Slow::default()));
        }
        while cluster.leader().role() != Role::Leader {
            cluster.call(leader_id(), RaftLog::tick);
        }
        cluster
    }

    /// Of three, the last of which is a new process that a snapshot was just sent to.
    fn with_snapshot_sent() -> (Self, NodeId) {
        let mut cluster = Self::new(3);
        let new = cluster.replace(2);
        cluster.tick_all(20);
        cluster.finish_snapshot();
        (cluster, new)
    }

    fn leader(&self) -> &RaftLog<Slow> {
        &self.nodes[&leader_id()].0
    }

    fn log_size_bytes(&self) -> usize {
        self.leader().raft.store().size_bytes()
    }

    /// Runs a call on a node and delivers whatever comes of it.
    fn call<T>(
        &mut self,
        node: NodeId,
        call: impl FnOnce(&mut RaftLog<Slow>, &mut Slow, &mut Output) -> T,
    ) -> T {
        let (log, machine) = self.nodes.get_mut(&node).expect("lives");
        let result = call(log, machine, &mut self.out);
        self.waiting.append(&mut self.out.messages);
        self.deliver();
        result
    }

    fn deliver(&mut self) {
        loop {
            let (held, ready): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting)
                .into_iter()
                .partition(|message| self.busy.contains(&message.to));
            self.waiting = held;
            if ready.is_empty() {
                return;
            }
            for message in ready {
                if let Body::Snapshot { .. } = message.body {
                    self.snapshot_count += 1;
                    self.snapshots.push(message);
                } else {
                    self.step(message);
                }
            }
        }
    }

    fn step(&mut self, message: Message) {
        if let Body::Append { entries, .. } = &message.body {
            *self.appended.entry(message.to).or_default() += entries.len();
        }
        let Some((log, machine)) = self.nodes.get_mut(&message.to) else { return };
        log.step(message, machine, &mut self.out).expect("an honest peer sends nothing bad");
        self.waiting.append(&mut self.out.messages);
    }

    fn appended_to(&self, node: NodeId) -> usize {
        self.appended.get(&node).copied().unwrap_or_default()
    }

    fn tick_all(&mut self, count: u64) {
        for _ in 0..count {
            for node in self.nodes.keys().copied().collect::<Vec<_>>() {
                if !self.busy.contains(&node) {
                    self.call(node, RaftLog::tick);
                }
            }
        }
    }

    fn propose(&mut self, count: usize) {
        let data = Bytes::from_static(&[0; ENTRY_SIZE_BYTES_MAX]);
        for _ in 0..count {
            let data = data.clone();
            self.call(leader_id(), |log, machine, out| log.propose(data, machine, out))
                .expect("proposed");
        }
    }

    /// The process in a slot ends; another one is admitted as the returned learner.
    fn replace(&mut self, slot: u8) -> NodeId {
        let (old, new) = (id(1, slot), id(2, slot));
        self.nodes.remove(&old);
        self.call(leader_id(), |log, machine, out| log.link_closed(old, machine, out));
        self.nodes.insert(new, (RaftLog::join(new, 1), Slow::default()));
        self.call(leader_id(), |log, machine, out| log.admit(slot, machine, out))
            .expect("admitted");
        new
    }

    /// Lets the leader's machine finish the snapshot that it makes.
    fn finish_snapshot(&mut self) {
        self.set_may_finish(true);
        self.tick_all(1);
        self.set_may_finish(false);
    }

    fn set_may_finish(&mut self, may_finish: bool) {
        self.nodes.get_mut(&leader_id()).expect("lives").1.may_finish = may_finish;
    }

    /// The receiver takes the snapshot, and its link delivers what it says about it afterwards.
    fn take_snapshot(&mut self) {
        let message = self.snapshots.pop().expect("sent");
        let to = message.to;
        self.step(message);
        self.report(to, SnapshotOutcome::Sent);
    }

    /// The leader hears how sending a snapshot ended.
    fn report(&mut self, to: NodeId, outcome: SnapshotOutcome) {
        self.call(leader_id(), |log, machine, out| log.snapshot_sent(to, outcome, machine, out));
    }

    fn is_voter(&self, node: NodeId) -> bool {
        self.leader().membership().is_voter(node) && !self.leader().membership().is_joint()
    }
}

const LOG_SIZE_ENTRIES_MAX: usize = LOG_SIZE_BYTES_MAX / ENTRY_SIZE_BYTES_MAX;

#[test]
fn what_is_proposed_while_a_snapshot_is_made_and_read_is_kept_for_its_receiver() {
    let mut cluster = Cluster::new(3);
    let new = cluster.replace(2);
    cluster.tick_all(20);
    cluster.propose(LOG_SIZE_ENTRIES_MAX);
    cluster.finish_snapshot();
    assert_eq!(cluster.snapshots.len(), 1);
    cluster.propose(LOG_SIZE_ENTRIES_MAX);
    // It says nothing while it reads.
    cluster.busy.insert(new);
    cluster.tick_all(2 * HEARD_TICKS_MAX);
    cluster.propose(LOG_SIZE_ENTRIES_MAX);
    assert!(cluster.log_size_bytes() > 3 * LOG_SIZE_BYTES_MAX);
    cluster.busy.clear();
    cluster.take_snapshot();
    cluster.tick_all(20);
    assert!(cluster.is_voter(new), "{:?}", cluster.leader().status());
    assert_eq!(cluster.snapshot_count, 1);
    cluster.propose(1);
    assert!(cluster.log_size_bytes() <= LOG_KEPT_SIZE_BYTES, "{}", cluster.log_size_bytes());
    // From now on it is a peer like every other.
    cluster.busy.insert(new);
    cluster.propose(2 * LOG_SIZE_ENTRIES_MAX);
    assert!(cluster.log_size_bytes() <= LOG_SIZE_BYTES_MAX, "{}", cluster.log_size_bytes());
}

#[test]
fn a_snapshot_is_sent_also_to_a_peer_that_answered_a_little_earlier() {
    // Whenever it falls silent, also while raft-rs has just forgotten who is active.
    for ticks in 0..ELECTION_TICKS_MAX as u64 {
        let mut cluster = Cluster::new(3);
        let new = cluster.replace(2);
        cluster.tick_all(20 + ticks);
        cluster.busy.insert(new);
        cluster.tick_all(2);
        cluster.finish_snapshot();
        cluster.busy.clear();
        cluster.deliver();
        assert_eq!(cluster.snapshots.len(), 1, "after {ticks} ticks");
    }
}

#[test]
fn a_receiver_whose_word_comes_before_its_message_is_still_waited_for() {
    let (mut cluster, new) = Cluster::with_snapshot_sent();
    let message = cluster.snapshots.pop().expect("sent");
    cluster.busy.insert(new);
    cluster.tick_all(2 * HEARD_TICKS_MAX);
    // The message about it is on its way.
    cluster.report(new, SnapshotOutcome::Sent);
    cluster.propose(2 * LOG_SIZE_ENTRIES_MAX);
    assert!(cluster.log_size_bytes() > LOG_SIZE_BYTES_MAX);
    cluster.busy.clear();
    cluster.step(message);
    cluster.deliver();
    cluster.tick_all(20);
    assert!(cluster.is_voter(new), "{:?}", cluster.leader().status());
    assert_eq!(cluster.snapshot_count, 1);
}

#[test]
fn a_receiver_that_answers_many_heartbeats_at_once_is_sent_entries_once() {
    const ENTRY_COUNT: usize = 20;
    let (mut cluster, new) = Cluster::with_snapshot_sent();
    let message = cluster.snapshots.pop().expect("sent");
    cluster.busy.insert(new);
    cluster.propose(ENTRY_COUNT);
    cluster.tick_all(5 * HEARD_TICKS_MAX);
    let before = cluster.appended_to(new);
    cluster.busy.clear();
    cluster.step(message);
    cluster.deliver();
    cluster.report(new, SnapshotOutcome::Sent);
    cluster.tick_all(20);
    assert!(cluster.is_voter(new), "{:?}", cluster.leader().status());
    let sent = cluster.appended_to(new) - before;
    assert!((ENTRY_COUNT..ENTRY_COUNT + 8).contains(&sent), "{sent} entries sent");
}

#[test]
fn a_log_kept_for_a_snapshot_is_bounded_and_given_up_with_its_receiver() {
    let (mut cluster, new) = Cluster::with_snapshot_sent();
    cluster.busy.insert(new);
    cluster.propose(LOG_FOR_SNAPSHOT_SIZE_BYTES_MAX / ENTRY_SIZE_BYTES_MAX + 20);
    assert!(cluster.log_size_bytes() <= LOG_FOR_SNAPSHOT_SIZE_BYTES_MAX);
    assert!(cluster.log_size_bytes() > LOG_FOR_SNAPSHOT_SIZE_BYTES_MAX / 2);
    cluster.tick_all(2 * HEARD_TICKS_MAX);
    cluster.report(new, SnapshotOutcome::Failed);
    assert!(cluster.log_size_bytes() <= LOG_KEPT_SIZE_BYTES, "{}", cluster.log_size_bytes());
}

#[test]
fn a_learner_is_not_sent_a_snapshot_that_began_before_it_was_one() {
    let mut cluster = Cluster::new(5);
    let first = cluster.replace(4);
    cluster.tick_all(20);
    let second = cluster.replace(3);
    cluster.tick_all(20);
    cluster.finish_snapshot();
    let to: Vec<_> = cluster.snapshots.iter().map(|message| message.to).collect();
    assert_eq!(to, [first]);
    cluster.take_snapshot();
    cluster.tick_all(20);
    cluster.finish_snapshot();
    cluster.take_snapshot();
    cluster.tick_all(20);
    assert!(cluster.is_voter(first) && cluster.is_voter(second), "{:?}", cluster.leader().status());
    let has_installed = |event: &Event| matches!(event, Event::SnapshotInstalled { .. });
    assert_eq!(cluster.out.events.iter().filter(|event| has_installed(event)).count(), 2);
}
