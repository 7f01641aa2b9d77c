//! Sessions: one per authenticated connection. Each slot holds what outlives a turn and no more,
//! so that an idle connection costs a slot and nothing else.

use super::deadlines::{Deadlines, Link, Links};
use super::{Backlog, EndReason};
use crate::limits::{
    DRAIN_TIME_MAX, FRAME_TIME_MAX, IN_FLIGHT_TOTAL_COUNT_MAX, POOLED_BUFFER_COUNT_MAX,
    POOLED_BUFFER_SIZE_BYTES_MAX,
};
use ticketing_lock_core::{Instant, SessionId};
use ticketing_wire_codec::Reply;

/// One session.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    generation: u32,
    is_open: bool,
    /// Why the connection has to end, once it has to.
    pub(crate) ending: Option<EndReason>,
    /// Waits before its next request; `held` is what it sent meanwhile.
    pub(crate) is_stalled: bool,
    /// Whether its connection was told to come for `outbox` or `ending`.
    is_called: bool,
    /// Requests that wait for their turn.
    in_flight_count: u32,
    /// A frame that has begun but not ended; everything from the stalled request on when stalled.
    pub(crate) held: Vec<u8>,
    /// Replies that other sessions or the clock caused.
    outbox: Vec<u8>,
    frame: Link,
    drain: Link,
}

/// All sessions, and who of them has something to fetch.
#[derive(Debug)]
pub(crate) struct Sessions {
    slots: Slots,
    free: Vec<u32>,
    called: Vec<u32>,
    in_flight_count: u64,
    frames: Deadlines,
    drains: Deadlines,
    buffers: Vec<Vec<u8>>,
}

#[derive(Debug, Default)]
struct Slots(Vec<Slot>);

struct FrameLinks<'a>(&'a mut Slots);
struct DrainLinks<'a>(&'a mut Slots);

impl Links for FrameLinks<'_> {
    fn link(&mut self, index: u32) -> &mut Link {
        &mut self.0.0[index as usize].frame
    }
}

impl Links for DrainLinks<'_> {
    fn link(&mut self, index: u32) -> &mut Link {
        &mut self.0.0[index as usize].drain
    }
}

impl Sessions {
    pub(crate) fn new() -> Self {
        Self {
            slots: Slots::default(),
            free: Vec::new(),
            called: Vec::new(),
            in_flight_count: 0,
            frames: Deadlines::new(FRAME_TIME_MAX),
            drains: Deadlines::new(DRAIN_TIME_MAX),
            buffers: Vec::new(),
        }
    }

    pub(crate) fn open_count(&self) -> usize {
        self.slots.0.len() - self.free.len()
    }

    /// Requests that wait for their turn, of all sessions.
    pub(crate) fn in_flight_count(&self) -> u64 {
        self.in_flight_count
    }

    /// Whether one more request of the session may wait, when `count_max` of its own may.
    pub(crate) fn may_wait(&mut self, session: SessionId, count_max: u32) -> bool {
        self.in_flight_count < IN_FLIGHT_TOTAL_COUNT_MAX
            && self.get(session).in_flight_count < count_max
    }

    /// A request of the session begins to wait.
    pub(crate) fn begin_waiting(&mut self, session: SessionId) {
        self.get(session).in_flight_count += 1;
        self.in_flight_count += 1;
    }

    /// A request of the session waits no longer.
    pub(crate) fn end_waiting(&mut self, session: SessionId) {
        self.get(session).in_flight_count -= 1;
        self.in_flight_count -= 1;
    }

    /// No request of the session waits any longer.
    pub(crate) fn end_all_waiting(&mut self, session: SessionId) {
        let count = std::mem::take(&mut self.get(session).in_flight_count);
        self.in_flight_count -= u64::from(count);
    }

    pub(crate) fn open(&mut self) -> SessionId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.0.push(Slot::default());
            u32::try_from(self.slots.0.len() - 1).expect("bounded by the connection limit")
        });
        let slot = &mut self.slots.0[index as usize];
        assert!(!slot.is_open, "a free slot has no session");
        slot.is_open = true;
        SessionId::new(index, slot.generation)
    }

    /// Frees the slot and returns what was never fetched from the outbox.
    pub(crate) fn close(&mut self, session: SessionId) -> Vec<u8> {
        let index = session.index();
        self.frames.disarm(&mut FrameLinks(&mut self.slots), index);
        self.drains.disarm(&mut DrainLinks(&mut self.slots), index);
        let slot = self.get(session);
        assert!(slot.in_flight_count == 0, "its waiters left first");
        let generation = slot.generation.wrapping_add(1);
        let slot = std::mem::replace(slot, Slot { generation, ..Slot::default() });
        self.recycle(slot.held);
        if slot.is_called {
            self.called.retain(|called| *called != index);
        }
        self.free.push(index);
        slot.outbox
    }

    /// The slot of an open session.
    pub(crate) fn get(&mut self, session: SessionId) -> &mut Slot {
        let slot = &mut self.slots.0[session.index() as usize];
        assert!(slot.is_open && session == SessionId::new(session.index(), slot.generation));
        slot
    }

    /// Calls every session that waits before its next request.
    pub(crate) fn call_stalled(&mut self) {
        for index in 0..self.slots.0.len() as u32 {
            if self.slots.0[index as usize].is_stalled {
                self.call(index);
            }
        }
    }

    /// Calls the session if it waits before its next request.
    pub(crate) fn call_if_stalled(&mut self, session: SessionId) {
        if self.get(session).is_stalled {
            self.call(session.index());
        }
    }

    /// Leaves a reply for the session's connection to fetch, and calls it.
    pub(crate) fn post(&mut self, session: SessionId, reply: Reply) {
        let slot = &mut self.slots.0[session.index() as usize];
        assert!(slot.is_open && session == SessionId::new(session.index(), slot.generation));
        if slot.outbox.capacity() == 0 {
            slot.outbox = self.buffers.pop().unwrap_or_default();
        }
        slot.outbox.extend_from_slice(reply.encode().as_bytes());
        self.call(session.index());
    }

    /// Moves what was posted to `out`.
    pub(crate) fn fetch(&mut self, session: SessionId, out: &mut Vec<u8>) {
        let slot = self.get(session);
        slot.is_called = false;
        if !slot.outbox.is_empty() {
            let outbox = std::mem::take(&mut slot.outbox);
            out.extend_from_slice(&outbox);
            self.recycle(outbox);
        }
    }

    /// Keeps the frame that has begun in `bytes`.
    pub(crate) fn hold(&mut self, session: SessionId, bytes: &[u8]) {
        let mut held = self.buffers.pop().unwrap_or_default();
        held.extend_from_slice(bytes);
        let slot = self.get(session);
        assert!(slot.held.is_empty(), "only one frame can have begun");
        slot.held = held;
    }

    /// Gives an emptied buffer back.
    pub(crate) fn recycle(&mut self, mut buffer: Vec<u8>) {
        let is_worth_it = (1..=POOLED_BUFFER_SIZE_BYTES_MAX).contains(&buffer.capacity());
        if is_worth_it && self.buffers.len() < POOLED_BUFFER_COUNT_MAX {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }

    pub(crate) fn is_frame_timed(&mut self, session: SessionId) -> bool {
        self.get(session).frame.is_armed()
    }

    /// Starts or stops the time of a frame that has begun. It starts over with each new frame.
    pub(crate) fn set_frame_begun(&mut self, session: SessionId, begun: Option<Instant>) {
        let index = session.index();
        match begun {
            Some(now) => self.frames.arm(&mut FrameLinks(&mut self.slots), index, now),
            None if self.get(session).frame.is_armed() => {
                self.frames.disarm(&mut FrameLinks(&mut self.slots), index);
            }
            None => {}
        }
    }

    pub(crate) fn set_backlog(&mut self, session: SessionId, backlog: Backlog, now: Instant) {
        let index = session.index();
        let is_armed = self.get(session).drain.is_armed();
        let mut links = DrainLinks(&mut self.slots);
        match backlog {
            Backlog::Moving => self.drains.arm(&mut links, index, now),
            Backlog::None if is_armed => self.drains.disarm(&mut links, index),
            Backlog::None => {}
        }
    }

    /// Starts the time of every begun frame and every backlog again.
    pub(crate) fn start_over(&mut self, now: Instant) {
        self.frames.start_over(&mut FrameLinks(&mut self.slots), now);
        self.drains.start_over(&mut DrainLinks(&mut self.slots), now);
    }

    /// Ends one session whose time for a frame or for draining is over.
    pub(crate) fn pop_overdue(&mut self, now: Instant) -> Option<(SessionId, EndReason)> {
        while let Some(index) = self.frames.pop_due(&mut FrameLinks(&mut self.slots), now) {
            if !self.slots.0[index as usize].drain.is_armed() {
                return Some((self.id(index), EndReason::FrameTime));
            }
            // Perhaps the server does not read because its replies are not read: not the frame's
            // fault, and the time to drain runs.
            self.frames.arm(&mut FrameLinks(&mut self.slots), index, now);
        }
        let index = self.drains.pop_due(&mut DrainLinks(&mut self.slots), now)?;
        Some((self.id(index), EndReason::DrainTime))
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.frames.next().into_iter().chain(self.drains.next()).min()
    }

    /// Calls the session's connection, once until it comes.
    pub(crate) fn call(&mut self, index: u32) {
        let slot = &mut self.slots.0[index as usize];
        if !slot.is_called {
            slot.is_called = true;
            self.called.push(index);
        }
    }

    /// The sessions called since the last time, by index.
    pub(crate) fn drain_called(&mut self) -> std::vec::Drain<'_, u32> {
        self.called.drain(..)
    }

    /// Every open session.
    pub(crate) fn ids(&self) -> Vec<SessionId> {
        let open = self.slots.0.iter().enumerate().filter(|(_, slot)| slot.is_open);
        open.map(|(index, slot)| SessionId::new(index as u32, slot.generation)).collect()
    }

    fn id(&self, index: u32) -> SessionId {
        SessionId::new(index, self.slots.0[index as usize].generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_requests_are_bounded_per_session_and_together() {
        let mut sessions = Sessions::new();
        let (one, two) = (sessions.open(), sessions.open());
        for _ in 1..IN_FLIGHT_TOTAL_COUNT_MAX {
            sessions.begin_waiting(one);
        }
        assert!(sessions.may_wait(two, 1));
        sessions.begin_waiting(two);
        assert!(!sessions.may_wait(two, 2));
        sessions.end_waiting(one);
        assert!(!sessions.may_wait(two, 1));
        assert!(sessions.may_wait(two, 2));
        sessions.end_all_waiting(one);
        assert_eq!(sessions.in_flight_count(), 1);
    }
}
