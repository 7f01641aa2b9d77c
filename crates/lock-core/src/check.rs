//! Whole-table checks, for tests and simulation.

use crate::node::{NIL, QUEUE, State};
use crate::table::{LockTable, arrival_hash};

impl LockTable {
    /// Walks everything and panics where the state contradicts itself. Takes time in proportion to
    /// what is stored: for tests, simulation and fuzzing, after each step.
    pub fn check_invariants(&self) {
        let queue_sizes = self.keys.indices().map(|entry| self.check_queue_invariants(entry));
        let link_count: u32 = queue_sizes.sum();
        let (single_count, set_count) = self.check_requests();
        let request_count = single_count + set_count;
        assert!(self.timers.check_invariants(&self.nodes) == request_count);
        assert!(self.sessions.check_invariants(&self.nodes) == request_count);
        assert!(self.holding_count + self.waiters.count() as u32 == request_count);
        // A single is itself in its key's queue; a set is beside its links.
        assert!(self.nodes.count() == link_count + set_count);
        self.nodes.check_invariants();
        self.keys.check_invariants();
    }

    fn check_queue_invariants(&self, entry: u32) -> u32 {
        let first = self.keys.first(entry);
        let mut arrival_before = 0;
        let mut count = 0;
        let mut link = first;
        while link != NIL {
            assert!(self.nodes.get(link).key == entry);
            let request = self.nodes.get(self.nodes.request_of(link));
            match request.state {
                State::Holding => assert!(link == first),
                State::Waiting => {
                    assert!(request.number > arrival_before);
                    arrival_before = request.number;
                }
                State::Free | State::Link | State::Dropping => panic!("no member of a queue"),
            }
            count += 1;
            link = self.nodes.next::<QUEUE>(first, link);
        }
        assert!(count > 0);
        assert!(count == self.keys.member_count(entry));
        count
    }

    /// How many singles and how many sets there are.
    fn check_requests(&self) -> (u32, u32) {
        let mut single_count = 0;
        let mut set_count = 0;
        for index in 0..self.nodes.slot_count() {
            let node = self.nodes.get(index);
            match node.state {
                State::Free | State::Link => continue,
                State::Dropping => panic!("a waiter was marked for removal and stayed"),
                State::Holding => assert!(node.number <= self.token_last),
                State::Waiting => {
                    assert!(node.number <= self.arrival_last);
                    assert!(!self.is_its_turn(index));
                    let found = self.waiters.find(arrival_hash(node.number), |at| at == index);
                    assert!(found == Some(index));
                }
            }
            assert!(node.key_count > 0);
            if node.key_count == 1 {
                single_count += 1
            } else {
                set_count += 1
            }
            let mut link = self.nodes.first_link(index);
            for _ in 0..node.key_count {
                assert!(self.nodes.request_of(link) == index);
                if node.state == State::Holding {
                    assert!(self.keys.first(self.nodes.get(link).key) == link);
                }
                link = self.nodes.next_link(link);
            }
            assert!(link == NIL);
        }
        (single_count, set_count)
    }
}
