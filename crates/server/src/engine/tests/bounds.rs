//! Limits at their edges, and what the disk has to promise first.

use super::*;
use crate::limits::{TOKEN_BLOCK_SIZE, TOKEN_MARGIN};
use ticketing_wire_codec::ErrorCode;

#[test]
fn sessions_are_bounded() {
    let mut rig = Rig::with(&EngineSettings { connection_count_max: 2, ..settings() });
    let one = rig.open();
    let _two = rig.open();
    assert_eq!(rig.engine.open(), None);
    rig.close(one);
    assert!(rig.engine.open().is_some());
}

#[test]
fn requests_in_flight_are_bounded_per_session() {
    let mut rig = Rig::with(&EngineSettings { in_flight_count_max: 2, ..settings() });
    let (one, two) = (rig.open(), rig.open());
    let token = granted(&rig.send(one, &acquire(1, 0, 30, "k")), 1);
    assert_eq!(rig.send(two, &acquire(1, 9, 30, "k")), []);
    assert_eq!(rig.send(two, &acquire(2, 9, 30, "k")), []);
    assert_eq!(rig.send(two, &acquire(3, 9, 30, "k")), [busy(3)]);
    assert_eq!(rig.send(two, &acquire(4, 9, 30, "free")), [busy(4)]);
    // Releases are never refused for capacity, and others are not affected.
    let replies = rig.send(two, &release(5, token, "k"));
    assert_eq!(replies[0], released(5));
    granted(&replies[1..], 1);
    assert_eq!(rig.send(two, &acquire(6, 9, 30, "k")), []);
    assert_eq!(rig.send(two, &acquire(7, 9, 30, "k")), [busy(7)]);
    rig.pass(9 * SECOND);
    assert_eq!(rig.send(two, &[]), [timed_out(2), timed_out(6)]);
    granted(&rig.send(two, &acquire(8, 9, 30, "free")), 8);
}

#[test]
fn keys_and_waiters_are_bounded() {
    let table = TableLimits { key_count_max: 2, waiters_per_key_max: 1 };
    let mut rig = Rig::with(&EngineSettings { table, ..settings() });
    let one = rig.open();
    let token = granted(&rig.send(one, &acquire(1, 0, 30, "a")), 1);
    granted(&rig.send(one, &acquire(2, 0, 30, "b")), 2);
    assert_eq!(rig.send(one, &acquire(3, 0, 30, "c")), [busy(3)]);
    assert_eq!(rig.send(one, &acquire(4, 9, 30, "a")), []);
    assert_eq!(rig.send(one, &acquire(5, 9, 30, "a")), [busy(5)]);
    assert_eq!(rig.send(one, &release(6, token, "a")).len(), 2);
}

fn limited(lease_seconds_max: u8, token_ceiling: u64) -> Rig {
    let persisted = Persisted { lease_seconds_max, token_ceiling };
    Rig::with(&EngineSettings { persisted, ..settings() })
}

#[test]
fn a_longer_lease_waits_for_the_disk_and_holds_up_nobody_else() {
    let mut rig = limited(30, u64::MAX - 1);
    let (one, two) = (rig.open(), rig.open());
    granted(&rig.send(one, &acquire(1, 0, 30, "a")), 1);
    assert_eq!(rig.engine.wanted(), None);
    // The stalled request keeps its place: what was sent after it, even half a frame, comes after.
    let later = acquire(4, 0, 30, "d");
    let sent = [
        acquire(2, 0, 30, "b"),
        acquire(3, 0, 31, "c"),
        acquire(9, 0, 250, "c"),
        later[..7].to_vec(),
    ];
    let (turn, replies) = rig.turn(one, &sent.concat());
    assert_eq!(turn, Turn::Stall);
    granted(&replies, 2);
    granted(&rig.send(two, &acquire(1, 0, 30, "e")), 1);
    let wanted = rig.engine.wanted().expect("a longer lease");
    assert_eq!(wanted.lease_seconds_max, 31);
    // However long the disk takes, this is not the client's delay.
    rig.pass(25 * SECOND);
    assert_eq!(rig.called(), []);
    rig.engine.set_durability(Durability::Written(wanted));
    assert_eq!(rig.called(), [one.index()]);
    let (turn, replies) = rig.turn(one, &[]);
    assert_eq!(turn, Turn::Stall);
    granted(&replies, 3);
    let wanted = rig.engine.wanted().expect("a longer lease");
    assert_eq!(wanted.lease_seconds_max, 250);
    rig.engine.set_durability(Durability::Written(wanted));
    assert_eq!(rig.send(one, &[]), [timed_out(9)]);
    assert_eq!(rig.engine.wanted(), None);
    granted(&rig.send(one, &later[7..]), 4);
}

#[test]
fn a_frame_cut_before_the_stall_is_kept_whole() {
    let stream = [acquire(1, 0, 250, "a"), acquire(2, 0, 1, "b")].concat();
    for cut in 1..stream.len() {
        let mut rig = limited(1, u64::MAX - 1);
        let one = rig.open();
        let (_, mut all) = rig.turn(one, &stream[..cut]);
        if rig.engine.wanted().is_none() {
            all.extend(rig.turn(one, &stream[cut..]).1);
        }
        assert_eq!(all, []);
        let wanted = rig.engine.wanted().expect("a longer lease");
        rig.engine.set_durability(Durability::Written(wanted));
        all.extend(rig.send(one, &[]));
        if all.len() < 2 {
            all.extend(rig.send(one, &stream[cut..]));
        }
        assert_eq!(all.len(), 2, "cut at {cut}");
    }
}

#[test]
fn a_disk_that_fails_refuses_only_what_needs_it() {
    let mut rig = limited(30, u64::MAX - 1);
    let one = rig.open();
    let sent = [acquire(1, 0, 60, "a"), acquire(2, 0, 30, "a")].concat();
    assert_eq!(rig.turn(one, &sent), (Turn::Stall, vec![]));
    rig.engine.set_durability(Durability::Failing);
    let replies = rig.send(one, &[]);
    let refusal = Reply::Refused { request_id: id(1), code: ErrorCode::NotActive };
    assert_eq!(replies[0], refusal);
    granted(&replies[1..], 2);
    // It is still wanted, and works once it is there.
    let wanted = rig.engine.wanted().expect("a longer lease");
    rig.engine.set_durability(Durability::Written(wanted));
    granted(&rig.send(one, &acquire(3, 0, 60, "b")), 3);
}

#[test]
fn tokens_never_pass_their_ceiling() {
    let ceiling = TOKEN_FLOOR + 2 + TOKEN_MARGIN;
    let mut rig = limited(250, ceiling);
    let one = rig.open();
    granted(&rig.send(one, &acquire(1, 0, 30, "a")), 1);
    // The next block is asked for long before it is needed.
    let wanted = rig.engine.wanted().expect("more tokens");
    assert_eq!(wanted.token_ceiling, TOKEN_FLOOR + 1 + TOKEN_BLOCK_SIZE);
    granted(&rig.send(one, &acquire(2, 0, 30, "b")), 2);
    assert_eq!(rig.turn(one, &acquire(3, 0, 30, "c")), (Turn::Stall, vec![]));
    rig.engine.set_durability(Durability::Written(wanted));
    granted(&rig.send(one, &[]), 3);
    assert_eq!(rig.engine.wanted(), None);
}

#[test]
fn the_final_promise_covers_what_may_still_run() {
    let mut rig = limited(200, u64::MAX - 1);
    let one = rig.open();
    assert_eq!(rig.engine.final_promise(rig.now).1, Duration::ZERO);
    let token = granted(&rig.send(one, &acquire(1, 0, 60, "a")), 1);
    rig.pass(20 * SECOND);
    let (promise, left) = rig.engine.final_promise(rig.now);
    assert_eq!(left, Duration::from_secs(40));
    assert_eq!(promise, Persisted { lease_seconds_max: 200, token_ceiling: token.get() });
    // A waiter of long ago may have been granted just now.
    assert_eq!(rig.send(one, &acquire(2, 250, 90, "a")), []);
    assert_eq!(rig.engine.final_promise(rig.now).1, Duration::from_secs(90));
    rig.pass(40 * SECOND);
    rig.pass(90 * SECOND);
    assert_eq!(rig.engine.final_promise(rig.now).1, Duration::ZERO);
}

#[test]
fn a_stop_before_it_was_active_still_covers_the_predecessor() {
    let start = Instant::from_nanos(5 * SECOND).after_seconds(60);
    let mut rig = Rig::with(&EngineSettings { active_from: start, ..settings() });
    rig.pass(50 * SECOND);
    assert_eq!(rig.engine.final_promise(rig.now).1, Duration::from_secs(10));
}
