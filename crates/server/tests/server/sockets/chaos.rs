//! Many clients that take singles and sets of the same few keys, in pieces and in batches, and
//! leave in every way; judged from what the clients see. Missions M4, M5, M6 and M8.

use super::rig::Rig;
use crate::support::{Client, WAYS_TO_GO, acquire, acquire_set, id, now, release, release_set};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};
use ticketing_wire_codec::{Reply, ReplyRules, Step, Token, decode_reply};

const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];
const CLIENT_COUNT: usize = 16;
const RUN_TIME: Duration = Duration::from_secs(8);
const OWED_COUNT_MAX: usize = 16;

/// What a client waits for.
enum Owed {
    /// The place in `Chaos::acquires`.
    Acquire(usize),
    /// Answered in the server's order: the acquire sent before it has entered its queues.
    Fence(usize),
    /// The place in `Chaos::acquires` of the grant.
    Release(usize),
}

/// One acquire as its client saw it.
struct Acquire {
    keys: Vec<&'static str>,
    wait: Duration,
    sent: Instant,
    /// Since when it certainly stands in its queues.
    entered: Option<Instant>,
    granted: Option<Grant>,
}

struct Grant {
    token: Token,
    /// It is certainly held from `since` to `until`.
    since: Instant,
    until: Instant,
    is_released: bool,
}

struct Peer {
    client: Client,
    request_last: u64,
    owed: BTreeMap<u64, Owed>,
    input: Vec<u8>,
    output: Vec<u8>,
}

struct Chaos {
    rig: Rig,
    seed: u64,
    peers: Vec<Peer>,
    acquires: Vec<Acquire>,
    /// Delivered and not released, whoever took them.
    held: Vec<usize>,
    half_open: Vec<Client>,
}

impl Peer {
    fn new(rig: &Rig) -> Self {
        let client = Client::open(rig.address);
        client.socket().set_nonblocking(true).expect("a socket option");
        let (owed, input, output) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { client, request_last: 0, owed, input, output }
    }

    fn send(&mut self, owed: Owed, frame: impl Fn(u64) -> Vec<u8>) {
        self.request_last += 1;
        self.output.extend(frame(self.request_last));
        self.owed.insert(self.request_last, owed);
    }

    /// Hands at most `size_max` bytes to the socket.
    fn write(&mut self, size_max: usize) {
        let size = self.output.len().min(size_max);
        match self.client.socket().write(&self.output[..size]) {
            Ok(written) => drop(self.output.drain(..written)),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }

    fn read(&mut self) -> Vec<Reply> {
        let mut bytes = [0; 4096];
        match self.client.socket().read(&mut bytes) {
            Ok(size) => {
                assert!(size > 0, "the server ended a connection that broke no rule");
                self.input.extend_from_slice(&bytes[..size]);
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        let mut replies = Vec::new();
        while let Step::Complete { value, size } =
            decode_reply(&self.input, ReplyRules::Single).expect("a valid reply")
        {
            replies.push(value);
            self.input.drain(..size);
        }
        replies
    }
}

impl Chaos {
    fn below(&mut self, bound: usize) -> usize {
        // xorshift64: the run is told by its seed.
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 16) as usize % bound
    }

    fn step(&mut self) {
        let at = self.below(CLIENT_COUNT);
        match self.below(40) {
            0 => self.leave(at),
            1..=24 if self.peers[at].owed.len() < OWED_COUNT_MAX => self.acquire(at),
            _ if !self.held.is_empty() => {
                let held = self.below(self.held.len());
                let grant = self.held.swap_remove(held);
                self.release(at, grant);
            }
            _ => {}
        }
        for at in 0..CLIENT_COUNT {
            let size_max = if self.below(4) == 0 { 1 + self.below(30) } else { usize::MAX };
            self.peers[at].write(size_max);
            for reply in self.peers[at].read() {
                self.judge(at, reply);
            }
        }
    }

    fn leave(&mut self, at: usize) {
        let fresh = Peer::new(&self.rig);
        let gone = std::mem::replace(&mut self.peers[at], fresh);
        let way = self.below(WAYS_TO_GO.len());
        self.half_open.extend(WAYS_TO_GO[way](gone.client));
    }

    fn acquire(&mut self, at: usize) {
        let first = self.below(KEYS.len());
        let count = 1 + self.below(KEYS.len() - first).min(self.below(3));
        let keys = KEYS[first..first + count].to_vec();
        let (wait, lease) = (self.below(4) as u8, 1 + self.below(2) as u8);
        let acquire_number = self.acquires.len();
        let peer = &mut self.peers[at];
        peer.send(Owed::Acquire(acquire_number), |request| match &*keys {
            [key] => acquire(request, wait, lease, key),
            keys => acquire_set(request, wait, lease, keys),
        });
        let nobodys = Token::new(1).expect("not zero");
        peer.send(Owed::Fence(acquire_number), |request| release(request, nobodys, "fence"));
        let sent = now();
        let granted = None;
        let wait = Duration::from_secs(wait.into());
        self.acquires.push(Acquire { keys, wait, sent, entered: None, granted });
    }

    /// From any connection; twice now and then.
    fn release(&mut self, at: usize, number: usize) {
        let count = if self.below(8) == 0 { 2 } else { 1 };
        let Acquire { keys, granted, .. } = &mut self.acquires[number];
        let grant = granted.as_mut().expect("it is held");
        grant.until = grant.until.min(now());
        for _ in 0..count {
            self.peers[at].send(Owed::Release(number), |request| match &**keys {
                [key] => release(request, grant.token, key),
                keys => release_set(request, grant.token, keys),
            });
        }
    }

    fn judge(&mut self, at: usize, reply: Reply) {
        let request_id = reply.request_id().expect("every reply of a single server has one");
        let owed = self.peers[at].owed.remove(&request_id.get()).expect("asked once");
        let since = now();
        match (owed, reply) {
            (Owed::Fence(number), Reply::NotHeld { .. }) => {
                self.acquires[number].entered = Some(since);
            }
            (
                Owed::Acquire(number),
                Reply::Granted { token, .. } | Reply::GrantedSet { token, .. },
            ) => {
                let acquire = &mut self.acquires[number];
                let is_set = matches!(reply, Reply::GrantedSet { .. });
                assert_eq!(is_set, acquire.keys.len() > 1);
                // The shortest lease from the sending on: nothing ends earlier.
                let until = acquire.sent + Duration::from_secs(1);
                acquire.granted = Some(Grant { token, since, until, is_released: false });
                self.held.push(number);
            }
            (Owed::Acquire(number), Reply::TimedOut { .. }) => {
                let Acquire { wait, sent, .. } = self.acquires[number];
                assert!(sent.elapsed() >= wait, "timed out before its wait of {wait:?}");
            }
            (Owed::Release(number), Reply::Released { .. } | Reply::ReleasedSet { .. }) => {
                let grant = self.acquires[number].granted.as_mut().expect("it was held");
                assert!(!std::mem::replace(&mut grant.is_released, true), "released twice");
            }
            (Owed::Release(number), Reply::NotHeld { .. }) => {
                let Acquire { sent, granted, .. } = &self.acquires[number];
                let is_released = granted.as_ref().is_some_and(|grant| grant.is_released);
                let is_over = sent.elapsed() >= Duration::from_secs(1);
                assert!(is_released || is_over, "a lease ended early");
            }
            (_, reply) => panic!("no answer to what was asked: {reply:?}"),
        }
    }

    /// No two grants of a key at one time; tokens and queues in order.
    fn judge_all(&self) {
        let granted = self.acquires.iter().filter_map(|acquire| {
            let grant = acquire.granted.as_ref()?;
            Some((acquire, grant))
        });
        let mut granted: Vec<_> = granted.collect();
        granted.sort_by_key(|(_, grant)| grant.token);
        for (at, (acquire, grant)) in granted.iter().enumerate() {
            for (later, next) in &granted[at + 1..] {
                assert!(grant.token < next.token, "a token was given out twice");
                assert!(next.since >= acquire.sent, "a grant before an older token was asked for");
                if !acquire.keys.iter().any(|key| later.keys.contains(key)) {
                    continue;
                }
                let is_certain = grant.since < grant.until;
                assert!(!is_certain || next.since >= grant.until, "two holders of one key");
                let overtook = later.entered.is_some_and(|entered| entered < acquire.sent);
                assert!(!overtook, "a request got ahead of one that stood in the queue before it");
            }
        }
        assert!(granted.len() > 50, "only {} grants", granted.len());
    }
}

#[test]
fn clients_that_come_and_go_see_one_holder_at_a_time_in_order() {
    come_and_go(&[]);
}

#[test]
fn on_one_thread_they_see_the_same() {
    come_and_go(&["--threads", "1"]);
}

#[test]
fn on_more_threads_than_processors_they_see_the_same() {
    come_and_go(&["--threads", "8"]);
}

fn come_and_go(arguments: &[&str]) {
    let seed = std::env::var("TICKETING_TEST_SEED")
        .map_or(0x5eed, |text| text.parse::<u64>().expect("TICKETING_TEST_SEED is a number"));
    eprintln!("TICKETING_TEST_SEED={seed}");
    let rig = Rig::start(arguments);
    let peers = (0..CLIENT_COUNT).map(|_| Peer::new(&rig)).collect();
    let (acquires, held, half_open) = (Vec::new(), Vec::new(), Vec::new());
    let mut chaos = Chaos { rig, seed: seed.max(1), peers, acquires, held, half_open };
    let start = now();
    while start.elapsed() < RUN_TIME {
        chaos.step();
        std::thread::sleep(Duration::from_millis(1));
    }
    chaos.judge_all();
    chaos.peers.clear();
    chaos.rig.expect_empty();
    // Nothing is held longer than the longest lease that was asked for.
    let mut client = Client::open(chaos.rig.address);
    client.send(&acquire_set(1, 3, 1, &KEYS));
    assert!(
        matches!(client.receive(), Reply::GrantedSet { request_id, .. } if request_id == id(1))
    );
}
