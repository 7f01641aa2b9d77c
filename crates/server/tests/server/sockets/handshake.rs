//! Handshakes that go wrong. Protocol, "Connection".

use super::rig::Rig;
use crate::support::{
    Client, connect, crowd, eventually, is_ended, now, proof, read_hello, shake_hands,
};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use ticketing_server::limits::{HANDSHAKE_TIME_MAX, UNAUTHENTICATED_COUNT_MAX};
use ticketing_wire_codec::{Mode, VERDICT_ACCEPTED, VERDICT_REFUSED};

const TOKEN: &str = "a-token-of-this-test";
const OLD_TOKEN: &str = "its-predecessor-token";

#[test]
fn hellos_are_fresh_and_say_single_mode() {
    let rig = Rig::start(&[]);
    let hellos: Vec<_> =
        (0..3).map(|_| read_hello(&mut connect(rig.address)).expect("a hello")).collect();
    assert!(hellos.iter().all(|hello| hello.mode == Mode::Single));
    assert_ne!(hellos[0].nonce, hellos[1].nonce);
    assert_ne!(hellos[1].nonce, hellos[2].nonce);
}

#[test]
fn only_the_token_opens() {
    let rig = Rig::start(&["--token", TOKEN]);
    for wrong in [None, Some("another-token-altogether")] {
        let mut stream = connect(rig.address);
        assert_eq!(shake_hands(&mut stream, wrong).expect("a verdict"), VERDICT_REFUSED);
        assert!(is_ended(&mut stream, 0));
    }
    let mut client = Client::over(connect(rig.address), Some(TOKEN));
    client.take(1, "k", 60);
    assert_eq!(rig.counters().sessions, 1);
}

#[test]
fn a_token_is_replaced_without_a_gap() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("tokens");
    std::fs::write(&path, format!("{TOKEN}\n{OLD_TOKEN}\n")).expect("written");
    let rig = Rig::start(&["--token-file", path.to_str().expect("text")]);
    for (number, token) in (1..).zip([TOKEN, OLD_TOKEN]) {
        Client::over(connect(rig.address), Some(token)).take(1, &format!("k{number}"), 60);
    }
    let mut stream = connect(rig.address);
    assert_eq!(shake_hands(&mut stream, None).expect("a verdict"), VERDICT_REFUSED);
}

#[test]
fn a_recorded_handshake_is_useless() {
    let rig = Rig::start(&["--token", TOKEN]);
    let mut first = connect(rig.address);
    let recorded = proof(&read_hello(&mut first).expect("a hello"), Some(TOKEN));
    first.write_all(&recorded).expect("sent");
    let mut verdict = [0];
    first.read_exact(&mut verdict).expect("a verdict");
    assert_eq!(verdict, [VERDICT_ACCEPTED]);
    let mut second = connect(rig.address);
    read_hello(&mut second).expect("a hello");
    second.write_all(&recorded).expect("sent");
    second.read_exact(&mut verdict).expect("a verdict");
    assert_eq!(verdict, [VERDICT_REFUSED]);
    assert!(is_ended(&mut second, 0));
}

#[test]
fn silence_drips_and_garbage_end_in_time() {
    let rig = Rig::start(&["--token", TOKEN]);
    let start = now();
    let mut silent = connect(rig.address);
    let mut dripping = connect(rig.address);
    let mut garbage = connect(rig.address);
    garbage.write_all(&[b'G'; 10_000]).expect("sent");
    // However much more it sent, the verdict reaches it.
    assert_eq!(shake_hands(&mut garbage, Some(TOKEN)).expect("a verdict"), VERDICT_REFUSED);
    assert!(is_ended(&mut garbage, 0));
    for byte in 0..20 {
        // The server may have ended it; that is the point.
        let _ = dripping.write_all(&[byte]);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(is_ended(&mut silent, 28));
    assert!(is_ended(&mut dripping, 28));
    let elapsed = start.elapsed();
    assert!(elapsed >= HANDSHAKE_TIME_MAX, "{elapsed:?}");
    assert!(elapsed < HANDSHAKE_TIME_MAX + Duration::from_secs(10), "{elapsed:?}");
    assert_eq!(rig.counters().sessions, 0);
}

#[test]
fn requests_right_behind_the_proof_are_served() {
    let rig = Rig::start(&[]);
    let mut stream = connect(rig.address);
    let hello = read_hello(&mut stream).expect("a hello");
    let frame = crate::support::acquire(1, 0, 60, "k");
    stream.write_all(&[&proof(&hello, None)[..], &frame].concat()).expect("sent");
    let mut answer = [0; 20];
    stream.read_exact(&mut answer).expect("verdict and grant");
    assert_eq!((answer[0], answer[1]), (VERDICT_ACCEPTED, b'A'));
}

#[test]
fn the_silent_cannot_keep_others_out() {
    let _crowd = crowd();
    let rig = Rig::start(&["--max-connections", "10"]);
    let mut early = Client::open(rig.address);
    let mut flood: Vec<TcpStream> = Vec::new();
    for _ in 0..2 * UNAUTHENTICATED_COUNT_MAX {
        flood.push(connect(rig.address));
        if flood.len().is_multiple_of(256) {
            Client::open(rig.address).take(1, &format!("k{}", flood.len()), 60);
        }
    }
    early.take(1, "early", 60);
    // The oldest were shown out to make room, long before their time was over.
    for old in &mut flood[..100] {
        assert!(is_ended(old, 28));
    }
    drop(early);
    rig.expect_empty();
}

#[test]
fn one_connection_too_many_gets_no_verdict_and_a_place_once_there_is_one() {
    let rig = Rig::start(&["--max-connections", "2"]);
    let mut one = Client::open(rig.address);
    let two = Client::open(rig.address);
    let mut third = connect(rig.address);
    // Refused is what a wrong token is; this is not.
    assert!(shake_hands(&mut third, None).is_err());
    one.take(1, "k", 60);
    drop(two);
    eventually("a place is free", || rig.counters().sessions == 1);
    Client::open(rig.address).take(1, "other", 60);
}
