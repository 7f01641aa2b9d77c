//! Which connection gets a request: the known leader's, else round-robin over usable ones (L2).

use crate::call::Call;
use crate::clock::Instant;
use crate::error::Error;
use crate::sync::lock;
use std::sync::{Arc, Mutex};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout_at;

/// How far the broker is on its way to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Open,
    /// No new calls; releases may finish.
    Draining,
    /// Nothing may run any more.
    Closed,
}

/// A set of connections, by index.
#[derive(Clone, Copy, Default)]
pub(crate) struct LaneSet(u8);

/// What became of a request that wanted a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Submission {
    /// The stage of the broker forbids it.
    Closed,
    /// Every usable connection's queue is full.
    Full,
    /// No connection is usable.
    NoneUsable,
    /// In this connection's queue.
    Queued(usize),
}

struct State {
    /// The queue of each usable connection.
    lanes: Vec<Option<mpsc::Sender<Arc<Call>>>>,
    /// The slot last named by `M` or `L`. Single mode has none.
    leader: Option<usize>,
    /// Where round-robin goes on.
    next: usize,
    /// Whether the last handshake that got a verdict was refused.
    is_refused: bool,
    /// Why the last attempt to connect failed.
    reason: String,
    stage: Stage,
}

/// The usable connections.
pub(crate) struct Pool {
    state: Mutex<State>,
    /// A connection became usable, or the stage changed.
    changed: Notify,
}

impl LaneSet {
    pub(crate) fn insert(&mut self, lane: usize) {
        self.0 |= 1 << lane;
    }

    fn contains(self, lane: usize) -> bool {
        self.0 & 1 << lane != 0
    }
}

impl Pool {
    /// Without any connection so far; `place` is what messages call where they go.
    pub(crate) fn new(lane_count: usize, place: &str) -> Self {
        let state = State {
            lanes: vec![None; lane_count],
            leader: None,
            next: 0,
            is_refused: false,
            reason: format!(
                "{place}: no answer yet; check the address, and that both sides use TLS or neither"
            ),
            stage: Stage::Open,
        };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }

    /// Puts the request into a connection's queue, preferring connections outside `avoid`.
    pub(crate) fn submit(&self, call: &Arc<Call>, avoid: LaneSet) -> Submission {
        let mut state = lock(&self.state);
        let stage_max = if call.kind().is_acquire() { Stage::Open } else { Stage::Draining };
        if state.stage > stage_max {
            return Submission::Closed;
        }
        let (leader, first, count) = (state.leader, state.next, state.lanes.len());
        for is_avoided in [false, true] {
            let fits = |lane| avoid.contains(lane) == is_avoided;
            if let Some(lane) = leader
                && fits(lane)
                && state.offer(lane, call)
            {
                return Submission::Queued(lane);
            }
            for lane in (0..count).map(|step| (first + step) % count) {
                if fits(lane) && state.offer(lane, call) {
                    state.next = (lane + 1) % count;
                    return Submission::Queued(lane);
                }
            }
        }
        if state.is_usable() { Submission::Full } else { Submission::NoneUsable }
    }

    /// Waits until a connection is usable or the broker is past that stage. Returns false when the
    /// time is over first.
    pub(crate) async fn usable(&self, stage_max: Stage, deadline: Instant) -> bool {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // Listening has to begin before looking.
            changed.as_mut().enable();
            {
                let state = lock(&self.state);
                if state.is_usable() || state.stage > stage_max {
                    return true;
                }
            }
            if timeout_at(deadline, changed).await.is_err() {
                return false;
            }
        }
    }

    pub(crate) fn stage(&self) -> Stage {
        lock(&self.state).stage
    }

    /// Moves to a later stage; there is no way back.
    pub(crate) fn advance(&self, stage: Stage) {
        let mut state = lock(&self.state);
        state.stage = state.stage.max(stage);
        drop(state);
        self.changed.notify_waiters();
    }

    /// What a call without any usable connection is told.
    pub(crate) fn unreachable(&self) -> Error {
        let state = lock(&self.state);
        if state.is_refused {
            Error::Unauthorized
        } else {
            Error::NotConnected { reason: state.reason.clone() }
        }
    }

    /// A handshake was accepted.
    pub(crate) fn join(&self, lane: usize, requests: mpsc::Sender<Arc<Call>>) {
        let mut state = lock(&self.state);
        state.lanes[lane] = Some(requests);
        state.is_refused = false;
        drop(state);
        self.changed.notify_waiters();
    }

    /// A session ended. A lost connection to the leader forgets the leader too.
    pub(crate) fn leave(&self, lane: usize, reason: String) {
        let mut state = lock(&self.state);
        state.lanes[lane] = None;
        state.reason = reason;
        drop(state);
        self.forget_leader(lane);
    }

    /// An attempt to connect failed; `is_refused` when the server refused the token.
    pub(crate) fn failed(&self, is_refused: bool, reason: String) {
        let mut state = lock(&self.state);
        state.is_refused |= is_refused;
        state.reason = reason;
    }

    /// `M` or `L` named the leader, or said that none is known.
    pub(crate) fn set_leader(&self, leader: Option<usize>) {
        lock(&self.state).leader = leader;
    }

    /// This slot leads no more.
    pub(crate) fn forget_leader(&self, lane: usize) {
        let mut state = lock(&self.state);
        if state.leader == Some(lane) {
            state.leader = None;
        }
    }
}

impl State {
    fn is_usable(&self) -> bool {
        self.lanes.iter().any(Option::is_some)
    }

    fn offer(&self, lane: usize, call: &Arc<Call>) -> bool {
        self.lanes[lane].as_ref().is_some_and(|requests| {
            call.queue();
            requests.try_send(Arc::clone(call)).is_ok()
        })
    }
}
