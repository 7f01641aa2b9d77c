//! Payloads of the peer protocol. Cluster protocol, "Messages". Numbers of fields are for ever.

use bytes::Bytes;

/// Type bytes of frames.
pub(crate) mod kind {
    pub(crate) const ADMITTED: u8 = 1;
    pub(crate) const COMMIT: u8 = 2;
    pub(crate) const JOIN: u8 = 3;
    pub(crate) const PREPARE: u8 = 4;
    pub(crate) const PROMISE: u8 = 5;
    pub(crate) const RAFT: u8 = 6;
    pub(crate) const REMOVED: u8 = 7;
    pub(crate) const STATUS: u8 = 8;
    pub(crate) const SNAPSHOT_HEAD: u8 = 9;
    pub(crate) const SNAPSHOT_CHUNK: u8 = 10;
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Admitted {
    #[prost(fixed64, tag = "1")]
    pub(crate) group: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) node: u64,
}

/// `Commit` and `Prepare`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Beginning {
    #[prost(fixed64, tag = "1")]
    pub(crate) round: u64,
    #[prost(fixed64, repeated, tag = "2")]
    pub(crate) incarnations: Vec<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Promise {
    #[prost(fixed64, tag = "1")]
    pub(crate) round: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Removed {
    #[prost(uint64, tag = "1")]
    pub(crate) node: u64,
}

/// Fresh when there is no node.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Status {
    #[prost(bool, tag = "1")]
    pub(crate) may_bootstrap: bool,
    #[prost(fixed64, tag = "2")]
    pub(crate) group: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) node: u64,
    #[prost(uint32, optional, tag = "4")]
    pub(crate) leader_slot: Option<u32>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Raft {
    #[prost(fixed64, tag = "1")]
    pub(crate) group: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) from: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) to: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) term: u64,
    #[prost(oneof = "Body", tags = "5, 6, 7, 8, 9, 10, 11, 12")]
    pub(crate) body: Option<Body>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Body {
    #[prost(message, tag = "5")]
    Append(Append),
    #[prost(message, tag = "6")]
    Appended(Appended),
    #[prost(message, tag = "7")]
    AppendRefused(AppendRefused),
    #[prost(message, tag = "8")]
    Heartbeat(CommitOnly),
    #[prost(message, tag = "9")]
    HeartbeatReply(CommitOnly),
    #[prost(message, tag = "10")]
    TimeoutNow(Nothing),
    #[prost(message, tag = "11")]
    Vote(Vote),
    #[prost(message, tag = "12")]
    VoteReply(VoteReply),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Append {
    #[prost(uint64, tag = "1")]
    pub(crate) previous_index: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) previous_term: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) commit: u64,
    #[prost(message, repeated, tag = "4")]
    pub(crate) entries: Vec<Entry>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Entry {
    #[prost(uint64, tag = "1")]
    pub(crate) index: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) term: u64,
    /// Absent when there is a change.
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) data: Bytes,
    #[prost(message, optional, tag = "4")]
    pub(crate) change: Option<Change>,
}

/// Kind 1 add learner `new`, 2 leave joint, 3 remove learner `old`, 4 replace `old` by `new`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Change {
    #[prost(uint32, tag = "1")]
    pub(crate) kind: u32,
    #[prost(uint64, tag = "2")]
    pub(crate) old: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) new: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Appended {
    #[prost(uint64, tag = "1")]
    pub(crate) index: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) commit: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct AppendRefused {
    #[prost(uint64, tag = "1")]
    pub(crate) index: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) hint_index: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) hint_term: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) commit: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CommitOnly {
    #[prost(uint64, tag = "1")]
    pub(crate) commit: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Nothing {}

/// Kind 1 pre-vote, 2 vote, 3 vote for a hand-over.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Vote {
    #[prost(uint32, tag = "1")]
    pub(crate) kind: u32,
    #[prost(uint64, tag = "2")]
    pub(crate) last_index: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) last_term: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) commit: u64,
    #[prost(uint64, tag = "5")]
    pub(crate) commit_term: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct VoteReply {
    #[prost(uint32, tag = "1")]
    pub(crate) kind: u32,
    #[prost(bool, tag = "2")]
    pub(crate) granted: bool,
    #[prost(uint64, tag = "3")]
    pub(crate) commit: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) commit_term: u64,
}

/// First frame of a snapshot connection.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SnapshotHead {
    #[prost(fixed64, tag = "1")]
    pub(crate) group: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) from: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) to: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) term: u64,
    #[prost(uint64, tag = "5")]
    pub(crate) index: u64,
    #[prost(uint64, tag = "6")]
    pub(crate) index_term: u64,
    #[prost(uint64, repeated, tag = "7")]
    pub(crate) voters: Vec<u64>,
    #[prost(uint64, repeated, tag = "8")]
    pub(crate) outgoing: Vec<u64>,
    #[prost(uint64, repeated, tag = "9")]
    pub(crate) learners: Vec<u64>,
    #[prost(uint32, repeated, tag = "10")]
    pub(crate) generations: Vec<u32>,
    #[prost(uint64, tag = "11")]
    pub(crate) size: u64,
}
