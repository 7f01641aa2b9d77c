//! Deadlines: one ring for every length a lease or a wait can have.
//!
//! Time never goes back, so what has the same length ends in the order it began: each ring is
//! sorted by deadline without any sorting, and insert, cancel and expire cost O(1). A ring's cursor
//! stands at its first member that has not been named to the owner yet; those before it have.

use alloc::boxed::Box;

use crate::node::{NIL, Nodes, State, TIMER};
use crate::time::Instant;

/// Rings 0–255 are leases by length, 256–511 waits.
const CLASS_COUNT: usize = 512;
const WAIT_CLASS: usize = 256;

#[derive(Clone, Copy, Debug)]
struct Class {
    first: u32,
    cursor: u32,
    /// That of the member at the cursor, so that finding the earliest of many rings reads no node.
    deadline: Instant,
}

const EMPTY: Class = Class { first: NIL, cursor: NIL, deadline: NEVER };
const NEVER: Instant = Instant::from_nanos(u64::MAX);

#[derive(Debug)]
pub(crate) struct Timers {
    classes: Box<[Class; CLASS_COUNT]>,
    /// Classes whose cursor stands at a member.
    armed: [u64; CLASS_COUNT / 64],
    /// No armed member is due before this. It is exact after each unsuccessful search for what is
    /// due, and otherwise may be too early, never too late.
    deadline_min: Instant,
}

impl Timers {
    pub(crate) fn new() -> Self {
        Self {
            classes: Box::new([EMPTY; CLASS_COUNT]),
            armed: [0; CLASS_COUNT / 64],
            deadline_min: NEVER,
        }
    }

    /// Starts the timer of a request that has just begun to wait or to hold.
    pub(crate) fn start(&mut self, nodes: &mut Nodes, index: u32, now: Instant) {
        let class = class_of(nodes, index);
        let node = nodes.get_mut(index);
        let seconds = if class < WAIT_CLASS { node.lease_seconds } else { node.wait_seconds };
        node.deadline = now.after_seconds(seconds);
        let deadline = node.deadline;
        let ring = &mut self.classes[class];
        nodes.push_back::<TIMER>(&mut ring.first, index);
        if ring.cursor == NIL {
            let is_idle = self.is_idle();
            self.point(nodes, class, index);
            if is_idle || deadline < self.deadline_min {
                self.deadline_min = deadline;
            }
        }
    }

    /// Stops the timer of a request. Its state must still be the one it was started in.
    pub(crate) fn stop(&mut self, nodes: &mut Nodes, index: u32) {
        let class = class_of(nodes, index);
        if self.classes[class].cursor == index {
            self.advance(nodes, class);
        }
        nodes.unlink::<TIMER>(&mut self.classes[class].first, index);
    }

    /// When to look for what is due.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        (!self.is_idle()).then_some(self.deadline_min)
    }

    /// The request whose time came first, if it has come. It stays armed.
    pub(crate) fn due(&mut self, now: Instant) -> Option<u32> {
        if now < self.deadline_min || self.is_idle() {
            return None;
        }
        let Class { cursor, deadline, .. } = self.earliest();
        if deadline <= now {
            return Some(cursor);
        }
        self.deadline_min = deadline;
        None
    }

    /// Marks a request that `due` gave as named, so that `due` goes on to the next.
    pub(crate) fn mark_named(&mut self, nodes: &Nodes, index: u32) {
        let class = class_of(nodes, index);
        assert!(self.classes[class].cursor == index);
        self.advance(nodes, class);
    }

    /// Arms everything that was named.
    pub(crate) fn rearm(&mut self, nodes: &Nodes) {
        for class in 0..CLASS_COUNT {
            self.point(nodes, class, self.classes[class].first);
        }
        if !self.is_idle() {
            self.deadline_min = self.earliest().deadline;
        }
    }

    /// The first of those who began to hold with this lease.
    pub(crate) fn first_holding(&self, lease_seconds: u8) -> u32 {
        self.classes[lease_seconds as usize].first
    }

    /// The first of those who began to wait with this wait.
    pub(crate) fn first_waiting(&self, wait_seconds: u8) -> u32 {
        self.classes[WAIT_CLASS + wait_seconds as usize].first
    }

    /// Marks all who wait with this wait for removal.
    pub(crate) fn mark_dropping(&self, nodes: &mut Nodes, wait_seconds: u8) {
        let first = self.first_waiting(wait_seconds);
        let mut at = first;
        while at != NIL {
            nodes.get_mut(at).state = State::Dropping;
            at = nodes.next::<TIMER>(first, at);
        }
    }

    fn is_idle(&self) -> bool {
        self.armed == [0; CLASS_COUNT / 64]
    }

    fn advance(&mut self, nodes: &Nodes, class: usize) {
        let Class { first, cursor, .. } = self.classes[class];
        self.point(nodes, class, nodes.next::<TIMER>(first, cursor));
    }

    /// Moves a cursor.
    fn point(&mut self, nodes: &Nodes, class: usize, index: u32) {
        let ring = &mut self.classes[class];
        ring.cursor = index;
        if index == NIL {
            self.armed[class / 64] &= !(1 << (class % 64));
        } else {
            ring.deadline = nodes.get(index).deadline;
            self.armed[class / 64] |= 1 << (class % 64);
        }
    }

    /// The armed class that comes first; of equal ones that with the lowest number.
    fn earliest(&self) -> Class {
        let mut found = EMPTY;
        for (word, bits) in self.armed.iter().enumerate() {
            let mut bits = *bits;
            while bits != 0 {
                let class = self.classes[word * 64 + bits.trailing_zeros() as usize];
                if found.cursor == NIL || class.deadline < found.deadline {
                    found = class;
                }
                bits &= bits - 1;
            }
        }
        assert!(found.cursor != NIL);
        found
    }

    /// Panics unless every ring is sorted and holds what belongs there; says how many there are.
    pub(crate) fn check_invariants(&self, nodes: &Nodes) -> u32 {
        let mut count = 0;
        for (class, ring) in self.classes.iter().enumerate() {
            let is_armed = self.armed[class / 64] >> (class % 64) & 1 == 1;
            assert!(is_armed == (ring.cursor != NIL));
            let mut is_cursor_seen = ring.cursor == NIL;
            let mut at = ring.first;
            let mut before = (0, Instant::from_nanos(0));
            while at != NIL {
                let node = nodes.get(at);
                assert!(class_of(nodes, at) == class);
                assert!(node.number > before.0);
                assert!(node.deadline >= before.1);
                before = (node.number, node.deadline);
                if at == ring.cursor {
                    assert!(node.deadline == ring.deadline);
                    is_cursor_seen = true;
                }
                if is_cursor_seen && ring.cursor != NIL {
                    assert!(node.deadline >= self.deadline_min);
                }
                count += 1;
                at = nodes.next::<TIMER>(ring.first, at);
            }
            assert!(is_cursor_seen);
        }
        count
    }
}

fn class_of(nodes: &Nodes, index: u32) -> usize {
    let node = nodes.get(index);
    match node.state {
        State::Holding => node.lease_seconds as usize,
        State::Waiting | State::Dropping => WAIT_CLASS + node.wait_seconds as usize,
        State::Free | State::Link => unreachable!("only requests have timers"),
    }
}
