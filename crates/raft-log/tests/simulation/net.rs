//! Virtual time and a network of ordered links, both driven by one seed.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Seeded numbers.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0xD134_2543_DE82_EF95).wrapping_add(1))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 16) % limit.max(1)
    }

    /// True once in `count`.
    pub(crate) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// How one direction between two slots fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkState {
    Up,
    /// Packets vanish; nobody is told.
    Silent,
}

#[derive(Clone, Copy)]
struct Link {
    state: LinkState,
    /// Messages of an earlier connection are lost.
    epoch: u64,
    /// TCP keeps the order.
    last_arrival: u64,
    /// Added to every delay, so that links overtake one another.
    slowness: u64,
}

/// A queue of everything that will happen, in microseconds.
pub(crate) struct World<E> {
    pub(crate) now: u64,
    pub(crate) random: Random,
    queue: BTreeMap<Reverse<(u64, u64)>, E>,
    sequence: u64,
    links: Vec<Vec<Link>>,
}

impl<E> World<E> {
    pub(crate) fn new(seed: u64, slot_count: usize) -> Self {
        let link = Link { state: LinkState::Up, epoch: 0, last_arrival: 0, slowness: 0 };
        Self {
            now: 0,
            random: Random::new(seed),
            queue: BTreeMap::new(),
            sequence: 0,
            links: vec![vec![link; slot_count]; slot_count],
        }
    }

    pub(crate) fn at(&mut self, time: u64, event: E) {
        self.sequence += 1;
        self.queue.insert(Reverse((time, self.sequence)), event);
    }

    pub(crate) fn after(&mut self, delay: u64, event: E) {
        self.at(self.now + delay, event);
    }

    /// The next thing to happen before `end`.
    pub(crate) fn next(&mut self, end: u64) -> Option<E> {
        let time = self.queue.last_key_value()?.0.0.0;
        if time >= end {
            self.now = end;
            return None;
        }
        self.now = time;
        self.queue.pop_last().map(|(_, event)| event)
    }

    /// Sends over a link; `event` gets the link's epoch.
    pub(crate) fn send(&mut self, from: u8, to: u8, event: impl FnOnce(u64) -> E) {
        let jitter = self.random.below(800) + if self.random.one_in(200) { 20_000 } else { 100 };
        let now = self.now;
        let link = &mut self.links[usize::from(from)][usize::from(to)];
        if link.state == LinkState::Silent {
            return;
        }
        let arrival = (now + jitter + link.slowness).max(link.last_arrival + 1);
        link.last_arrival = arrival;
        let event = event(link.epoch);
        self.at(arrival, event);
    }

    /// Whether a message sent in that epoch arrives now.
    pub(crate) fn arrives(&self, from: u8, to: u8, epoch: u64) -> bool {
        let link = self.links[usize::from(from)][usize::from(to)];
        link.epoch == epoch && link.state == LinkState::Up
    }

    pub(crate) fn set_link(&mut self, from: u8, to: u8, state: LinkState) {
        let slowness = if self.random.one_in(4) { self.random.below(15_000) } else { 0 };
        let link = &mut self.links[usize::from(from)][usize::from(to)];
        *link = Link { state, epoch: link.epoch + 1, slowness, ..*link };
    }

    pub(crate) fn is_up(&self, from: u8, to: u8) -> bool {
        self.links[usize::from(from)][usize::from(to)].state == LinkState::Up
    }
}
