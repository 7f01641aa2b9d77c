//! What one process promises, by the messages that it hears.

use super::*;

const NOW: Instant = Instant::from_nanos(1);
/// The process under test, in the last slot.
const OWN: u64 = 7;

/// A process that has links to the others of a round.
fn life(round: &[u64]) -> Life {
    let slot_count = round.len() as u8;
    let birth = Birth {
        slot: slot_count - 1,
        slot_count,
        incarnation: OWN,
        bootstrap_until: later(NOW, Duration::from_secs(900)),
        was_member: false,
    };
    let mut life = Life::new(birth, NOW);
    link(&mut life, round);
    life
}

fn link(life: &mut Life, round: &[u64]) {
    for (slot, incarnation) in (0..).zip(&round[..round.len() - 1]) {
        life.linked(slot, Some(*incarnation));
        let status = PeerMessage::Status(PeerStatus::Fresh { may_bootstrap: true });
        life.receive(slot, *incarnation, &status, Standing::default(), NOW, &mut Vec::new());
    }
}

/// Whether it promises that round, for which the coordinator of these processes asks.
fn promises(life: &mut Life, round: u64, incarnations: &[u64]) -> bool {
    let mut steps = Vec::new();
    let prepare = PeerMessage::Prepare { round, incarnations: incarnations.to_vec() };
    life.receive(COORDINATOR_SLOT, incarnations[0], &prepare, Standing::default(), NOW, &mut steps);
    steps == [Step::Send(COORDINATOR_SLOT, PeerMessage::Promise { round })]
}

#[test]
fn a_minority_that_is_gone_keeps_nobody_from_promising_again() {
    for rounds in [
        &[&[10, 11, OWN][..], &[20, 11, OWN], &[30, 11, OWN]][..],
        &[&[10, 11, 12, 13, OWN], &[20, 21, 12, 13, OWN], &[20, 31, 12, 13, OWN]],
    ] {
        let mut life = life(rounds[0]);
        for (number, round) in (1..).zip(rounds) {
            link(&mut life, round);
            assert!(promises(&mut life, number, round), "{round:?}");
            assert_eq!(life.waiting(NOW), Waiting::Round);
        }
    }
}

#[test]
fn whoever_promised_promises_nothing_more_once_a_majority_may_have_begun_and_is_gone() {
    for rounds in [
        &[&[10, 11, OWN][..], &[20, 11, OWN], &[20, 21, OWN]][..],
        &[&[10, 11, 12, 13, OWN], &[20, 21, 12, 13, OWN], &[20, 21, 22, 13, OWN]],
    ] {
        let mut life = life(rounds[0]);
        assert!(promises(&mut life, 1, rounds[0]));
        link(&mut life, rounds[1]);
        assert!(promises(&mut life, 2, rounds[1]));
        link(&mut life, rounds[2]);
        assert!(!promises(&mut life, 3, rounds[2]));
        assert_eq!(life.waiting(NOW), Waiting::Doubt);
        let mut steps = Vec::new();
        life.advance(NOW, &mut steps);
        let status = PeerStatus::Fresh { may_bootstrap: false };
        assert!(steps.contains(&Step::Send(0, PeerMessage::Status(status))));
    }
}

#[test]
fn a_coordinator_that_asks_again_has_not_begun() {
    let rounds = [[10, 11, 12, 13, OWN], [10, 21, 22, 23, OWN], [20, 31, 22, 23, OWN]];
    let mut life = life(&rounds[0]);
    for (number, round) in (1..).zip(&rounds) {
        link(&mut life, round);
        assert!(promises(&mut life, number, round), "{round:?}");
    }
    let last = [30, 41, 42, 23, OWN];
    link(&mut life, &last);
    assert!(!promises(&mut life, 4, &last));
}

#[test]
fn only_the_round_of_the_linked_coordinator_for_this_very_process_is_promised() {
    let round = [10, 11, OWN];
    let mut life = life(&round);
    assert!(!promises(&mut life, 1, &[30, 11, OWN]), "a stranger");
    assert!(!promises(&mut life, 2, &[10, 11, OWN + 1]), "for the process before");
    assert!(!promises(&mut life, 3, &[10, 11, OWN, 12, 13]), "of another size");
    life.linked(COORDINATOR_SLOT, None);
    assert!(!promises(&mut life, 4, &round), "nobody would hear it");
    life.linked(COORDINATOR_SLOT, Some(10));
    assert!(promises(&mut life, 5, &round));
}
