//! Who the members are, and how that changes.

use crate::error::MembershipFault;
use crate::id::NodeId;
use crate::limits::SLOT_COUNT_MAX;

/// The members as of one place in the log. Lists are ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// Those whose majority decides.
    pub voters: Vec<NodeId>,
    /// While a replacement is under way, the voters before it: their majority is needed too.
    pub outgoing: Vec<NodeId>,
    /// Those who receive the log and do not decide.
    pub learners: Vec<NodeId>,
    /// By slot, the youngest generation ever given out; 0 for none.
    pub generations: [u32; SLOT_COUNT_MAX],
}

/// One change of the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MembershipChange {
    /// A new process receives the log.
    AddLearner(NodeId),
    /// Ends a replacement: only the new voters decide from now on.
    LeaveJoint,
    /// That process will not become a voter.
    RemoveLearner(NodeId),
    /// The learner becomes a voter and the voter of its slot leaves, in one step. Majorities of the
    /// old and of the new voters are needed until [`MembershipChange::LeaveJoint`].
    Replace {
        /// The voter that leaves.
        old: NodeId,
        /// The learner that takes its slot.
        new: NodeId,
    },
}

impl Membership {
    /// The members of a new cluster.
    pub(crate) fn of_voters(voters: &[NodeId]) -> Self {
        let mut membership = Self { voters: voters.to_vec(), ..Self::default() };
        membership.voters.sort_unstable();
        for id in voters {
            membership.generations[usize::from(id.slot())] = id.generation();
        }
        membership
    }

    /// Whether the lists fit together.
    ///
    /// # Errors
    /// [`MembershipFault::Shape`].
    pub fn check(&self) -> Result<(), MembershipFault> {
        let lists = [&self.voters, &self.outgoing, &self.learners];
        let ascending = lists.iter().all(|list| list.is_sorted_by(|left, right| left < right));
        let sized = lists.iter().all(|list| list.len() <= SLOT_COUNT_MAX);
        let given_out = lists.iter().flat_map(|list| list.iter()).all(|id| self.was_given_out(*id));
        let apart =
            !self.learners.iter().any(|id| self.voters.contains(id) || self.outgoing.contains(id));
        let one_per_slot = lists.iter().all(|list| slots_differ(list));
        if ascending && sized && given_out && apart && one_per_slot && !self.voters.is_empty() {
            Ok(())
        } else {
            Err(MembershipFault::Shape)
        }
    }

    /// Whether a replacement is under way.
    pub fn is_joint(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Whether the node is a member of any kind.
    pub fn contains(&self, id: NodeId) -> bool {
        [&self.voters, &self.outgoing, &self.learners].iter().any(|list| list.contains(&id))
    }

    /// Whether the node's majority counts.
    pub fn is_voter(&self, id: NodeId) -> bool {
        self.voters.contains(&id)
    }

    /// The voter of a slot; during a replacement the new one.
    pub fn voter_in(&self, slot: u8) -> Option<NodeId> {
        self.voters.iter().copied().find(|id| id.slot() == slot)
    }

    /// The learner of a slot.
    pub fn learner_in(&self, slot: u8) -> Option<NodeId> {
        self.learners.iter().copied().find(|id| id.slot() == slot)
    }

    /// Whether the node was a member and is none any more.
    pub fn has_removed(&self, id: NodeId) -> bool {
        self.was_given_out(id) && !self.contains(id)
    }

    /// The id that the next process in the slot gets. `None` when they are used up.
    pub fn next_id(&self, slot: u8) -> Option<NodeId> {
        let used = self.generations.get(usize::from(slot))?;
        NodeId::new(used.checked_add(1)?, slot)
    }

    fn was_given_out(&self, id: NodeId) -> bool {
        id.generation() <= self.generations[usize::from(id.slot())]
    }

    /// The members after a change. Every member computes the same answer from the same log.
    ///
    /// # Errors
    /// Why this membership does not allow it.
    pub fn after(&self, change: MembershipChange) -> Result<Self, MembershipFault> {
        let mut next = self.clone();
        if self.is_joint() && change != MembershipChange::LeaveJoint {
            return Err(MembershipFault::Joint);
        }
        match change {
            MembershipChange::AddLearner(id) => {
                if self.was_given_out(id) {
                    return Err(MembershipFault::GenerationUsed);
                }
                if self.learner_in(id.slot()).is_some() {
                    return Err(MembershipFault::SlotTaken);
                }
                next.generations[usize::from(id.slot())] = id.generation();
                next.learners.push(id);
                next.learners.sort_unstable();
            }
            MembershipChange::LeaveJoint => {
                if !self.is_joint() {
                    return Err(MembershipFault::NotJoint);
                }
                next.outgoing.clear();
            }
            MembershipChange::RemoveLearner(id) => {
                if !self.learners.contains(&id) {
                    return Err(MembershipFault::NotLearner);
                }
                next.learners.retain(|learner| *learner != id);
            }
            MembershipChange::Replace { old, new } => {
                if !self.learners.contains(&new) {
                    return Err(MembershipFault::NotLearner);
                }
                if !self.voters.contains(&old) || old.slot() != new.slot() {
                    return Err(MembershipFault::NotVoter);
                }
                next.outgoing = self.voters.clone();
                next.learners.retain(|learner| *learner != new);
                next.voters.retain(|voter| *voter != old);
                next.voters.push(new);
                next.voters.sort_unstable();
            }
        }
        Ok(next)
    }
}

fn slots_differ(list: &[NodeId]) -> bool {
    list.iter().enumerate().all(|(at, id)| list[..at].iter().all(|other| other.slot() != id.slot()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(generation: u32, slot: u8) -> NodeId {
        NodeId::new(generation, slot).expect("valid")
    }

    fn three() -> Membership {
        Membership::of_voters(&[id(1, 2), id(1, 0), id(1, 1)])
    }

    #[test]
    fn a_voter_is_replaced_in_one_step_and_is_removed_afterwards() {
        let (old, new) = (id(1, 1), id(2, 1));
        let added = three().after(MembershipChange::AddLearner(new)).expect("added");
        let joint = added.after(MembershipChange::Replace { old, new }).expect("replaced");
        assert_eq!(joint.check(), Ok(()));
        assert_eq!(joint.voters, [id(1, 0), id(1, 2), new]);
        assert!(joint.contains(old) && !joint.has_removed(old));
        let done = joint.after(MembershipChange::LeaveJoint).expect("left");
        assert_eq!(done.check(), Ok(()));
        assert!(done.has_removed(old) && done.is_voter(new) && !done.is_joint());
    }

    #[test]
    fn no_generation_is_given_out_twice() {
        let first = three().next_id(0).expect("free");
        assert_eq!(first, id(2, 0));
        let added = three().after(MembershipChange::AddLearner(first)).expect("added");
        let removed = added.after(MembershipChange::RemoveLearner(first)).expect("removed");
        assert_eq!(removed.next_id(0), Some(id(3, 0)));
        let again = removed.after(MembershipChange::AddLearner(first));
        assert_eq!(again, Err(MembershipFault::GenerationUsed));
    }

    #[test]
    fn changes_that_do_not_fit_are_refused() {
        let members = three();
        let learner = id(2, 0);
        let refused = |change| members.after(change).expect_err("refused");
        assert_eq!(refused(MembershipChange::LeaveJoint), MembershipFault::NotJoint);
        let remove = MembershipChange::RemoveLearner(learner);
        assert_eq!(refused(remove), MembershipFault::NotLearner);
        let with_learner = members.after(MembershipChange::AddLearner(learner)).expect("added");
        let second = with_learner.after(MembershipChange::AddLearner(id(3, 0)));
        assert_eq!(second, Err(MembershipFault::SlotTaken));
        let wrong_slot = MembershipChange::Replace { old: id(1, 1), new: learner };
        assert_eq!(with_learner.after(wrong_slot), Err(MembershipFault::NotVoter));
    }

    #[test]
    fn contradicting_lists_are_no_membership() {
        let mut unsorted = three();
        unsorted.voters.reverse();
        let mut both = three();
        both.learners = vec![id(1, 0)];
        let mut never_given_out = three();
        never_given_out.learners = vec![id(9, 0)];
        let mut one_slot_twice = three();
        one_slot_twice.generations[0] = 2;
        one_slot_twice.voters = vec![id(1, 0), id(2, 0)];
        for membership in [Membership::default(), unsorted, both, never_given_out, one_slot_twice] {
            assert_eq!(membership.check(), Err(MembershipFault::Shape), "{membership:?}");
        }
    }
}
