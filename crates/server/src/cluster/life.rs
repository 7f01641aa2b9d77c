//! How a process becomes a member: by beginning the cluster together with all others, once, or by
//! joining those who have begun. Cluster protocol, "Life of a node".
//!
//! A cluster begins in two phases. The process in slot 0 asks all others to promise this round; one
//! that has promised a later round, or is a member, will not begin this one; so of two rounds at
//! most one can get all promises and a message of the other cannot complete it. The round becomes
//! the group that every message of the cluster carries.
//!
//! Whoever has promised may have missed that the others began. So it promises no round of another
//! coordinator in which a majority of the slots has other processes than in its first one: those
//! may have been a cluster that has lost its memory.

use crate::limits::{BOOTSTRAP_ROUND_TIME_MAX, JOIN_ASK_PAUSE, PEER_STATUS_TIME_MAX, STATUS_PAUSE};
use crate::peer::message::{PeerMessage, PeerStatus};
use std::fmt;
use std::time::Duration;
use ticketing_lock_core::Instant;
use ticketing_raft_log::NodeId;

/// The slot that coordinates the beginning.
const COORDINATOR_SLOT: u8 = 0;
/// Every slot's first process.
const FIRST_GENERATION: u32 = 1;

/// Who this process is, and what it may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Birth {
    pub(crate) slot: u8,
    pub(crate) slot_count: u8,
    /// Random; tells this process from others of its slot.
    pub(crate) incarnation: u64,
    /// Until when it would begin a cluster; the past if it must not.
    pub(crate) bootstrap_until: Instant,
    /// Whether the state directory says that this slot was a member of the identity before.
    pub(crate) was_member: bool,
}

/// What a turn of life led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Begin the cluster as `node`, one of `voters`.
    Begin {
        /// The cluster's group.
        group: u64,
        /// This process.
        node: NodeId,
        /// All processes.
        voters: Vec<NodeId>,
    },
    /// Follow as `node`; the leader knows.
    Join {
        /// The cluster's group.
        group: u64,
        /// This process.
        node: NodeId,
    },
    /// Exit: the slot belongs to a younger process.
    Removed,
    /// Send this to that slot.
    Send(u8, PeerMessage),
}

/// Why a node is not a member yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Members are there and have not let this process in yet.
    Admission,
    /// Nobody knows anything, but those with whom this process would have begun are gone, and they
    /// may have begun without it.
    Doubt,
    /// These slots say what they are, but this node has no link to them.
    Links(Vec<u8>),
    /// These slots have not been heard.
    Slots(Vec<u8>),
    /// Nobody knows anything, and the cluster must not begin (again).
    Over,
    /// All are there; the beginning is under way.
    Round,
    /// Nobody knows anything, and this slot was a member before.
    Used,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Admission => f.write_str(
                "not a member yet: asking the members for admission; if a majority of the \
                 cluster's processes lost their memory, this identity is over: make a new one \
                 with `ticketing-server cluster new`",
            ),
            Self::Doubt => f.write_str(
                "no process of the cluster has memory, and those that were about to begin it with \
                 this one are gone and may have begun: this identity is over; make a new one with \
                 `ticketing-server cluster new`",
            ),
            Self::Over => f.write_str(
                "no process of the cluster has memory, and this identity's time to begin is over \
                 (by some slot's clock, or a slot was a member before, or may have missed the \
                 beginning): it must not be used again; make a new one with \
                 `ticketing-server cluster new`",
            ),
            Self::Round => f.write_str("all slots are here; beginning the cluster"),
            Self::Used => f.write_str(
                "no process of the cluster has memory, and TICKETING_STATE_DIR says that this slot \
                 was a member of it before: this identity is over; make a new one with \
                 `ticketing-server cluster new`",
            ),
            Self::Links(slots) => write!(
                f,
                "slots {slots:?} are heard, but cannot be reached from here; the log says why \
                 (compare TICKETING_CLUSTER_SLOTS with theirs)"
            ),
            Self::Slots(slots) => write!(
                f,
                "waiting for slots {slots:?}, which have not been heard; if they run, their logs \
                 say what keeps them from this node, or another process has this slot's address"
            ),
        }
    }
}

/// The process that speaks for a slot: the one that the link to the slot's address leads to, or,
/// while there is no such link, the last one heard. A wrongly configured process may say the same
/// slot and leads nobody astray.
#[derive(Clone, Copy, Debug)]
struct Peer {
    incarnation: u64,
    is_linked: bool,
    status: Option<(PeerStatus, Instant)>,
}

/// What the log says of this node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Standing {
    pub(crate) leader_slot: Option<u8>,
    pub(crate) is_learner: bool,
}

#[derive(Debug)]
enum Phase {
    Fresh,
    Member { group: u64, node: NodeId, founders: Option<Vec<u64>> },
    Removed,
}

#[derive(Debug)]
struct Round {
    number: u64,
    promised: Vec<bool>,
    incarnations: Vec<u64>,
    until: Instant,
}

/// The way of one process into a cluster.
#[derive(Debug)]
pub(crate) struct Life {
    birth: Birth,
    phase: Phase,
    peers: Vec<Option<Peer>>,
    round: Option<Round>,
    round_count: u64,
    /// The latest promise, and until when the coordinator may be waited for.
    promise: Option<(u64, Instant)>,
    /// The processes, by slot, of the first round that was promised and may have begun.
    promised_among: Option<Vec<u64>>,
    /// Whether a majority of them is gone.
    may_have_missed: bool,
    next_status: Instant,
    next_join: Instant,
}

impl Life {
    pub(crate) fn new(birth: Birth, now: Instant) -> Self {
        Self {
            birth,
            phase: Phase::Fresh,
            peers: vec![None; usize::from(birth.slot_count)],
            round: None,
            round_count: 0,
            promise: None,
            promised_among: None,
            may_have_missed: false,
            next_status: now,
            next_join: now,
        }
    }

    /// Who this is, once it takes part.
    pub(crate) fn member(&self) -> Option<(u64, NodeId)> {
        match self.phase {
            Phase::Member { group, node, .. } => Some((group, node)),
            Phase::Fresh | Phase::Removed => None,
        }
    }

    /// The process that last spoke for a slot.
    pub(crate) fn incarnation_of(&self, slot: u8) -> Option<u64> {
        self.peers.get(usize::from(slot)).copied().flatten().map(|peer| peer.incarnation)
    }

    /// The process that the link to a slot leads to, while there is one.
    pub(crate) fn linked_to(&self, slot: u8) -> Option<u64> {
        let peer = self.peers.get(usize::from(slot)).copied().flatten();
        peer.filter(|peer| peer.is_linked).map(|peer| peer.incarnation)
    }

    /// Why it does not take part yet.
    pub(crate) fn waiting(&self, now: Instant) -> Waiting {
        let others = self.others();
        let absent: Vec<_> =
            others.clone().filter(|slot| self.status(*slot, now).is_none()).collect();
        let unlinked: Vec<_> = others.clone().filter(|slot| !self.is_linked(*slot)).collect();
        if let Some(slot) = self.whom_to_ask(now) {
            if self.is_linked(slot) { Waiting::Admission } else { Waiting::Links(vec![slot]) }
        } else if !absent.is_empty() {
            Waiting::Slots(absent)
        } else if !unlinked.is_empty() {
            Waiting::Links(unlinked)
        } else if self.may_bootstrap(now) && self.all_would_begin(now) {
            Waiting::Round
        } else if self.birth.was_member {
            Waiting::Used
        } else if self.may_have_missed {
            Waiting::Doubt
        } else {
            Waiting::Over
        }
    }

    /// Lets time pass.
    pub(crate) fn advance(&mut self, now: Instant, steps: &mut Vec<Step>) {
        if !matches!(self.phase, Phase::Fresh) {
            return;
        }
        if now >= self.next_status {
            self.next_status = later(now, STATUS_PAUSE);
            let status = PeerStatus::Fresh { may_bootstrap: self.may_bootstrap(now) };
            for slot in self.others() {
                steps.push(Step::Send(slot, PeerMessage::Status(status)));
            }
        }
        if self.round.as_ref().is_some_and(|round| now >= round.until) {
            self.round = None;
        }
        if let Some(slot) = self.whom_to_ask(now) {
            if now >= self.next_join {
                self.next_join = later(now, JOIN_ASK_PAUSE);
                steps.push(Step::Send(slot, PeerMessage::Join));
            }
        } else if self.birth.slot == COORDINATOR_SLOT && self.round.is_none() {
            self.begin_round(now, steps);
        }
    }

    /// The link to a slot is open, to the process of that incarnation, or not.
    pub(crate) fn linked(&mut self, slot: u8, incarnation: Option<u64>) {
        let peer = &mut self.peers[usize::from(slot)];
        if let Some(peer) = peer {
            peer.is_linked = false;
        }
        if let Some(incarnation) = incarnation {
            let status = peer.filter(|peer| peer.incarnation == incarnation);
            let status = status.and_then(|peer| peer.status);
            *peer = Some(Peer { incarnation, is_linked: true, status });
        }
    }

    /// A process has opened a link as a slot, or says something over it. Whether it is the one that
    /// speaks for the slot.
    pub(crate) fn hears(&mut self, slot: u8, incarnation: u64) -> bool {
        let peer = &mut self.peers[usize::from(slot)];
        if peer.is_none_or(|peer| peer.incarnation != incarnation && !peer.is_linked) {
            *peer = Some(Peer { incarnation, is_linked: false, status: None });
        }
        peer.is_some_and(|peer| peer.incarnation == incarnation)
    }

    /// Its link is closed; what it said no longer counts.
    pub(crate) fn disconnected(&mut self, slot: u8, incarnation: u64) {
        if let Some(peer) = &mut self.peers[usize::from(slot)]
            && peer.incarnation == incarnation
        {
            peer.status = None;
        }
    }

    /// Takes a message that is not raft's, from the process of that slot and incarnation.
    pub(crate) fn receive(
        &mut self,
        slot: u8,
        incarnation: u64,
        message: &PeerMessage,
        own: Standing,
        now: Instant,
        steps: &mut Vec<Step>,
    ) {
        if !self.hears(slot, incarnation) {
            return;
        }
        match message {
            PeerMessage::Admitted { group, node } => {
                if self.takes_admission(*group, *node, own.is_learner) {
                    self.become_member(*group, *node, None);
                    steps.push(Step::Join { group: *group, node: *node });
                }
            }
            PeerMessage::Commit { round, incarnations } => {
                self.commit(slot, *round, incarnations, now, steps);
            }
            PeerMessage::Prepare { round, incarnations } => {
                self.prepare(slot, *round, incarnations, now, steps);
            }
            PeerMessage::Promise { round } => self.promised(slot, incarnation, *round, now, steps),
            PeerMessage::Removed { node } => {
                if self.member().is_some_and(|(_, own)| own == *node) {
                    self.phase = Phase::Removed;
                    steps.push(Step::Removed);
                }
            }
            PeerMessage::Status(status) => {
                self.note_status(slot, *status, own.leader_slot, now, steps);
            }
            PeerMessage::Join | PeerMessage::Raft { .. } => {}
        }
    }

    /// A second leader may give a learner a later id: it had asked there too before it heard from
    /// the first, and nothing is sent to the first id any more. A voter never changes its id: what
    /// it has promised under it would be forgotten.
    fn takes_admission(&self, group: u64, node: NodeId, is_learner: bool) -> bool {
        let is_due = match self.phase {
            Phase::Fresh => true,
            Phase::Member { group: own_group, node: own, .. } => {
                is_learner && group == own_group && own < node
            }
            Phase::Removed => false,
        };
        is_due && node.slot() == self.birth.slot
    }

    fn note_status(
        &mut self,
        slot: u8,
        status: PeerStatus,
        leader_slot: Option<u8>,
        now: Instant,
        steps: &mut Vec<Step>,
    ) {
        let Some(peer) = &mut self.peers[usize::from(slot)] else { return };
        peer.status = Some((status, now));
        let incarnation = peer.incarnation;
        let (Phase::Member { group, node, founders }, PeerStatus::Fresh { .. }) =
            (&self.phase, status)
        else {
            return;
        };
        let own = PeerStatus::Member { group: *group, node: *node, leader_slot };
        steps.push(Step::Send(slot, PeerMessage::Status(own)));
        // The coordinator may have died between two messages; whoever began completes it.
        if let Some(founders) = founders
            && founders.get(usize::from(slot)) == Some(&incarnation)
        {
            let commit = PeerMessage::Commit { round: *group, incarnations: founders.clone() };
            steps.push(Step::Send(slot, commit));
        }
    }

    fn begin_round(&mut self, now: Instant, steps: &mut Vec<Step>) {
        if !self.may_bootstrap(now) || !self.all_would_begin(now) {
            return;
        }
        self.round_count += 1;
        let number = self.birth.incarnation.wrapping_add(self.round_count << 32);
        let mut incarnations: Vec<_> =
            self.peers.iter().map(|peer| peer.map_or(0, |peer| peer.incarnation)).collect();
        incarnations[usize::from(self.birth.slot)] = self.birth.incarnation;
        let mut promised = vec![false; incarnations.len()];
        promised[usize::from(self.birth.slot)] = true;
        let until = later(now, BOOTSTRAP_ROUND_TIME_MAX);
        for slot in self.others() {
            let incarnations = incarnations.clone();
            steps.push(Step::Send(slot, PeerMessage::Prepare { round: number, incarnations }));
        }
        self.round = Some(Round { number, promised, incarnations, until });
    }

    fn prepare(
        &mut self,
        slot: u8,
        round: u64,
        incarnations: &[u64],
        now: Instant,
        steps: &mut Vec<Step>,
    ) {
        let may = slot == COORDINATOR_SLOT
            // Without a link the promise would reach nobody.
            && self.is_linked(slot)
            && matches!(self.phase, Phase::Fresh)
            && self.is_one_of(incarnations)
            && self.may_bootstrap(now);
        if !may {
            return;
        }
        let coordinator = usize::from(COORDINATOR_SLOT);
        let first = match &mut self.promised_among {
            Some(first) if first[coordinator] != incarnations[coordinator] => first,
            // The coordinator that asks again has begun none of its rounds.
            first => first.insert(incarnations.to_vec()),
        };
        let gone_count = first.iter().zip(incarnations).filter(|(one, other)| one != other).count();
        if gone_count > incarnations.len() / 2 {
            self.may_have_missed = true;
            return;
        }
        self.promise = Some((round, later(now, BOOTSTRAP_ROUND_TIME_MAX)));
        steps.push(Step::Send(slot, PeerMessage::Promise { round }));
    }

    /// Whether a round is for this very process.
    fn is_one_of(&self, incarnations: &[u64]) -> bool {
        incarnations.len() == self.peers.len()
            && incarnations[usize::from(self.birth.slot)] == self.birth.incarnation
    }

    /// Counts only what the very process promised that the round names.
    fn promised(
        &mut self,
        slot: u8,
        incarnation: u64,
        number: u64,
        now: Instant,
        steps: &mut Vec<Step>,
    ) {
        let Some(round) = &mut self.round else { return };
        let at = usize::from(slot);
        if round.number != number || now >= round.until || incarnation != round.incarnations[at] {
            return;
        }
        round.promised[at] = true;
        if !round.promised.iter().all(|promised| *promised) || !matches!(self.phase, Phase::Fresh) {
            return;
        }
        let Some(Round { number, incarnations, .. }) = self.round.take() else { return };
        for slot in self.others() {
            let incarnations = incarnations.clone();
            steps.push(Step::Send(slot, PeerMessage::Commit { round: number, incarnations }));
        }
        self.begin(number, incarnations, steps);
    }

    fn commit(
        &mut self,
        slot: u8,
        round: u64,
        incarnations: &[u64],
        now: Instant,
        steps: &mut Vec<Step>,
    ) {
        if !matches!(self.phase, Phase::Fresh) || !self.is_one_of(incarnations) {
            return;
        }
        let may = match self.promise {
            Some((promised, _)) if promised == round => true,
            // From a member, about a round whose coordinator is gone.
            Some((_, until)) => slot != COORDINATOR_SLOT && now >= until,
            None => slot != COORDINATOR_SLOT,
        };
        if may {
            self.begin(round, incarnations.to_vec(), steps);
        }
    }

    fn begin(&mut self, group: u64, founders: Vec<u64>, steps: &mut Vec<Step>) {
        let id = |slot| NodeId::new(FIRST_GENERATION, slot).expect("a slot of a cluster");
        let node = id(self.birth.slot);
        let voters = (0..self.birth.slot_count).map(id).collect();
        self.become_member(group, node, Some(founders));
        steps.push(Step::Begin { group, node, voters });
    }

    fn become_member(&mut self, group: u64, node: NodeId, founders: Option<Vec<u64>>) {
        self.phase = Phase::Member { group, node, founders };
        self.round = None;
        self.promise = None;
    }

    /// A member, best the leader, to be asked for admission.
    fn whom_to_ask(&self, now: Instant) -> Option<u8> {
        let members = self.others().filter_map(|slot| match self.status(slot, now) {
            Some(PeerStatus::Member { leader_slot, .. }) => Some((slot, leader_slot)),
            _ => None,
        });
        let (slot, leader) = members.max_by_key(|(_, leader)| leader.is_some())?;
        let is_other = |leader: &u8| *leader != self.birth.slot && *leader < self.birth.slot_count;
        Some(leader.filter(is_other).unwrap_or(slot))
    }

    fn may_bootstrap(&self, now: Instant) -> bool {
        now < self.birth.bootstrap_until && !self.birth.was_member && !self.may_have_missed
    }

    fn all_would_begin(&self, now: Instant) -> bool {
        let would = PeerStatus::Fresh { may_bootstrap: true };
        self.others().all(|slot| self.is_linked(slot) && self.status(slot, now) == Some(would))
    }

    fn is_linked(&self, slot: u8) -> bool {
        self.linked_to(slot).is_some()
    }

    /// What a slot said a short while ago.
    fn status(&self, slot: u8, now: Instant) -> Option<PeerStatus> {
        let (status, at) = self.peers[usize::from(slot)]?.status?;
        (now < later(at, PEER_STATUS_TIME_MAX)).then_some(status)
    }

    fn others(&self) -> impl Iterator<Item = u8> + Clone + use<> {
        let own = self.birth.slot;
        (0..self.birth.slot_count).filter(move |slot| *slot != own)
    }
}

pub(crate) fn later(now: Instant, duration: Duration) -> Instant {
    Instant::from_nanos(now.as_nanos().saturating_add(duration.as_nanos() as u64))
}

#[cfg(test)]
mod tests;
