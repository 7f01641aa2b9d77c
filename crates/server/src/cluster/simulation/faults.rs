//! What goes wrong, and what holds afterwards.

use super::admission::STRANGER;
use super::client::Client;
use super::net::LinkState;
use super::world::{Event, Simulation};
use crate::cluster::life::Waiting;
use crate::cluster::replicated::HandOver;
use crate::peer::message::{PeerMessage, PeerStatus};
use ticketing_raft_log::{NodeId, Role, SnapshotOutcome};

/// From the end of all faults until everything has recovered.
const SETTLE_MICROSECONDS: u64 = 12_000_000;
/// How often a process that stops looks whether its leadership is handed over.
const MOVE_ON_MICROSECONDS: u64 = 250_000;
/// Longer than any wait and the lease after it, by whatever clock.
const END_MICROSECONDS: u64 = 8_000_000;

impl Simulation {
    /// The first fault comes after so many microseconds.
    pub(super) fn run_with_faults(&mut self, first: u64, duration: u64) {
        self.is_faulting = true;
        self.world.after(first, Event::Fault);
        self.run(duration);
        self.is_faulting = false;
    }

    pub(super) fn fault(&mut self) {
        if !self.is_faulting {
            return;
        }
        let has_begun = self.term() > 0;
        let pause = if has_begun {
            200_000 + self.world.random.below(1_500_000)
        } else {
            self.world.random.below(200_000)
        };
        self.world.after(pause, Event::Fault);
        let count = self.slots.len() as u8;
        let slot = self.world.random.below(u64::from(count)) as u8;
        let other = (slot + 1 + self.world.random.below(u64::from(count) - 1) as u8) % count;
        match self.world.random.below(9) {
            0 => self.cut(slot, other),
            1 => (0..count).filter(|peer| *peer != slot).for_each(|peer| {
                self.cut(slot, peer);
                self.cut(peer, slot);
            }),
            2 => self.pause(slot),
            3 | 4 if self.may_crash(slot) => self.crash(slot),
            5 => {
                self.break_link(slot, other);
                self.world.after(100_000, Event::Connect { slot });
            }
            6 if self.may_crash(slot) && self.stopping.is_none() => self.stop(slot),
            7 => self.stranger_speaks(slot, other),
            _ => {}
        }
    }

    /// One direction swallows everything for a while; the connection breaks when it heals.
    fn cut(&mut self, from: u8, to: u8) {
        self.world.set_link(from, to, LinkState::Silent);
        let time = 100_000 + self.world.random.below(3_000_000);
        self.world.after(time, Event::Heal { from, to });
    }

    /// A process that was wrongly given a slot says what it may say, and goes.
    fn stranger_speaks(&mut self, node: u8, slot: u8) {
        let own = self.slots[usize::from(node)].as_ref().expect("lives").incarnation;
        let mut incarnations = vec![STRANGER; self.slots.len()];
        incarnations[usize::from(node)] = own;
        let may_bootstrap = self.world.random.one_in(2);
        let fresh = PeerMessage::Status(PeerStatus::Fresh { may_bootstrap });
        let says = match self.world.random.below(4) {
            0 => vec![fresh, PeerMessage::Join],
            1 => vec![fresh, PeerMessage::Prepare { round: STRANGER, incarnations }],
            _ => vec![fresh],
        };
        for message in says {
            self.stranger_says(node, slot, message);
        }
        if self.world.random.one_in(2) {
            self.with(node, own, |process, now| process.engine.peer_closed(slot, STRANGER, now));
        }
    }

    /// A planned stop.
    fn stop(&mut self, slot: u8) {
        self.stopping = Some(slot);
        let incarnation = self.begin_hand_over(slot);
        self.world.after(MOVE_ON_MICROSECONDS, Event::Stop { slot, incarnation });
    }

    /// The process in a slot is told to stop; which one that is.
    pub(super) fn begin_hand_over(&mut self, slot: u8) -> u64 {
        let incarnation = self.slots[usize::from(slot)].as_ref().expect("lives").incarnation;
        self.with(slot, incarnation, |process, now| process.engine.begin_hand_over(now));
        incarnation
    }

    pub(super) fn go_on_stopping(&mut self, slot: u8, incarnation: u64) {
        let now = self.world.now;
        let Some(process) = self.process(slot, incarnation) else { return };
        let is_handed_over = process.engine.is_handed_over(process.local(now));
        if is_handed_over && self.may_crash(slot) {
            self.crash(slot);
        } else {
            self.world.after(MOVE_ON_MICROSECONDS, Event::Stop { slot, incarnation });
        }
    }

    fn pause(&mut self, slot: u8) {
        let time = 100_000 + self.world.random.below(3_000_000);
        self.pause_for(slot, time);
    }

    pub(super) fn pause_for(&mut self, slot: u8, time: u64) {
        let until = self.world.now + time;
        if let Some(process) = &mut self.slots[usize::from(slot)] {
            process.paused_until = until;
            let incarnation = process.incarnation;
            self.world.at(until, Event::Resume { slot, incarnation });
        }
    }

    /// Only while every other slot's process is a voter that follows: a majority never dies. The
    /// slot's own may be anything: a process may die on its way in, again and again.
    fn may_crash(&self, slot: u8) -> bool {
        if self.stopping.is_some_and(|stopping| stopping != slot) {
            return false;
        }
        let logs =
            self.slots.iter().flatten().filter_map(|process| process.engine.locks.log.as_ref());
        let Some(newest) = logs.max_by_key(|log| log.applied()) else {
            // While they begin, it is always the same one.
            return slot == (self.seed % self.slots.len() as u64) as u8;
        };
        let members = newest.membership();
        let is_others = |id: &NodeId| id.slot() != slot;
        let mut leaving = members.outgoing.iter().filter(|id| !members.is_voter(**id));
        !leaving.any(is_others)
            && !members.learners.iter().any(is_others)
            && (0..).zip(&self.slots).filter(|(other, _)| *other != slot).all(|(_, process)| {
                let log = process.as_ref().and_then(|process| process.engine.locks.log.as_ref());
                log.is_some_and(|log| {
                    members.is_voter(log.id()) && log.role() != Role::Learner && log.applied() > 1
                })
            })
    }

    /// The process ends, its kernel closes its connections, and an empty one starts.
    pub(super) fn crash(&mut self, slot: u8) {
        let Some(mut dead) = self.slots[usize::from(slot)].take() else { return };
        self.stopping = self.stopping.filter(|stopping| *stopping != slot);
        // Whoever was sending it a snapshot hears that it is gone.
        for event in std::mem::take(&mut dead.backlog) {
            if let Event::Snapshot { from: slot, incarnation, message, .. } = event {
                let (to, outcome) = (message.to, SnapshotOutcome::Failed);
                self.world.after(200, Event::SnapshotEnd { slot, incarnation, to, outcome });
            }
        }
        for peer in (0..self.slots.len() as u8).filter(|peer| *peer != slot) {
            for (from, to) in [(slot, peer), (peer, slot)] {
                let is_up = self.world.is_up(from, to);
                self.world.set_link(
                    from,
                    to,
                    if is_up { LinkState::Up } else { LinkState::Silent },
                );
            }
            if let Some(process) = &mut self.slots[usize::from(peer)] {
                process.engine.set_link(slot, None);
                let (incarnation, peer_incarnation) = (process.incarnation, dead.incarnation);
                let event =
                    Event::PeerClosed { slot: peer, incarnation, peer: slot, peer_incarnation };
                self.world.after(200, event);
            }
        }
        for client in dead.sessions.into_keys() {
            self.clients[client].disconnected(slot);
            self.record(client);
        }
        self.start(slot);
    }

    pub(super) fn heal_and_check(&mut self) {
        self.run(SETTLE_MICROSECONDS);
        self.calm = self.world.now;
        let before = self.granted_count();
        self.run(8_000_000);
        assert!(self.granted_count() > before + 3, "grants go on after the faults");
        let leader = self.leader().expect("a leader");
        let process = self.slots[usize::from(leader)].as_ref().expect("leads");
        let status = process.engine.locks.log.as_ref().expect("leads").status();
        assert!(!status.is_joint, "{status:?}");
        for process in self.slots.iter().flatten() {
            let log = process.engine.locks.log.as_ref().expect("is a member");
            let is_voter = |member: &ticketing_raft_log::MemberStatus| {
                member.id == log.id() && member.is_voter
            };
            assert!(status.members.iter().any(is_voter), "{} in {status:?}", log.id());
            assert!(log.applied() + 200 > status.applied, "{} lags: {status:?}", log.id());
        }
        self.check_end();
    }

    /// When nobody asks for anything any more, all waits and leases end by themselves, and all
    /// nodes have come to one state.
    fn check_end(&mut self) {
        self.is_closing = true;
        self.run(END_MICROSECONDS);
        self.check_records();
        let mut states = self.slots.iter().flatten().map(|process| {
            let locks = &process.engine.locks;
            let table = &locks.replica.table;
            assert!(locks.unanswered.is_empty(), "unanswered: {:?}", locks.unanswered);
            assert_eq!((table.grant_count(), table.waiter_count()), (0, 0), "left behind");
            (locks.log.as_ref().expect("is a member").applied(), table.digest())
        });
        let first = states.next().expect("lives");
        states.for_each(|state| assert_eq!(state, first, "one index, one digest"));
    }

    /// A planned stop of the leader, together with that of so many others: nobody gets an `I`, and
    /// those who stay go on at once.
    pub(super) fn stop_leader_and(&mut self, other_count: u8) {
        self.run(4_000_000);
        let count = self.slots.len() as u8;
        let leader = self.leader().expect("a leader");
        // The leader last: it does not know that the others stop.
        let stopping: Vec<_> =
            (0..=other_count).rev().map(|distance| (leader + distance) % count).collect();
        let indeterminate = |simulation: &Self| -> u64 {
            simulation.clients.iter().map(|client| client.indeterminate_count).sum()
        };
        let before = indeterminate(self);
        let (began, term_before) = (self.world.now, self.term());
        for slot in stopping.iter().copied() {
            self.begin_hand_over(slot);
        }
        let is_done = |simulation: &Self| {
            let stays = simulation.leader().is_some_and(|leader| !stopping.contains(&leader));
            stays
                && stopping.iter().all(|slot| {
                    let process = simulation.slots[usize::from(*slot)].as_ref().expect("lives");
                    process.engine.is_handed_over(process.local(simulation.world.now))
                })
        };
        while !is_done(self) {
            self.run(1_000);
            assert!(self.world.now < began + 250_000, "the hand-over takes too long");
        }
        // None of them had it twice.
        assert!(self.term() <= term_before + stopping.len() as u64);
        // What was answered is delivered before the processes end.
        self.run(50_000);
        let waits_there =
            |client: &&Client| client.waits_for().is_some_and(|slot| stopping.contains(&slot));
        assert_eq!(self.clients.iter().filter(waits_there).count(), 0, "everybody has an answer");
        let granted = self.granted_count();
        for slot in stopping {
            self.crash(slot);
        }
        self.run(8_000_000);
        assert_eq!(indeterminate(self), before, "no request is left in doubt");
        assert!(self.granted_count() > granted, "grants go on");
        self.check_records();
    }

    /// The cluster begins, and one process never hears of it. Then all others lose their memory.
    pub(super) fn lose_who_began(&mut self) {
        while self.slots[0].as_ref().is_some_and(|process| process.engine.locks.log.is_none()) {
            self.run(10);
        }
        let last = self.slots.len() as u8 - 1;
        for slot in 0..last {
            self.world.set_link(slot, last, LinkState::Silent);
            self.world.set_link(last, slot, LinkState::Silent);
        }
        self.run(4_000_000);
        let before = self.granted_count();
        assert!(before > 0);
        assert!(self.slots[usize::from(last)].as_ref().expect("lives").engine.locks.log.is_none());
        (0..last).for_each(|slot| self.crash(slot));
        (0..last).for_each(|slot| self.heal_link(slot, last));
        (0..last).for_each(|slot| self.heal_link(last, slot));
        self.run(30_000_000);
        self.check_records();
        assert_eq!(self.granted_count(), before, "nothing is granted any more");
        let process = self.slots[usize::from(last)].as_ref().expect("lives");
        let local = process.local(self.world.now);
        assert_eq!(process.engine.locks.waiting(local), Waiting::Doubt);
    }

    /// A planned stop of everybody: nobody waits for one that stays.
    pub(super) fn stop_all(&mut self) {
        self.run(4_000_000);
        let (leader, term_before) = (self.leader().expect("a leader"), self.term());
        let count = self.slots.len() as u8;
        for distance in 0..count {
            self.begin_hand_over((leader + distance) % count);
        }
        self.run(MOVE_ON_MICROSECONDS);
        for process in self.slots.iter().flatten() {
            assert!(process.engine.is_handed_over(process.local(self.world.now)));
        }
        // Each had it at most once more.
        assert!(self.term() <= term_before + u64::from(count));
    }

    /// A planned stop of the leader, and in the middle of it something happens to the follower
    /// that is so many slots further: how long it takes until another one leads.
    pub(super) fn hand_over_time(&mut self, distance: u8, fault: impl Fn(&mut Self, u8)) -> u64 {
        self.run(4_000_000);
        let leader = self.leader().expect("a leader");
        let began = self.world.now;
        let incarnation = self.begin_hand_over(leader);
        let is_on_its_way = |simulation: &mut Self| {
            let process = simulation.process(leader, incarnation).expect("lives");
            process.engine.locks.hand_over == HandOver::Transferring
        };
        while !is_on_its_way(self) {
            self.run(1);
        }
        let count = self.slots.len() as u8;
        fault(self, (leader + distance) % count);
        while self.leader() == Some(leader) {
            self.run(1_000);
        }
        self.world.now - began
    }

    /// Two of three lose their memory at once.
    pub(super) fn lose_majority(&mut self) {
        self.run(4_000_000);
        assert!(self.granted_count() > 0);
        self.crash(0);
        self.crash(1);
        self.run(2_000_000);
        let before = self.granted_count();
        self.run(30_000_000);
        assert_eq!(self.granted_count(), before, "nothing is granted any more");
        self.check_records();
        let process = self.slots[0].as_ref().expect("lives");
        let local = process.local(self.world.now);
        assert_eq!(process.engine.locks.waiting(local), Waiting::Admission);
    }

    /// All lose their memory after the window.
    pub(super) fn restart_all_late(&mut self) {
        self.run(4_000_000);
        for slot in 0..self.slots.len() as u8 {
            self.crash(slot);
        }
        let before = self.granted_count();
        self.run(10_000_000);
        assert_eq!(self.granted_count(), before, "nothing is granted any more");
        self.check_records();
        let process = self.slots[0].as_ref().expect("lives");
        let local = process.local(self.world.now);
        assert_eq!(process.engine.locks.waiting(local), Waiting::Over);
    }
}
