//! The request path allocates nothing once it is warm. Mission M10: counted, through the engine,
//! from bytes in to bytes out.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use ticketing_lock_core::{Instant, SessionId, TableLimits};
use ticketing_server::engine::{Engine, EngineSettings, Persisted, Turn};
use ticketing_wire_codec::limits::REQUEST_SIZE_BYTES_MAX;
use ticketing_wire_codec::{
    Reply, ReplyRules, RequestId, Step, Token, decode_reply, encode_acquire, encode_acquire_set,
    encode_release, encode_release_set,
};

struct Counting;

static ALLOCATION_COUNT: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATION_COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATION_COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(block, layout, size) }
    }
}

const SECOND: u64 = 1_000_000_000;
const SESSION_COUNT: usize = 16;
const ROUND_COUNT: u64 = 500;

/// Sessions that take turns, with buffers as an I/O thread has them.
struct Rig {
    engine: Engine,
    sessions: Vec<SessionId>,
    now: u64,
    request: u64,
    input: Vec<u8>,
    out: Vec<u8>,
    reply_count: u64,
}

impl Rig {
    fn new() -> Self {
        let mut engine = Engine::new(&EngineSettings {
            connection_count_max: SESSION_COUNT as u32,
            in_flight_count_max: 1_000,
            table: TableLimits { key_count_max: 10_000, waiters_per_key_max: 1_000 },
            hash_seed: [3; 16],
            token_floor: 1,
            persisted: Persisted::UNLIMITED,
            active_from: Instant::from_nanos(0),
        });
        let sessions = (0..SESSION_COUNT).map(|_| engine.open().expect("room")).collect();
        let (input, out) = (Vec::with_capacity(1 << 16), Vec::with_capacity(1 << 16));
        Self { engine, sessions, now: SECOND, request: 0, input, out, reply_count: 0 }
    }

    fn id(&mut self) -> RequestId {
        self.request += 1;
        RequestId::new(self.request).expect("not zero")
    }

    fn acquire(&mut self, wait: u8, lease: u8, key: &[u8]) {
        let (mut buffer, id) = ([0; REQUEST_SIZE_BYTES_MAX], self.id());
        let frame = encode_acquire(&mut buffer, id, wait, lease, key).expect("valid");
        self.input.extend_from_slice(frame);
    }

    fn release(&mut self, token: Token, key: &[u8]) {
        let (mut buffer, id) = ([0; REQUEST_SIZE_BYTES_MAX], self.id());
        let frame = encode_release(&mut buffer, id, token, key).expect("valid");
        self.input.extend_from_slice(frame);
    }

    fn acquire_set(&mut self, keys: &[&[u8]]) {
        let (mut buffer, id) = ([0; REQUEST_SIZE_BYTES_MAX], self.id());
        let keys = keys.iter().copied();
        let frame = encode_acquire_set(&mut buffer, id, 5, 60, keys).expect("valid");
        self.input.extend_from_slice(frame);
    }

    fn release_set(&mut self, token: Token, keys: &[&[u8]]) {
        let (mut buffer, id) = ([0; REQUEST_SIZE_BYTES_MAX], self.id());
        let keys = keys.iter().copied();
        let frame = encode_release_set(&mut buffer, id, token, keys).expect("valid");
        self.input.extend_from_slice(frame);
    }

    /// Feeds the input in two pieces and returns the token of the last grant, if any.
    fn turn(&mut self, session: usize, cut: usize) -> Option<Token> {
        let session = self.sessions[session];
        let now = Instant::from_nanos(self.now);
        let cut = cut.min(self.input.len());
        let mut grant = None;
        for piece in [&self.input[..cut], &self.input[cut..]] {
            self.out.clear();
            assert_eq!(self.engine.turn(session, piece, now, &mut self.out), Turn::Serve);
            let mut bytes = &self.out[..];
            while let Step::Complete { value, size } =
                decode_reply(bytes, ReplyRules::Single).expect("a valid reply")
            {
                if let Reply::Granted { token, .. } | Reply::GrantedSet { token, .. } = value {
                    grant = Some(token);
                }
                self.reply_count += 1;
                bytes = &bytes[size..];
            }
        }
        self.engine.drain_called();
        self.input.clear();
        grant
    }

    /// Every kind of request and answer: own keys, hand-offs, sets, timeouts, expiries, refusals.
    fn round(&mut self, round: u64) {
        let cut = (round % 61) as usize;
        for session in 0..SESSION_COUNT {
            let own = [b'a' + session as u8; 32];
            self.acquire(0, 60, &own);
            let token = self.turn(session, cut).expect("a free key");
            self.release(token, &own);
            self.release(token, &own);
            self.acquire(0, 60, b"bad-lease");
            let lease = self.input.len() - b"bad-lease".len() - 1;
            self.input[lease] = 251;
            self.turn(session, cut);
        }
        // A hand-off through every session.
        self.acquire(0, 60, b"shared");
        let mut token = self.turn(0, cut).expect("a free key");
        for session in 1..SESSION_COUNT {
            self.acquire(60, 60, b"shared");
            assert_eq!(self.turn(session, cut), None);
        }
        for session in 0..SESSION_COUNT {
            self.release(token, b"shared");
            self.turn(session, cut);
            if session + 1 < SESSION_COUNT {
                token = self.turn(session + 1, 0).expect("its turn");
            }
        }
        let keys: [&[u8]; 3] = [b"a-set", b"b-set", b"c-set"];
        self.acquire_set(&keys);
        let token = self.turn(1, cut).expect("free keys");
        self.release_set(token, &keys);
        self.turn(1, cut);
        // A wait and a lease that end.
        self.acquire(0, 2, b"expiring");
        self.turn(2, cut).expect("a free key");
        self.acquire(1, 9, b"expiring");
        assert_eq!(self.turn(3, cut), None);
        self.now += 3 * SECOND;
        self.engine.advance(Instant::from_nanos(self.now));
        self.turn(3, 0);
    }
}

#[test]
fn a_warm_engine_allocates_nothing() {
    let mut rig = Rig::new();
    for round in 0..ROUND_COUNT {
        rig.round(round);
    }
    let (allocations, replies) = (ALLOCATION_COUNT.load(Ordering::Relaxed), rig.reply_count);
    for round in 0..ROUND_COUNT {
        rig.round(round);
    }
    let allocated = ALLOCATION_COUNT.load(Ordering::Relaxed) - allocations;
    let replied = rig.reply_count - replies;
    assert!(replied > ROUND_COUNT * 50, "the workload ran: {replied} replies");
    assert_eq!(allocated, 0, "over {replied} replies");
}
