//! `kill -9` and restart: with a state directory, never two live holders.

use super::rig::{Server, fail, run};
use crate::support::{Client, acquire, id, now, release};
use std::time::Duration;
use ticketing_wire_codec::{ErrorCode, Reply, Token};

fn grant_when_active(address: std::net::SocketAddr, key: &str) -> Token {
    let mut client = Client::open(address);
    for request in 1.. {
        client.send(&acquire(request, 0, 1, key));
        match client.receive() {
            Reply::Granted { token, .. } => return token,
            Reply::Refused { code: ErrorCode::NotActive, .. } => {
                std::thread::sleep(Duration::from_millis(20));
            }
            other => panic!("{other:?}"),
        }
    }
    unreachable!()
}

#[test]
fn after_a_crash_nothing_is_granted_until_the_longest_lease_is_over() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("text");
    let server = Server::start(&["--state-dir", path]);
    let mut client = Client::open(server.address());
    client.take(1, "short", 1);
    let start = now();
    let token = client.take(2, "k", 3);
    server.kill();

    let server = Server::start(&["--state-dir", path]);
    let mut other = Client::open(server.address());
    // Not even another key, and not even a release.
    other.send(&[acquire(1, 60, 60, "other"), release(2, token, "k")].concat());
    for request in [1, 2] {
        let (request_id, code) = (id(request), ErrorCode::NotActive);
        assert_eq!(other.receive(), Reply::Refused { request_id, code });
    }
    // A second crash while waiting makes nobody forget.
    server.kill();
    let server = Server::start(&["--state-dir", path]);
    let later = grant_when_active(server.address(), "k");
    assert!(start.elapsed() >= Duration::from_secs(3), "{:?}", start.elapsed());
    assert!(later > token);
}

#[test]
fn the_status_says_when_it_is_ready() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("text");
    let socket = directory.path().join("admin");
    let socket = socket.to_str().expect("text");
    let server = Server::start(&["--state-dir", path, "--admin-socket", socket]);
    Client::open(server.address()).take(1, "k", 5);
    let status = run(&["status", "--admin-socket", socket], &[]);
    assert!(status.status.success(), "{}", status.errors);
    assert!(status.output.starts_with("mode single\nready true\n"), "{}", status.output);
    server.kill();

    let server = Server::start(&["--state-dir", path, "--admin-socket", socket]);
    let status = run(&["status"], &[("TICKETING_ADMIN_SOCKET", socket.to_owned())]);
    assert_eq!(status.status.code(), Some(1), "{}", status.errors);
    let waiting = "mode single\nready false\nwaiting_for the predecessor's leases, ";
    assert!(status.output.starts_with(waiting), "{}", status.output);
    let status = run(&["status", "--admin-socket", socket, "--wait-ready"], &[]);
    assert!(status.status.success(), "{}", status.output);
    Client::open(server.address()).take(1, "k", 1);
}

#[test]
fn after_an_orderly_stop_only_what_was_held_delays() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("text");
    let server = Server::start(&["--state-dir", path]);
    let mut client = Client::open(server.address());
    let token = client.take(1, "k", 60);
    client.send(&release(2, token, "k"));
    assert_eq!(client.receive(), Reply::Released { request_id: id(2) });
    server.stop();

    let server = Server::start(&["--state-dir", path]);
    let start = now();
    let mut client = Client::open(server.address());
    let later = client.take(1, "k", 2);
    assert!(later > token);
    server.stop();

    let server = Server::start(&["--state-dir", path]);
    let last = grant_when_active(server.address(), "k");
    assert!(start.elapsed() >= Duration::from_secs(2), "{:?}", start.elapsed());
    assert!(last > later);
}

#[test]
fn a_state_directory_serves_one_server() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("text");
    let _server = Server::start(&["--state-dir", path]);
    let failure = fail(&["--state-dir", path, "--listen", "127.0.0.1:0"], &[]);
    assert!(!failure.status.success());
    assert!(failure.message.contains("in use by another server"), "{}", failure.message);
}

#[test]
fn leases_of_every_length_are_granted_with_a_state_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("text");
    let server = Server::start(&["--state-dir", path]);
    let mut client = Client::open(server.address());
    // All at once: each longer one waits for the disk and keeps its place.
    let frames: Vec<u8> =
        (1..=250u8).flat_map(|n| acquire(n.into(), 0, n, &format!("key-{n}"))).collect();
    client.send(&frames);
    for request in 1..=250 {
        match client.receive() {
            Reply::Granted { request_id, .. } => assert_eq!(request_id, id(request)),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_disk_that_fails_refuses_longer_leases_only_until_it_works_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("text");
    let server = Server::start(&["--state-dir", path]);
    let mut client = Client::open(server.address());
    client.take(1, "short", 2);
    // What the server writes before it renames; a directory in its place stops every user's write.
    let obstacle = directory.path().join("state.new");
    std::fs::create_dir(&obstacle).expect("the directory is ours");
    client.send(&[acquire(2, 0, 3, "longer"), acquire(3, 0, 2, "other")].concat());
    let (request_id, code) = (id(2), ErrorCode::NotActive);
    assert_eq!(client.receive(), Reply::Refused { request_id, code });
    assert!(matches!(client.receive(), Reply::Granted { .. }));
    std::fs::remove_dir(&obstacle).expect("still there");
    for request in 4.. {
        client.send(&acquire(request, 0, 3, "longer"));
        if matches!(client.receive(), Reply::Granted { .. }) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    server.kill();
    // The promise that was written late counts.
    let start = now();
    let server = Server::start(&["--state-dir", path]);
    grant_when_active(server.address(), "longer");
    assert!(start.elapsed() >= Duration::from_secs(2), "{:?}", start.elapsed());
}

#[test]
fn tokens_continue_above_the_predecessors_even_if_the_clock_went_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("text");
    // As a predecessor left it whose clock was centuries ahead.
    let ceiling = 1_u64 << 63;
    let state = format!(
        "ticketing-server state 1\nlease_seconds_max 1\ntoken_ceiling {ceiling}\nclean 0\n"
    );
    std::fs::write(directory.path().join("state"), state).expect("the directory is ours");
    let mut last = ceiling;
    for _ in 0..3 {
        let server = Server::start(&["--state-dir", path]);
        let token = grant_when_active(server.address(), "k").get();
        assert!(token > last, "{token} after {last}");
        last = token;
        server.kill();
    }
}
