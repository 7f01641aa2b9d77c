//! Processes in slots, their toy machines, the faults, and what must hold.

use crate::net::{LinkState, World};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use ticketing_raft_log::{
    Applied, Body, Event, MembershipChange, Message, NodeId, Output, ProposalId, RaftLog, Role,
    SnapshotFault, SnapshotOutcome, StateMachine, StepFault,
};

const TICK_MICROSECONDS: u64 = 10_000;
const SETTLE_MICROSECONDS: u64 = 15_000_000;

/// Counts entries and chains a hash over them; acknowledges its own.
#[derive(Default)]
struct Toy {
    index: u64,
    hash: u64,
    acknowledged: Vec<(ProposalId, u64)>,
    history: Vec<(u64, u64, u64)>,
    snapshots_made: usize,
    making: Option<(u64, u64, u8)>,
}

fn chain(hash: u64, value: u64) -> u64 {
    (hash ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17)
}

impl StateMachine for Toy {
    type Image = (u64, u64);

    fn apply(&mut self, entry: Applied<'_>) {
        let value = u64::from_be_bytes(*entry.data.first_chunk().expect("ours"));
        self.index = entry.index;
        self.hash = chain(self.hash, value);
        self.history.push((entry.index, value, self.hash));
        if let Some(proposal) = entry.proposal {
            self.acknowledged.push((proposal, value));
        }
    }

    fn begin_snapshot(&mut self) {
        self.snapshots_made += 1;
        self.making = Some((self.index, self.hash, 3));
    }

    /// Three calls make one, so that entries are applied and members change meanwhile.
    fn continue_snapshot(&mut self) -> Option<Bytes> {
        let (index, hash, left) = self.making?;
        self.making = (left > 1).then_some((index, hash, left - 1));
        self.making.is_none().then(|| [index.to_be_bytes(), hash.to_be_bytes()].concat().into())
    }

    fn decode(&self, snapshot: &[u8]) -> Result<(u64, u64), SnapshotFault> {
        let (numbers, rest) = snapshot.as_chunks::<8>();
        match (numbers, rest) {
            ([index, hash], []) => Ok((u64::from_be_bytes(*index), u64::from_be_bytes(*hash))),
            _ => Err(SnapshotFault),
        }
    }

    fn install(&mut self, (index, hash): (u64, u64)) {
        self.index = index;
        self.hash = hash;
    }
}

struct Process {
    incarnation: u64,
    /// None until the leader has admitted it.
    log: Option<RaftLog<Toy>>,
    toy: Toy,
    out: Output,
    tick_every: u64,
    paused_until: u64,
    /// What came while it was paused.
    backlog: Vec<Message>,
    /// Admissions it proposed as a leader: who asked.
    admissions: BTreeMap<ProposalId, u64>,
    /// And whom it admitted, in case they ask again.
    admitted: BTreeMap<u64, NodeId>,
    role: Role,
}

enum Happening {
    Tick { slot: u8, incarnation: u64 },
    Deliver { epoch: u64, message: Box<Message> },
    LinkClosed { slot: u8, incarnation: u64, peer: NodeId },
    Admitted { slot: u8, incarnation: u64, id: NodeId },
    Propose,
    Fault,
    Resume { slot: u8, incarnation: u64 },
    SnapshotSent { slot: u8, incarnation: u64, peer: NodeId, outcome: SnapshotOutcome },
}

pub(crate) struct Cluster {
    world: World<Happening>,
    slots: Vec<Option<Process>>,
    incarnations: u64,
    seed: u64,
    next_value: u64,
    proposed: BTreeMap<(u64, ProposalId), u64>,
    /// By index, the value and hash that the first machine to apply it had.
    agreed: BTreeMap<u64, (u64, u64)>,
    values: BTreeSet<u64>,
    acknowledged: BTreeSet<u64>,
    leaders: BTreeMap<u64, NodeId>,
    ids: BTreeSet<NodeId>,
    trace: u64,
    faulting: bool,
    /// Whether somebody proposes all the time.
    busy: bool,
}

impl Cluster {
    pub(crate) fn new(seed: u64, slot_count: u8) -> Self {
        let mut cluster = Self {
            world: World::new(seed, usize::from(slot_count)),
            slots: Vec::new(),
            incarnations: 0,
            seed,
            next_value: 1,
            proposed: BTreeMap::new(),
            agreed: BTreeMap::new(),
            values: BTreeSet::new(),
            acknowledged: BTreeSet::new(),
            leaders: BTreeMap::new(),
            ids: BTreeSet::new(),
            trace: 0,
            faulting: false,
            busy: true,
        };
        let voters: Vec<_> =
            (0..slot_count).map(|slot| NodeId::new(1, slot).expect("valid")).collect();
        for id in &voters {
            let process = cluster.process(id.slot());
            cluster.slots.push(Some(process));
            cluster.ids.insert(*id);
            let log = RaftLog::bootstrap(*id, &voters, seed);
            cluster.live(id.slot()).log = Some(log);
        }
        cluster.world.after(1_000, Happening::Propose);
        cluster
    }

    fn process(&mut self, slot: u8) -> Process {
        self.incarnations += 1;
        let incarnation = self.incarnations;
        // Clock rates differ by up to 10 % either way.
        let tick_every = TICK_MICROSECONDS * (90 + self.world.random.below(21)) / 100;
        self.world.after(tick_every, Happening::Tick { slot, incarnation });
        Process {
            incarnation,
            log: None,
            toy: Toy::default(),
            out: Output::default(),
            tick_every,
            paused_until: 0,
            backlog: Vec::new(),
            admissions: BTreeMap::new(),
            admitted: BTreeMap::new(),
            role: Role::Learner,
        }
    }

    fn live(&mut self, slot: u8) -> &mut Process {
        self.slots[usize::from(slot)].as_mut().expect("lives")
    }

    fn leader(&self) -> Option<u8> {
        let leading = self.slots.iter().flatten().filter_map(|process| process.log.as_ref());
        leading
            .filter(|log| log.role() == Role::Leader)
            .max_by_key(|log| log.term())
            .map(|log| log.id().slot())
    }

    pub(crate) fn trace(&self) -> u64 {
        self.trace
    }

    pub(crate) fn run_with_faults(&mut self, duration: u64) {
        self.faulting = true;
        self.world.after(1_500_000, Happening::Fault);
        self.run(duration);
        self.faulting = false;
    }

    fn run(&mut self, duration: u64) {
        let end = self.world.now + duration;
        while let Some(happening) = self.world.next(end) {
            self.happen(happening);
        }
    }

    fn happen(&mut self, happening: Happening) {
        self.trace = chain(self.trace, self.world.now);
        match happening {
            Happening::Tick { slot, incarnation } => self.tick(slot, incarnation),
            Happening::Deliver { epoch, message } => self.deliver(epoch, *message),
            Happening::LinkClosed { slot, incarnation, peer } => {
                self.with(slot, incarnation, |log, toy, out| log.link_closed(peer, toy, out));
            }
            Happening::Admitted { slot, incarnation, id } => self.admitted(slot, incarnation, id),
            Happening::Propose => {
                if self.busy {
                    self.propose();
                }
                let pause = self.world.random.below(20_000);
                self.world.after(pause, Happening::Propose);
            }
            Happening::Fault if self.faulting => {
                self.fault();
                let pause = 200_000 + self.world.random.below(1_500_000);
                self.world.after(pause, Happening::Fault);
            }
            Happening::Fault => {}
            Happening::Resume { slot, incarnation } => self.resume(slot, incarnation),
            Happening::SnapshotSent { slot, incarnation, peer, outcome } => {
                self.with(slot, incarnation, |log, toy, out| {
                    log.snapshot_sent(peer, outcome, toy, out);
                });
            }
        }
    }

    /// Runs a call on a process if it is still the same and runs, then carries out its output.
    fn with(
        &mut self,
        slot: u8,
        incarnation: u64,
        call: impl FnOnce(&mut RaftLog<Toy>, &mut Toy, &mut Output),
    ) {
        let now = self.world.now;
        let Some(process) = self.slots[usize::from(slot)].as_mut() else { return };
        if process.incarnation != incarnation || process.paused_until > now {
            return;
        }
        if let Some(log) = &mut process.log {
            call(log, &mut process.toy, &mut process.out);
            self.carry_out(slot);
        }
    }

    fn tick(&mut self, slot: u8, incarnation: u64) {
        let Some(process) = self.slots[usize::from(slot)].as_ref() else { return };
        if process.incarnation != incarnation {
            return;
        }
        let tick_every = process.tick_every;
        self.world.after(tick_every, Happening::Tick { slot, incarnation });
        if process.log.is_none() && self.world.random.one_in(10) {
            self.ask_admission(slot, incarnation);
        }
        self.with(slot, incarnation, |log, toy, out| log.tick(toy, out));
    }

    fn ask_admission(&mut self, slot: u8, asker: u64) {
        let Some(leader) = self.leader() else { return };
        if !self.world.is_up(leader, slot) || !self.world.is_up(slot, leader) {
            return;
        }
        let incarnation = self.live(leader).incarnation;
        if self.live(leader).admissions.values().any(|other| *other == asker) {
            return;
        }
        if let Some(id) = self.live(leader).admitted.get(&asker).copied() {
            self.world.after(500, Happening::Admitted { slot, incarnation: asker, id });
            return;
        }
        let mut proposed = None;
        self.with(leader, incarnation, |log, toy, out| {
            proposed = log.admit(slot, toy, out).ok();
        });
        if let Some((proposal, MembershipChange::AddLearner(_))) = proposed {
            self.live(leader).admissions.insert(proposal, asker);
        }
    }

    fn admitted(&mut self, slot: u8, incarnation: u64, id: NodeId) {
        let seed = self.seed ^ incarnation;
        let Some(process) = self.slots[usize::from(slot)].as_mut() else { return };
        if process.incarnation == incarnation && process.log.is_none() {
            process.log = Some(RaftLog::join(id, seed));
        }
    }

    fn deliver(&mut self, epoch: u64, message: Message) {
        let (from, to) = (message.from.slot(), message.to.slot());
        if !self.world.arrives(from, to, epoch) {
            return;
        }
        let now = self.world.now;
        let Some(process) = self.slots[usize::from(to)].as_mut() else { return };
        if process.paused_until > now {
            process.backlog.push(message);
            return;
        }
        let incarnation = process.incarnation;
        let sender = message.from;
        let mut is_removed = false;
        self.with(to, incarnation, |log, toy, out| {
            if let Err(fault) = log.step(message, toy, out) {
                assert!(!fault.is_violation(), "an honest peer sends nothing bad: {fault}");
                is_removed = fault == StepFault::SenderRemoved;
            }
        });
        // It is told, exits, and is started again.
        let of = |process: &Process| process.log.as_ref().map(RaftLog::id);
        if is_removed && self.slots[usize::from(from)].as_ref().and_then(of) == Some(sender) {
            self.crash(from, true);
        }
    }

    fn carry_out(&mut self, slot: u8) {
        let process = self.live(slot);
        let incarnation = process.incarnation;
        let messages = take(&mut process.out.messages);
        let events = take(&mut process.out.events);
        let history = take(&mut process.toy.history);
        let acknowledged = take(&mut process.toy.acknowledged);
        let id = process.log.as_ref().expect("runs").id();
        for (index, value, hash) in history {
            let first = *self.agreed.entry(index).or_insert((value, hash));
            assert_eq!(first, (value, hash), "{id} differs at index {index}");
            assert!(self.values.insert(value) || first.0 == value, "applied twice");
        }
        for (proposal, value) in acknowledged {
            assert_eq!(self.proposed.get(&(incarnation, proposal)), Some(&value));
            self.acknowledged.insert(value);
        }
        for event in events {
            self.event(slot, incarnation, id, event);
        }
        for message in messages {
            self.transmit(slot, incarnation, message);
        }
    }

    fn event(&mut self, slot: u8, incarnation: u64, id: NodeId, event: Event) {
        match event {
            Event::Leadership { term, role, .. } => {
                self.live(slot).role = role;
                if role == Role::Leader {
                    let first = *self.leaders.entry(term).or_insert(id);
                    assert_eq!(first, id, "two leaders of term {term}");
                } else {
                    self.live(slot).admissions.clear();
                }
            }
            Event::Membership { proposal, change, refused } => {
                let asker = proposal.and_then(|p| self.live(slot).admissions.remove(&p));
                if let (Some(asker), MembershipChange::AddLearner(new), None) =
                    (asker, change, refused)
                {
                    assert!(self.ids.insert(new), "{new} was given out twice");
                    self.live(slot).admitted.insert(asker, new);
                    let joiner = new.slot();
                    let happening =
                        Happening::Admitted { slot: joiner, incarnation: asker, id: new };
                    self.world.after(500, happening);
                }
            }
            Event::Removed => {
                // A removed process exits; its slot's next one has already taken over.
                assert!(
                    self.slots[usize::from(slot)]
                        .as_ref()
                        .is_some_and(|p| p.incarnation == incarnation)
                );
            }
            Event::SnapshotInstalled { index } => {
                let hash = self.live(slot).toy.hash;
                if let Some(agreed) = self.agreed.range(..=index).next_back() {
                    assert_eq!(agreed.1.1, hash, "snapshot at {index} differs");
                }
            }
        }
    }

    fn transmit(&mut self, slot: u8, incarnation: u64, message: Message) {
        let to = message.to.slot();
        let snapshot_to = matches!(message.body, Body::Snapshot { .. }).then_some(message.to);
        let up = self.world.is_up(slot, to);
        self.world.send(slot, to, |epoch| Happening::Deliver { epoch, message: Box::new(message) });
        if let Some(peer) = snapshot_to {
            let outcome = if up { SnapshotOutcome::Sent } else { SnapshotOutcome::Failed };
            // Before the peer's answer or after it.
            let delay = self.world.random.below(5_000);
            let happening = Happening::SnapshotSent { slot, incarnation, peer, outcome };
            self.world.after(delay, happening);
        }
    }

    fn propose(&mut self) {
        let Some(leader) = self.leader() else { return };
        let value = self.next_value;
        self.next_value += 1;
        let incarnation = self.live(leader).incarnation;
        let data = Bytes::copy_from_slice(&value.to_be_bytes());
        // Known before it can be applied: ids count up.
        let now = self.world.now;
        let process = self.live(leader);
        if process.paused_until > now {
            return;
        }
        let (log, toy, out) =
            (process.log.as_mut().expect("leads"), &mut process.toy, &mut process.out);
        if let Ok(proposal) = log.propose(data, toy, out) {
            self.proposed.insert((incarnation, proposal), value);
        }
        self.carry_out(leader);
    }

    fn fault(&mut self) {
        let count = self.slots.len() as u8;
        let slot = self.world.random.below(u64::from(count)) as u8;
        let other = (slot + 1 + self.world.random.below(u64::from(count) - 1) as u8) % count;
        match self.world.random.below(6) {
            0 => self.world.set_link(slot, other, LinkState::Silent),
            1 => {
                for peer in (0..count).filter(|peer| *peer != slot) {
                    self.world.set_link(slot, peer, LinkState::Silent);
                    self.world.set_link(peer, slot, LinkState::Silent);
                }
            }
            2 => self.pause(slot),
            3 if self.may_crash(slot) => self.crash(slot, true),
            4 => self.close_link(slot, other),
            _ => self.heal(),
        }
    }

    fn heal(&mut self) {
        let slots = 0..self.slots.len() as u8;
        for (from, to) in slots.clone().flat_map(|from| slots.clone().map(move |to| (from, to))) {
            if !self.world.is_up(from, to) {
                self.world.set_link(from, to, LinkState::Up);
            }
        }
    }

    /// Only while a majority is left besides: of processes that are voters and take part. Whoever
    /// is being brought in may die, again and again.
    fn may_crash(&self, slot: u8) -> bool {
        let newest = self.slots.iter().flatten().filter_map(|process| process.log.as_ref());
        let Some(newest) = newest.max_by_key(|log| log.applied()) else { return false };
        let members = newest.membership();
        let is_whole = |process: &Option<Process>| {
            process.as_ref().and_then(|process| process.log.as_ref()).is_some_and(|log| {
                let is_voter = members.is_voter(log.id());
                let was_voter = !members.is_joint() || members.outgoing.contains(&log.id());
                is_voter && was_voter && log.role() != Role::Learner
            })
        };
        let others = (0..).zip(&self.slots).filter(|(other, _)| *other != slot);
        let minority = (self.slots.len() - 1) / 2;
        let broken = others.filter(|(_, process)| !is_whole(process)).count();
        broken < minority && self.slots[usize::from(slot)].is_some()
    }

    fn pause(&mut self, slot: u8) {
        let until = self.world.now + 100_000 + self.world.random.below(3_000_000);
        if let Some(process) = &mut self.slots[usize::from(slot)] {
            process.paused_until = until;
            let incarnation = process.incarnation;
            self.world.at(until, Happening::Resume { slot, incarnation });
        }
    }

    fn resume(&mut self, slot: u8, incarnation: u64) {
        let Some(process) = &mut self.slots[usize::from(slot)] else { return };
        if process.incarnation == incarnation {
            for message in take(&mut process.backlog) {
                self.with(slot, incarnation, |log, toy, out| {
                    let _ = log.step(message, toy, out);
                });
            }
        }
    }

    /// The process ends and an empty one starts; peers see the links close, or not.
    fn crash(&mut self, slot: u8, notice: bool) {
        let dead = self.slots[usize::from(slot)].take();
        let id = dead.and_then(|process| process.log).map(|log| log.id());
        for peer in (0..self.slots.len() as u8).filter(|peer| *peer != slot) {
            let up = self.world.is_up(slot, peer);
            let (state, back) = (self.state(slot, peer), self.state(peer, slot));
            self.world.set_link(slot, peer, state);
            self.world.set_link(peer, slot, back);
            if let (true, true, Some(id)) = (notice, up, id) {
                let incarnation = self.slots[usize::from(peer)].as_ref().map(|p| p.incarnation);
                if let Some(incarnation) = incarnation {
                    let happening = Happening::LinkClosed { slot: peer, incarnation, peer: id };
                    self.world.after(200, happening);
                }
            }
        }
        let process = self.process(slot);
        self.slots[usize::from(slot)] = Some(process);
    }

    fn state(&self, from: u8, to: u8) -> LinkState {
        if self.world.is_up(from, to) { LinkState::Up } else { LinkState::Silent }
    }

    /// A connection breaks although both processes live.
    fn close_link(&mut self, slot: u8, other: u8) {
        for (from, to) in [(slot, other), (other, slot)] {
            let state = self.state(from, to);
            self.world.set_link(from, to, state);
            let peer = self.slots[usize::from(from)].as_ref().and_then(|p| p.log.as_ref());
            let peer = peer.map(|log| log.id());
            let incarnation = self.slots[usize::from(to)].as_ref().map(|p| p.incarnation);
            if let (Some(peer), Some(incarnation)) = (peer, incarnation) {
                self.world.after(100, Happening::LinkClosed { slot: to, incarnation, peer });
            }
        }
    }

    /// After the faults everything recovers by itself.
    pub(crate) fn heal_and_check(&mut self) {
        self.heal();
        self.run(SETTLE_MICROSECONDS);
        let before = self.acknowledged.len();
        self.run(2_000_000);
        assert!(self.acknowledged.len() > before + 20, "progress after healing");
        let leader = self.leader().expect("a leader");
        let status = self.live(leader).log.as_ref().expect("leads").status();
        assert!(!status.is_joint, "{status:?}");
        for slot in 0..self.slots.len() as u8 {
            let log = self.live(slot).log.as_ref().expect("admitted");
            let member = status.members.iter().find(|member| member.id == log.id());
            assert!(member.is_some_and(|member| member.is_voter), "{} in {status:?}", log.id());
            assert!(log.applied() + 20 > status.applied, "{} lags: {status:?}", log.id());
        }
        for value in &self.acknowledged {
            assert!(self.values.contains(value), "acknowledged {value} was lost");
        }
    }

    /// How long no leader commits anything after the leader died.
    pub(crate) fn leader_gap(&mut self, notice: bool) -> u64 {
        self.run(3_000_000);
        let leader = self.leader().expect("a leader");
        let died = self.world.now;
        self.crash(leader, notice);
        let before = self.acknowledged.len();
        while self.acknowledged.len() == before {
            self.run(1_000);
            assert!(self.world.now < died + 10_000_000, "no new leader");
        }
        self.world.now - died
    }

    /// A process is replaced while nobody proposes anything.
    pub(crate) fn replace_in_silence(&mut self) {
        self.run(3_000_000);
        self.busy = false;
        let slot_count = self.slots.len() as u8;
        let slot = (self.leader().expect("a leader") + 1) % slot_count;
        self.crash(slot, true);
        self.run(3_000_000);
        let leader = self.leader().expect("a leader");
        let status = self.live(leader).log.as_ref().expect("leads").status();
        let log = self.live(slot).log.as_ref().expect("admitted");
        let is_voter = |id| status.members.iter().any(|other| other.id == id && other.is_voter);
        assert!(is_voter(log.id()) && !status.is_joint, "{} in {status:?}", log.id());
    }

    /// How long no leader commits anything after a planned hand-over.
    pub(crate) fn hand_over_gap(&mut self) -> u64 {
        self.run(3_000_000);
        let leader = self.leader().expect("a leader");
        let began = self.world.now;
        let incarnation = self.live(leader).incarnation;
        self.with(leader, incarnation, |log, toy, out| {
            assert!(log.hand_over(toy, out).is_some());
        });
        while self.leader().is_none_or(|slot| slot == leader) {
            self.run(500);
            assert!(self.world.now < began + 10_000_000, "no new leader");
        }
        let before = self.acknowledged.len();
        while self.acknowledged.len() == before {
            self.run(500);
            assert!(self.world.now < began + 10_000_000, "no progress");
        }
        self.world.now - began
    }

    /// Two of three die at once, empty: that is the end, for ever.
    pub(crate) fn lose_majority(&mut self) {
        self.run(3_000_000);
        self.crash(0, true);
        self.crash(1, true);
        self.run(1_000_000);
        let before = self.acknowledged.len();
        self.run(30_000_000);
        assert_eq!(self.acknowledged.len(), before, "nothing is acknowledged without a majority");
        assert_eq!(self.leader(), None);
    }

    /// More entries than the log keeps, then one slot after the other restarted empty.
    pub(crate) fn fill_and_replace(&mut self) {
        self.run(3_000_000);
        for round in 0..6 {
            for _ in 0..5_000 {
                self.propose();
                self.run(50);
            }
            let slot = round % 3;
            self.crash(slot, true);
            self.run(4_000_000);
            assert!(self.may_crash(slot), "round {round}: slot {slot} has not rejoined");
            assert!(self.slots[usize::from(slot)].as_ref().is_some_and(|p| p.toy.index > 5_000));
        }
        let made: usize =
            self.slots.iter().flatten().map(|process| process.toy.snapshots_made).sum();
        assert!(made > 0, "new nodes get snapshots");
        self.heal_and_check();
    }
}
