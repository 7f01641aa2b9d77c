//! What one process promises, by the messages that it hears.

use super::*;

const NOW: Instant = Instant::from_nanos(1);

/// The process in the last slot, with links to `others`.
fn life(others: &[u64]) -> Life {
    let slot_count = others.len() as u8 + 1;
    let mut life = Life::new(
        Birth {
            slot: slot_count - 1,
            slot_count,
            incarnation: 7,
            bootstrap_until: later(NOW, Duration::from_secs(900)),
            was_member: false,
        },
        NOW,
    );
    link(&mut life, others);
    life
}

fn link(life: &mut Life, others: &[u64]) {
    for (slot, incarnation) in (0..).zip(others) {
        life.linked(slot, Some(*incarnation));
        let status = PeerMessage::Status(PeerStatus::Fresh { may_bootstrap: true });
        life.receive(slot, *incarnation, &status, None, NOW, &mut Vec::new());
    }
}

/// Whether it promises a round that the process of this incarnation asks for.
fn promises(life: &mut Life, coordinator: u64, round: u64) -> bool {
    let mut steps = Vec::new();
    let prepare = PeerMessage::Prepare { round };
    life.receive(COORDINATOR_SLOT, coordinator, &prepare, None, NOW, &mut steps);
    steps == [Step::Send(COORDINATOR_SLOT, PeerMessage::Promise { round })]
}

#[test]
fn a_minority_that_is_gone_keeps_nobody_from_promising_again() {
    let mut three = life(&[10, 11]);
    assert!(promises(&mut three, 10, 1) && promises(&mut three, 10, 2));
    link(&mut three, &[20, 11]);
    assert!(promises(&mut three, 20, 3) && promises(&mut three, 20, 4));
    assert_eq!(three.waiting(NOW), Waiting::Round);
    let mut five = life(&[10, 11, 12, 13]);
    assert!(promises(&mut five, 10, 1));
    link(&mut five, &[20, 21, 12, 13]);
    assert!(promises(&mut five, 20, 2));
}

#[test]
fn whoever_promised_promises_nothing_more_once_a_majority_may_have_begun_and_is_gone() {
    let all = |first: &[u64], second: &[u64]| {
        let mut life = life(first);
        assert!(promises(&mut life, first[0], 1));
        link(&mut life, second);
        assert!(!promises(&mut life, second[0], 2));
        assert_eq!(life.waiting(NOW), Waiting::Doubt);
        let mut steps = Vec::new();
        life.advance(NOW, &mut steps);
        let status = PeerStatus::Fresh { may_bootstrap: false };
        assert!(steps.contains(&Step::Send(0, PeerMessage::Status(status))));
    };
    all(&[10, 11], &[20, 21]);
    all(&[10, 11, 12, 13], &[20, 21, 22, 13]);
}

#[test]
fn it_does_not_take_a_slot_without_a_link_for_the_process_that_was_there() {
    let mut life = life(&[10, 11]);
    assert!(promises(&mut life, 10, 1));
    life.linked(1, None);
    assert!(promises(&mut life, 10, 2));
    life.linked(0, Some(20));
    assert!(!promises(&mut life, 20, 3));
    life.linked(1, Some(11));
    assert!(promises(&mut life, 20, 4));
}

#[test]
fn a_process_without_a_link_to_it_gets_no_promise() {
    let mut life = life(&[10, 11]);
    life.linked(0, None);
    assert!(!promises(&mut life, 10, 1) && !promises(&mut life, 30, 2));
    life.linked(0, Some(10));
    assert!(promises(&mut life, 10, 3));
}
