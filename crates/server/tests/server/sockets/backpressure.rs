//! Clients that do not read, or send without limit.

use super::rig::Rig;
use crate::support::{Client, WAYS_TO_GO, acquire, eventually, id, now, release};
use std::io::Write;
use std::time::Duration;
use ticketing_server::limits::DRAIN_TIME_MAX;
use ticketing_wire_codec::{Reply, Token};

/// Sends requests whose answers pile up until the server reads no more, or has had enough.
fn fill(client: &Client) {
    let frames = release(1, Token::new(1).expect("not zero"), "k").repeat(1_000);
    let mut socket = client.socket();
    socket.set_write_timeout(Some(Duration::from_millis(500))).expect("a socket option");
    let mut size = 0;
    while let Ok(written) = socket.write(&frames) {
        size += written;
        assert!(size < 1 << 30, "the server takes in without end");
    }
}

#[test]
fn a_reader_that_never_drains_is_ended_after_ten_seconds_and_disturbs_nobody() {
    let rig = Rig::start(&[]);
    let mut other = Client::open(rig.address);
    let token = other.take(1, "k", 60);
    let mut stuck = Client::open(rig.address);
    stuck.send(&acquire(9, 60, 60, "k"));
    eventually("it waits", || rig.counters().in_flight == 1);
    let start = now();
    fill(&stuck);
    eventually("it was ended", || rig.counters().sessions == 1);
    assert!(start.elapsed() >= DRAIN_TIME_MAX, "{:?}", start.elapsed());
    assert_eq!(rig.counters().in_flight, 0);
    other.send(&release(2, token, "k"));
    assert_eq!(other.receive(), Reply::Released { request_id: id(2) });
    other.take(3, "k", 60);
}

#[test]
fn a_client_that_left_is_noticed_while_nothing_is_read_from_it() {
    let rig = Rig::start(&[]);
    let mut other = Client::open(rig.address);
    let token = other.take(1, "k", 60);
    // Half closing is no way here: its end could not pass the bytes that fill the socket.
    for go in &WAYS_TO_GO[..2] {
        let mut stuck = Client::open(rig.address);
        stuck.send(&acquire(9, 60, 60, "k"));
        eventually("it waits", || rig.counters().in_flight == 1);
        fill(&stuck);
        let start = now();
        go(stuck);
        eventually("the waiter left", || rig.counters().in_flight == 0);
        assert!(start.elapsed() < DRAIN_TIME_MAX / 2, "{:?}", start.elapsed());
    }
    other.send(&release(2, token, "k"));
    assert_eq!(other.receive(), Reply::Released { request_id: id(2) });
}

#[test]
fn a_slow_reader_gets_every_reply() {
    let rig = Rig::start(&[]);
    let mut client = Client::open(rig.address);
    let sender = client.socket().try_clone().expect("a second handle");
    let count = 200_000;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let any = Token::new(1).expect("not zero");
            for batch in 0..count / 1_000 {
                let first = batch * 1_000 + 1;
                let frames: Vec<u8> =
                    (first..first + 1_000).flat_map(|n| release(n, any, "k")).collect();
                (&sender).write_all(&frames).expect("the server reads on");
            }
        });
        // The server stops reading and goes on again, several times over.
        std::thread::sleep(Duration::from_secs(2));
        for request in 1..=count {
            assert_eq!(client.receive(), Reply::NotHeld { request_id: id(request) });
        }
    });
}
