//! Requests, their answers and the error table.

use super::rig::Rig;
use crate::support::{Client, acquire, acquire_set, id, now, release, release_set};
use std::time::Duration;
use ticketing_wire_codec::{ErrorCode, Reply, Token};

#[test]
fn a_lock_goes_round() {
    let rig = Rig::start(&[]);
    let (mut one, mut two) = (Client::open(rig.address), Client::open(rig.address));
    let first = one.take(1, "order-1234", 30);
    two.send(&acquire(1, 60, 30, "order-1234"));
    two.expect_silence();
    one.send(&release(2, first, "order-1234"));
    assert_eq!(one.receive(), Reply::Released { request_id: id(2) });
    let Reply::Granted { token, .. } = two.receive() else { panic!("a grant") };
    assert!(token > first);
    two.send(&[acquire(2, 0, 30, "order-1234"), release(3, token, "order-1234")].concat());
    assert_eq!(two.receive(), Reply::TimedOut { request_id: id(2) });
    assert_eq!(two.receive(), Reply::Released { request_id: id(3) });
}

#[test]
fn every_error_is_answered_and_the_connection_lives_on() {
    let rig = Rig::start(&[]);
    let mut client = Client::open(rig.address);
    let other = client.take(1, "x", 30);
    let any = Token::new(1).expect("not zero");
    let with = |mut frame: Vec<u8>, at_from_end: usize, byte: u8| {
        let at = frame.len() - at_from_end;
        frame[at] = byte;
        frame
    };
    let no_token = |mut frame: Vec<u8>| {
        frame[11..19].fill(0);
        frame
    };
    let pair = ["a", "b"];
    let cases = [
        (ErrorCode::BadKey, with(acquire(7, 0, 30, "k"), 1, b' ')),
        (ErrorCode::BadKey, with(release(7, any, "k"), 1, 0xff)),
        (ErrorCode::BadKey, with(acquire_set(7, 0, 30, &pair), 1, b'\n')),
        (ErrorCode::BadKey, with(release_set(7, any, &pair), 1, b'\r')),
        (ErrorCode::BadKey, b"A\0\x0a\0\0\0\0\0\0\0\x07\0\x01".to_vec()),
        (ErrorCode::BadLease, with(acquire(7, 0, 30, "k"), 2, 0)),
        (ErrorCode::BadLease, with(acquire(7, 0, 30, "k"), 2, 251)),
        (ErrorCode::BadLease, with(acquire_set(7, 0, 30, &pair), 6, 0)),
        (ErrorCode::BadKeySet, with(acquire_set(7, 0, 30, &pair), 1, b'a')),
        (ErrorCode::BadKeySet, with(release_set(7, any, &pair), 3, b'c')),
        (ErrorCode::GroupMismatch, release_set(7, other, &["x", "y"])),
        (ErrorCode::BadToken, no_token(release(7, any, "k"))),
        (ErrorCode::BadToken, no_token(release_set(7, any, &pair))),
    ];
    for (code, frame) in cases {
        client.send(&frame);
        assert_eq!(client.receive(), Reply::Refused { request_id: id(7), code }, "{frame:?}");
    }
    client.send(&release(8, any, "k"));
    assert_eq!(client.receive(), Reply::NotHeld { request_id: id(8) });
    client.send(&release(9, other, "x"));
    assert_eq!(client.receive(), Reply::Released { request_id: id(9) });
}

#[test]
fn a_lease_and_a_wait_end_in_time_and_never_early() {
    let rig = Rig::start(&[]);
    let (mut one, mut two, mut three) =
        (Client::open(rig.address), Client::open(rig.address), Client::open(rig.address));
    // Both clocks start before the server's: what comes earlier than this would be early.
    let lease_start = now();
    one.take(1, "k", 2);
    let wait_start = now();
    two.send(&acquire(1, 1, 30, "k"));
    three.send(&acquire(1, 60, 30, "k"));
    assert_eq!(two.receive(), Reply::TimedOut { request_id: id(1) });
    assert!(wait_start.elapsed() >= Duration::from_secs(1));
    assert!(matches!(three.receive(), Reply::Granted { .. }));
    assert!(lease_start.elapsed() >= Duration::from_secs(2));
    assert_eq!(rig.counters().expired, 1);
}

#[test]
fn thousands_of_requests_may_be_under_way() {
    let rig = Rig::start(&[]);
    let (mut one, mut two) = (Client::open(rig.address), Client::open(rig.address));
    let token = one.take(1, "k", 60);
    let count = 16_512;
    let flood: Vec<u8> =
        (1..=count + 1).flat_map(|request| acquire(request, 60, 60, "k")).collect();
    two.send(&flood);
    assert_eq!(two.receive(), Reply::Busy { request_id: id(count + 1) });
    assert_eq!(rig.counters().in_flight, count);
    drop(two);
    one.send(&release(2, token, "k"));
    assert_eq!(one.receive(), Reply::Released { request_id: id(2) });
    // The flood's first may have been granted before its end was seen; the last must be gone.
    drop(one);
    rig.expect_empty();
}

#[test]
fn similar_keys_cost_no_more_than_others() {
    let rig = Rig::start(&[]);
    let mut client = Client::open(rig.address);
    let time = |client: &mut Client, key: &dyn Fn(u64) -> String| {
        let start = now();
        for batch in 0..40 {
            let requests = batch * 500 + 1..=batch * 500 + 500;
            let frames: Vec<u8> = requests
                .clone()
                .flat_map(|request| acquire(request, 0, 60, &key(request)))
                .collect();
            client.send(&frames);
            for _ in requests {
                assert!(matches!(client.receive(), Reply::Granted { .. }));
            }
        }
        start.elapsed()
    };
    // Keys that a weak hash would put together: equal but for bits that it drops or adds up.
    let plain = time(&mut client, &|n| format!("plain-{n}"));
    let zeros = time(&mut client, &|n| format!("{}{n:b}", "0".repeat(64)));
    let sums = time(&mut client, &|n| format!("sum-{n:06}-{:06}", 999_999 - n));
    for similar in [zeros, sums] {
        assert!(similar < plain * 20 + Duration::from_secs(2), "{similar:?}, others {plain:?}");
    }
}
