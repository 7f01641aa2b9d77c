//! Two processes want one slot.

use super::net::LinkState;
use super::world::Simulation;
use crate::peer::message::{PeerMessage, PeerStatus};
use ticketing_raft_log::NodeId;

/// From the start to a leader that all know.
const START_MICROSECONDS: u64 = 4_000_000;
/// Until a process has its slot.
const JOIN_MICROSECONDS: u64 = 3_000_000;
/// No process of the simulation has it.
pub(super) const STRANGER: u64 = u64::MAX;

impl Simulation {
    /// What the process in a slot is a member as.
    fn member_in(&self, slot: u8) -> Option<NodeId> {
        let process = self.slots[usize::from(slot)].as_ref()?;
        process.engine.locks.life.member().map(|(_, node)| node)
    }

    /// Whether the leader has a link to the process in a slot.
    fn is_linked(&self, leader: u8, slot: u8) -> bool {
        let process = self.slots[usize::from(leader)].as_ref().expect("leads");
        process.engine.locks.life.incarnation_of(slot)
            == self.slots[usize::from(slot)].as_ref().map(|process| process.incarnation)
    }

    /// The leader hears Join from another process than it has a link to.
    fn stranger_asks(&mut self, leader: u8, slot: u8) {
        self.stranger_says(leader, slot, PeerMessage::Join);
    }

    /// A node hears something from another process than it has a link to.
    pub(super) fn stranger_says(&mut self, node: u8, slot: u8, message: PeerMessage) {
        let incarnation = self.slots[usize::from(node)].as_ref().expect("lives").incarnation;
        self.with(node, incarnation, |process, now| {
            process.engine.peer_connected(slot, STRANGER);
            let taken = process.engine.peer_message(slot, STRANGER, message, now);
            taken.expect("an honest peer sends it");
        });
    }

    fn is_voter(&self, slot: u8) -> bool {
        let process = self.slots[usize::from(slot)].as_ref().expect("lives");
        let log = process.engine.locks.log.as_ref();
        log.is_some_and(|log| log.membership().is_voter(log.id()))
    }

    fn is_admitted(&self, leader: u8, incarnation: u64) -> bool {
        let process = self.slots[usize::from(leader)].as_ref().expect("leads");
        process.engine.locks.admitted.contains_key(&incarnation)
    }
}

/// A cluster that has lost a follower, whose slot's next process has not asked yet: its leader, and
/// that slot.
fn bereaved(seed: u64) -> (Simulation, u8, u8) {
    let mut simulation = Simulation::new(seed, 3);
    simulation.run(START_MICROSECONDS);
    let leader = simulation.leader().expect("a leader");
    let slot = (leader + 1) % 3;
    simulation.crash(slot);
    // Links are open, and the first Join is on its way.
    while !simulation.is_linked(leader, slot) {
        simulation.run(1_000);
    }
    assert_eq!(simulation.member_in(slot), None);
    (simulation, leader, slot)
}

/// What a process that takes itself for one of a slot says to another slot before they begin.
fn begins_in_spite_of(to: u8, slot: u8, message: &PeerMessage) {
    for seed in 0..10 {
        for is_linked_before in [false, true] {
            let mut simulation = Simulation::new(seed, 3);
            while is_linked_before && !simulation.is_linked(to, slot) {
                simulation.run(1_000);
            }
            // Again and again, and it goes in the middle of the beginning.
            for _ in 0..10 {
                simulation.stranger_says(to, slot, message.clone());
                simulation.run(30_000);
            }
            let own = simulation.slots[usize::from(to)].as_ref().expect("lives").incarnation;
            simulation.with(to, own, |process, now| {
                process.engine.peer_closed(slot, STRANGER, now);
            });
            simulation.run(START_MICROSECONDS);
            assert!(simulation.leader().is_some(), "seed {seed}, linked {is_linked_before}");
            for slot in 0..3 {
                let first = NodeId::new(1, slot);
                assert_eq!(simulation.member_in(slot), first, "seed {seed}, slot {slot}");
            }
        }
    }
}

#[test]
fn a_cluster_begins_although_another_process_says_to_be_one_of_its_slots() {
    let fresh = PeerMessage::Status(PeerStatus::Fresh { may_bootstrap: true });
    let late = PeerMessage::Status(PeerStatus::Fresh { may_bootstrap: false });
    let prepare = PeerMessage::Prepare { round: STRANGER, incarnations: vec![STRANGER; 3] };
    for message in [fresh, late, prepare] {
        begins_in_spite_of(0, 1, &message);
        begins_in_spite_of(1, 0, &message);
        begins_in_spite_of(2, 1, &message);
    }
}

#[test]
fn an_id_is_given_only_to_the_process_that_asked_for_it() {
    for seed in 0..10 {
        let (mut simulation, leader, slot) = bereaved(seed);
        simulation.stranger_asks(leader, slot);
        simulation.run(JOIN_MICROSECONDS);
        assert!(!simulation.is_admitted(leader, STRANGER), "seed {seed}");
        let own = simulation.slots[usize::from(slot)].as_ref().expect("lives").incarnation;
        assert!(simulation.is_admitted(leader, own), "seed {seed}");
        assert_eq!(simulation.member_in(slot), NodeId::new(2, slot), "seed {seed}");
    }
}

#[test]
fn an_id_does_not_follow_the_link_to_another_process() {
    for seed in 0..10 {
        let (mut simulation, leader, slot) = bereaved(seed);
        // The link leads to the stranger, it asks and is admitted; then the link leads back.
        let incarnation =
            simulation.slots[usize::from(leader)].as_ref().expect("leads").incarnation;
        let own = simulation.slots[usize::from(slot)].as_ref().expect("lives").incarnation;
        simulation.with(leader, incarnation, |process, _| {
            process.engine.set_link(slot, Some(STRANGER));
        });
        simulation.stranger_asks(leader, slot);
        simulation.with(leader, incarnation, |process, _| {
            process.engine.set_link(slot, Some(own));
        });
        simulation.run(JOIN_MICROSECONDS);
        simulation.stranger_asks(leader, slot);
        simulation.run(JOIN_MICROSECONDS);
        let member = simulation.member_in(slot).expect("admitted in the end");
        assert!(
            member > NodeId::new(2, slot).expect("valid"),
            "seed {seed}: {member} is another's"
        );
    }
}

#[test]
fn a_process_that_two_leaders_admitted_takes_the_later_id() {
    for seed in 0..10 {
        let (mut simulation, first, slot) = bereaved(seed);
        let second = 3 - first - slot;
        let own = simulation.slots[usize::from(slot)].as_ref().expect("lives").incarnation;
        let until_admitted = |simulation: &mut Simulation, leader| {
            while !simulation.is_admitted(leader, own) {
                simulation.run(100);
            }
        };
        until_admitted(&mut simulation, first);
        // What the first leader says of it is late: it has stopped, and the second one leads.
        simulation.world.set_link(first, slot, LinkState::Silent);
        assert_eq!(simulation.member_in(slot), None, "seed {seed}");
        simulation.begin_hand_over(first);
        until_admitted(&mut simulation, second);
        assert_eq!(simulation.member_in(slot), None, "seed {seed}");
        let leader = simulation.slots[usize::from(first)].as_ref().expect("lives");
        let (group, leader) = (leader.engine.locks.group, leader.incarnation);
        let node = NodeId::new(2, slot).expect("valid");
        simulation.with(slot, own, |process, now| {
            let late = PeerMessage::Admitted { group, node };
            process.engine.peer_message(first, leader, late, now).expect("from an honest peer");
        });
        assert_eq!(simulation.member_in(slot), Some(node), "seed {seed}");
        simulation.run(JOIN_MICROSECONDS);
        assert_eq!(simulation.member_in(slot), NodeId::new(3, slot), "seed {seed}");
        assert!(simulation.is_voter(slot), "seed {seed}");
    }
}
