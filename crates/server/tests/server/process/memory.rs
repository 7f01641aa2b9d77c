//! What connections and keys cost. Mission S5, M11.

use super::rig::Server;
use crate::support::{Client, acquire, connect, crowd, now, release};
use std::net::TcpStream;
use ticketing_server::limits::HANDSHAKE_TIME_MAX;
use ticketing_wire_codec::Reply;

const MEGABYTE: u64 = 1_000_000;

#[test]
fn ten_thousand_silent_strangers_cost_next_to_nothing() {
    let _crowd = crowd();
    let server = Server::start(&[]);
    let mut friend = Client::open(server.address());
    let token = friend.take(1, "k", 250);
    let mut strangers: Vec<TcpStream> = Vec::new();
    for count in 0..10_000 {
        strangers.push(connect(server.address()));
        if count % 1_000 == 999 {
            // A newcomer with a proof gets in past all of them.
            let mut newcomer = Client::open(server.address());
            newcomer.take(1, &format!("k{count}"), 60);
        }
    }
    let resident = server.resident_bytes();
    assert!(resident < 25 * MEGABYTE, "{resident} bytes with 10,000 strangers");
    friend.send(&release(2, token, "k"));
    assert!(matches!(friend.receive(), Reply::Released { .. }));
    drop(strangers);
    server.stop();
}

#[test]
fn the_silent_keep_nobody_out_by_holding_the_last_descriptors() {
    let server = Server::start(&[]);
    server.limit_files(64);
    let strangers: Vec<TcpStream> = (0..200).map(|_| connect(server.address())).collect();
    let start = now();
    Client::open(server.address()).take(1, "k", 60);
    // They are shown out to make room, long before their time is over.
    assert!(start.elapsed() < HANDSHAKE_TIME_MAX, "{:?}", start.elapsed());
    drop(strangers);
}

#[test]
fn ten_thousand_idle_clients_fit_in_forty_megabytes() {
    let _crowd = crowd();
    let server = Server::start(&[]);
    let mut clients: Vec<Client> = (0..10_000).map(|_| Client::open(server.address())).collect();
    // All have been active once, and some at the same time.
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(&acquire(1, 0, 250, &format!("k{number}")));
    }
    for client in &mut clients {
        assert!(matches!(client.receive(), Reply::Granted { .. }));
    }
    let resident = server.resident_bytes();
    assert!(resident < 40 * MEGABYTE, "{resident} bytes with 10,000 clients");
    drop(clients);
    server.stop();
}

#[test]
fn memory_of_released_keys_is_used_again() {
    let server = Server::start(&[]);
    let mut client = Client::open(server.address());
    let count: u64 = 200_000;
    let mut resident = Vec::new();
    for round in 0..4 {
        let mut tokens = Vec::new();
        let key = |number: u64| format!("round-{round}-key-{number:016}");
        for batch in 0..count / 1_000 {
            let numbers = batch * 1_000 + 1..=batch * 1_000 + 1_000;
            let frames: Vec<u8> =
                numbers.clone().flat_map(|n| acquire(n, 0, 250, &key(n))).collect();
            client.send(&frames);
            for _ in numbers {
                let Reply::Granted { token, .. } = client.receive() else { panic!("a grant") };
                tokens.push(token);
            }
        }
        resident.push(server.resident_bytes());
        for (batch, tokens) in (0..).zip(tokens.chunks(1_000)) {
            let first = batch * 1_000 + 1;
            let frames: Vec<u8> =
                (first..).zip(tokens).flat_map(|(n, token)| release(n, *token, &key(n))).collect();
            client.send(&frames);
            for _ in tokens {
                assert!(matches!(client.receive(), Reply::Released { .. }));
            }
        }
    }
    assert!(resident[3] < resident[0] + 2 * MEGABYTE, "grows with each round: {resident:?}");
    assert!(resident[0] < count * 200 + 20 * MEGABYTE, "{resident:?}");
}
