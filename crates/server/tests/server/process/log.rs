//! What an operator reads about clients that do not get through.

use super::rig::Node;
use crate::support::{Client, acquire, connect, eventually, shake_hands};
use std::net::SocketAddr;
use tempfile::TempDir;

/// A server for one client at a time, and what it logs.
struct Watched {
    _node: Node,
    address: SocketAddr,
    files: TempDir,
}

impl Watched {
    fn start(level: &str) -> Self {
        let files = tempfile::tempdir().expect("a directory");
        let settings = [
            ("TICKETING_LISTEN", "127.0.0.1:0".to_owned()),
            ("TICKETING_LOG", level.to_owned()),
            ("TICKETING_MAX_CONNECTIONS", "1".to_owned()),
        ];
        let node = Node::start(&settings, &files.path().join("log"));
        let address = node.line.split(' ').nth(3).expect("an address");
        let address = address.parse().expect("an address");
        Self { _node: node, address, files }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.files.path().join("log")).expect("made at the start")
    }
}

#[test]
fn at_level_debug_the_log_says_why_a_connection_ended() {
    let server = Watched::start("debug");
    let address = server.address;
    let says = |words: &str| eventually(words, || server.log().contains(words));

    let mut stream = connect(address);
    shake_hands(&mut stream, Some("a token it does not know")).expect("a verdict");
    says("wrong token, or a replayed proof; give the client a token that TICKETING_TOKEN or");

    let mut client = Client::open(address);
    assert!(shake_hands(&mut connect(address), None).is_err());
    says("TICKETING_MAX_CONNECTIONS connections are open; raise it");

    client.send(b"Z");
    client.expect_end();
    says("unknown request opcode; use a client that keeps to the protocol");

    let mut client = Client::open(address);
    client.send(&acquire(1, 0, 60, "k")[..5]);
    client.expect_end();
    says("a request was not finished within 3s; look why the client is stuck");
}

#[test]
fn clients_that_are_too_many_are_told_of_once() {
    let server = Watched::start("info");
    let address = server.address;
    let _only = Client::open(address);
    for _ in 0..5 {
        assert!(shake_hands(&mut connect(address), None).is_err());
    }
    let count = || server.log().matches("connection refused").count();
    eventually("a warning", || count() > 0);
    assert_eq!(count(), 1);
}
