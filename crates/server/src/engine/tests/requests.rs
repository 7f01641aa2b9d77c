//! Requests and their answers. Protocol, "Request × key state" and the order of checks.

use super::*;
use ticketing_wire_codec::ErrorCode;

fn refused(request: u64, code: ErrorCode) -> Reply {
    Reply::Refused { request_id: id(request), code }
}

#[test]
fn a_key_goes_from_holder_to_waiter_in_one_step() {
    let mut rig = Rig::new();
    let (one, two, three) = (rig.open(), rig.open(), rig.open());
    let first = granted(&rig.send(one, &acquire(1, 0, 30, "k")), 1);
    assert!(first.get() > TOKEN_FLOOR);
    assert_eq!(rig.send(two, &acquire(1, 60, 30, "k")), []);
    assert_eq!(rig.send(three, &acquire(9, 60, 30, "k")), []);
    assert_eq!(rig.engine.counters().in_flight, 2);
    assert_eq!(rig.send(one, &release(2, first, "k")), [released(2)]);
    assert_eq!(rig.called(), [two.index()]);
    let second = granted(&rig.send(two, &[]), 1);
    assert!(second > first);
    // Nobody can barge in, and the old token is dead.
    assert_eq!(rig.send(one, &acquire(3, 0, 30, "k")), [timed_out(3)]);
    assert_eq!(rig.send(one, &release(4, first, "k")), [Reply::NotHeld { request_id: id(4) }]);
    assert_eq!(rig.send(two, &release(2, second, "k")), [released(2)]);
    assert_eq!(rig.called(), [three.index()]);
    granted(&rig.send(three, &[]), 9);
    assert_eq!(rig.engine.counters().in_flight, 0);
}

#[test]
fn a_session_that_waits_for_itself_is_answered_in_its_own_turn() {
    let mut rig = Rig::new();
    let one = rig.open();
    let token = granted(&rig.send(one, &acquire(1, 0, 30, "k")), 1);
    assert_eq!(rig.send(one, &acquire(2, 9, 30, "k")), []);
    let replies = rig.send(one, &release(3, token, "k"));
    assert_eq!(replies[0], released(3));
    granted(&replies[1..], 2);
    assert_eq!(rig.called(), []);
}

#[test]
fn sets_are_granted_and_released_as_one() {
    let mut rig = Rig::new();
    let (one, two) = (rig.open(), rig.open());
    let pair = granted(&rig.send(one, &acquire_set(1, 0, 30, &["a", "b"])), 1);
    assert_eq!(rig.send(two, &acquire(1, 60, 30, "b")), []);
    let mismatch = [refused(2, ErrorCode::GroupMismatch)];
    assert_eq!(rig.send(one, &release(2, pair, "a")), mismatch);
    assert_eq!(rig.send(one, &release_set(2, pair, &["a", "c"])), mismatch);
    assert_eq!(
        rig.send(one, &release_set(3, pair, &["a", "b"])),
        [Reply::ReleasedSet { request_id: id(3) }]
    );
    granted(&rig.send(two, &[]), 1);
}

#[test]
fn waits_and_leases_end_exactly_in_time() {
    let mut rig = Rig::new();
    let (one, two, three) = (rig.open(), rig.open(), rig.open());
    granted(&rig.send(one, &acquire(1, 0, 3, "k")), 1);
    assert_eq!(rig.send(two, &acquire(1, 2, 30, "k")), []);
    assert_eq!(rig.send(three, &acquire(1, 60, 30, "k")), []);
    assert_eq!(rig.engine.next_deadline(), Some(rig.now.after_seconds(2)));
    rig.pass(2 * SECOND - 1);
    assert_eq!(rig.called(), []);
    rig.pass(1);
    assert_eq!(rig.called(), [two.index()]);
    assert_eq!(rig.send(two, &[]), [timed_out(1)]);
    rig.pass(SECOND - 1);
    assert_eq!(rig.called(), []);
    rig.pass(1);
    assert_eq!(rig.called(), [three.index()]);
    granted(&rig.send(three, &[]), 1);
    let counters = rig.engine.counters();
    assert_eq!((counters.expired, counters.granted, counters.in_flight), (1, 2, 0));
}

#[test]
fn values_are_refused_in_the_order_of_the_protocol() {
    let mut rig =
        Rig::with(&EngineSettings { active_from: Instant::from_nanos(u64::MAX), ..settings() });
    let one = rig.open();
    // Token 0 comes before the key, the key before the lease, the lease before the role.
    let mut frame = release(1, token(1), "k");
    frame[11..19].fill(0);
    *frame.last_mut().expect("a key") = b' ';
    assert_eq!(rig.send(one, &frame), [refused(1, ErrorCode::BadToken)]);
    let mut frame = acquire(2, 0, 30, "k");
    frame[12] = 0;
    assert_eq!(rig.send(one, &frame), [refused(2, ErrorCode::BadLease)]);
    *frame.last_mut().expect("a key") = b'\n';
    assert_eq!(rig.send(one, &frame), [refused(2, ErrorCode::BadKey)]);
    let mut frame = acquire_set(3, 0, 30, &["a", "b"]);
    *frame.last_mut().expect("a key") = b'a';
    assert_eq!(rig.send(one, &frame), [refused(3, ErrorCode::BadKeySet)]);
    for (request, frame) in [
        acquire(1, 0, 30, "k"),
        release(2, token(1), "k"),
        acquire_set(3, 0, 30, &["a", "b"]),
        release_set(4, token(1), &["a", "b"]),
    ]
    .iter()
    .enumerate()
    {
        let request = request as u64 + 1;
        assert_eq!(rig.send(one, frame), [refused(request, ErrorCode::NotActive)]);
    }
}

#[test]
fn not_active_ends_exactly_in_time() {
    let start = Instant::from_nanos(5 * SECOND).after_seconds(60);
    let mut rig = Rig::with(&EngineSettings { active_from: start, ..settings() });
    let one = rig.open();
    rig.pass(60 * SECOND - 1);
    assert_eq!(rig.send(one, &acquire(1, 0, 30, "k")), [refused(1, ErrorCode::NotActive)]);
    rig.pass(1);
    granted(&rig.send(one, &acquire(1, 0, 30, "k")), 1);
}

#[test]
fn requests_cut_anywhere_give_the_same_replies() {
    let mut stream = Vec::new();
    for request in (1..40).step_by(4) {
        stream.extend(acquire(request, 0, 30, &"k".repeat(request as usize)));
        stream.extend(release(request + 1, token(5), "no"));
        stream.extend(acquire_set(request + 2, 0, 30, &["x", "y", "z"]));
        stream.extend(release_set(request + 3, token(5), &["x", "y"]));
    }
    let mut rig = Rig::new();
    let session = rig.open();
    let whole = rig.send(session, &stream);
    assert_eq!(whole.len(), 40);
    for piece in [1, 2, 3, 5, 7, 64, 1_000] {
        let mut rig = Rig::new();
        let session = rig.open();
        let mut parts = Vec::new();
        for bytes in stream.chunks(piece) {
            parts.extend(rig.send(session, bytes));
        }
        assert_eq!(parts, whole, "in pieces of {piece}");
    }
    for cut in 0..stream.len() {
        let mut rig = Rig::new();
        let session = rig.open();
        let mut parts = rig.send(session, &stream[..cut]);
        parts.extend(rig.send(session, &stream[cut..]));
        assert_eq!(parts, whole, "cut at {cut}");
    }
}
