//! The generator against the echo reference, over real sockets.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use super::*;
use crate::driver::{RedisDriver, TicketingDriver};
use crate::echo::Echo;

/// An echo server on its own thread, stopped when dropped.
struct EchoThread {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl EchoThread {
    fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let tick = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        let thread = thread::spawn(move || {
            let mut echo = Echo::new(listener).expect("echo");
            while !stopped.load(Ordering::Relaxed) {
                echo.turn(Some(&tick)).expect("echo");
            }
        });
        Self { address, stop, thread: Some(thread) }
    }
}

impl Drop for EchoThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("echo thread");
        }
    }
}

#[test]
fn workers_finish_pairs_and_drain() {
    let echo = EchoThread::start();
    let driver = TicketingDriver::new();
    for (connections, depth) in [(1, 1), (3, 1), (2, 17)] {
        let shape = Shape { connections, depth, keys: Keys::Private };
        let mut load = Load::open(&driver, echo.address, shape, 1).expect("open");
        load.start().expect("start");
        while load.tally().pairs < 100 {
            load.run(1_000_000, &mut None).expect("run");
        }
        load.drain().expect("drain");
        let tally = load.tally();
        assert_eq!(tally.requests, 2 * tally.pairs, "every worker ended after a release");
        assert_eq!(tally.latency.count(), tally.requests);
        assert_eq!(tally.hand_off.count(), 0, "private keys are never handed off");
    }
}

#[test]
fn hand_offs_are_counted_on_shared_keys() {
    let echo = EchoThread::start();
    let driver = TicketingDriver::new();
    let shape = Shape { connections: 4, depth: 1, keys: Keys::Shared(1) };
    let mut load = Load::open(&driver, echo.address, shape, 1).expect("open");
    load.start().expect("start");
    while load.tally().pairs < 100 {
        load.run(1_000_000, &mut None).expect("run");
    }
    load.drain().expect("drain");
    assert!(load.tally().hand_off.count() > 0);
    load.reset();
    assert_eq!(load.tally().requests, 0);
}

#[test]
fn a_closed_connection_ends_the_run() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("an address");
    let closer = thread::spawn(move || drop(listener.accept()));
    let shape = Shape { connections: 1, depth: 1, keys: Keys::Private };
    let driver = TicketingDriver::new();
    let refused = Load::open(&driver, address, shape, 1);
    assert!(refused.is_err());
    closer.join().expect("closer");
}

#[test]
fn keys_have_one_size_and_differ() {
    assert_eq!(&key(3, 12), b"0000000000000000000000bench/3/12");
    assert_ne!(key(3, 12), key(3, 13));
    assert_ne!(key(3, 12), key(31, 2));
}

/// A server that denies the first try, grants the second, and releases.
fn denying_redis(listener: TcpListener) -> io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    let sha = format!("$40\r\n{}\r\n", "a".repeat(40));
    let mut input = [0; 1_024];
    for answer in [sha.as_str(), "$-1\r\n", "+OK\r\n", ":1\r\n"] {
        // One worker: one command at a time.
        if stream.read(&mut input)? == 0 {
            break;
        }
        stream.write_all(answer.as_bytes())?;
    }
    Ok(())
}

#[test]
fn a_denied_worker_pauses_and_asks_again() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("an address");
    let server = thread::spawn(move || denying_redis(listener));
    let driver = RedisDriver::new();
    let shape = Shape { connections: 1, depth: 1, keys: Keys::Shared(1) };
    let mut load = Load::open(&driver, address, shape, 1).expect("open");
    let began_at = now_nanos();
    load.start().expect("start");
    load.drain().expect("drain");
    let tally = load.tally();
    assert_eq!((tally.pairs, tally.requests, tally.denied), (1, 3, 1));
    assert!(now_nanos() - began_at >= RedisDriver::POLL_PAUSE_NANOS);
    server.join().expect("server").expect("answers");
}
