//! A server that stood still for a while. Missions M4, M6, M9 and S5.

use super::rig::Server;
use crate::support::{Client, WAYS_TO_GO, acquire, id, release};
use std::time::Duration;
use ticketing_server::limits::FRAME_TIME_MAX;
use ticketing_wire_codec::{Reply, Token};

#[test]
fn whoever_asked_and_left_meanwhile_leaves_no_ghost() {
    let server = Server::start(&[]);
    let mut kept = Vec::new();
    for (number, go) in (1..).zip(WAYS_TO_GO) {
        let mut gone = Client::open(server.address());
        let mut next = Client::open(server.address());
        let key = format!("key-{number}");
        // Its task is idle: one that is stopped between two reads cannot know of an end after them.
        gone.expect_silence();
        kept.extend(server.while_stopped(|| {
            gone.send(&acquire(1, 60, 250, &key));
            go(gone)
        }));
        let token = next.take(1, &key, 60);
        next.send(&release(2, token, &key));
        assert_eq!(next.receive(), Reply::Released { request_id: id(2) });
    }
}

#[test]
fn whoever_sent_its_last_requests_half_closed_gets_their_answers() {
    let server = Server::start(&[]);
    let mut client = Client::open(server.address());
    let mut other = Client::open(server.address());
    let token = client.take(1, "k", 250);
    let unknown = Token::new(1).expect("not zero");
    server.while_stopped(|| {
        client.send(&[release(2, token, "k"), release(3, unknown, "k")].concat());
        client.half_close();
    });
    assert_eq!(client.receive(), Reply::Released { request_id: id(2) });
    assert_eq!(client.receive(), Reply::NotHeld { request_id: id(3) });
    client.expect_end();
    other.take(1, "k", 60);
}

#[test]
fn time_in_which_the_server_stood_still_is_not_the_clients_delay() {
    let server = Server::start(&[]);
    let mut prompt = Client::open(server.address());
    let mut later = Client::open(server.address());
    let mut never = Client::open(server.address());
    let (in_time, belated) = (acquire(1, 0, 60, "in-time"), acquire(1, 0, 60, "belated"));
    for client in [&mut prompt, &mut later, &mut never] {
        // The same for both.
        client.send(&in_time[..5]);
        client.expect_silence();
    }
    server.while_stopped(|| {
        prompt.send(&in_time[5..]);
        std::thread::sleep(FRAME_TIME_MAX + Duration::from_secs(1));
    });
    assert!(matches!(prompt.receive(), Reply::Granted { .. }));
    later.expect_silence();
    later.send(&belated[5..]);
    assert!(matches!(later.receive(), Reply::Granted { .. }));
    never.expect_end();
}
