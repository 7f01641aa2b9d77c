//! Signals.

use super::rig::Server;
use crate::support::{Client, acquire, connect, id, now};
use std::io::Write;
use std::time::Duration;
use ticketing_wire_codec::Reply;

#[test]
fn each_signal_stops_in_order_whatever_clients_do() {
    for signal in ["TERM", "INT", "HUP"] {
        let server = Server::start(&[]);
        let address = server.address();
        let mut holder = Client::open(address);
        holder.take(1, "k", 60);
        let mut waiter = Client::open(address);
        waiter.send(&acquire(1, 255, 60, "k"));
        waiter.expect_silence();
        let unauthenticated = connect(address);
        let mut half = Client::open(address);
        half.send(&acquire(1, 0, 60, "k")[..5]);
        let mut stuck = Client::open(address);
        let frames = acquire(1, 0, 60, "k").repeat(2_000);
        stuck.socket().set_write_timeout(Some(Duration::from_millis(300))).expect("an option");
        while (&mut stuck.socket()).write(&frames).is_ok() {}

        let start = now();
        server.signal(signal);
        waiter.expect_end();
        assert_eq!(server.wait().code(), Some(0), "{signal}");
        assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
        assert_eq!(stuck.receive(), Reply::TimedOut { request_id: id(1) });
        drop(unauthenticated);
    }
}

#[test]
fn a_hangup_that_was_ignored_at_the_start_stops_nothing() {
    let server = Server::start_ignoring_hangups();
    server.signal("HUP");
    let mut client = Client::open(server.address());
    client.take(1, "k", 60);
    server.signal("HUP");
    client.take(2, "other", 60);
    server.stop();
}

#[test]
fn a_successor_takes_the_address_at_once_and_continues_the_tokens() {
    let mut server = Server::start(&[]);
    let address = server.address();
    let listen = address.to_string();
    let mut last = None;
    for _ in 0..5 {
        let mut client = Client::open(address);
        let token = client.take(1, "k", 60);
        assert!(Some(token) > last);
        last = Some(token);
        server.stop();
        server = Server::start(&["--listen", &listen]);
    }
}
