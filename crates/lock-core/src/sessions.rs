//! Which requests belong to which session.
//!
//! Rings are by session index. Sessions that used the same index one after the other share them, so
//! a grant outlives its session without anything to clean up; who looks for a session compares its
//! whole id.

use alloc::vec::Vec;

use crate::command::SessionId;
use crate::node::{NIL, Node, Nodes, SESSION, State};

#[derive(Clone, Copy, Debug)]
struct Rings {
    /// Grants, in the order of their tokens.
    holding: u32,
    /// Waiters, in the order of arrival.
    waiting: u32,
}

#[derive(Debug)]
pub(crate) struct Sessions {
    rings: Vec<Rings>,
    /// The grant after the last one that was looked for. Only a guess at what is looked for next,
    /// so it may name a node that has become something else since.
    guess: u32,
}

impl Sessions {
    pub(crate) const fn new() -> Self {
        Self { rings: Vec::new(), guess: NIL }
    }

    /// Adds a request that has just begun to wait or to hold. The caller has checked
    /// `SESSION_COUNT_MAX`.
    pub(crate) fn add(&mut self, nodes: &mut Nodes, index: u32) {
        let session_index = nodes.get(index).owner.session.index() as usize;
        if session_index >= self.rings.len() {
            self.rings.resize(session_index + 1, Rings { holding: NIL, waiting: NIL });
        }
        let first = self.first(nodes.get(index));
        nodes.push_back::<SESSION>(first, index);
    }

    /// Takes a request out. Its state must still be the one it was added in.
    pub(crate) fn remove(&mut self, nodes: &mut Nodes, index: u32) {
        let first = self.first(nodes.get(index));
        nodes.unlink::<SESSION>(first, index);
    }

    /// The session's grant with this token. Tokens ascend, so the search goes back from the newest
    /// and costs as many steps as there were grants since. A run of grants is found step by step
    /// from either end: who has thousands of grants to give back cannot make that expensive.
    pub(crate) fn find_grant(
        &mut self,
        nodes: &Nodes,
        session: SessionId,
        token: u64,
    ) -> Option<u32> {
        let first = self.rings.get(session.index() as usize)?.holding;
        let is_it = |node: &Node| node.state == State::Holding && node.number == token;
        let mut at = nodes.last::<SESSION>(first);
        if self.guess != NIL && is_it(nodes.get(self.guess)) {
            at = self.guess;
        }
        while at != NIL && nodes.get(at).number > token {
            at = nodes.previous::<SESSION>(first, at);
        }
        if at == NIL || !is_it(nodes.get(at)) || nodes.get(at).owner.session != session {
            return None;
        }
        self.guess = nodes.next::<SESSION>(first, at);
        Some(at)
    }

    /// Marks the session's waiters for removal.
    pub(crate) fn mark_dropping(&self, nodes: &mut Nodes, session: SessionId) {
        let Some(Rings { waiting: first, .. }) = self.rings.get(session.index() as usize) else {
            return;
        };
        let mut at = *first;
        while at != NIL {
            let node = nodes.get_mut(at);
            if node.owner.session == session {
                node.state = State::Dropping;
            }
            at = nodes.next::<SESSION>(*first, at);
        }
    }

    /// The first waiter marked for removal.
    pub(crate) fn first_dropping(&self, nodes: &Nodes, session: SessionId) -> Option<u32> {
        let first = self.rings.get(session.index() as usize)?.waiting;
        let mut at = first;
        while at != NIL && nodes.get(at).state != State::Dropping {
            at = nodes.next::<SESSION>(first, at);
        }
        (at != NIL).then_some(at)
    }

    fn first(&mut self, node: &Node) -> &mut u32 {
        let rings = &mut self.rings[node.owner.session.index() as usize];
        match node.state {
            State::Holding => &mut rings.holding,
            State::Waiting | State::Dropping => &mut rings.waiting,
            State::Free | State::Link => unreachable!("only requests belong to sessions"),
        }
    }

    /// Panics unless every ring is in order; says how many requests there are.
    pub(crate) fn check_invariants(&self, nodes: &Nodes) -> u32 {
        let mut count = 0;
        for (session_index, rings) in self.rings.iter().enumerate() {
            for (first, state) in [(rings.holding, State::Holding), (rings.waiting, State::Waiting)]
            {
                let mut before = 0;
                let mut at = first;
                while at != NIL {
                    let node = nodes.get(at);
                    assert!(node.state == state);
                    assert!(node.owner.session.index() as usize == session_index);
                    assert!(node.number > before);
                    before = node.number;
                    count += 1;
                    at = nodes.next::<SESSION>(first, at);
                }
            }
        }
        count
    }
}
