//! How sessions end, and what becomes of their grants and waiters.

use super::*;
use crate::limits::{DRAIN_TIME_MAX, FRAME_TIME_MAX};

const FRAME: u64 = FRAME_TIME_MAX.as_nanos() as u64;
const DRAIN: u64 = DRAIN_TIME_MAX.as_nanos() as u64;

fn bytes(reply: Reply) -> Vec<u8> {
    reply.encode().as_bytes().to_vec()
}

#[test]
fn every_broken_frame_ends_the_session_after_the_replies_before_it() {
    let good = acquire(1, 0, 30, "k");
    let with = |at: usize, byte: u8, mut frame: Vec<u8>| {
        frame[at] = byte;
        frame
    };
    let records = acquire_set(1, 0, 30, &["a", "b"]);
    let records_end = records.len() - 2;
    let cases = [
        (RequestFault::UnknownOpcode, with(0, b'Z', good.clone())),
        (RequestFault::UnknownOpcode, vec![0]),
        (RequestFault::BodyLength, vec![b'A', 0, 9]),
        (RequestFault::BodyLength, vec![b'A', 0, 139]),
        (RequestFault::BodyLength, vec![b'R', 0, 15]),
        (RequestFault::BodyLength, vec![b'R', 0, 145]),
        (RequestFault::BodyLength, vec![b'S', 0, 10]),
        (RequestFault::BodyLength, vec![b'S', 8, 28]),
        (RequestFault::BodyLength, vec![b'G', 0, 16]),
        (RequestFault::BodyLength, vec![b'G', 8, 34]),
        (RequestFault::RequestIdZero, with(10, 0, good.clone())),
        (RequestFault::RecordsLength, with(records_end, 2, records.clone())),
        (RequestFault::RecordsLength, with(records_end, 0, records)),
    ];
    for (fault, broken) in cases {
        let mut rig = Rig::new();
        let (one, two) = (rig.open(), rig.open());
        granted(&rig.send(two, &acquire(1, 0, 30, "other")), 1);
        assert_eq!(rig.send(one, &acquire(7, 60, 30, "other")), []);
        let input = [&good[..], &broken, &good].concat();
        let (turn, replies) = rig.turn(one, &input);
        assert_eq!(turn, Turn::End(EndReason::Fault(fault)), "{broken:?}");
        granted(&replies, 1);
        // Its waiter is gone at once, its delivered hold stays, and it hears nothing more.
        assert_eq!(rig.engine.counters().in_flight, 0);
        assert_eq!(rig.turn(one, &good), (turn, vec![]));
        rig.close(one);
        assert_eq!(rig.send(two, &acquire(2, 0, 30, "k")), [timed_out(2)]);
        assert_eq!(rig.engine.counters().reclaimed, 0);
    }
}

#[test]
fn waiters_of_a_closed_session_leave_and_its_hold_stays() {
    let mut rig = Rig::new();
    let (one, two, three) = (rig.open(), rig.open(), rig.open());
    let token = granted(&rig.send(one, &acquire(1, 0, 30, "k")), 1);
    assert_eq!(rig.send(two, &acquire(1, 60, 30, "k")), []);
    assert_eq!(rig.send(three, &acquire(1, 60, 30, "k")), []);
    granted(&rig.send(two, &acquire(2, 0, 30, "held")), 2);
    rig.close(two);
    assert_eq!(rig.send(one, &release(2, token, "k")), [released(2)]);
    assert_eq!(rig.called(), [three.index()]);
    granted(&rig.send(three, &[]), 1);
    assert_eq!(rig.send(one, &acquire(3, 0, 30, "held")), [timed_out(3)]);
}

#[test]
fn a_grant_that_was_not_fetched_or_not_written_goes_on_to_the_next() {
    // How many bytes of the grant the socket took; `None`: not even fetched.
    for written in [None, Some(0), Some(1), Some(18), Some(19)] {
        let mut rig = Rig::new();
        let (one, two, three) = (rig.open(), rig.open(), rig.open());
        let token = granted(&rig.send(one, &acquire(1, 0, 30, "k")), 1);
        for session in [two, three] {
            assert_eq!(rig.send(session, &acquire(1, 60, 30, "k")), []);
        }
        assert_eq!(rig.send(one, &release(2, token, "k")), [released(2)]);
        assert_eq!(rig.called(), [two.index()]);
        let mut outgoing = Outgoing::default();
        if let Some(written) = written {
            let grant = rig.send(two, &[])[0];
            outgoing.push(&bytes(grant));
            outgoing.advance(written);
        }
        rig.engine.close(two, &outgoing, rig.now);
        let is_delivered = written == Some(19);
        assert_eq!(rig.called(), if is_delivered { vec![] } else { vec![three.index()] });
        assert_eq!(rig.engine.counters().reclaimed, u64::from(!is_delivered));
        if !is_delivered {
            granted(&rig.send(three, &[]), 1);
        }
    }
}

#[test]
fn reclaimed_grants_never_go_to_the_session_that_closes() {
    let mut rig = Rig::new();
    let (one, two) = (rig.open(), rig.open());
    let token = granted(&rig.send(one, &acquire(1, 0, 30, "k")), 1);
    for request in 1..=3 {
        assert_eq!(rig.send(two, &acquire(request, 60, 30, "k")), []);
    }
    assert_eq!(rig.send(one, &acquire(2, 60, 30, "k")), []);
    assert_eq!(rig.send(one, &release(3, token, "k")), [released(3)]);
    rig.close(two);
    granted(&rig.send(one, &[]), 2);
}

#[test]
fn a_slot_is_used_again_under_another_name() {
    let mut rig = Rig::new();
    let one = rig.open();
    rig.close(one);
    let two = rig.open();
    assert_eq!(one.index(), two.index());
    assert_ne!(one, two);
    assert_eq!(rig.engine.counters().sessions, 1);
}

#[test]
fn a_begun_frame_has_three_seconds_however_slowly_it_comes() {
    let mut rig = Rig::new();
    let (slow, steady) = (rig.open(), rig.open());
    let frame = acquire(1, 0, 30, "key");
    assert_eq!(rig.send(slow, &frame[..1]), []);
    for byte in 1..10 {
        rig.pass(FRAME / 10);
        assert_eq!(rig.send(slow, &frame[byte..=byte]), []);
        // A session that finishes a frame with each piece is in time, even mid-frame.
        let request = byte as u64;
        let pieces = [&frame[1..], &frame[..1]].concat();
        if byte == 1 {
            assert_eq!(rig.send(steady, &frame[..1]), []);
        }
        assert_eq!(rig.send(steady, &pieces).len(), 1, "{request}");
    }
    rig.pass(FRAME / 10 - 1);
    assert_eq!(rig.called(), []);
    rig.pass(1);
    assert_eq!(rig.called(), [slow.index()]);
    assert_eq!(rig.turn(slow, &[]), (Turn::End(EndReason::FrameTime), vec![]));
    rig.pass(FRAME);
    assert_eq!(rig.called(), [steady.index()]);
}

#[test]
fn a_finished_frame_stops_the_time() {
    let mut rig = Rig::new();
    let one = rig.open();
    let frame = acquire(1, 0, 30, "key");
    assert_eq!(rig.send(one, &frame[..5]), []);
    rig.pass(FRAME - 1);
    granted(&rig.send(one, &frame[5..]), 1);
    rig.pass(2 * FRAME);
    assert_eq!(rig.called(), []);
}

#[test]
fn a_reader_that_does_not_drain_has_ten_seconds_from_its_last_progress() {
    let mut rig = Rig::new();
    let (one, two) = (rig.open(), rig.open());
    rig.engine.set_backlog(one, Backlog::Moving, rig.now);
    // Half a frame is unread because the server does not read on: not a slow frame.
    assert_eq!(rig.send(one, &acquire(1, 0, 30, "k")[..4]), []);
    rig.pass(DRAIN - 1);
    rig.engine.set_backlog(one, Backlog::Moving, rig.now);
    rig.pass(DRAIN - 1);
    assert_eq!(rig.called(), []);
    rig.engine.set_backlog(two, Backlog::Moving, rig.now);
    rig.engine.set_backlog(two, Backlog::None, rig.now);
    rig.pass(1);
    assert_eq!(rig.called(), [one.index()]);
    assert_eq!(rig.turn(one, &[]), (Turn::End(EndReason::DrainTime), vec![]));
    rig.close(one);
    rig.pass(2 * DRAIN);
    assert_eq!(rig.called(), []);
}

#[test]
fn a_standstill_of_the_server_is_not_the_clients_delay() {
    let mut rig = Rig::new();
    let (slow, stuck, waiting) = (rig.open(), rig.open(), rig.open());
    granted(&rig.send(waiting, &acquire(1, 0, 2, "k")), 1);
    assert_eq!(rig.send(waiting, &acquire(2, 1, 9, "k")), []);
    assert_eq!(rig.send(slow, &acquire(1, 0, 30, "key")[..5]), []);
    rig.engine.set_backlog(stuck, Backlog::Moving, rig.now);
    rig.now = Instant::from_nanos(rig.now.as_nanos() + 5 * DRAIN);
    rig.engine.stood_still(rig.now);
    rig.pass(0);
    // Waits and leases are promises in real time.
    assert_eq!(rig.called(), [waiting.index()]);
    assert_eq!(rig.send(waiting, &[]), [timed_out(2)]);
    assert_eq!(rig.engine.counters().expired, 1);
    rig.pass(FRAME - 1);
    assert_eq!(rig.called(), []);
    rig.pass(1);
    assert_eq!(rig.called(), [slow.index()]);
    rig.pass(DRAIN - FRAME);
    assert_eq!(rig.called(), [stuck.index()]);
}

#[test]
fn shutting_down_calls_everybody_and_drops_waiters() {
    let mut rig = Rig::new();
    let (one, two) = (rig.open(), rig.open());
    granted(&rig.send(one, &acquire(1, 0, 30, "k")), 1);
    assert_eq!(rig.send(two, &acquire(1, 60, 30, "k")), []);
    rig.engine.shut_down(rig.now);
    assert_eq!(rig.called(), [one.index(), two.index()]);
    assert_eq!(rig.turn(two, &[]), (Turn::End(EndReason::Shutdown), vec![]));
    assert_eq!(rig.engine.counters().in_flight, 0);
    rig.close(two);
    assert_eq!(rig.engine.open(), None);
}
