//! Standard output and error that nobody takes: a full disk, a reader that is gone or hangs.

use super::rig::{Server, run_into};
use crate::support::{Client, acquire, connect, id, now, release, shake_hands};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;
use ticketing_wire_codec::Reply;

/// Every write fails.
fn full() -> Stdio {
    File::options().write(true).open("/dev/full").expect("a device of Linux").into()
}

/// The reader has gone.
fn closed() -> Stdio {
    let (_, writer) = UnixStream::pair().expect("a pair");
    OwnedFd::from(writer).into()
}

/// The reader is there and does not read; no byte fits any more.
fn hung() -> (UnixStream, Stdio) {
    let (reader, mut writer) = UnixStream::pair().expect("a pair");
    writer.set_nonblocking(true).expect("a socket option");
    for chunk in [&[b'x'; 4096][..], b"x"] {
        let error = loop {
            if let Err(error) = writer.write(chunk) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }
    writer.set_nonblocking(false).expect("a socket option");
    (reader, OwnedFd::from(writer).into())
}

/// Has the server log a warning while it serves, and stops it.
fn warn_serve_and_stop(server: Server) {
    let mut client = Client::open(server.address());
    let token = client.take(1, "k", 60);
    assert!(shake_hands(&mut connect(server.address()), None).is_err());
    client.send(&release(2, token, "k"));
    assert_eq!(client.receive(), Reply::Released { request_id: id(2) });
    client.send(&acquire(3, 0, 60, "k"));
    assert!(matches!(client.receive(), Reply::Granted { .. }));
    let start = now();
    server.stop();
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
}

const ONE_CLIENT: [&str; 4] = ["--max-connections", "1", "--threads", "2"];

#[test]
fn a_log_that_cannot_be_written_ends_no_server() {
    for log in [full(), closed()] {
        warn_serve_and_stop(Server::start_into(&ONE_CLIENT, Stdio::null(), log));
    }
}

#[test]
fn a_log_reader_that_hangs_holds_up_neither_clients_nor_the_stop() {
    let (_reader, log) = hung();
    warn_serve_and_stop(Server::start_into(&ONE_CLIENT, Stdio::null(), log));
}

#[test]
fn a_start_line_that_nobody_takes_is_no_reason_not_to_serve() {
    let (_reader, hung) = hung();
    for output in [full(), closed(), hung] {
        warn_serve_and_stop(Server::start_into(&ONE_CLIENT, output, Stdio::null()));
    }
}

#[test]
fn a_start_that_fails_says_so_by_its_exit_code_when_its_message_cannot_be_written() {
    let taken = Server::start(&[]);
    let taken = taken.address().to_string();
    for arguments in [["--max-keys", "0"], ["--listen", &taken]] {
        for log in [full(), closed()] {
            assert_eq!(run_into(&arguments, Stdio::null(), log).status.code(), Some(1));
        }
    }
    let (_reader, log) = hung();
    let ended = run_into(&["--listen", &taken], Stdio::null(), log);
    assert_eq!(ended.status.code(), Some(1));
}

#[test]
fn a_command_whose_answer_cannot_be_written_fails_and_says_so() {
    let new = ["cluster", "new", "--slots", "a:1,b:1,c:1"];
    for output in [full(), closed()] {
        let ended = run_into(&new, output, Stdio::piped());
        assert_eq!(ended.status.code(), Some(1), "{}", ended.errors);
        let message = "ticketing-server: cannot write to standard output: ";
        assert!(ended.errors.starts_with(message), "{}", ended.errors);
    }
    assert_eq!(run_into(&new, closed(), closed()).status.code(), Some(1));
}
