//! Carrying out what raft-rs decided, until it wants nothing more.

use crate::convert;
use crate::id::NodeId;
use crate::machine::{Applied, StateMachine};
use crate::membership::{Membership, MembershipChange};
use crate::message::SnapshotMeta;
use crate::node::{Event, Output, ProposalId, RaftLog, Role};
use raft::eraftpb::Entry;
use raft::{INVALID_ID, ProgressState, Storage};

/// A learner this close to the leader's log is ready to replace a voter, in entries.
const PROMOTION_LAG_ENTRIES_MAX: u64 = 256;

impl<M: StateMachine> RaftLog<M> {
    /// Runs after every input.
    pub(crate) fn settle(&mut self, machine: &mut M, out: &mut Output) {
        loop {
            while self.raft.has_ready() {
                self.carry_out(machine, out);
                self.report_leadership(out);
            }
            self.report_leadership(out);
            self.begin_snapshot(machine);
            let left = self.leave_joint();
            if !left && !self.raft.has_ready() {
                break;
            }
        }
        self.compact();
    }

    /// Memory is all there is, so what shall be stored is stored at once. What was committed is
    /// applied only after raft-rs has advanced: a leader that finds itself removed steps down then,
    /// with no call of raft-rs half done.
    fn carry_out(&mut self, machine: &mut M, out: &mut Output) {
        let mut ready = self.raft.ready();
        self.send(ready.take_messages(), out);
        let snapshot_index = ready.snapshot().get_metadata().index;
        if snapshot_index > 0 {
            self.install(machine, out);
        }
        self.raft.mut_store().append(ready.take_entries());
        let mut committed = ready.take_committed_entries();
        let persisted = ready.take_persisted_messages();
        let mut light = self.raft.advance_append(ready);
        self.send(persisted, out);
        self.send(light.take_messages(), out);
        committed.append(&mut light.take_committed_entries());
        for entry in &committed {
            self.apply(entry, machine, out);
        }
        self.raft.advance_apply();
        if self.role() == Role::Leader && !self.membership.contains(self.id) {
            let term = self.term();
            self.raft.raft.become_follower(term, INVALID_ID);
        }
    }

    fn send(&mut self, messages: Vec<raft::eraftpb::Message>, out: &mut Output) {
        let convert = |message| convert::from_raft(message, &self.made);
        out.messages.extend(messages.into_iter().filter_map(convert));
    }

    fn install(&mut self, machine: &mut M, out: &mut Output) {
        let (meta, image) = self.image.take().expect("raft-rs restores what was just stepped");
        machine.install(image);
        self.raft.mut_store().restart(meta.index, meta.term);
        self.applied = meta.index;
        out.events.push(Event::SnapshotInstalled { index: meta.index });
        self.set_membership(meta.membership, out);
    }

    fn set_membership(&mut self, membership: Membership, out: &mut Output) {
        self.membership = membership;
        self.heard.retain(|id, _| self.membership.contains(*id));
        self.heartbeat_answered.retain(|id, _| self.membership.contains(*id));
        if self.membership.has_removed(self.id) && !self.removed_reported {
            self.removed_reported = true;
            out.events.push(Event::Removed);
        }
    }

    fn apply(&mut self, entry: &Entry, machine: &mut M, out: &mut Output) {
        assert_eq!(entry.index, self.applied + 1, "entries are applied in order, each once");
        self.applied = entry.index;
        let proposal = self.take_proposal(entry.index);
        if let Some(change) = convert::change_of(entry) {
            self.apply_change(change, proposal, out);
        } else if !entry.data.is_empty() {
            let Entry { index, term, .. } = *entry;
            machine.apply(Applied { index, term, proposal, data: &entry.data });
        }
    }

    fn take_proposal(&mut self, index: u64) -> Option<ProposalId> {
        let (at, _) = self.open_proposals.front()?;
        if *at != index || self.role() != Role::Leader {
            return None;
        }
        self.open_proposals.pop_front().map(|(_, id)| id)
    }

    fn apply_change(
        &mut self,
        change: MembershipChange,
        proposal: Option<ProposalId>,
        out: &mut Output,
    ) {
        let refused = match self.membership.after(change) {
            Ok(after) => {
                self.raft
                    .apply_conf_change(&convert::conf_change(change))
                    .expect("raft-rs allows what Membership::after allows");
                self.set_membership(after, out);
                None
            }
            Err(fault) => Some(fault),
        };
        out.events.push(Event::Membership { proposal, change, refused });
    }

    /// Starts a snapshot for the peers that raft-rs could not serve from the log.
    fn begin_snapshot(&mut self, machine: &mut M) {
        let wanted = self.raft.mut_store().take_snapshot_wanted();
        if wanted.is_empty() || self.role() != Role::Leader {
            return;
        }
        if let Some((meta, waiting)) = &mut self.making {
            // Whoever became a member after its beginning is not in it and cannot take it; it asks
            // again with every heartbeat, so also after this one is handed out.
            let is_in =
                |id: &u64| NodeId::from_u64(*id).is_some_and(|id| meta.membership.contains(id));
            let is_new = |id: &u64| !waiting.contains(id);
            let more = wanted.into_iter().filter(|id| is_in(id) && is_new(id)).collect::<Vec<_>>();
            self.brought_in.extend(&more);
            waiting.extend(more);
            return;
        }
        let meta = SnapshotMeta {
            index: self.applied,
            term: self.raft.store().term(self.applied).expect("the log keeps its applied end"),
            membership: self.membership.clone(),
        };
        machine.begin_snapshot();
        self.brought_in.extend(&wanted);
        self.making = Some((meta, wanted));
        self.continue_snapshot(machine);
    }

    /// Goes on with a snapshot; hands it out when it is complete.
    pub(crate) fn continue_snapshot(&mut self, machine: &mut M) {
        if self.making.is_none() {
            return;
        }
        let Some(data) = machine.continue_snapshot() else { return };
        let Some((meta, waiting)) = self.making.take() else { return };
        if self.role() != Role::Leader {
            return;
        }
        self.raft.mut_store().set_snapshot(Some(convert::snapshot(&meta, data)));
        self.made = meta.membership;
        for id in waiting {
            let is_heard = NodeId::from_u64(id).is_some_and(|id| self.is_heard(id));
            if let Some(progress) = self.raft.raft.mut_prs().get_mut(id) {
                // raft-rs forgets at every election timeout who is active, and sends a snapshot to
                // nobody until it answers again; this one would be made in vain then.
                progress.recent_active |= is_heard;
                self.raft.raft.send_append(id);
            }
        }
        self.raft.mut_store().set_snapshot(None);
    }

    /// A replacement that is in force is completed by whoever leads, also by a leader that came to
    /// power in the middle of it.
    fn leave_joint(&mut self) -> bool {
        self.membership.is_joint() && self.append_change(MembershipChange::LeaveJoint).is_ok()
    }

    /// Lets a learner that has caught up take the place of its slot's voter. What counts is how
    /// far it is: raft-rs goes on probing a peer that answered before its snapshot was reported as
    /// sent, until there is another entry, and in a quiet cluster there may be none for hours.
    pub(crate) fn promote_learner(&mut self) {
        if self.role() != Role::Leader || self.membership.is_joint() {
            return;
        }
        let last = self.raft.raft.raft_log.last_index();
        let ready = self.membership.learners.iter().copied().find(|id| {
            self.is_heard(*id)
                && self.raft.raft.prs().get(id.get()).is_some_and(|progress| {
                    progress.state != ProgressState::Snapshot
                        && progress.matched + PROMOTION_LAG_ENTRIES_MAX >= last
                })
        });
        let Some(new) = ready else { return };
        if let Some(old) = self.membership.voter_in(new.slot()) {
            // Refused while another change is pending; asked again with the next tick.
            let _ = self.append_change(MembershipChange::Replace { old, new });
        }
    }
}
