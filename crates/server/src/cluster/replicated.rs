//! Locks that count only once a majority has recorded them: the driver of one node.
//!
//! It owns the log and the table, proposes what sessions ask, routes what committed entries answer,
//! and lives through the cluster's changes. Sans-I/O: frames for peers pile up per slot, and the
//! shell moves them.

use super::batch::Batch;
use super::life::{Birth, Life, Standing, Step, Waiting, later};
use super::replica::Replica;
use crate::engine::Counters;
use crate::engine::local::gather;
use crate::engine::locks::{Admission, Locks};
use crate::engine::replies::Current;
use crate::engine::sessions::Sessions;
use crate::limits::{
    BATCH_SIZE_BYTES, DUE_COUNT_PER_TURN_MAX, LEASE_MARGIN_DIVISOR, PENDING_SIZE_BYTES_MAX,
};
use crate::peer::convert::encode;
use crate::peer::message::PeerMessage;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use ticketing_lock_core::limits::SET_KEY_COUNT_MAX;
use ticketing_lock_core::{Command, Due, Instant, Owner, SessionId, TableLimits};
use ticketing_raft_log::limits::TICK_MILLISECONDS;
use ticketing_raft_log::{Message, NodeId, Output, ProposalId, RaftLog, Role};
use ticketing_wire_codec::{ErrorCode, Keys, Operation, Reply, RequestId, Slot, Token};

const TICK: Duration = Duration::from_millis(TICK_MILLISECONDS);

/// What a node starts with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeSettings {
    pub(crate) birth: Birth,
    pub(crate) table: TableLimits,
    pub(crate) hash_seed: [u8; 16],
    /// For election timeouts.
    pub(crate) seed: u64,
    /// Unix time at instant 0, for the token floor.
    pub(crate) unix_milliseconds_at_zero: u64,
}

/// Why the process has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Its state differs from the leader's at this index.
    Diverged(u64),
    /// Its slot belongs to a younger process.
    Removed,
}

/// How far a planned stop has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandOver {
    /// None is under way.
    Not,
    /// It stops and does not lead. If leadership comes to it, from one that did not know, it hands
    /// it on; once, or those who all stop would do so in a circle.
    Following,
    /// Nothing new is taken; what was proposed is waited for.
    Draining,
    /// The removal of all waiters is proposed.
    Clearing,
    /// Leadership is on its way.
    Transferring,
    /// Somebody else leads, or nobody could be found.
    Done,
}

/// How many requests of one id wait for an answer. More than one only when a client uses an id
/// again before its answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unanswered {
    pub(super) acquires: u32,
    pub(super) releases: u32,
    /// How many of the acquires are recorded and wait for their turn.
    pub(super) queued: u32,
}

/// Replicated locks.
pub(crate) struct Replicated {
    pub(crate) settings: NodeSettings,
    pub(crate) life: Life,
    pub(super) log: Option<RaftLog<Replica>>,
    pub(super) replica: Replica,
    pub(super) out: Output,
    pub(super) group: u64,
    /// Operations that are not proposed yet, oldest first.
    pub(super) pending: VecDeque<Batch>,
    pub(super) pending_size_bytes: usize,
    /// Entries that are proposed and not applied yet.
    pub(super) open: VecDeque<(ProposalId, Bytes)>,
    /// Requests taken in and not answered, by their id. Each is answered once.
    pub(super) unanswered: BTreeMap<(SessionId, u64), Unanswered>,
    /// Leases that are over on this node's clock, until the margin for clock rates is over too.
    pub(super) delayed: BTreeMap<(Instant, u64), Box<[u8]>>,
    pub(super) is_leader: bool,
    /// Whether the first entry of this term of ours is applied: all waiters are ours then.
    pub(super) is_opened: bool,
    pub(super) has_stalled: bool,
    pub(super) leader_slot: Option<u8>,
    pub(super) hand_over: HandOver,
    hand_over_until: Instant,
    /// Waiters whose removal is committed, to be sent to the next leader.
    pub(super) handed: BTreeMap<SessionId, Vec<RequestId>>,
    /// Joiners whose admission is proposed: slot and incarnation.
    pub(super) admissions: BTreeMap<ProposalId, (u8, u64)>,
    /// Joiners of this term, by incarnation.
    pub(super) admitted: BTreeMap<u64, NodeId>,
    /// Frames, by slot, for the links that are open.
    outgoing: Vec<Vec<u8>>,
    pub(super) snapshots: Vec<(u64, Message)>,
    pub(super) exit: Option<Exit>,
    /// Whether this process has become a member since the last look.
    pub(super) has_joined: bool,
    pub(super) compared_at: u64,
    pub(super) counters: Counters,
    next_tick: Instant,
}

impl Replicated {
    pub(crate) fn new(settings: NodeSettings, now: Instant) -> Self {
        Self {
            life: Life::new(settings.birth, now),
            log: None,
            replica: Replica::new(settings.hash_seed, settings.table),
            out: Output::default(),
            group: 0,
            pending: VecDeque::new(),
            pending_size_bytes: 0,
            open: VecDeque::new(),
            unanswered: BTreeMap::new(),
            delayed: BTreeMap::new(),
            is_leader: false,
            is_opened: false,
            has_stalled: false,
            leader_slot: None,
            hand_over: HandOver::Not,
            hand_over_until: now,
            handed: BTreeMap::new(),
            admissions: BTreeMap::new(),
            admitted: BTreeMap::new(),
            outgoing: vec![Vec::new(); usize::from(settings.birth.slot_count)],
            snapshots: Vec::new(),
            exit: None,
            has_joined: false,
            compared_at: 0,
            counters: Counters::default(),
            next_tick: now,
            settings,
        }
    }

    /// Adds a command to what will be proposed.
    pub(super) fn enqueue(&mut self, command: Command<'_>) {
        if self.pending.back().is_none_or(|batch| batch.size_bytes() >= BATCH_SIZE_BYTES) {
            self.pending.push_back(Batch::new());
        }
        let batch = self.pending.back_mut().expect("just made");
        let before = batch.size_bytes();
        batch.push(command);
        self.pending_size_bytes += batch.size_bytes() - before;
    }

    pub(super) fn send(&mut self, slot: u8, message: PeerMessage) {
        if self.life.linked_to(slot).is_some() {
            encode(message, &mut self.outgoing[usize::from(slot)]);
        }
    }

    /// Nobody is sent back here: a leader says so only when it is about to stop.
    pub(super) fn moved(&self, request_id: RequestId) -> Reply {
        let leader_slot = self.leader_slot.filter(|_| !self.is_leader);
        Reply::Moved { request_id, leader: leader_slot.and_then(Slot::new) }
    }

    /// Starts to hand leadership over, for a planned stop.
    pub(crate) fn begin_hand_over(&mut self, sessions: &mut Sessions, now: Instant) {
        if self.hand_over == HandOver::Not {
            let is_needed = self.is_leader;
            self.hand_over = if is_needed { HandOver::Draining } else { HandOver::Following };
            self.hand_over_until = later(now, crate::limits::HAND_OVER_TIME_MAX);
            self.settle(sessions, now);
        }
    }

    /// Whether a planned stop need not wait any longer: leadership is handed over and everybody was
    /// told to whom, or the time for that is over.
    pub(crate) fn is_handed_over(&self, now: Instant) -> bool {
        let is_told = self.handed.is_empty() || now >= self.hand_over_until;
        matches!(self.hand_over, HandOver::Following | HandOver::Done) && is_told
    }

    fn take_steps(&mut self, sessions: &mut Sessions, steps: Vec<Step>, now: Instant) {
        for step in steps {
            match step {
                Step::Begin { group, node, voters } => {
                    self.group = group;
                    self.has_joined = true;
                    self.log = Some(RaftLog::bootstrap(node, &voters, self.settings.seed));
                }
                Step::Join { group, node } => {
                    self.group = group;
                    self.has_joined = true;
                    self.log = Some(RaftLog::join(node, self.settings.seed));
                    self.replica = Replica::new(self.settings.hash_seed, self.settings.table);
                }
                Step::Removed => self.exit = Some(Exit::Removed),
                Step::Send(slot, message) => self.send(slot, message),
            }
        }
        self.settle(sessions, now);
    }

    /// A peer has opened a link.
    pub(crate) fn peer_connected(&mut self, slot: u8, incarnation: u64) {
        self.life.hears(slot, incarnation);
    }

    /// A peer's link was closed by its side: its process has probably ended.
    pub(crate) fn peer_closed(
        &mut self,
        sessions: &mut Sessions,
        slot: u8,
        incarnation: u64,
        now: Instant,
    ) {
        let is_current = self.life.incarnation_of(slot) == Some(incarnation);
        self.life.disconnected(slot, incarnation);
        self.replica.now = now;
        if let (true, Some(log)) = (is_current, &mut self.log) {
            let mut members = log.membership().voters.clone();
            members.extend(log.membership().learners.iter());
            for peer in members.into_iter().filter(|peer| peer.slot() == slot) {
                log.link_closed(peer, &mut self.replica, &mut self.out);
            }
        }
        self.settle(sessions, now);
    }

    /// Takes a message from the process that the handshake named.
    pub(crate) fn peer_message(
        &mut self,
        sessions: &mut Sessions,
        slot: u8,
        incarnation: u64,
        message: PeerMessage,
        now: Instant,
    ) -> Result<(), PeerViolation> {
        self.replica.now = now;
        match message {
            PeerMessage::Raft { group, message } => {
                if group == self.group && message.from.slot() == slot {
                    self.step(message)?;
                }
                self.settle(sessions, now);
            }
            PeerMessage::Join => {
                self.admit_joiner(slot, incarnation);
                self.settle(sessions, now);
            }
            other => {
                let is_learner = self.log.as_ref().is_some_and(|log| log.role() == Role::Learner);
                let own = Standing { leader_slot: self.leader_slot, is_learner };
                let mut steps = Vec::new();
                self.life.receive(slot, incarnation, &other, own, now, &mut steps);
                self.take_steps(sessions, steps, now);
            }
        }
        Ok(())
    }

    fn step(&mut self, message: Message) -> Result<(), PeerViolation> {
        let Some(log) = &mut self.log else { return Ok(()) };
        let from = message.from;
        match log.step(message, &mut self.replica, &mut self.out) {
            Ok(()) => Ok(()),
            Err(ticketing_raft_log::StepFault::SenderRemoved) => {
                self.send(from.slot(), PeerMessage::Removed { node: from });
                Ok(())
            }
            Err(fault) if fault.is_violation() => Err(PeerViolation(fault)),
            Err(_) => Ok(()),
        }
    }

    /// A process without memory asks for its slot.
    fn admit_joiner(&mut self, slot: u8, incarnation: u64) {
        let Some(log) = self.log.as_mut().filter(|_| self.is_leader) else { return };
        // Another process may have asked for the slot than can be answered there: of two, or after
        // the first has died. It would be admitted and never hear of it.
        if self.life.linked_to(slot) != Some(incarnation) {
            return;
        }
        if let Some(node) = self.admitted.get(&incarnation).copied() {
            self.send_admitted(slot, incarnation, node);
            return;
        }
        if self.admissions.values().any(|asked| *asked == (slot, incarnation)) {
            return;
        }
        // The slot's process before must be gone, voter or not yet, or there are two of them.
        let status = log.status();
        let lives = |member: &ticketing_raft_log::MemberStatus| {
            member.id.slot() == slot && member.is_heard == Some(true)
        };
        if status.members.iter().any(lives) {
            return;
        }
        if let Ok((proposal, _)) = log.admit(slot, &mut self.replica, &mut self.out) {
            self.admissions.insert(proposal, (slot, incarnation));
        }
    }

    /// Tells a process who it is, and no other one of its slot: two with one id could vote twice.
    /// If it cannot be reached just now, it asks again.
    pub(super) fn send_admitted(&mut self, slot: u8, incarnation: u64, node: NodeId) {
        if self.life.linked_to(slot) == Some(incarnation) {
            self.send(slot, PeerMessage::Admitted { group: self.group, node });
        }
    }

    /// Sending a snapshot ended.
    pub(crate) fn snapshot_sent(
        &mut self,
        sessions: &mut Sessions,
        to: NodeId,
        outcome: ticketing_raft_log::SnapshotOutcome,
        now: Instant,
    ) {
        self.replica.now = now;
        if let Some(log) = &mut self.log {
            log.snapshot_sent(to, outcome, &mut self.replica, &mut self.out);
        }
        self.settle(sessions, now);
    }

    /// Frames to be sent to a slot; empty when there are none.
    pub(crate) fn take_frames(&mut self, slot: u8) -> Vec<u8> {
        std::mem::take(&mut self.outgoing[usize::from(slot)])
    }

    /// The link to a slot is open, to the process of that incarnation, or not.
    pub(crate) fn set_link(&mut self, slot: u8, incarnation: Option<u64>) {
        self.outgoing[usize::from(slot)] = Vec::new();
        self.life.linked(slot, incarnation);
    }

    /// Why this node does not take part yet.
    pub(crate) fn waiting(&self, now: Instant) -> Waiting {
        self.life.waiting(now)
    }

    /// Whether there is a snapshot to send or a reason to exit.
    pub(crate) fn has_news(&self) -> bool {
        !self.snapshots.is_empty() || self.exit.is_some()
    }

    /// Bytes that wait to be sent to a slot.
    pub(crate) fn frames_size_bytes(&self, slot: u8) -> usize {
        self.outgoing.get(usize::from(slot)).map_or(0, Vec::len)
    }

    /// Snapshots to be sent, each with its group.
    pub(crate) fn take_snapshots(&mut self) -> Vec<(u64, Message)> {
        std::mem::take(&mut self.snapshots)
    }

    /// Why the process has to end, if so.
    pub(crate) fn exit(&self) -> Option<Exit> {
        self.exit
    }

    /// Whether it has become a member since the last call.
    pub(crate) fn take_has_joined(&mut self) -> bool {
        std::mem::take(&mut self.has_joined)
    }

    fn tick(&mut self, sessions: &mut Sessions, now: Instant) {
        if now < self.next_tick {
            return;
        }
        // Ticks that were slept through are not made up for: elections are about silence, and a
        // process that did not run heard nothing.
        self.next_tick = later(now, TICK);
        self.replica.now = now;
        if let Some(log) = &mut self.log {
            log.tick(&mut self.replica, &mut self.out);
        }
        let mut steps = Vec::new();
        self.life.advance(now, &mut steps);
        self.take_steps(sessions, steps, now);
    }

    /// Takes the next step of a planned stop, if what it waited for has come.
    pub(super) fn advance_hand_over(&mut self, now: Instant) -> bool {
        let Some(log) = &mut self.log else { return false };
        let is_over = now >= self.hand_over_until || !self.is_leader;
        let is_quiet = self.pending.is_empty() && self.open.is_empty();
        match self.hand_over {
            HandOver::Not | HandOver::Following | HandOver::Done => return false,
            _ if is_over => {
                self.hand_over = HandOver::Done;
                self.has_stalled = true;
                return false;
            }
            HandOver::Draining if is_quiet => {
                self.hand_over = HandOver::Clearing;
                self.enqueue(Command::ClearWaiters);
            }
            HandOver::Clearing if is_quiet => {
                self.hand_over = HandOver::Transferring;
                log.hand_over(&mut self.replica, &mut self.out);
            }
            // Whoever it was for has died or does not run; maybe another one does.
            HandOver::Transferring if !log.is_handing_over() => {
                log.hand_over(&mut self.replica, &mut self.out);
                return log.is_handing_over();
            }
            HandOver::Draining | HandOver::Clearing | HandOver::Transferring => return false,
        }
        true
    }

    fn may_propose_due(&self) -> bool {
        self.is_opened
            && self.hand_over == HandOver::Not
            && self.pending_size_bytes < PENDING_SIZE_BYTES_MAX
    }

    /// Proposes the end of what is due on the leader. It ends only when a majority has recorded it.
    fn propose_due(&mut self, now: Instant) {
        for _ in 0..DUE_COUNT_PER_TURN_MAX {
            if !self.may_propose_due() {
                return;
            }
            if self.delayed.first_key_value().is_some_and(|((end, _), _)| *end <= now)
                && let Some(((_, token), key)) = self.delayed.pop_first()
            {
                self.enqueue(Command::Expire { token, key: &key });
                continue;
            }
            match self.replica.table.poll_due(now) {
                Some(Due::Lease { token, lease_seconds, key }) => {
                    let lease = Duration::from_secs(lease_seconds.into()).as_nanos() as u64;
                    let margin = Duration::from_nanos(lease / LEASE_MARGIN_DIVISOR);
                    self.delayed.insert((later(now, margin), token), key.into());
                }
                Some(Due::Wait { arrival }) => self.enqueue(Command::TimeOut { arrival }),
                None => return,
            }
        }
    }
}

/// What an honest peer does not send. Its link ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerViolation(pub(crate) ticketing_raft_log::StepFault);

impl Locks for Replicated {
    fn refusal(&self, request_id: RequestId, _now: Instant) -> Option<Reply> {
        let refused = |code| Some(Reply::Refused { request_id, code });
        let Some(log) = self.log.as_ref().filter(|_| self.exit.is_none()) else {
            return refused(ErrorCode::NotActive);
        };
        match log.role() {
            // Nobody took over in time: it stops all the same.
            Role::Leader if self.is_leader && self.hand_over == HandOver::Done => {
                refused(ErrorCode::NotActive)
            }
            Role::Leader if self.is_leader => None,
            Role::Learner => refused(ErrorCode::NotActive),
            _ if self.leader_slot.is_some() => Some(self.moved(request_id)),
            _ => refused(ErrorCode::NoLeader),
        }
    }

    fn admit(&mut self, _operation: &Operation<'_>) -> Admission {
        let is_full = self.pending_size_bytes >= PENDING_SIZE_BYTES_MAX;
        if is_full || self.hand_over != HandOver::Not {
            self.has_stalled = true;
            return Admission::Later;
        }
        Admission::Now
    }

    fn carry_out(
        &mut self,
        sessions: &mut Sessions,
        _current: &mut Current<'_>,
        owner: Owner,
        operation: Operation<'_>,
        _now: Instant,
    ) {
        let buffer: [&[u8]; SET_KEY_COUNT_MAX];
        let one: [&[u8]; 1];
        let (Operation::Acquire { keys, .. } | Operation::Release { keys, .. }) = operation;
        let keys: &[&[u8]] = match keys {
            Keys::One(key) => {
                one = [key];
                &one
            }
            Keys::Set(set) => {
                buffer = gather(set);
                &buffer[..set.len()]
            }
        };
        let unanswered = self.unanswered.entry((owner.session, owner.request_id)).or_default();
        let command = match operation {
            Operation::Acquire { wait_seconds, lease_seconds, .. } => {
                unanswered.acquires += 1;
                sessions.begin_waiting(owner.session);
                Command::Acquire { owner, wait_seconds, lease_seconds, keys }
            }
            Operation::Release { token, .. } => {
                unanswered.releases += 1;
                Command::Release { owner, token: token.get(), keys }
            }
        };
        self.enqueue(command);
    }

    fn is_undecided(&self, session: SessionId) -> bool {
        let mut of_session = self.unanswered.range((session, 0)..=(session, u64::MAX));
        of_session.any(|(_, open)| open.releases > 0 || open.acquires > open.queued)
    }

    fn drop_waiters(&mut self, sessions: &mut Sessions, session: SessionId, _now: Instant) {
        sessions.end_all_waiting(session);
        let of_session = (session, 0)..=(session, u64::MAX);
        let ids: Vec<_> = self.unanswered.range(of_session).map(|(id, _)| *id).collect();
        let mut may_wait = false;
        for id in ids {
            may_wait |= self.unanswered.remove(&id).is_some_and(|open| open.acquires > 0);
        }
        // Whoever still hears it can go on elsewhere.
        if let Some(request_ids) = self.handed.remove(&session) {
            self.answer_moved(sessions, session, request_ids);
        }
        // Most connections end without a waiter. They cost no entry, and a planned stop, which
        // waits until all is recorded, does not wait for them.
        if self.is_leader && may_wait {
            self.enqueue(Command::CloseSession { session });
        }
    }

    fn reclaim(&mut self, _: &mut Sessions, session: SessionId, token: Token, _now: Instant) {
        self.counters.reclaimed += 1;
        if self.is_leader {
            self.enqueue(Command::Reclaim { session, token: token.get() });
        }
    }

    fn opened(&mut self, sessions: &mut Sessions, session: SessionId) {
        if self.leader_slot.is_some() {
            sessions.post(session, self.leader_news());
        }
    }

    fn settle(&mut self, sessions: &mut Sessions, now: Instant) {
        self.carry_on(sessions, now);
    }

    fn advance(&mut self, sessions: &mut Sessions, now: Instant) {
        self.propose_due(now);
        self.tick(sessions, now);
    }

    fn next_deadline(&self) -> Option<Instant> {
        let due = self.replica.table.next_deadline();
        let delayed = self.delayed.first_key_value().map(|((end, _), _)| *end);
        let proposed = due.into_iter().chain(delayed).filter(|_| self.may_propose_due());
        proposed.chain([self.next_tick]).min()
    }

    fn counters(&self) -> Counters {
        Counters { expired: self.replica.expired_count, ..self.counters }
    }
}
