//! Whether a peer's message may reach raft-rs, which stops the process on what it distrusts.

use crate::convert::check_membership;
use crate::error::StepFault;
use crate::id::NodeId;
use crate::limits::TERM_OR_INDEX_LIMIT;
use crate::membership::Membership;
use crate::message::{Body, Entry, Message, SnapshotMeta};

/// What this node knows, for judging a message.
pub(crate) struct View<'a> {
    pub(crate) id: NodeId,
    pub(crate) term: u64,
    pub(crate) last_index: u64,
    pub(crate) is_leader: bool,
    pub(crate) membership: &'a Membership,
}

/// Checks everything but a snapshot's own bytes.
pub(crate) fn check(message: &Message, view: &View<'_>) -> Result<(), StepFault> {
    if message.to != view.id || message.from == view.id {
        return Err(StepFault::Addressee);
    }
    // Term 0 means "local" to raft-rs.
    check_range(message.term)?;
    if message.term == 0 {
        return Err(StepFault::Position);
    }
    if view.membership.has_removed(message.from) {
        return Err(StepFault::SenderRemoved);
    }
    match &message.body {
        Body::Append { previous_index, previous_term, commit, entries } => {
            check_range(*commit)?;
            check_place(*previous_index, *previous_term, message.term)?;
            check_entries(entries, *previous_index, *previous_term, message.term)
        }
        Body::Appended { index, commit } => {
            check_member(message.from, view)?;
            check_range(*commit)?;
            check_range(*index)?;
            // In this term nobody can have what this leader has not.
            if view.is_leader && message.term == view.term && *index > view.last_index {
                return Err(StepFault::Position);
            }
            Ok(())
        }
        Body::AppendRefused { index, hint_index, hint_term, commit } => {
            check_member(message.from, view)?;
            [*index, *hint_index, *hint_term, *commit].into_iter().try_for_each(check_range)
        }
        Body::Heartbeat { commit } => {
            // A leader sends what it knows this follower to have; raft-rs commits it blindly. One
            // of an earlier term is answered and not obeyed.
            if message.term >= view.term && *commit > view.last_index {
                return Err(StepFault::Commit);
            }
            Ok(())
        }
        Body::HeartbeatReply { commit } => {
            check_member(message.from, view)?;
            check_range(*commit)
        }
        Body::Snapshot { meta, .. } => check_snapshot(meta, message, view),
        Body::TimeoutNow => Ok(()),
        Body::Vote { last_index, last_term, commit, commit_term, .. } => {
            [*last_index, *last_term, *commit, *commit_term]
                .into_iter()
                .try_for_each(check_range)?;
            check_place(*last_index, *last_term, message.term)
        }
        Body::VoteReply { commit, commit_term, .. } => {
            check_member(message.from, view)?;
            [*commit, *commit_term].into_iter().try_for_each(check_range)
        }
    }
}

fn check_range(number: u64) -> Result<(), StepFault> {
    if number < TERM_OR_INDEX_LIMIT { Ok(()) } else { Err(StepFault::Position) }
}

/// Only index 0 has term 0, and no entry is younger than the message.
fn check_place(index: u64, term: u64, message_term: u64) -> Result<(), StepFault> {
    check_range(index)?;
    if (index == 0) == (term == 0) && term <= message_term {
        Ok(())
    } else {
        Err(StepFault::Position)
    }
}

fn check_entries(
    entries: &[Entry],
    previous_index: u64,
    previous_term: u64,
    message_term: u64,
) -> Result<(), StepFault> {
    let (mut index, mut term) = (previous_index, previous_term.max(1));
    for entry in entries {
        index += 1;
        if entry.index != index || entry.term < term || entry.term > message_term {
            return Err(StepFault::Entries);
        }
        term = entry.term;
    }
    check_range(index)
}

fn check_member(from: NodeId, view: &View<'_>) -> Result<(), StepFault> {
    if view.membership.contains(from) { Ok(()) } else { Err(StepFault::SenderUnknown) }
}

fn check_snapshot(
    meta: &SnapshotMeta,
    message: &Message,
    view: &View<'_>,
) -> Result<(), StepFault> {
    check_place(meta.index, meta.term, message.term)?;
    check_membership(&meta.membership)?;
    if meta.index == 0 || !meta.membership.contains(view.id) {
        return Err(StepFault::Snapshot);
    }
    Ok(())
}
