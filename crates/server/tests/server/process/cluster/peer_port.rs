//! Strangers on the peer port, and nodes that look for others in the wrong places.

use super::rig::{Cluster, NODE_COUNT};
use crate::support::{PATIENCE, connect};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// As many as may be in their handshake at once.
const UNPROVED_COUNT_MAX: usize = 64;
/// What a node answers to a hello.
const ANSWER_SIZE_BYTES: usize = 52;

#[test]
fn silent_connections_keep_nobody_out() {
    let (_cluster, address) = lone_node();
    let silent: Vec<_> = (0..2 * UNPROVED_COUNT_MAX).map(|_| connect(address)).collect();
    ask(address, &hello(1));
    drop(silent);
}

#[test]
fn faults_that_take_turns_are_logged_once_each() {
    let (cluster, address) = lone_node();
    for _ in 0..20 {
        ask(address, &hello(1));
        ask(address, &hello(9));
    }
    let count = |words: &str| cluster.log(0).lines().filter(|line| line.contains(words)).count();
    cluster.wait_for_log(0, &["peer refused: another cluster identity"]);
    cluster.wait_for_log(0, &["peer refused: another version"]);
    assert_eq!(count("peer refused"), 2, "{}", cluster.log(0));
}

#[test]
fn a_node_with_two_slots_swapped_says_whom_it_cannot_reach() {
    let mut cluster = Cluster::new();
    let environment = cluster.environment(2);
    let slots = environment.iter().find(|(name, _)| *name == "TICKETING_CLUSTER_SLOTS");
    let mut slots: Vec<_> = slots.expect("made").1.split(',').map(str::to_owned).collect();
    slots.swap(0, 1);
    cluster.start(0, &[]);
    cluster.start(1, &[]);
    cluster.start(2, &[("TICKETING_CLUSTER_SLOTS", &slots.join(","))]);
    cluster.wait_for_log(2, &["no link", "compare TICKETING_SLOT and TICKETING_CLUSTER_SLOTS"]);
    cluster.wait_for_log(2, &["slots [0, 1] are heard, but cannot be reached from here"]);
    cluster.wait_for_log(0, &["waiting for slots [2], which have not been heard"]);
}

#[test]
fn the_peer_token_is_replaced_one_node_after_another() {
    let mut cluster = Cluster::new();
    let file = |name: &str, lines: &str| {
        let path = cluster.path_of(name);
        std::fs::write(&path, lines).expect("written");
        path.to_str().expect("text").to_owned()
    };
    let (old, new) = ("old".repeat(8), "new".repeat(8));
    let steps = [
        file("old", &format!("{old}\n")),
        file("both", &format!("{new}\n{old}\n")),
        file("new", &format!("{new}\n")),
    ];
    for slot in 0..NODE_COUNT {
        cluster.start(slot, &[("TICKETING_PEER_TOKEN_FILE", &steps[0])]);
    }
    (0..NODE_COUNT).for_each(|slot| drop(cluster.ready(slot)));
    for tokens in &steps[1..] {
        for slot in 0..NODE_COUNT {
            cluster.start(slot, &[("TICKETING_PEER_TOKEN_FILE", tokens)]);
            cluster.ready(slot);
        }
    }
}

/// A node without the others, and its peer address.
fn lone_node() -> (Cluster, SocketAddr) {
    let mut cluster = Cluster::new();
    let line = cluster.start(0, &[]);
    let address = line.split_whitespace().find_map(|word| word.strip_prefix("peers="));
    (cluster, address.expect("on the start line").parse().expect("an address"))
}

/// A hello to slot 0 of no cluster's identity.
fn hello(version: u16) -> Vec<u8> {
    let purpose_and_slots = [0, 1, 0];
    [&b"TCKPEER\0"[..], &version.to_be_bytes(), &purpose_and_slots, &[7; 8], &[0; 32], &[0; 32]]
        .concat()
}

/// Says hello and takes the answer.
fn ask(address: SocketAddr, hello: &[u8]) {
    let mut stream: TcpStream = connect(address);
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(hello).expect("the node reads");
    stream.read_exact(&mut [0; ANSWER_SIZE_BYTES]).expect("the node answers");
}
