//! Every row of the protocol page's "What ends a connection".

use super::rig::Rig;
use crate::support::{Client, acquire, acquire_set, crowd, id, now, release, release_set};
use std::time::Duration;
use ticketing_server::limits::{FRAME_TIME_MAX, LINGER_COUNT_MAX};
use ticketing_wire_codec::{Reply, Token};

/// Frames that end a connection, one for each rule and edge.
fn broken_frames() -> Vec<(&'static str, Vec<u8>)> {
    let with = |mut frame: Vec<u8>, at: usize, byte: u8| {
        frame[at] = byte;
        frame
    };
    let any = Token::new(1).expect("not zero");
    let pair = ["a", "b"];
    let last_record = |frame: Vec<u8>, size: u8| {
        let at = frame.len() - 2;
        with(frame, at, size)
    };
    vec![
        ("unknown opcode", with(acquire(1, 0, 30, "k"), 0, b'Z')),
        ("a reply's opcode", with(acquire(1, 0, 30, "k"), 0, b'T')),
        ("A too short", vec![b'A', 0, 9]),
        ("A too long", vec![b'A', 0, 139]),
        ("R too short", vec![b'R', 0, 15]),
        ("R too long", vec![b'R', 0, 145]),
        ("S too short", vec![b'S', 0, 10]),
        ("S too long", vec![b'S', 8, 28]),
        ("G too short", vec![b'G', 0, 16]),
        ("G too long", vec![b'G', 8, 34]),
        ("the longest length", vec![b'G', 255, 255]),
        ("A with request id 0", with(acquire(1, 0, 30, "k"), 10, 0)),
        ("R with request id 0", with(release(1, any, "k"), 10, 0)),
        ("S with request id 0", with(acquire_set(1, 0, 30, &pair), 10, 0)),
        ("G with request id 0", with(release_set(1, any, &pair), 10, 0)),
        ("S records beyond the body", last_record(acquire_set(1, 0, 30, &pair), 2)),
        ("S records short of the body", last_record(acquire_set(1, 0, 30, &pair), 0)),
        ("G records beyond the body", last_record(release_set(1, any, &pair), 9)),
        ("G records short of the body", last_record(release_set(1, any, &pair), 0)),
        ("more records than the count", with(acquire_set(1, 0, 30, &pair), 13, 1)),
        ("fewer records than the count", with(acquire_set(1, 0, 30, &pair), 13, 3)),
    ]
}

#[test]
fn a_broken_frame_ends_its_connection_after_the_replies_before_it_and_nothing_else() {
    let rig = Rig::start(&[]);
    let mut holder = Client::open(rig.address);
    let held = holder.take(1, "held", 250);
    for (name, broken) in broken_frames() {
        let mut client = Client::open(rig.address);
        // More than one packet before it, and garbage after it.
        let before: Vec<u8> = (1..=300).flat_map(|n| acquire(n, 0, 30, "held")).collect();
        let waiting = acquire(500, 60, 30, "held");
        let after = acquire(501, 0, 30, "after").repeat(500);
        client.send(&[before, waiting, broken, after].concat());
        for request in 1..=300 {
            assert_eq!(client.receive(), Reply::TimedOut { request_id: id(request) }, "{name}");
        }
        client.expect_end();
    }
    assert_eq!(rig.counters().in_flight, 0);
    holder.send(&[acquire(2, 0, 30, "after"), release(3, held, "held")].concat());
    assert!(matches!(holder.receive(), Reply::Granted { .. }), "nothing after it was done");
    assert_eq!(holder.receive(), Reply::Released { request_id: id(3) });
    drop(holder);
    rig.expect_empty();
}

#[test]
fn more_broken_connections_than_may_linger_end_all_the_same() {
    let _crowd = crowd();
    let rig = Rig::start(&[]);
    let mut clients: Vec<Client> =
        (0..LINGER_COUNT_MAX + 50).map(|_| Client::open(rig.address)).collect();
    for client in &mut clients {
        client.send(b"nonsense");
    }
    for client in &mut clients {
        client.expect_end();
    }
    rig.expect_empty();
}

#[test]
fn a_frame_that_is_not_finished_ends_its_connection_in_three_seconds() {
    let rig = Rig::start(&[]);
    let mut waiting = Client::open(rig.address);
    let mut silent = Client::open(rig.address);
    let mut dripping = Client::open(rig.address);
    let frame = acquire(2, 0, 30, "dripped");
    waiting.take(1, "k", 60);
    silent.send(&[acquire(1, 60, 30, "k"), frame[..frame.len() - 1].to_vec()].concat());
    let start = now();
    for byte in &frame[..8] {
        dripping.send(&[*byte]);
        std::thread::sleep(Duration::from_millis(100));
    }
    silent.expect_end();
    dripping.expect_end();
    let elapsed = start.elapsed();
    // The sleeps above began after the silent one's frame.
    assert!(elapsed + Duration::from_secs(1) >= FRAME_TIME_MAX, "{elapsed:?}");
    assert!(elapsed < FRAME_TIME_MAX + Duration::from_secs(10), "{elapsed:?}");
    assert_eq!(rig.counters().in_flight, 0);
    // An idle connection is not a slow one.
    waiting.take(2, "dripped", 60);
}

#[test]
fn a_connection_without_requests_may_idle() {
    let rig = Rig::start(&[]);
    let mut idle = Client::open(rig.address);
    std::thread::sleep(FRAME_TIME_MAX + Duration::from_secs(3));
    idle.take(1, "k", 60);
}

#[test]
fn a_stop_flushes_answers_and_ends_connections() {
    let mut rig = Rig::start(&[]);
    let (mut one, mut two) = (Client::open(rig.address), Client::open(rig.address));
    one.take(1, "k", 60);
    two.send(&acquire(1, 60, 30, "k"));
    two.expect_silence();
    let start = now();
    std::thread::scope(|scope| {
        scope.spawn(|| rig.stop());
        one.expect_end();
        two.expect_end();
        // Closed at once, as a client would.
        drop((one, two));
    });
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert!(std::net::TcpStream::connect(rig.address).is_err());
}
