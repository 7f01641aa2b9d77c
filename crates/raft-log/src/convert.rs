//! Between this crate's messages and raft-rs's, field by field.

use crate::error::StepFault;
use crate::id::NodeId;
use crate::membership::{Membership, MembershipChange};
use crate::message::{Body, Entry, Message, Payload, SnapshotMeta, VoteKind};
use bytes::Bytes;
use raft::eraftpb as pb;
use raft::eraftpb::{ConfChangeTransition, ConfChangeType, EntryType, MessageType};

/// What raft-rs puts into a vote request when leadership is handed over.
const TRANSFER: &[u8] = b"CampaignTransfer";

/// A membership change in an entry's context: kind u8, then one or two node ids.
const CHANGE_SIZE_BYTES_MAX: usize = 17;

/// To raft-rs. `membership` is that of a snapshot in the message.
pub(crate) fn to_raft(message: Message) -> pb::Message {
    let mut out = pb::Message {
        from: message.from.get(),
        to: message.to.get(),
        term: message.term,
        ..pb::Message::default()
    };
    match message.body {
        Body::Append { previous_index, previous_term, commit, entries } => {
            out.set_msg_type(MessageType::MsgAppend);
            out.index = previous_index;
            out.log_term = previous_term;
            out.commit = commit;
            let entries: Vec<_> = entries.into_iter().map(entry_to_raft).collect();
            out.set_entries(entries.into());
        }
        Body::Appended { index, commit } => {
            out.set_msg_type(MessageType::MsgAppendResponse);
            out.index = index;
            out.commit = commit;
        }
        Body::AppendRefused { index, hint_index, hint_term, commit } => {
            out.set_msg_type(MessageType::MsgAppendResponse);
            out.reject = true;
            out.index = index;
            out.reject_hint = hint_index;
            out.log_term = hint_term;
            out.commit = commit;
        }
        Body::Heartbeat { commit } => {
            out.set_msg_type(MessageType::MsgHeartbeat);
            out.commit = commit;
        }
        Body::HeartbeatReply { commit } => {
            out.set_msg_type(MessageType::MsgHeartbeatResponse);
            out.commit = commit;
        }
        Body::Snapshot { meta, data } => {
            out.set_msg_type(MessageType::MsgSnapshot);
            out.set_snapshot(snapshot(&meta, data));
        }
        Body::TimeoutNow => out.set_msg_type(MessageType::MsgTimeoutNow),
        Body::Vote { kind, last_index, last_term, commit, commit_term } => {
            out.set_msg_type(match kind {
                VoteKind::Pre => MessageType::MsgRequestPreVote,
                VoteKind::Real | VoteKind::Transfer => MessageType::MsgRequestVote,
            });
            if kind == VoteKind::Transfer {
                out.context = Bytes::from_static(TRANSFER);
            }
            out.index = last_index;
            out.log_term = last_term;
            out.commit = commit;
            out.commit_term = commit_term;
        }
        Body::VoteReply { kind, granted, commit, commit_term } => {
            out.set_msg_type(match kind {
                VoteKind::Pre => MessageType::MsgRequestPreVoteResponse,
                VoteKind::Real | VoteKind::Transfer => MessageType::MsgRequestVoteResponse,
            });
            out.reject = !granted;
            out.commit = commit;
            out.commit_term = commit_term;
        }
    }
    out
}

/// From raft-rs. `None` for kinds that never leave a node here; `membership` goes with a snapshot.
pub(crate) fn from_raft(mut message: pb::Message, membership: &Membership) -> Option<Message> {
    let body = match message.get_msg_type() {
        MessageType::MsgAppend => Body::Append {
            previous_index: message.index,
            previous_term: message.log_term,
            commit: message.commit,
            entries: message
                .take_entries()
                .into_iter()
                .map(entry_from_raft)
                .collect::<Option<_>>()?,
        },
        MessageType::MsgAppendResponse if message.reject => Body::AppendRefused {
            index: message.index,
            hint_index: message.reject_hint,
            hint_term: message.log_term,
            commit: message.commit,
        },
        MessageType::MsgAppendResponse => {
            Body::Appended { index: message.index, commit: message.commit }
        }
        MessageType::MsgHeartbeat => Body::Heartbeat { commit: message.commit },
        MessageType::MsgHeartbeatResponse => Body::HeartbeatReply { commit: message.commit },
        MessageType::MsgSnapshot => {
            let mut snapshot = message.take_snapshot();
            let meta = SnapshotMeta {
                index: snapshot.get_metadata().index,
                term: snapshot.get_metadata().term,
                membership: membership.clone(),
            };
            Body::Snapshot { meta, data: std::mem::take(&mut snapshot.data) }
        }
        MessageType::MsgTimeoutNow => Body::TimeoutNow,
        kind @ (MessageType::MsgRequestVote | MessageType::MsgRequestPreVote) => Body::Vote {
            kind: match kind {
                MessageType::MsgRequestPreVote => VoteKind::Pre,
                _ if message.context == TRANSFER => VoteKind::Transfer,
                _ => VoteKind::Real,
            },
            last_index: message.index,
            last_term: message.log_term,
            commit: message.commit,
            commit_term: message.commit_term,
        },
        kind @ (MessageType::MsgRequestVoteResponse | MessageType::MsgRequestPreVoteResponse) => {
            Body::VoteReply {
                kind: if kind == MessageType::MsgRequestPreVoteResponse {
                    VoteKind::Pre
                } else {
                    VoteKind::Real
                },
                granted: !message.reject,
                commit: message.commit,
                commit_term: message.commit_term,
            }
        }
        _ => return None,
    };
    let (from, to) = (NodeId::from_u64(message.from)?, NodeId::from_u64(message.to)?);
    Some(Message { from, to, term: message.term, body })
}

/// A snapshot as raft-rs holds it.
pub(crate) fn snapshot(meta: &SnapshotMeta, data: Bytes) -> pb::Snapshot {
    let mut snapshot = pb::Snapshot { data, ..pb::Snapshot::default() };
    let metadata = snapshot.mut_metadata();
    metadata.index = meta.index;
    metadata.term = meta.term;
    metadata.set_conf_state(conf_state(&meta.membership));
    snapshot
}

/// The members as raft-rs holds them.
pub(crate) fn conf_state(membership: &Membership) -> pb::ConfState {
    let numbers = |list: &[NodeId]| list.iter().map(|id| id.get()).collect::<Vec<_>>();
    pb::ConfState {
        voters: numbers(&membership.voters),
        voters_outgoing: numbers(&membership.outgoing),
        learners: numbers(&membership.learners),
        ..pb::ConfState::default()
    }
}

/// A change as raft-rs applies it. Replacements are left explicitly, by whoever leads then.
pub(crate) fn conf_change(change: MembershipChange) -> pb::ConfChangeV2 {
    let single = |id: NodeId, kind| pb::ConfChangeSingle {
        node_id: id.get(),
        change_type: kind,
        ..pb::ConfChangeSingle::default()
    };
    let mut out = pb::ConfChangeV2::default();
    let changes = match change {
        MembershipChange::AddLearner(id) => vec![single(id, ConfChangeType::AddLearnerNode)],
        MembershipChange::LeaveJoint => Vec::new(),
        MembershipChange::RemoveLearner(id) => vec![single(id, ConfChangeType::RemoveNode)],
        MembershipChange::Replace { old, new } => {
            out.set_transition(ConfChangeTransition::Explicit);
            vec![single(old, ConfChangeType::RemoveNode), single(new, ConfChangeType::AddNode)]
        }
    };
    out.set_changes(changes.into());
    out
}

/// The change as an entry carries it.
pub(crate) fn encode_change(change: MembershipChange) -> Vec<u8> {
    let (kind, ids): (u8, &[NodeId]) = match &change {
        MembershipChange::AddLearner(id) => (1, std::slice::from_ref(id)),
        MembershipChange::LeaveJoint => (2, &[]),
        MembershipChange::RemoveLearner(id) => (3, std::slice::from_ref(id)),
        MembershipChange::Replace { old, new } => (4, &[*old, *new]),
    };
    let mut out = Vec::with_capacity(CHANGE_SIZE_BYTES_MAX);
    out.push(kind);
    for id in ids {
        out.extend_from_slice(&id.get().to_be_bytes());
    }
    out
}

/// Reads what [`encode_change`] wrote.
pub(crate) fn decode_change(bytes: &[u8]) -> Option<MembershipChange> {
    let (kind, ids) = bytes.split_first()?;
    let (ids, rest) = ids.as_chunks::<8>();
    let id = |at: usize| NodeId::from_u64(u64::from_be_bytes(*ids.get(at)?));
    let change = match (kind, ids.len()) {
        (1, 1) => MembershipChange::AddLearner(id(0)?),
        (2, 0) => MembershipChange::LeaveJoint,
        (3, 1) => MembershipChange::RemoveLearner(id(0)?),
        (4, 2) => MembershipChange::Replace { old: id(0)?, new: id(1)? },
        _ => return None,
    };
    rest.is_empty().then_some(change)
}

/// The change a committed entry carries, if it is one.
pub(crate) fn change_of(entry: &pb::Entry) -> Option<MembershipChange> {
    match entry.get_entry_type() {
        EntryType::EntryConfChangeV2 => decode_change(&entry.context),
        _ => None,
    }
}

fn entry_to_raft(entry: Entry) -> pb::Entry {
    let mut out = pb::Entry { index: entry.index, term: entry.term, ..pb::Entry::default() };
    match entry.payload {
        Payload::Data(data) => out.data = data,
        Payload::Membership(change) => {
            out.set_entry_type(EntryType::EntryConfChangeV2);
            out.context = encode_change(change).into();
        }
    }
    out
}

fn entry_from_raft(entry: pb::Entry) -> Option<Entry> {
    let payload = match entry.get_entry_type() {
        EntryType::EntryNormal => Payload::Data(entry.data),
        _ => Payload::Membership(decode_change(&entry.context)?),
    };
    Some(Entry { index: entry.index, term: entry.term, payload })
}

/// Whether raft-rs will take the membership of a snapshot.
pub(crate) fn check_membership(membership: &Membership) -> Result<(), StepFault> {
    membership.check().map_err(|_| StepFault::Snapshot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_round_trip_and_other_bytes_are_none() {
        let (old, new) = (NodeId::new(1, 2).expect("valid"), NodeId::new(2, 2).expect("valid"));
        for change in [
            MembershipChange::AddLearner(new),
            MembershipChange::LeaveJoint,
            MembershipChange::RemoveLearner(new),
            MembershipChange::Replace { old, new },
        ] {
            let bytes = encode_change(change);
            assert!(bytes.len() <= CHANGE_SIZE_BYTES_MAX);
            assert_eq!(decode_change(&bytes), Some(change));
            assert_eq!(decode_change(&bytes[..bytes.len() - 1]), None);
        }
        assert_eq!(decode_change(&[1; 9]), None);
    }
}
