//! What comes of the log: answers to sessions, changes of leadership, frames for peers.

use super::batch::{Batch, Operation as Entry, Operations};
use super::replica::{Answer, Cause};
use super::replicated::{Exit, HandOver, Replicated, Unanswered};
use crate::engine::sessions::Sessions;
use crate::limits::{ENTRIES_IN_FLIGHT_MAX, PENDING_SIZE_BYTES_MAX};
use crate::peer::message::PeerMessage;
use bytes::Bytes;
use ticketing_lock_core::{Command, Event, Instant, Owner, SessionId};
use ticketing_raft_log::{Body, Event as LogEvent, MembershipChange, ProposalId, RaftLog, Role};
use ticketing_wire_codec::{ErrorCode, Reply, RequestId, Slot, Token};

impl Replicated {
    /// Routes everything that the log has done, and proposes what waits, until all is quiet.
    pub(super) fn carry_on(&mut self, sessions: &mut Sessions, now: Instant) {
        self.replica.now = now;
        loop {
            self.route_answers(sessions);
            self.take_events(sessions, now);
            self.take_messages();
            if !self.propose() && !self.advance_hand_over(now) {
                break;
            }
        }
        if let Some(index) = self.replica.diverged_at {
            self.exit = Some(Exit::Diverged(index));
        }
        let may_go_on = self.pending_size_bytes < PENDING_SIZE_BYTES_MAX / 2
            && matches!(self.hand_over, HandOver::Not | HandOver::Following | HandOver::Done);
        if self.has_stalled && may_go_on {
            self.has_stalled = false;
            sessions.call_stalled();
        }
    }

    /// Proposes the oldest batch, when not too many are on their way already.
    fn propose(&mut self) -> bool {
        if !self.is_leader || self.open.len() >= ENTRIES_IN_FLIGHT_MAX {
            return false;
        }
        let Some(log) = &mut self.log else { return false };
        let Some(mut batch) = self.pending.pop_front() else { return false };
        if let Some(comparison) = self.replica.comparison()
            && comparison.index > self.compared_at
        {
            self.compared_at = comparison.index;
            batch.push_comparison(comparison);
        }
        let data = Bytes::from(batch.into_bytes());
        let proposed = log.propose(data.clone(), &mut self.replica, &mut self.out);
        match proposed {
            Ok(proposal) => self.open.push_back((proposal, data)),
            Err(_) => self.pending.push_front(Batch::from_bytes(data.into())),
        }
        self.pending_size_bytes = self.pending.iter().map(Batch::size_bytes).sum();
        proposed.is_ok()
    }

    fn route_answers(&mut self, sessions: &mut Sessions) {
        let mut answers = std::mem::take(&mut self.replica.answers);
        for answer in answers.drain(..) {
            match answer {
                Answer::Event(cause, event) => self.route(sessions, cause, event),
                Answer::Done(proposal) => self.done(proposal),
            }
        }
        // The buffer is kept, the entries that came meanwhile too.
        if self.replica.answers.is_empty() {
            self.replica.answers = answers;
        }
    }

    fn done(&mut self, proposal: ProposalId) {
        while self.open.front().is_some_and(|(open, _)| *open <= proposal) {
            self.open.pop_front();
        }
        self.is_opened = self.is_leader;
    }

    fn route(&mut self, sessions: &mut Sessions, cause: Cause, event: Event) {
        match event {
            Event::Expired { .. } => {}
            Event::Queued { owner, .. } => {
                if let Some(open) = self.unanswered.get_mut(&(owner.session, owner.request_id)) {
                    open.queued += 1;
                    sessions.call_if_stalled(owner.session);
                }
            }
            Event::Granted { owner, token, key_count } => {
                self.granted(sessions, owner, token, key_count);
            }
            Event::GroupMismatch { owner } => {
                let (request_id, code) = (request_id(owner), ErrorCode::GroupMismatch);
                self.answer_release(sessions, owner, Reply::Refused { request_id, code });
            }
            Event::NotHeld { owner } => {
                let request_id = request_id(owner);
                self.answer_release(sessions, owner, Reply::NotHeld { request_id });
            }
            Event::Refused { owner, .. } => {
                let request_id = request_id(owner);
                self.answer_acquire(sessions, owner, Reply::Busy { request_id });
            }
            Event::Released { owner } => {
                let request_id = request_id(owner);
                let reply = match cause {
                    Cause::ReleaseSet => Reply::ReleasedSet { request_id },
                    _ => Reply::Released { request_id },
                };
                self.answer_release(sessions, owner, reply);
            }
            Event::TimedOut { owner, .. } => {
                let request_id = request_id(owner);
                self.answer_acquire(sessions, owner, Reply::TimedOut { request_id });
            }
            Event::WaiterDropped { owner } => {
                // The first entry of a term drops other terms' waiters, who are answered already.
                if cause == Cause::ClearWaiters
                    && self.hand_over == HandOver::Clearing
                    && self.take_unanswered(owner, |open| &mut open.acquires)
                {
                    sessions.end_waiting(owner.session);
                    self.handed.entry(owner.session).or_default().push(request_id(owner));
                }
            }
        }
    }

    fn granted(&mut self, sessions: &mut Sessions, owner: Owner, token: u64, key_count: u8) {
        self.counters.granted += 1;
        let (session, request_id) = (owner.session, request_id(owner));
        let number = Token::new(token).expect("the core grants no token 0");
        let reply = if key_count > 1 {
            Reply::GrantedSet { request_id, token: number }
        } else {
            Reply::Granted { request_id, token: number }
        };
        if !self.answer_acquire(sessions, owner, reply) {
            // Nobody is there to take it.
            self.counters.reclaimed += 1;
            self.enqueue(Command::Reclaim { session, token });
        }
    }

    fn take_events(&mut self, sessions: &mut Sessions, now: Instant) {
        for event in std::mem::take(&mut self.out.events) {
            match event {
                LogEvent::Leadership { leader, role, .. } => {
                    self.leadership(sessions, leader.map(|leader| leader.slot()), role, now);
                }
                LogEvent::Membership { proposal, change, refused } => {
                    let asked = proposal.and_then(|proposal| self.admissions.remove(&proposal));
                    if let (Some((slot, incarnation)), MembershipChange::AddLearner(node), None) =
                        (asked, change, refused)
                    {
                        let members = self.log.as_ref().map(RaftLog::membership);
                        self.admitted.retain(|_, node| {
                            members.is_some_and(|members| members.contains(*node))
                        });
                        self.admitted.insert(incarnation, node);
                        self.send_admitted(slot, incarnation, node);
                    }
                }
                LogEvent::Removed => self.exit = Some(Exit::Removed),
                LogEvent::SnapshotInstalled { .. } => {}
            }
        }
    }

    /// Term, leader or role changed.
    fn leadership(
        &mut self,
        sessions: &mut Sessions,
        leader_slot: Option<u8>,
        role: Role,
        now: Instant,
    ) {
        let is_news = self.leader_slot != leader_slot;
        self.leader_slot = leader_slot;
        if self.is_leader {
            // Even if it leads again by now: a term in between is a loss.
            self.lose_leadership(sessions);
        }
        if role == Role::Leader {
            self.take_leadership(now);
        }
        if is_news {
            for session in sessions.ids() {
                sessions.post(session, self.leader_news());
            }
            if leader_slot.is_some() {
                for (session, request_ids) in std::mem::take(&mut self.handed) {
                    self.answer_moved(sessions, session, request_ids);
                }
            }
        }
    }

    fn take_leadership(&mut self, now: Instant) {
        self.is_leader = true;
        self.is_opened = false;
        if self.hand_over == HandOver::Following {
            self.hand_over = HandOver::Draining;
        }
        // Before everything else of this term.
        self.enqueue(Command::ClearWaiters);
        self.enqueue(Command::Configure { limits: self.settings.table });
        let milliseconds = self.settings.unix_milliseconds_at_zero + now.as_nanos() / 1_000_000;
        self.enqueue(Command::RaiseTokenFloor { floor: milliseconds << 20 });
        self.replica.table.rearm_due();
    }

    /// Whoever waits for an answer gets one: what was not proposed never will be; all else may have
    /// happened or may yet happen.
    fn lose_leadership(&mut self, sessions: &mut Sessions) {
        self.is_leader = false;
        self.is_opened = false;
        for batch in std::mem::take(&mut self.pending) {
            each_owner(&batch.into_bytes(), |owner, is_acquire| {
                let reply = self.moved(request_id(owner));
                if is_acquire {
                    self.answer_acquire(sessions, owner, reply);
                } else {
                    self.answer_release(sessions, owner, reply);
                }
            });
        }
        for ((session, request_id), open) in std::mem::take(&mut self.unanswered) {
            let request_id = RequestId::new(request_id).expect("as taken in");
            for _ in 0..open.acquires + open.releases {
                sessions.post(session, Reply::Indeterminate { request_id });
            }
        }
        for session in sessions.ids() {
            sessions.end_all_waiting(session);
        }
        self.pending_size_bytes = 0;
        self.open.clear();
        self.delayed.clear();
        self.admissions.clear();
        self.admitted.clear();
        self.has_stalled = true;
    }

    /// Nothing was done for them, and they hear who leads now.
    pub(super) fn answer_moved(
        &self,
        sessions: &mut Sessions,
        session: SessionId,
        request_ids: Vec<RequestId>,
    ) {
        for request_id in request_ids {
            sessions.post(session, self.moved(request_id));
        }
    }

    /// Answers an acquire that waits for it; `false` when none does.
    fn answer_acquire(&mut self, sessions: &mut Sessions, owner: Owner, reply: Reply) -> bool {
        let is_waiting = self.take_unanswered(owner, |open| &mut open.acquires);
        if is_waiting {
            sessions.end_waiting(owner.session);
            sessions.post(owner.session, reply);
        }
        is_waiting
    }

    /// Answers a release, if its session still waits for it.
    fn answer_release(&mut self, sessions: &mut Sessions, owner: Owner, reply: Reply) {
        if self.take_unanswered(owner, |open| &mut open.releases) {
            sessions.post(owner.session, reply);
        }
    }

    /// Counts one off; `false` when there is none.
    fn take_unanswered(
        &mut self,
        owner: Owner,
        count: impl FnOnce(&mut Unanswered) -> &mut u32,
    ) -> bool {
        let id = (owner.session, owner.request_id);
        let Some(open) = self.unanswered.get_mut(&id) else { return false };
        let count = count(open);
        let is_any = *count > 0;
        *count = count.saturating_sub(1);
        open.queued = open.queued.min(open.acquires);
        if open.acquires + open.releases == 0 {
            self.unanswered.remove(&id);
        }
        is_any
    }

    /// `L` as of now.
    pub(super) fn leader_news(&self) -> Reply {
        Reply::Leader { leader: self.leader_slot.and_then(Slot::new) }
    }

    fn take_messages(&mut self) {
        for message in std::mem::take(&mut self.out.messages) {
            let group = self.group;
            if let Body::Snapshot { .. } = message.body {
                self.snapshots.push((group, message));
            } else {
                self.send(message.to.slot(), PeerMessage::Raft { group, message });
            }
        }
    }
}

/// Those whom the requests of an entry would answer, and whether it is an acquire.
fn each_owner(entry: &[u8], mut visit: impl FnMut(Owner, bool)) {
    let mut operations = Operations::new(entry);
    while let Some(operation) = operations.next() {
        match operation {
            Entry::Command(Command::Acquire { owner, .. }) => visit(owner, true),
            Entry::Command(Command::Release { owner, .. }) => visit(owner, false),
            _ => {}
        }
    }
}

fn request_id(owner: Owner) -> RequestId {
    RequestId::new(owner.request_id).expect("the codec takes no request id 0")
}
