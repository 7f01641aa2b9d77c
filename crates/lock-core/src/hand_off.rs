//! How requests leave the table, and who comes next.

use crate::command::{Event, EventSink, Owner, RefusedReason, SessionId};
use crate::history::Silent;
use crate::limits::SET_KEY_COUNT_MAX;
use crate::node::{NIL, Node, QUEUE, State};
use crate::table::{LockTable, are_well_formed, arrival_hash};

impl LockTable {
    pub(crate) fn release(
        &mut self,
        owner: Owner,
        token: u64,
        keys: &[&[u8]],
        events: &mut impl EventSink,
    ) {
        if !are_well_formed(keys) {
            self.emit(Event::Refused { owner, reason: RefusedReason::Malformed }, events);
            return;
        }
        match keys.iter().find_map(|key| self.find_holder(token, key)) {
            None => self.emit(Event::NotHeld { owner }, events),
            Some(grant) if !self.has_exactly(grant, keys) => {
                self.emit(Event::GroupMismatch { owner }, events);
            }
            Some(grant) => {
                self.emit(Event::Released { owner }, events);
                self.end_grant(grant, events);
            }
        }
    }

    pub(crate) fn expire(&mut self, token: u64, key: &[u8], events: &mut impl EventSink) {
        if let Some(grant) = self.find_holder(token, key) {
            self.expire_grant(grant, events);
        }
    }

    pub(crate) fn expire_grant(&mut self, grant: u32, events: &mut impl EventSink) {
        let token = self.nodes.get(grant).number;
        self.emit(Event::Expired { token }, events);
        self.end_grant(grant, events);
    }

    pub(crate) fn reclaim(&mut self, session: SessionId, token: u64, events: &mut impl EventSink) {
        if let Some(grant) = self.sessions.find_grant(&self.nodes, session, token) {
            self.history.silent(Silent::Reclaimed, token);
            self.end_grant(grant, events);
        }
    }

    pub(crate) fn time_out(&mut self, arrival: u64, events: &mut impl EventSink) {
        let is_arrival = |index| self.nodes.get(index).number == arrival;
        if let Some(waiter) = self.waiters.find(arrival_hash(arrival), is_arrival) {
            self.time_out_waiter(waiter, events);
        }
    }

    pub(crate) fn time_out_waiter(&mut self, waiter: u32, events: &mut impl EventSink) {
        let Node { owner, key_count, .. } = *self.nodes.get(waiter);
        self.emit(Event::TimedOut { owner, key_count }, events);
        self.end_waiter(waiter, events);
    }

    /// All of the session's waiters are marked first: none of them may be granted because another
    /// one left.
    pub(crate) fn close_session(&mut self, session: SessionId, events: &mut impl EventSink) {
        self.sessions.mark_dropping(&mut self.nodes, session);
        while let Some(waiter) = self.sessions.first_dropping(&self.nodes, session) {
            self.drop_waiter(waiter, events);
        }
    }

    /// By wait length and then arrival: an order every replica has at hand.
    pub(crate) fn clear_waiters(&mut self, events: &mut impl EventSink) {
        for wait_seconds in 1..=u8::MAX {
            self.timers.mark_dropping(&mut self.nodes, wait_seconds);
        }
        for wait_seconds in 1..=u8::MAX {
            loop {
                let waiter = self.timers.first_waiting(wait_seconds);
                if waiter == NIL {
                    break;
                }
                self.drop_waiter(waiter, events);
            }
        }
    }

    fn drop_waiter(&mut self, waiter: u32, events: &mut impl EventSink) {
        let owner = self.nodes.get(waiter).owner;
        self.emit(Event::WaiterDropped { owner }, events);
        self.end_waiter(waiter, events);
    }

    fn find_holder(&self, token: u64, key: &[u8]) -> Option<u32> {
        let entry = self.keys.find(self.keys.hash(key), key)?;
        let holder = self.holder(entry)?;
        (self.nodes.get(holder).number == token).then_some(holder)
    }

    fn has_exactly(&self, request: u32, keys: &[&[u8]]) -> bool {
        if usize::from(self.nodes.get(request).key_count) != keys.len() {
            return false;
        }
        // The holder of a single key was found by it.
        if keys.len() == 1 {
            return true;
        }
        let mut link = self.nodes.first_link(request);
        keys.iter().all(|key| {
            let is_equal = self.keys.bytes(self.nodes.get(link).key) == *key;
            link = self.nodes.next_link(link);
            is_equal
        })
    }

    fn end_grant(&mut self, grant: u32, events: &mut impl EventSink) {
        self.export_before_change(grant);
        assert!(self.nodes.get(grant).state == State::Holding);
        self.timers.stop(&mut self.nodes, grant);
        self.sessions.remove(&mut self.nodes, grant);
        self.holding_count -= 1;
        self.leave_queues(grant, events);
    }

    fn end_waiter(&mut self, waiter: u32, events: &mut impl EventSink) {
        self.export_before_change(waiter);
        self.stop_waiting(waiter);
        self.leave_queues(waiter, events);
    }

    fn stop_waiting(&mut self, waiter: u32) {
        let node = self.nodes.get(waiter);
        assert!(matches!(node.state, State::Waiting | State::Dropping));
        self.waiters.remove(arrival_hash(node.number), waiter);
        self.timers.stop(&mut self.nodes, waiter);
        self.sessions.remove(&mut self.nodes, waiter);
    }

    /// Takes a request out of all its queues in one step, frees it, and then grants whose turn has
    /// come, in key order. Only where it was first anybody's turn can have come.
    fn leave_queues(&mut self, request: u32, events: &mut impl EventSink) {
        if self.nodes.get(request).key_count == 1 {
            let next = self.leave_queue(request);
            if next != NIL {
                self.grant_if_its_turn(next, events);
            }
            return;
        }
        let mut next = [NIL; SET_KEY_COUNT_MAX];
        let mut count = 0;
        let mut link = self.nodes.first_link(request);
        while link != NIL {
            let link_next = self.nodes.next_link(link);
            next[count] = self.leave_queue(link);
            count += 1;
            link = link_next;
        }
        self.nodes.remove(request);
        for link in &next[..count] {
            if *link != NIL {
                self.grant_if_its_turn(*link, events);
            }
        }
    }

    /// Takes a member out of its queue and frees it. Gives the one that has become first by that.
    fn leave_queue(&mut self, link: u32) -> u32 {
        let entry = self.nodes.get(link).key;
        let first = self.keys.shrink_queue(entry);
        let was_first = *first == link;
        self.nodes.unlink::<QUEUE>(first, link);
        let next = *first;
        self.nodes.remove(link);
        if next == NIL {
            self.keys.remove(entry);
        }
        if was_first { next } else { NIL }
    }

    /// `link` is first in its queue. Its request is granted if that holds for all its links.
    fn grant_if_its_turn(&mut self, link: u32, events: &mut impl EventSink) {
        let request = self.nodes.request_of(link);
        if self.nodes.get(request).state == State::Waiting && self.is_its_turn(request) {
            self.export_before_change(request);
            self.stop_waiting(request);
            self.hold(request, events);
        }
    }

    /// Whether a waiter is first everywhere. Who holds a key is first in its queue, so then all its
    /// keys are free. Without tokens nobody's turn comes any more.
    pub(crate) fn is_its_turn(&self, waiter: u32) -> bool {
        let mut link = self.nodes.first_link(waiter);
        while link != NIL {
            if self.keys.first(self.nodes.get(link).key) != link {
                return false;
            }
            link = self.nodes.next_link(link);
        }
        self.token_last < u64::MAX
    }
}
