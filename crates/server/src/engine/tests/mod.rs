//! The engine without sockets: bytes and times in, bytes out.

mod bounds;
mod endings;
mod requests;

use super::*;
use crate::limits::{IN_FLIGHT_COUNT_DEFAULT, WAITERS_PER_KEY_DEFAULT};
use ticketing_wire_codec::limits::REQUEST_SIZE_BYTES_MAX;
use ticketing_wire_codec::{
    Reply, ReplyRules, RequestId, Step, Token, decode_reply, encode_acquire, encode_acquire_set,
    encode_release, encode_release_set,
};

pub(super) const SECOND: u64 = 1_000_000_000;
pub(super) const TOKEN_FLOOR: u64 = 1_000;

/// An engine with a clock that the test moves.
pub(super) struct Rig {
    pub(super) engine: Engine,
    pub(super) now: Instant,
}

pub(super) fn settings() -> EngineSettings {
    EngineSettings {
        connection_count_max: 100,
        in_flight_count_max: IN_FLIGHT_COUNT_DEFAULT,
        table: TableLimits { key_count_max: 1_000, waiters_per_key_max: WAITERS_PER_KEY_DEFAULT },
        hash_seed: [7; 16],
        token_floor: TOKEN_FLOOR,
        persisted: Persisted::UNLIMITED,
        active_from: Instant::from_nanos(0),
    }
}

impl Rig {
    pub(super) fn new() -> Self {
        Self::with(&settings())
    }

    pub(super) fn with(settings: &EngineSettings) -> Self {
        Self { engine: Engine::new(settings), now: Instant::from_nanos(5 * SECOND) }
    }

    pub(super) fn open(&mut self) -> SessionId {
        self.engine.open().expect("room for a session")
    }

    /// One turn, with its replies.
    pub(super) fn turn(&mut self, session: SessionId, input: &[u8]) -> (Turn, Vec<Reply>) {
        let mut out = Vec::new();
        let turn = self.engine.turn(session, input, self.now, &mut out);
        (turn, replies(&out))
    }

    /// One turn of a session that goes on.
    pub(super) fn send(&mut self, session: SessionId, input: &[u8]) -> Vec<Reply> {
        let (turn, replies) = self.turn(session, input);
        assert_eq!(turn, Turn::Serve);
        replies
    }

    pub(super) fn pass(&mut self, nanoseconds: u64) {
        self.now = Instant::from_nanos(self.now.as_nanos() + nanoseconds);
        self.engine.advance(self.now);
    }

    pub(super) fn called(&mut self) -> Vec<u32> {
        self.engine.drain_called().collect()
    }

    /// Closes a session to which everything was written.
    pub(super) fn close(&mut self, session: SessionId) {
        self.engine.close(session, &Outgoing::default(), self.now);
    }
}

pub(super) fn replies(mut bytes: &[u8]) -> Vec<Reply> {
    let mut replies = Vec::new();
    while let Step::Complete { value, size } =
        decode_reply(bytes, ReplyRules::Single).expect("replies a client accepts")
    {
        replies.push(value);
        bytes = &bytes[size..];
    }
    assert!(bytes.is_empty(), "whole frames");
    replies
}

pub(super) fn id(value: u64) -> RequestId {
    RequestId::new(value).expect("not zero")
}

pub(super) fn token(value: u64) -> Token {
    Token::new(value).expect("not zero")
}

pub(super) fn acquire(request: u64, wait: u8, lease: u8, key: &str) -> Vec<u8> {
    let mut buffer = [0; REQUEST_SIZE_BYTES_MAX];
    encode_acquire(&mut buffer, id(request), wait, lease, key.as_bytes()).expect("valid").to_vec()
}

pub(super) fn release(request: u64, held: Token, key: &str) -> Vec<u8> {
    let mut buffer = [0; REQUEST_SIZE_BYTES_MAX];
    encode_release(&mut buffer, id(request), held, key.as_bytes()).expect("valid").to_vec()
}

pub(super) fn acquire_set(request: u64, wait: u8, lease: u8, keys: &[&str]) -> Vec<u8> {
    let mut buffer = [0; REQUEST_SIZE_BYTES_MAX];
    let keys = keys.iter().map(|key| key.as_bytes());
    encode_acquire_set(&mut buffer, id(request), wait, lease, keys).expect("valid").to_vec()
}

pub(super) fn release_set(request: u64, held: Token, keys: &[&str]) -> Vec<u8> {
    let mut buffer = [0; REQUEST_SIZE_BYTES_MAX];
    let keys = keys.iter().map(|key| key.as_bytes());
    encode_release_set(&mut buffer, id(request), held, keys).expect("valid").to_vec()
}

/// The token of the only reply, a grant.
pub(super) fn granted(replies: &[Reply], request: u64) -> Token {
    match replies {
        [Reply::Granted { request_id, token } | Reply::GrantedSet { request_id, token }]
            if *request_id == id(request) =>
        {
            *token
        }
        other => panic!("one grant for request {request} expected: {other:?}"),
    }
}

pub(super) fn released(request: u64) -> Reply {
    Reply::Released { request_id: id(request) }
}

pub(super) fn timed_out(request: u64) -> Reply {
    Reply::TimedOut { request_id: id(request) }
}

pub(super) fn busy(request: u64) -> Reply {
    Reply::Busy { request_id: id(request) }
}
