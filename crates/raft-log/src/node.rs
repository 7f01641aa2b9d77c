//! One member: inputs, and what comes of them.

use crate::check::{View, check};
use crate::convert;
use crate::election::Elections;
use crate::error::{MembershipFault, ProposeError, StepFault};
use crate::id::NodeId;
use crate::limits::{
    APPEND_SIZE_BYTES_MAX, APPENDS_IN_FLIGHT_MAX, ELECTION_TICKS_MAX, ELECTION_TICKS_MIN,
    ENTRY_SIZE_BYTES_MAX, HEARD_TICKS_MAX, HEARTBEAT_TICKS, TERM_OR_INDEX_LIMIT,
    UNCOMMITTED_SIZE_BYTES_MAX,
};
use crate::machine::StateMachine;
use crate::membership::{Membership, MembershipChange};
use crate::message::{Body, Message, SnapshotMeta};
use crate::storage::Log;
use bytes::Bytes;
use raft::{RawNode, SnapshotStatus, StateRole};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The place a bootstrapped log begins after. Not 0, so that a node that joins later can never be
/// served from the log alone, which does not name the first members, and gets a snapshot.
const BOOTSTRAP_INDEX: u64 = 1;
const BOOTSTRAP_TERM: u64 = 1;

/// A proposal of this process; later ones are larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProposalId(u64);

/// What a member does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Asks for votes.
    Candidate,
    /// Follows, or looks for a leader.
    Follower,
    /// Proposes.
    Leader,
    /// Receives the log and does not vote.
    Learner,
}

/// What happened, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Term, leader or this node's role changed. When it was leader before, none of its open
    /// proposals will be reported any more, whatever becomes of them.
    Leadership {
        /// The current term.
        term: u64,
        /// Who leads it, as far as this node knows.
        leader: Option<NodeId>,
        /// What this node does.
        role: Role,
    },
    /// A membership change was committed.
    Membership {
        /// This node's own proposal, as with [`crate::Applied::proposal`].
        proposal: Option<ProposalId>,
        /// The change.
        change: MembershipChange,
        /// Why it was not made after all.
        refused: Option<MembershipFault>,
    },
    /// This node is no member any more, for good.
    Removed,
    /// The state was replaced by a leader's snapshot that ends at `index`.
    SnapshotInstalled {
        /// The last entry in it.
        index: u64,
    },
}

/// Where a call puts what comes of it. The owner empties it.
#[derive(Debug, Default)]
pub struct Output {
    /// To be sent. They may be lost, late or out of order.
    pub messages: Vec<Message>,
    /// To be acted upon.
    pub events: Vec<Event>,
}

/// How sending a snapshot ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotOutcome {
    /// The peer has taken all of it.
    Sent,
    /// Not, and it should be tried again.
    Failed,
}

/// A member as this node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Who.
    pub id: NodeId,
    /// Whether its vote counts.
    pub is_voter: bool,
    /// On the leader: the last index known to be there.
    pub matched: Option<u64>,
    /// On the leader: whether it was heard within [`HEARD_TICKS_MAX`].
    pub is_heard: Option<bool>,
}

/// A look at a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// This node.
    pub id: NodeId,
    /// What it does.
    pub role: Role,
    /// The current term.
    pub term: u64,
    /// Who leads.
    pub leader: Option<NodeId>,
    /// The last committed index.
    pub committed: u64,
    /// The last applied index.
    pub applied: u64,
    /// The last index.
    pub last: u64,
    /// The members, ascending.
    pub members: Vec<MemberStatus>,
    /// Whether a replacement is under way.
    pub is_joint: bool,
}

/// One member of a replicated log.
pub struct RaftLog<M: StateMachine> {
    pub(crate) id: NodeId,
    pub(crate) raft: RawNode<Log>,
    pub(crate) membership: Membership,
    pub(crate) applied: u64,
    /// Own proposals that are not applied yet: index and id.
    pub(crate) open_proposals: VecDeque<(u64, ProposalId)>,
    /// A checked snapshot whose message is being stepped.
    pub(crate) image: Option<(SnapshotMeta, M::Image)>,
    /// A snapshot that is being made: what it stands for, and who waits for it.
    pub(crate) making: Option<(SnapshotMeta, Vec<u64>)>,
    /// The members as of the last snapshot handed out; raft-rs keeps only part of them.
    pub(crate) made: Membership,
    /// Peers that are brought in by a snapshot, from its beginning until they have caught up.
    pub(crate) brought_in: BTreeSet<u64>,
    pub(crate) tick_count: u64,
    /// When each peer last answered.
    pub(crate) heard: BTreeMap<NodeId, u64>,
    /// When each peer last answered a heartbeat.
    pub(crate) heartbeat_answered: BTreeMap<NodeId, u64>,
    pub(crate) elections: Elections,
    /// The last one who handed leadership to this node. It did so because it leaves.
    leaving: Option<NodeId>,
    last_proposal: u64,
    /// Leadership as last reported.
    reported: (u64, Option<NodeId>, Role),
    pub(crate) removed_reported: bool,
}

impl<M: StateMachine> RaftLog<M> {
    /// A member of a new cluster. All of `voters` start so, each once in its life.
    ///
    /// # Panics
    /// When `voters` does not contain `id` or no membership can consist of them.
    pub fn bootstrap(id: NodeId, voters: &[NodeId], seed: u64) -> Self {
        let membership = Membership::of_voters(voters);
        assert_eq!(membership.check(), Ok(()), "a cluster starts with one process in each slot");
        assert!(membership.is_voter(id), "a node starts a cluster that it is part of");
        let conf_state = convert::conf_state(&membership);
        let log = Log::new(BOOTSTRAP_INDEX, BOOTSTRAP_TERM, conf_state);
        Self::new(id, log, membership, BOOTSTRAP_INDEX, seed)
    }

    /// A node that the leader adds as a learner, and that has nothing yet.
    pub fn join(id: NodeId, seed: u64) -> Self {
        let log = Log::new(0, 0, convert::conf_state(&Membership::default()));
        Self::new(id, log, Membership::default(), 0, seed)
    }

    fn new(id: NodeId, log: Log, membership: Membership, applied: u64, seed: u64) -> Self {
        let config = raft::Config {
            id: id.get(),
            election_tick: ELECTION_TICKS_MIN,
            min_election_tick: ELECTION_TICKS_MIN,
            max_election_tick: ELECTION_TICKS_MAX,
            heartbeat_tick: HEARTBEAT_TICKS,
            applied,
            max_size_per_msg: APPEND_SIZE_BYTES_MAX,
            max_inflight_msgs: APPENDS_IN_FLIGHT_MAX,
            check_quorum: true,
            pre_vote: true,
            // Followers learn of a commit with the next entries or heartbeat; halves the messages.
            skip_bcast_commit: true,
            max_uncommitted_size: UNCOMMITTED_SIZE_BYTES_MAX,
            ..raft::Config::default()
        };
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let raft = RawNode::new(&config, log, &logger).expect("the configuration is constant");
        let mut node = Self {
            id,
            raft,
            membership,
            applied,
            open_proposals: VecDeque::new(),
            image: None,
            making: None,
            made: Membership::default(),
            brought_in: BTreeSet::new(),
            tick_count: 0,
            heard: BTreeMap::new(),
            heartbeat_answered: BTreeMap::new(),
            elections: Elections::new(seed ^ id.get().rotate_left(32)),
            leaving: None,
            last_proposal: 0,
            reported: (0, None, Role::Learner),
            removed_reported: false,
        };
        node.reported = (node.term(), node.leader(), node.role());
        node.pin_election_timeout(false);
        node
    }

    /// Lets [`crate::limits::TICK_MILLISECONDS`] pass.
    pub fn tick(&mut self, machine: &mut M, out: &mut Output) {
        self.tick_count += 1;
        if self.term() < TERM_OR_INDEX_LIMIT - 2 {
            self.tick_elections();
        }
        self.promote_learner();
        if self.membership.is_joint() && !self.membership.is_voter(self.id) {
            // It came to power while being replaced; one of the new voters must complete that.
            self.transfer();
        }
        self.continue_snapshot(machine);
        self.settle(machine, out);
        self.pin_election_timeout(false);
    }

    /// Takes a peer's message. The caller has made sure that the peer is in the sender's slot.
    ///
    /// # Errors
    /// What is wrong with it; nothing was changed.
    pub fn step(
        &mut self,
        message: Message,
        machine: &mut M,
        out: &mut Output,
    ) -> Result<(), StepFault> {
        let view = View {
            id: self.id,
            term: self.term(),
            last_index: self.raft.raft.raft_log.last_index(),
            is_leader: self.role() == Role::Leader,
            membership: &self.membership,
        };
        check(&message, &view)?;
        if let Body::Snapshot { meta, data } = &message.body {
            let image = machine.decode(data).map_err(|_| StepFault::Snapshot)?;
            self.image = Some((meta.clone(), image));
        }
        if matches!(message.body, Body::TimeoutNow) {
            if self.leader() != Some(message.from) {
                return Ok(());
            }
            self.leaving = Some(message.from);
        }
        if self.membership.contains(message.from) {
            self.heard.insert(message.from, self.tick_count);
        }
        if matches!(message.body, Body::HeartbeatReply { .. }) && self.is_repeated(message.from) {
            return Ok(());
        }
        // Errors are those of late messages, which change nothing.
        let _ = self.raft.step(convert::to_raft(message));
        self.settle(machine, out);
        self.image = None;
        self.pin_election_timeout(false);
        Ok(())
    }

    /// Whether the peer has answered a heartbeat in this tick already. One that read a snapshot for
    /// seconds answers all of them at once, and to each answer raft-rs would send the same entries
    /// again: more than a link takes.
    fn is_repeated(&mut self, peer: NodeId) -> bool {
        self.heartbeat_answered.insert(peer, self.tick_count) == Some(self.tick_count)
    }

    /// Proposes an entry. It is applied with its id if it is committed while this node leads.
    ///
    /// # Errors
    /// Nothing was proposed.
    pub fn propose(
        &mut self,
        data: Bytes,
        machine: &mut M,
        out: &mut Output,
    ) -> Result<ProposalId, ProposeError> {
        if data.len() > ENTRY_SIZE_BYTES_MAX {
            return Err(ProposeError::TooLarge);
        }
        if self.role() != Role::Leader {
            return Err(ProposeError::NotLeader);
        }
        let entry = raft::eraftpb::Entry { data, ..raft::eraftpb::Entry::default() };
        let mut message = raft::eraftpb::Message::default();
        message.set_msg_type(raft::eraftpb::MessageType::MsgPropose);
        message.from = self.id.get();
        message.set_entries(vec![entry].into());
        self.raft.step(message).map_err(|_| ProposeError::Busy)?;
        let proposal = self.open_proposal();
        self.settle(machine, out);
        Ok(proposal)
    }

    /// Proposes a change of the members; [`Event::Membership`] tells what became of it.
    ///
    /// # Errors
    /// Nothing was proposed.
    pub fn propose_change(
        &mut self,
        change: MembershipChange,
        machine: &mut M,
        out: &mut Output,
    ) -> Result<ProposalId, ProposeError> {
        let proposal = self.append_change(change)?;
        self.settle(machine, out);
        Ok(proposal)
    }

    /// Proposes the next step towards a learner in a slot whose process is gone: its unfinished
    /// predecessor leaves first, if there is one. Returns what was proposed; once
    /// [`Event::Membership`] reports an [`MembershipChange::AddLearner`], that id is the new
    /// process's alone. A learner that has caught up replaces the voter by itself.
    ///
    /// # Errors
    /// Nothing was proposed. [`MembershipFault::RemovesLeader`] when the slot is this leader's own.
    pub fn admit(
        &mut self,
        slot: u8,
        machine: &mut M,
        out: &mut Output,
    ) -> Result<(ProposalId, MembershipChange), ProposeError> {
        if slot == self.id.slot() {
            return Err(ProposeError::Membership(MembershipFault::RemovesLeader));
        }
        let change = match self.membership.learner_in(slot) {
            Some(stale) => MembershipChange::RemoveLearner(stale),
            None => {
                let next = self.membership.next_id(slot);
                let used_up = ProposeError::Membership(MembershipFault::GenerationUsed);
                MembershipChange::AddLearner(next.ok_or(used_up)?)
            }
        };
        Ok((self.propose_change(change, machine, out)?, change))
    }

    pub(crate) fn append_change(
        &mut self,
        change: MembershipChange,
    ) -> Result<ProposalId, ProposeError> {
        if self.role() != Role::Leader {
            return Err(ProposeError::NotLeader);
        }
        if self.raft.raft.has_pending_conf() {
            return Err(ProposeError::Membership(MembershipFault::Pending));
        }
        let after = self.membership.after(change).map_err(ProposeError::Membership)?;
        if !after.is_voter(self.id) {
            return Err(ProposeError::Membership(MembershipFault::RemovesLeader));
        }
        let context = convert::encode_change(change);
        self.raft
            .propose_conf_change(context, convert::conf_change(change))
            .map_err(|_| ProposeError::Busy)?;
        Ok(self.open_proposal())
    }

    fn open_proposal(&mut self) -> ProposalId {
        self.last_proposal += 1;
        let id = ProposalId(self.last_proposal);
        self.open_proposals.push_back((self.raft.raft.raft_log.last_index(), id));
        id
    }

    /// Hands leadership to the voter that has most of the log, of several to the one heard last,
    /// and says to whom: not back to the one it came from, if there is another. From then on
    /// proposals are refused, until it succeeded, or failed: see [`RaftLog::is_handing_over`].
    pub fn hand_over(&mut self, machine: &mut M, out: &mut Output) -> Option<NodeId> {
        let target = self.transfer();
        self.settle(machine, out);
        target
    }

    /// Whether leadership is on its way to another node. Not any more when that one has died or let
    /// an election timeout pass; this one leads on then.
    pub fn is_handing_over(&self) -> bool {
        self.raft.raft.lead_transferee.is_some()
    }

    fn transfer(&mut self) -> Option<NodeId> {
        if self.role() != Role::Leader {
            return None;
        }
        let matched = |id: &NodeId| self.raft.raft.prs().get(id.get()).map_or(0, |p| p.matched);
        let mut voters = self.membership.voters.clone();
        voters.retain(|id| *id != self.id && self.is_heard(*id));
        let stays = |id: &NodeId| Some(*id) != self.leaving;
        let last = |id: &NodeId| self.heard.get(id).copied();
        let target = voters.into_iter().max_by_key(|id| (stays(id), matched(id), last(id)))?;
        self.raft.transfer_leader(target.get());
        Some(target)
    }

    /// The link to a peer was closed by its side, so its process has probably ended. A follower of
    /// it does not wait for its silence: nothing is served on a leader's lease, so forgetting a
    /// leader that lives costs at most an election.
    pub fn link_closed(&mut self, peer: NodeId, machine: &mut M, out: &mut Output) {
        self.raft.report_unreachable(peer.get());
        self.heard.remove(&peer);
        if self.raft.raft.lead_transferee == Some(peer.get()) {
            self.raft.raft.abort_leader_transfer();
        }
        if self.leader() == Some(peer) && self.role() != Role::Leader {
            self.campaign_early();
        }
        self.settle(machine, out);
    }

    /// Says how sending a [`Body::Snapshot`] ended. Must follow each of them.
    pub fn snapshot_sent(
        &mut self,
        to: NodeId,
        outcome: SnapshotOutcome,
        machine: &mut M,
        out: &mut Output,
    ) {
        let status = match outcome {
            SnapshotOutcome::Failed => SnapshotStatus::Failure,
            SnapshotOutcome::Sent => {
                // The peer took it, which is an answer, maybe the first after a long time.
                if self.membership.contains(to) {
                    self.heard.insert(to, self.tick_count);
                }
                SnapshotStatus::Finish
            }
        };
        self.raft.report_snapshot(to.get(), status);
        self.settle(machine, out);
    }

    /// This node.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// The current term.
    pub fn term(&self) -> u64 {
        self.raft.raft.term
    }

    /// Who leads, as far as this node knows.
    pub fn leader(&self) -> Option<NodeId> {
        NodeId::from_u64(self.raft.raft.leader_id)
    }

    /// What this node does.
    pub fn role(&self) -> Role {
        match self.raft.raft.state {
            StateRole::Leader => Role::Leader,
            StateRole::Candidate | StateRole::PreCandidate => Role::Candidate,
            StateRole::Follower if self.raft.raft.promotable() => Role::Follower,
            StateRole::Follower => Role::Learner,
        }
    }

    /// The members as of the last applied entry.
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    /// The last applied index.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// Own proposals that are not applied yet.
    pub fn open_proposal_count(&self) -> usize {
        self.open_proposals.len()
    }

    /// A look at everything.
    pub fn status(&self) -> Status {
        let mut members: Vec<_> =
            [&self.membership.voters, &self.membership.outgoing, &self.membership.learners]
                .into_iter()
                .flatten()
                .map(|id| self.member_status(*id))
                .collect();
        members.sort_unstable_by_key(|member| member.id);
        members.dedup_by_key(|member| member.id);
        Status {
            id: self.id,
            role: self.role(),
            term: self.term(),
            leader: self.leader(),
            committed: self.raft.raft.raft_log.committed,
            applied: self.applied,
            last: self.raft.raft.raft_log.last_index(),
            members,
            is_joint: self.membership.is_joint(),
        }
    }

    fn member_status(&self, id: NodeId) -> MemberStatus {
        let is_leader = self.role() == Role::Leader;
        let progress = self.raft.raft.prs().get(id.get());
        MemberStatus {
            id,
            is_voter: self.membership.is_voter(id),
            matched: progress.filter(|_| is_leader).map(|progress| progress.matched),
            is_heard: is_leader.then(|| self.is_heard(id)),
        }
    }

    /// Whether a peer answered a short while ago.
    pub(crate) fn is_heard(&self, id: NodeId) -> bool {
        let recently = |at: &u64| self.tick_count - at < HEARD_TICKS_MAX;
        id == self.id || self.heard.get(&id).is_some_and(recently)
    }

    /// Reports leadership when it changed.
    pub(crate) fn report_leadership(&mut self, out: &mut Output) {
        let now = (self.term(), self.leader(), self.role());
        if now == self.reported {
            return;
        }
        if now.2 != Role::Leader || now.0 != self.reported.0 {
            self.open_proposals.clear();
        }
        self.reported = now;
        self.pin_election_timeout(true);
        out.events.push(Event::Leadership { term: now.0, leader: now.1, role: now.2 });
    }
}
