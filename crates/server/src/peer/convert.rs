//! Peer messages as frames and back. Decoding is total: any bytes give a message or a fault.

use super::limits::{
    ENTRIES_PER_MESSAGE_MAX, FRAME_HEAD_SIZE_BYTES, FRAME_SIZE_BYTES_MAX,
    SMALL_FRAME_SIZE_BYTES_MAX,
};
use super::message::{PeerMessage, PeerStatus};
use super::scan;
use super::wire::{self, kind};
use std::fmt;
use ticketing_raft_log::limits::SLOT_COUNT_MAX;
use ticketing_raft_log::{
    Body, Entry, Membership, MembershipChange, Message, NodeId, Payload, SnapshotMeta, VoteKind,
};

/// Bytes that are no frame of this protocol, or a message that cannot be. The connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerFault {
    /// A payload that does not decode, or with values out of range.
    Payload,
    /// A frame or a snapshot above its limit.
    Size,
    /// A type that this version does not know, or that does not belong there.
    Type,
}

impl fmt::Display for PeerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Payload => "a payload that cannot be",
            Self::Size => "a frame or snapshot above its limit",
            Self::Type => "a frame of a type that does not belong there",
        })
    }
}

/// A frame's header: type and payload size, checked.
pub(crate) fn decode_head(head: [u8; FRAME_HEAD_SIZE_BYTES]) -> Result<(u8, usize), PeerFault> {
    let [a, b, c, d, frame_kind] = head;
    let size = u32::from_be_bytes([a, b, c, d]) as usize;
    if size > size_max(frame_kind)? {
        return Err(PeerFault::Size);
    }
    Ok((frame_kind, size))
}

/// Largest payload of a type.
fn size_max(frame_kind: u8) -> Result<usize, PeerFault> {
    match frame_kind {
        kind::RAFT | kind::SNAPSHOT_CHUNK => Ok(FRAME_SIZE_BYTES_MAX),
        kind::ADMITTED..=kind::SNAPSHOT_HEAD => Ok(SMALL_FRAME_SIZE_BYTES_MAX),
        _ => Err(PeerFault::Type),
    }
}

/// Appends one frame.
pub(crate) fn encode_frame(frame_kind: u8, payload: &impl prost::Message, out: &mut Vec<u8>) {
    let size = payload.encoded_len();
    let is_taken = size_max(frame_kind).is_ok_and(|size_max| size <= size_max);
    assert!(is_taken, "what a node sends fits a frame");
    out.reserve(FRAME_HEAD_SIZE_BYTES + size);
    out.extend_from_slice(&(size as u32).to_be_bytes());
    out.push(frame_kind);
    payload.encode_raw(out);
}

/// Appends a message's frame. A raft snapshot has none: it travels by [`snapshot_head`].
pub(crate) fn encode(message: PeerMessage, out: &mut Vec<u8>) {
    match message {
        PeerMessage::Admitted { group, node } => {
            encode_frame(kind::ADMITTED, &wire::Admitted { group, node: node.get() }, out);
        }
        PeerMessage::Commit { round, incarnations } => {
            encode_frame(kind::COMMIT, &wire::Beginning { round, incarnations }, out);
        }
        PeerMessage::Join => encode_frame(kind::JOIN, &wire::Nothing {}, out),
        PeerMessage::Prepare { round, incarnations } => {
            encode_frame(kind::PREPARE, &wire::Beginning { round, incarnations }, out);
        }
        PeerMessage::Promise { round } => {
            encode_frame(kind::PROMISE, &wire::Promise { round }, out);
        }
        PeerMessage::Raft { group, message } => {
            if let Some(raft) = raft_to_wire(group, message) {
                encode_frame(kind::RAFT, &raft, out);
            }
        }
        PeerMessage::Removed { node } => {
            encode_frame(kind::REMOVED, &wire::Removed { node: node.get() }, out);
        }
        PeerMessage::Status(status) => encode_frame(kind::STATUS, &status_to_wire(status), out),
    }
}

/// Reads a frame's payload.
pub(crate) fn decode(frame_kind: u8, payload: bytes::Bytes) -> Result<PeerMessage, PeerFault> {
    Ok(match frame_kind {
        kind::ADMITTED => {
            let wire::Admitted { group, node } = read(payload)?;
            PeerMessage::Admitted { group, node: node_id(node)? }
        }
        kind::COMMIT => {
            let wire::Beginning { round, incarnations } = beginning(payload)?;
            PeerMessage::Commit { round, incarnations }
        }
        kind::JOIN => {
            let wire::Nothing {} = read(payload)?;
            PeerMessage::Join
        }
        kind::PREPARE => {
            let wire::Beginning { round, incarnations } = beginning(payload)?;
            PeerMessage::Prepare { round, incarnations }
        }
        kind::PROMISE => PeerMessage::Promise { round: read::<wire::Promise>(payload)?.round },
        kind::RAFT => {
            if scan::entry_count(&payload)? > ENTRIES_PER_MESSAGE_MAX {
                return Err(PeerFault::Payload);
            }
            let raft: wire::Raft = read(payload)?;
            PeerMessage::Raft { group: raft.group, message: raft_from_wire(raft)? }
        }
        kind::REMOVED => {
            PeerMessage::Removed { node: node_id(read::<wire::Removed>(payload)?.node)? }
        }
        kind::STATUS => PeerMessage::Status(status_from_wire(&read(payload)?)?),
        _ => return Err(PeerFault::Type),
    })
}

/// Reads one payload.
pub(crate) fn read<M: prost::Message + Default>(payload: bytes::Bytes) -> Result<M, PeerFault> {
    M::decode(payload).map_err(|_| PeerFault::Payload)
}

fn node_id(number: u64) -> Result<NodeId, PeerFault> {
    NodeId::from_u64(number).ok_or(PeerFault::Payload)
}

fn status_to_wire(status: PeerStatus) -> wire::Status {
    match status {
        PeerStatus::Fresh { may_bootstrap } => {
            wire::Status { may_bootstrap, ..wire::Status::default() }
        }
        PeerStatus::Member { group, node, leader_slot } => wire::Status {
            may_bootstrap: false,
            group,
            node: node.get(),
            leader_slot: leader_slot.map(u32::from),
        },
    }
}

fn status_from_wire(status: &wire::Status) -> Result<PeerStatus, PeerFault> {
    if status.node == 0 {
        return Ok(PeerStatus::Fresh { may_bootstrap: status.may_bootstrap });
    }
    let slot = |slot: u32| {
        let slot = u8::try_from(slot).ok().filter(|slot| usize::from(*slot) < SLOT_COUNT_MAX);
        slot.ok_or(PeerFault::Payload)
    };
    Ok(PeerStatus::Member {
        group: status.group,
        node: node_id(status.node)?,
        leader_slot: status.leader_slot.map(slot).transpose()?,
    })
}

fn beginning(payload: bytes::Bytes) -> Result<wire::Beginning, PeerFault> {
    let beginning: wire::Beginning = read(payload)?;
    if beginning.incarnations.len() > SLOT_COUNT_MAX {
        return Err(PeerFault::Payload);
    }
    Ok(beginning)
}

fn raft_to_wire(group: u64, message: Message) -> Option<wire::Raft> {
    let body = match message.body {
        Body::Append { previous_index, previous_term, commit, entries } => {
            let entries = entries.into_iter().map(entry_to_wire).collect();
            wire::Body::Append(wire::Append { previous_index, previous_term, commit, entries })
        }
        Body::Appended { index, commit } => wire::Body::Appended(wire::Appended { index, commit }),
        Body::AppendRefused { index, hint_index, hint_term, commit } => {
            let refused = wire::AppendRefused { index, hint_index, hint_term, commit };
            wire::Body::AppendRefused(refused)
        }
        Body::Heartbeat { commit } => wire::Body::Heartbeat(wire::CommitOnly { commit }),
        Body::HeartbeatReply { commit } => wire::Body::HeartbeatReply(wire::CommitOnly { commit }),
        Body::Snapshot { .. } => return None,
        Body::TimeoutNow => wire::Body::TimeoutNow(wire::Nothing {}),
        Body::Vote { kind, last_index, last_term, commit, commit_term } => {
            let kind = vote_kind_to_wire(kind);
            wire::Body::Vote(wire::Vote { kind, last_index, last_term, commit, commit_term })
        }
        Body::VoteReply { kind, granted, commit, commit_term } => {
            let kind = vote_kind_to_wire(kind);
            wire::Body::VoteReply(wire::VoteReply { kind, granted, commit, commit_term })
        }
    };
    let (from, to) = (message.from.get(), message.to.get());
    Some(wire::Raft { group, from, to, term: message.term, body: Some(body) })
}

fn raft_from_wire(raft: wire::Raft) -> Result<Message, PeerFault> {
    let body = match raft.body.ok_or(PeerFault::Payload)? {
        wire::Body::Append(append) => {
            let entries = append.entries.into_iter().map(entry_from_wire);
            Body::Append {
                previous_index: append.previous_index,
                previous_term: append.previous_term,
                commit: append.commit,
                entries: entries.collect::<Result<_, _>>()?,
            }
        }
        wire::Body::Appended(wire::Appended { index, commit }) => Body::Appended { index, commit },
        wire::Body::AppendRefused(refused) => {
            let wire::AppendRefused { index, hint_index, hint_term, commit } = refused;
            Body::AppendRefused { index, hint_index, hint_term, commit }
        }
        wire::Body::Heartbeat(wire::CommitOnly { commit }) => Body::Heartbeat { commit },
        wire::Body::HeartbeatReply(wire::CommitOnly { commit }) => Body::HeartbeatReply { commit },
        wire::Body::TimeoutNow(wire::Nothing {}) => Body::TimeoutNow,
        wire::Body::Vote(vote) => {
            let wire::Vote { kind, last_index, last_term, commit, commit_term } = vote;
            let kind = vote_kind_from_wire(kind)?;
            Body::Vote { kind, last_index, last_term, commit, commit_term }
        }
        wire::Body::VoteReply(reply) => {
            let wire::VoteReply { kind, granted, commit, commit_term } = reply;
            Body::VoteReply { kind: vote_kind_from_wire(kind)?, granted, commit, commit_term }
        }
    };
    Ok(Message { from: node_id(raft.from)?, to: node_id(raft.to)?, term: raft.term, body })
}

const fn vote_kind_to_wire(kind: VoteKind) -> u32 {
    match kind {
        VoteKind::Pre => 1,
        VoteKind::Real => 2,
        VoteKind::Transfer => 3,
    }
}

const fn vote_kind_from_wire(kind: u32) -> Result<VoteKind, PeerFault> {
    match kind {
        1 => Ok(VoteKind::Pre),
        2 => Ok(VoteKind::Real),
        3 => Ok(VoteKind::Transfer),
        _ => Err(PeerFault::Payload),
    }
}

fn entry_to_wire(entry: Entry) -> wire::Entry {
    let Entry { index, term, payload } = entry;
    match payload {
        Payload::Data(data) => wire::Entry { index, term, data, change: None },
        Payload::Membership(change) => {
            let change = Some(change_to_wire(change));
            wire::Entry { index, term, data: bytes::Bytes::new(), change }
        }
    }
}

fn entry_from_wire(entry: wire::Entry) -> Result<Entry, PeerFault> {
    let payload = match entry.change {
        None => Payload::Data(entry.data),
        Some(change) if entry.data.is_empty() => Payload::Membership(change_from_wire(&change)?),
        Some(_) => return Err(PeerFault::Payload),
    };
    Ok(Entry { index: entry.index, term: entry.term, payload })
}

fn change_to_wire(change: MembershipChange) -> wire::Change {
    let (kind, old, new) = match change {
        MembershipChange::AddLearner(new) => (1, 0, new.get()),
        MembershipChange::LeaveJoint => (2, 0, 0),
        MembershipChange::RemoveLearner(old) => (3, old.get(), 0),
        MembershipChange::Replace { old, new } => (4, old.get(), new.get()),
    };
    wire::Change { kind, old, new }
}

fn change_from_wire(change: &wire::Change) -> Result<MembershipChange, PeerFault> {
    let wire::Change { kind, old, new } = *change;
    Ok(match (kind, old, new) {
        (1, 0, new) => MembershipChange::AddLearner(node_id(new)?),
        (2, 0, 0) => MembershipChange::LeaveJoint,
        (3, old, 0) => MembershipChange::RemoveLearner(node_id(old)?),
        (4, old, new) => MembershipChange::Replace { old: node_id(old)?, new: node_id(new)? },
        _ => return Err(PeerFault::Payload),
    })
}

/// The first frame of a snapshot connection.
pub(crate) fn snapshot_head(
    group: u64,
    message: &Message,
    meta: &SnapshotMeta,
    size: u64,
) -> wire::SnapshotHead {
    let numbers = |list: &[NodeId]| list.iter().map(|id| id.get()).collect();
    wire::SnapshotHead {
        group,
        from: message.from.get(),
        to: message.to.get(),
        term: message.term,
        index: meta.index,
        index_term: meta.term,
        voters: numbers(&meta.membership.voters),
        outgoing: numbers(&meta.membership.outgoing),
        learners: numbers(&meta.membership.learners),
        generations: meta.membership.generations.to_vec(),
        size,
    }
}

/// The raft message that a snapshot connection begins, still without the state.
pub(crate) fn snapshot_message(head: &wire::SnapshotHead) -> Result<Message, PeerFault> {
    let ids = |list: &[u64]| {
        if list.len() > SLOT_COUNT_MAX {
            return Err(PeerFault::Payload);
        }
        list.iter().map(|number| node_id(*number)).collect::<Result<Vec<_>, _>>()
    };
    let membership = Membership {
        voters: ids(&head.voters)?,
        outgoing: ids(&head.outgoing)?,
        learners: ids(&head.learners)?,
        generations: head.generations.clone().try_into().map_err(|_| PeerFault::Payload)?,
    };
    let meta = SnapshotMeta { index: head.index, term: head.index_term, membership };
    Ok(Message {
        from: node_id(head.from)?,
        to: node_id(head.to)?,
        term: head.term,
        body: Body::Snapshot { meta, data: bytes::Bytes::new() },
    })
}
