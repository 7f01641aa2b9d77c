//! When a member asks for votes: after its leader's silence, early when its leader's link was
//! closed, and soon again when asking led to nothing.

use crate::limits::{
    CAMPAIGN_COUNT_MAX, CAMPAIGN_PAUSE_TICKS_MAX, ELECTION_TICKS_MAX, ELECTION_TICKS_MIN,
};
use crate::machine::StateMachine;
use crate::node::{RaftLog, Role};
use crate::random::Random;
use raft::INVALID_ID;

/// Further tries of a member that misses its leader.
#[derive(Debug)]
struct Campaign {
    ticks_left: usize,
    tries_left: usize,
}

/// The timing of one member's elections, from its seed.
#[derive(Debug)]
pub(crate) struct Elections {
    random: Random,
    timeout_ticks: usize,
    campaign: Option<Campaign>,
}

impl Elections {
    pub(crate) fn new(seed: u64) -> Self {
        let mut elections = Self { random: Random::new(seed), timeout_ticks: 0, campaign: None };
        elections.redraw();
        elections
    }

    fn redraw(&mut self) {
        self.timeout_ticks = self.random.between(ELECTION_TICKS_MIN, ELECTION_TICKS_MAX);
    }

    /// Begins a series of tries, the first one after a short pause of its own.
    fn begin_series(&mut self) {
        let ticks_left = self.random.between(1, CAMPAIGN_PAUSE_TICKS_MAX);
        self.campaign = Some(Campaign { ticks_left, tries_left: CAMPAIGN_COUNT_MAX });
    }

    /// Whether the next try of the series is due.
    fn tick(&mut self) -> bool {
        let Some(campaign) = &mut self.campaign else { return false };
        if campaign.tries_left == 0 {
            self.campaign = None;
            return false;
        }
        campaign.ticks_left -= 1;
        if campaign.ticks_left > 0 {
            return false;
        }
        campaign.tries_left -= 1;
        campaign.ticks_left =
            self.random.between(CAMPAIGN_PAUSE_TICKS_MAX / 2, CAMPAIGN_PAUSE_TICKS_MAX * 2);
        true
    }
}

impl<M: StateMachine> RaftLog<M> {
    /// One tick of raft-rs, and of the tries that go beyond it.
    pub(crate) fn tick_elections(&mut self) {
        let elapsed = self.raft.raft.election_elapsed;
        self.raft.tick();
        if self.raft.raft.leader_id != INVALID_ID || !self.raft.raft.promotable() {
            self.elections.campaign = None;
        } else if self.elections.tick() {
            // Fails only when a change of members is unapplied, and then the next try will do.
            let _ = self.raft.campaign();
        } else if self.role() == Role::Candidate
            && self.elections.campaign.is_none()
            && self.raft.raft.election_elapsed < elapsed
        {
            // Its leader's silence lasted too long. If this try fails, because a voter has not
            // noticed yet or another one asked at the same time, a whole timeout more would double
            // the time without service.
            self.elections.begin_series();
        }
        // It campaigned: the next try waits for another time, as raft-rs would have it.
        self.pin_election_timeout(self.raft.raft.election_elapsed <= elapsed);
    }

    /// A follower whose leader's process has ended does not wait for silence.
    pub(crate) fn campaign_early(&mut self) {
        self.raft.raft.leader_id = INVALID_ID;
        self.elections.begin_series();
    }

    /// raft-rs draws election timeouts from the system's randomness; they are replaced from the
    /// seed, after every call that may have drawn one, and anew whenever leadership moved.
    pub(crate) fn pin_election_timeout(&mut self, redraw: bool) {
        if redraw {
            self.elections.redraw();
        }
        self.raft.raft.set_randomized_election_timeout(self.elections.timeout_ticks);
    }
}
