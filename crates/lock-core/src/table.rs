//! The lock table: its state, and how requests enter it.

use crate::command::{Command, Event, EventSink, Owner, RefusedReason, TableLimits};
use crate::export::Export;
use crate::hash_index::HashIndex;
use crate::history::{History, Silent};
use crate::keys::Keys;
use crate::limits::{
    KEY_SIZE_BYTES_MAX, LEASE_SECONDS_MAX, NODE_COUNT_MAX, SESSION_COUNT_MAX, SET_KEY_COUNT_MAX,
    WAITERS_PER_KEY_MAX,
};
use crate::node::{NIL, Node, Nodes, QUEUE, State};
use crate::sessions::Sessions;
use crate::time::Instant;
use crate::timers::Timers;

/// The complete lock state: per-key FIFO queues, holders, and local deadlines.
///
/// Memory grows with what is stored at once and is reused, never given back, so that steady load
/// allocates nothing.
#[derive(Debug)]
pub struct LockTable {
    pub(crate) limits: TableLimits,
    /// The newest token, or the floor.
    pub(crate) token_last: u64,
    /// The newest arrival number.
    pub(crate) arrival_last: u64,
    pub(crate) history: History,
    /// The latest time heard of; it never goes back.
    pub(crate) clock: Instant,
    pub(crate) holding_count: u32,
    pub(crate) nodes: Nodes,
    pub(crate) keys: Keys,
    /// Waiters by arrival.
    pub(crate) waiters: HashIndex,
    pub(crate) sessions: Sessions,
    pub(crate) timers: Timers,
    pub(crate) export: Option<Export>,
}

/// Something whose time has come; the owner applies the matching command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due<'a> {
    /// A lease ended: [`Command::Expire`].
    Lease {
        /// The grant.
        token: u64,
        /// How long it was.
        lease_seconds: u8,
        /// One of its keys.
        key: &'a [u8],
    },
    /// A wait ended: [`Command::TimeOut`].
    Wait {
        /// The waiter.
        arrival: u64,
    },
}

impl LockTable {
    /// An empty table. `hash_seed` must be random where keys come from outside.
    pub fn new(hash_seed: [u8; 16], limits: TableLimits) -> Self {
        Self {
            limits,
            token_last: 0,
            arrival_last: 0,
            history: History::new(),
            clock: Instant::from_nanos(0),
            holding_count: 0,
            nodes: Nodes::new(),
            keys: Keys::new(&hash_seed),
            waiters: HashIndex::new(),
            sessions: Sessions::new(),
            timers: Timers::new(),
            export: None,
        }
    }

    /// Applies one command. Same commands in, same state and same events out, on every replica.
    /// No content of a command makes it panic: what it cannot do it refuses, or has no effect.
    pub fn apply(&mut self, command: Command<'_>, now: Instant, events: &mut impl EventSink) {
        self.advance_clock(now);
        match command {
            Command::Acquire { owner, wait_seconds, lease_seconds, keys } => {
                let request = Request { owner, wait_seconds, lease_seconds };
                self.acquire(request, keys, events);
            }
            Command::ClearWaiters => self.clear_waiters(events),
            Command::CloseSession { session } => self.close_session(session, events),
            Command::Configure { limits } => {
                self.limits = limits;
                let detail =
                    (limits.key_count_max as u64) << 32 | limits.waiters_per_key_max as u64;
                self.history.silent(Silent::Configured, detail);
            }
            Command::Expire { token, key } => self.expire(token, key, events),
            Command::RaiseTokenFloor { floor } => {
                if floor > self.token_last {
                    self.token_last = floor;
                    self.history.silent(Silent::FloorRaised, floor);
                }
            }
            Command::Reclaim { session, token } => self.reclaim(session, token, events),
            Command::Release { owner, token, keys } => self.release(owner, token, keys, events),
            Command::TimeOut { arrival } => self.time_out(arrival, events),
        }
    }

    /// How many keys are held or waited for.
    pub fn key_count(&self) -> usize {
        self.keys.count()
    }

    /// How many grants there are; a set is one.
    pub fn grant_count(&self) -> usize {
        self.holding_count as usize
    }

    /// How many requests wait; a set is one.
    pub fn waiter_count(&self) -> usize {
        self.waiters.count()
    }

    /// The newest token given out, or the floor if that is higher.
    pub fn token_last(&self) -> u64 {
        self.token_last
    }

    /// The capacity limits in force.
    pub fn limits(&self) -> TableLimits {
        self.limits
    }

    /// A checksum over the effects of all commands so far. Replicas that applied the same commands
    /// have the same; it costs nothing to read, so they can compare it every few entries.
    pub fn history(&self) -> u64 {
        self.history.get()
    }

    pub(crate) fn advance_clock(&mut self, now: Instant) {
        self.clock = self.clock.max(now);
    }

    #[inline]
    pub(crate) fn emit(&mut self, event: Event, events: &mut impl EventSink) {
        self.history.event(&event);
        events.event(event);
    }

    fn acquire(&mut self, request: Request, keys: &[&[u8]], events: &mut impl EventSink) {
        match self.admit(request, keys) {
            Ok(Admitted { index, is_free: true }) => self.hold(index, events),
            Ok(Admitted { index, is_free: false }) => self.wait(index, events),
            Err(Turned::Away(reason)) => {
                self.emit(Event::Refused { owner: request.owner, reason }, events);
            }
            Err(Turned::NotFree) => {
                let key_count = keys.len() as u8;
                self.emit(Event::TimedOut { owner: request.owner, key_count }, events);
            }
        }
    }

    /// Enters a request into the queues of its keys, or changes nothing.
    pub(crate) fn admit(&mut self, request: Request, keys: &[&[u8]]) -> Result<Admitted, Turned> {
        if !request.is_well_formed() || !are_well_formed(keys) {
            Err(Turned::Away(RefusedReason::Malformed))
        } else if let [key] = keys {
            self.admit_one(request, key)
        } else {
            self.admit_set(request, keys)
        }
    }

    fn admit_one(&mut self, request: Request, key: &[u8]) -> Result<Admitted, Turned> {
        let hash = self.keys.hash(key);
        let found = self.keys.find(hash, key);
        if let Some(entry) = found {
            if request.wait_seconds == 0 {
                return Err(Turned::NotFree);
            }
            self.check_queue(entry)?;
        }
        self.check_capacity(usize::from(found.is_none()), 1)?;
        let entry = found.unwrap_or_else(|| self.keys.insert(hash, key));
        let index = self.nodes.insert(request.node(1, entry));
        self.nodes.push_back::<QUEUE>(self.keys.grow_queue(entry), index);
        Ok(Admitted { index, is_free: found.is_none() })
    }

    fn admit_set(&mut self, request: Request, keys: &[&[u8]]) -> Result<Admitted, Turned> {
        let mut hashes = [0; SET_KEY_COUNT_MAX];
        let mut entries = [None; SET_KEY_COUNT_MAX];
        for (at, key) in keys.iter().enumerate() {
            hashes[at] = self.keys.hash(key);
            entries[at] = self.keys.find(hashes[at], key);
        }
        let entries = &entries[..keys.len()];
        let found_count = entries.iter().flatten().count();
        if found_count > 0 && request.wait_seconds == 0 {
            return Err(Turned::NotFree);
        }
        for entry in entries.iter().flatten() {
            self.check_queue(*entry)?;
        }
        self.check_capacity(keys.len() - found_count, keys.len() + 1)?;
        let index = self.nodes.insert(request.node(keys.len() as u8, NIL));
        let mut link = NIL;
        for (at, key) in keys.iter().enumerate() {
            let entry = entries[at].unwrap_or_else(|| self.keys.insert(hashes[at], key));
            link = self.nodes.insert_link(index, link, entry);
            self.nodes.push_back::<QUEUE>(self.keys.grow_queue(entry), link);
        }
        Ok(Admitted { index, is_free: found_count == 0 })
    }

    /// Whether one more may wait for a key.
    fn check_queue(&self, entry: u32) -> Result<(), Turned> {
        let waiter_count_max = self.limits.waiters_per_key_max.min(WAITERS_PER_KEY_MAX);
        let is_held = self.holder(entry).is_some();
        if self.keys.member_count(entry) - u32::from(is_held) < waiter_count_max {
            Ok(())
        } else {
            Err(Turned::Away(RefusedReason::Capacity))
        }
    }

    /// Whether there is room for more keys and nodes, and a number for the request. The counters
    /// last for centuries unless something raised them; at their end they stop, never wrap.
    fn check_capacity(&self, key_count: usize, node_count: usize) -> Result<(), Turned> {
        let keys_fit = self.keys.count() + key_count <= self.limits.key_count_max as usize;
        let nodes_fit = self.nodes.count() as usize + node_count <= NODE_COUNT_MAX as usize;
        let has_numbers = self.token_last < u64::MAX && self.arrival_last < u64::MAX;
        if (keys_fit || key_count == 0) && nodes_fit && has_numbers {
            Ok(())
        } else {
            Err(Turned::Away(RefusedReason::Capacity))
        }
    }

    /// The grant that holds a key.
    pub(crate) fn holder(&self, entry: u32) -> Option<u32> {
        let request = self.nodes.request_of(self.keys.first(entry));
        (self.nodes.get(request).state == State::Holding).then_some(request)
    }

    /// Makes a request that is in its queues a grant.
    pub(crate) fn hold(&mut self, index: u32, events: &mut impl EventSink) {
        assert!(self.token_last < u64::MAX);
        self.token_last += 1;
        let token = self.token_last;
        let Node { owner, key_count, .. } = *self.begin(index, State::Holding, token);
        self.holding_count += 1;
        self.emit(Event::Granted { owner, token, key_count }, events);
    }

    pub(crate) fn wait(&mut self, index: u32, events: &mut impl EventSink) {
        assert!(self.arrival_last < u64::MAX);
        self.arrival_last += 1;
        let arrival = self.arrival_last;
        let owner = self.begin(index, State::Waiting, arrival).owner;
        self.waiters.insert(arrival_hash(arrival), index);
        self.emit(Event::Queued { owner, arrival }, events);
    }

    /// Enters a request into the timers and its session's ring.
    pub(crate) fn begin(&mut self, index: u32, state: State, number: u64) -> &Node {
        let node = self.nodes.get_mut(index);
        node.state = state;
        node.number = number;
        self.timers.start(&mut self.nodes, index, self.clock);
        self.sessions.add(&mut self.nodes, index);
        self.nodes.get(index)
    }
}

/// An acquire but for its keys.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) owner: Owner,
    pub(crate) wait_seconds: u8,
    pub(crate) lease_seconds: u8,
}

impl Request {
    const fn is_well_formed(&self) -> bool {
        self.lease_seconds >= 1
            && self.lease_seconds <= LEASE_SECONDS_MAX
            && self.owner.session.index() < SESSION_COUNT_MAX
    }

    const fn node(self, key_count: u8, key: u32) -> Node {
        Node::request(self.owner, self.wait_seconds, self.lease_seconds, key_count, key)
    }
}

/// A request that has entered its queues, and whether all its keys were free.
pub(crate) struct Admitted {
    pub(crate) index: u32,
    pub(crate) is_free: bool,
}

/// Why a request did not enter.
pub(crate) enum Turned {
    Away(RefusedReason),
    NotFree,
}

/// One key, or a set in strictly ascending order, each of a size that can be stored.
pub(crate) fn are_well_formed(keys: &[&[u8]]) -> bool {
    (1..=SET_KEY_COUNT_MAX).contains(&keys.len())
        && keys.iter().all(|key| (1..=KEY_SIZE_BYTES_MAX).contains(&key.len()))
        && keys.is_sorted_by(|left, right| left < right)
}

/// Arrivals count up, and this spreads a run of numbers evenly; nobody outside chooses them.
pub(crate) const fn arrival_hash(arrival: u64) -> u32 {
    (arrival.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}
