//! Two processes want one slot.

use super::world::Simulation;
use crate::peer::message::PeerMessage;
use ticketing_raft_log::NodeId;

/// From the start to a leader that all know.
const START_MICROSECONDS: u64 = 4_000_000;
/// Until a process has its slot.
const JOIN_MICROSECONDS: u64 = 3_000_000;
/// No process of the simulation has it.
const STRANGER: u64 = u64::MAX;

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
        let incarnation = self.slots[usize::from(leader)].as_ref().expect("leads").incarnation;
        self.with(leader, incarnation, |process, now| {
            let taken = process.engine.peer_message(slot, STRANGER, PeerMessage::Join, now);
            taken.expect("an honest peer sends it");
        });
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
