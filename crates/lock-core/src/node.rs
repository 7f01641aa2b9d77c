//! Requests in memory: one pool of nodes, and the rings that order them.
//!
//! A request has one node from its arrival to the end of its grant. That of a single-key request
//! stands in the key's queue itself. A set's node has one further node per key, a *link*, which
//! stands in that key's queue in its place. Rings are circular, so a list needs only its first
//! member: the last is the one before it.

use alloc::vec::Vec;

use crate::command::Owner;
use crate::time::Instant;

/// No node, no key.
pub(crate) const NIL: u32 = u32::MAX;

/// The ring of a key's holder and waiters.
pub(crate) const QUEUE: usize = 0;
/// The ring of one lease length or one wait length.
pub(crate) const TIMER: usize = 1;
/// The ring of one session's grants or one session's waiters.
pub(crate) const SESSION: usize = 2;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// Unused. `key` is the next unused node.
    Free,
    /// Stands in one key's queue for a set.
    Link,
    /// Waits in the queues of its keys.
    Waiting,
    /// As `Waiting`, but about to be removed, so it may not be granted any more.
    Dropping,
    /// Holds its keys.
    Holding,
}

#[derive(Clone, Copy, Debug)]
struct Ring {
    prev: u32,
    next: u32,
}

const NO_RING: Ring = Ring { prev: NIL, next: NIL };

/// One request, or one link of a set. 64 bytes, so that a held key is cheap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    /// The arrival while waiting, the token while holding.
    pub(crate) number: u64,
    pub(crate) owner: Owner,
    /// When the wait or the lease ends, on this process's clock.
    pub(crate) deadline: Instant,
    /// A link has no place in a session's ring and keeps its set (`prev`) and its successor among
    /// the set's links (`next`) there.
    rings: [Ring; 3],
    /// The key; for a set its first link.
    pub(crate) key: u32,
    pub(crate) lease_seconds: u8,
    pub(crate) wait_seconds: u8,
    pub(crate) key_count: u8,
    pub(crate) state: State,
}

const _: () = assert!(size_of::<Node>() == 64);

impl Node {
    /// A request that is in no ring yet.
    pub(crate) const fn request(
        owner: Owner,
        wait_seconds: u8,
        lease_seconds: u8,
        key_count: u8,
        key: u32,
    ) -> Self {
        Self {
            number: 0,
            owner,
            deadline: Instant::from_nanos(0),
            rings: [NO_RING; 3],
            key,
            lease_seconds,
            wait_seconds,
            key_count,
            state: State::Waiting,
        }
    }
}

/// The pool. Memory grows on demand and is reused, never given back.
#[derive(Debug)]
pub(crate) struct Nodes {
    slots: Vec<Node>,
    free: u32,
    count: u32,
}

impl Nodes {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), free: NIL, count: 0 }
    }

    /// How many are in use.
    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    /// How many there have ever been at once; indices are below it.
    pub(crate) fn slot_count(&self) -> u32 {
        self.slots.len() as u32
    }

    pub(crate) fn get(&self, index: u32) -> &Node {
        &self.slots[index as usize]
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Node {
        &mut self.slots[index as usize]
    }

    /// Stores a node. The caller has checked `NODE_COUNT_MAX`.
    pub(crate) fn insert(&mut self, node: Node) -> u32 {
        self.count += 1;
        if self.free == NIL {
            let index = self.slots.len() as u32;
            self.slots.push(node);
            index
        } else {
            let index = self.free;
            let slot = &mut self.slots[index as usize];
            assert!(slot.state == State::Free);
            self.free = slot.key;
            *slot = node;
            index
        }
    }

    /// Frees a node that has left its rings.
    pub(crate) fn remove(&mut self, index: u32) {
        let free = self.free;
        let slot = self.get_mut(index);
        assert!(slot.state != State::Free);
        slot.state = State::Free;
        slot.key = free;
        self.free = index;
        self.count -= 1;
    }

    /// Gives `set` one more link, to stand for it in the queue of `key`. `previous` is the link
    /// before it, or [`NIL`] for the first.
    pub(crate) fn insert_link(&mut self, set: u32, previous: u32, key: u32) -> u32 {
        let mut node = Node::request(self.get(set).owner, 0, 0, 0, key);
        node.state = State::Link;
        node.rings[SESSION].prev = set;
        let link = self.insert(node);
        if previous == NIL {
            self.get_mut(set).key = link;
        } else {
            self.get_mut(previous).rings[SESSION].next = link;
        }
        link
    }

    /// The request's first member of a queue: itself, or its first link.
    pub(crate) fn first_link(&self, request: u32) -> u32 {
        let node = self.get(request);
        if node.key_count == 1 { request } else { node.key }
    }

    /// The request's member of a queue after `link`, in key order, or [`NIL`].
    pub(crate) fn next_link(&self, link: u32) -> u32 {
        let node = self.get(link);
        if node.state == State::Link { node.rings[SESSION].next } else { NIL }
    }

    /// The request that a member of a queue stands for.
    pub(crate) fn request_of(&self, link: u32) -> u32 {
        let node = self.get(link);
        if node.state == State::Link { node.rings[SESSION].prev } else { link }
    }

    /// Appends to the ring whose first member is `*first`.
    pub(crate) fn push_back<const RING: usize>(&mut self, first: &mut u32, index: u32) {
        if *first == NIL {
            *first = index;
            self.get_mut(index).rings[RING] = Ring { prev: index, next: index };
            return;
        }
        let head = &mut self.get_mut(*first).rings[RING];
        let last = core::mem::replace(&mut head.prev, index);
        self.get_mut(last).rings[RING].next = index;
        self.get_mut(index).rings[RING] = Ring { prev: last, next: *first };
    }

    /// Takes a member out of the ring whose first member is `*first`.
    pub(crate) fn unlink<const RING: usize>(&mut self, first: &mut u32, index: u32) {
        let Ring { prev, next } = self.get(index).rings[RING];
        if *first == index {
            *first = if next == index { NIL } else { next };
        }
        let before = &mut self.get_mut(prev).rings[RING];
        assert!(before.next == index);
        before.next = next;
        let after = &mut self.get_mut(next).rings[RING];
        assert!(after.prev == index);
        after.prev = prev;
    }

    /// The member after `index`, or [`NIL`] at the end.
    pub(crate) fn next<const RING: usize>(&self, first: u32, index: u32) -> u32 {
        let next = self.get(index).rings[RING].next;
        if next == first { NIL } else { next }
    }

    /// The member before `index`, or [`NIL`] at the start.
    pub(crate) fn previous<const RING: usize>(&self, first: u32, index: u32) -> u32 {
        if index == first { NIL } else { self.get(index).rings[RING].prev }
    }

    /// Panics unless every node is either counted or free.
    pub(crate) fn check_invariants(&self) {
        let mut free_count = 0;
        let mut at = self.free;
        while at != NIL {
            assert!(self.get(at).state == State::Free);
            free_count += 1;
            at = self.get(at).key;
        }
        let is_used = |node: &&Node| node.state != State::Free;
        assert!(self.slots.iter().filter(is_used).count() == self.count as usize);
        assert!(self.count + free_count == self.slot_count());
    }

    /// The last member, or [`NIL`] when there is none.
    pub(crate) fn last<const RING: usize>(&self, first: u32) -> u32 {
        if first == NIL { NIL } else { self.get(first).rings[RING].prev }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::SessionId;
    use std::vec::Vec;

    fn node() -> Node {
        Node::request(Owner { session: SessionId::new(0, 0), request_id: 1 }, 1, 1, 1, 0)
    }

    fn members(nodes: &Nodes, first: u32) -> Vec<u32> {
        let mut found = Vec::new();
        let mut at = first;
        while at != NIL {
            found.push(at);
            at = nodes.next::<QUEUE>(first, at);
        }
        found
    }

    #[test]
    fn a_ring_keeps_order_and_loses_any_member() {
        for gone in 0..3_u32 {
            let mut nodes = Nodes::new();
            let mut first = NIL;
            for _ in 0..3 {
                let index = nodes.insert(node());
                nodes.push_back::<QUEUE>(&mut first, index);
            }
            nodes.unlink::<QUEUE>(&mut first, gone);
            let rest: Vec<u32> = (0..3).filter(|index| *index != gone).collect();
            assert_eq!(members(&nodes, first), rest);
            assert_eq!(nodes.last::<QUEUE>(first), rest[1]);
            assert_eq!(nodes.previous::<QUEUE>(first, rest[1]), rest[0]);
            assert_eq!(nodes.previous::<QUEUE>(first, rest[0]), NIL);
        }
    }

    #[test]
    fn the_last_member_leaves_an_empty_ring() {
        let mut nodes = Nodes::new();
        let mut first = NIL;
        let index = nodes.insert(node());
        nodes.push_back::<QUEUE>(&mut first, index);
        nodes.unlink::<QUEUE>(&mut first, index);
        assert_eq!(first, NIL);
    }

    #[test]
    fn freed_nodes_are_used_again_before_the_pool_grows() {
        let mut nodes = Nodes::new();
        let first = nodes.insert(node());
        let second = nodes.insert(node());
        nodes.remove(first);
        nodes.remove(second);
        assert_eq!(nodes.insert(node()), second);
        assert_eq!(nodes.insert(node()), first);
        assert_eq!((nodes.count(), nodes.slot_count()), (2, 2));
    }
}
