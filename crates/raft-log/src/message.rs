//! Messages between members, as plain values. Their bytes are the owner's business.

use crate::id::NodeId;
use crate::membership::{Membership, MembershipChange};
use bytes::Bytes;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who sent it.
    pub from: NodeId,
    /// Who shall get it.
    pub to: NodeId,
    /// The sender's term, or the one it would campaign for.
    pub term: u64,
    /// What it says.
    pub body: Body,
}

/// What a message says. Index and term always name a place in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Leader to follower: these entries follow that place.
    Append {
        /// The place before the first entry.
        previous_index: u64,
        /// The term there.
        previous_term: u64,
        /// What the leader knows to be committed.
        commit: u64,
        /// Without gaps.
        entries: Vec<Entry>,
    },
    /// Follower to leader: everything up to `index` is here.
    Appended {
        /// The last place that agrees with the leader's log.
        index: u64,
        /// What the follower knows to be committed.
        commit: u64,
    },
    /// Follower to leader: the place before the entries is missing or differs.
    AppendRefused {
        /// The place that was refused.
        index: u64,
        /// Where to try next.
        hint_index: u64,
        /// The follower's term there.
        hint_term: u64,
        /// What the follower knows to be committed.
        commit: u64,
    },
    /// Leader to follower: I am here.
    Heartbeat {
        /// Committed, as far as that follower is known to have it.
        commit: u64,
    },
    /// Follower to leader.
    HeartbeatReply {
        /// What the follower knows to be committed.
        commit: u64,
    },
    /// Leader to follower: the whole state up to a place.
    Snapshot {
        /// The place, and who the members were.
        meta: SnapshotMeta,
        /// The state machine's bytes.
        data: Bytes,
    },
    /// Leader to follower: campaign at once, leadership is yours.
    TimeoutNow,
    /// Candidate to voter.
    Vote {
        /// A vote, or only the question whether there would be one.
        kind: VoteKind,
        /// The candidate's last place.
        last_index: u64,
        /// The term there.
        last_term: u64,
        /// What the candidate knows to be committed.
        commit: u64,
        /// The term there.
        commit_term: u64,
    },
    /// Voter to candidate.
    VoteReply {
        /// Which question this answers.
        kind: VoteKind,
        /// The answer.
        granted: bool,
        /// On refusal, what the voter knows to be committed.
        commit: u64,
        /// The term there.
        commit_term: u64,
    },
}

/// The three ways to ask for a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VoteKind {
    /// Whether there would be a vote; changes nothing.
    Pre,
    /// A vote.
    Real,
    /// A vote, asked for because the leader hands over: a voter need not wait for its silence.
    /// Answers are [`VoteKind::Real`].
    Transfer,
}

/// One place in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// From 1, without gaps.
    pub index: u64,
    /// The term of the leader that made it.
    pub term: u64,
    /// What it holds.
    pub payload: Payload,
}

/// What an entry holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// The state machine's business; empty for a new leader's first entry.
    Data(Bytes),
    /// A change of the members.
    Membership(MembershipChange),
}

/// What a snapshot stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotMeta {
    /// The last entry it contains.
    pub index: u64,
    /// That entry's term.
    pub term: u64,
    /// The members as of that entry.
    pub membership: Membership,
}
