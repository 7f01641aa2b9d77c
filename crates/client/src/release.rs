//! A release: attempts until one gets a definite answer, for at most 5 s from the call (L8).

use crate::backoff::Backoff;
use crate::call::{Call, Order, Outcome};
use crate::clock::{self, Instant};
use crate::error::Error;
use crate::keys::Keys;
use crate::limits::{RELEASE_ATTEMPT, RELEASE_WINDOW};
use crate::pool::{LaneSet, Stage, Submission};
use crate::shared::Shared;
use crate::sync::Permit;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use ticketing_wire_codec::{ErrorCode, Reply, Token};
use tokio::time::timeout_at;

/// A definite answer to a release. Either way the lock is not held any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// That token held nothing any more: the lease had ended. After a connection was lost during
    /// the release it can also mean that the first attempt had taken effect.
    NotHeld,
    /// Released; the next in the queue holds it.
    Released,
}

/// One attempt in a connection's hands.
struct Attempt {
    call: Arc<Call>,
    lane: usize,
}

/// A release under way.
pub(crate) struct Job {
    shared: Arc<Shared>,
    keys: Keys,
    token: Token,
    deadline: Instant,
    backoff: Backoff,
    newest: Option<Attempt>,
    /// Attempts that went unanswered for too long; a late answer is still a valid one.
    silent: Vec<Attempt>,
    _permit: Permit,
}

/// What listening for answers brought.
enum Heard {
    Definite(Result<ReleaseOutcome, Error>),
    /// The newest attempt failed, or may have.
    Failed,
    /// The time is over.
    Nothing,
    /// The newest attempt was not sent at all.
    Unsent,
}

/// A job that its caller waits for. When the caller leaves, the job goes on by itself (L9).
struct Foreground(Option<Job>);

/// Releases, and returns only a definite answer as success.
pub(crate) async fn release(
    shared: &Arc<Shared>,
    keys: Keys,
    token: Token,
) -> Result<ReleaseOutcome, Error> {
    if shared.pool.stage() != Stage::Open {
        return Err(Error::Closed);
    }
    let mut foreground = Foreground(Some(Job::new(shared, keys, token)?));
    let job = foreground.0.as_mut().expect("just put there");
    let outcome = job.run().await;
    foreground.0 = None;
    outcome
}

impl Job {
    /// A job that has not begun.
    ///
    /// # Errors
    /// [`Error::ClientCapacity`].
    pub(crate) fn new(shared: &Arc<Shared>, keys: Keys, token: Token) -> Result<Self, Error> {
        let permit = shared.releases.try_take().ok_or(Error::ClientCapacity)?;
        Ok(Self {
            shared: Arc::clone(shared),
            keys,
            token,
            deadline: clock::now() + RELEASE_WINDOW,
            backoff: Backoff::retry(),
            newest: None,
            silent: Vec::new(),
            _permit: permit,
        })
    }

    /// Runs without anybody waiting for the outcome.
    pub(crate) fn finish_in_background(mut self) {
        let shared = Arc::clone(&self.shared);
        shared.spawn(|stage| async move {
            // Nobody is there to be told; the lease is the safety net.
            let _ = self.run().await;
            drop((self, stage));
        });
    }

    async fn run(&mut self) -> Result<ReleaseOutcome, Error> {
        loop {
            if let Heard::Definite(answer) = self.attempt().await {
                return answer;
            }
            if clock::now() >= self.deadline {
                return Err(Error::ReleaseUnconfirmed);
            }
        }
    }

    /// Makes one attempt, or waits until one can be made.
    async fn attempt(&mut self) -> Heard {
        match self.submit() {
            Submission::Closed => Heard::Definite(Err(Error::ReleaseUnconfirmed)),
            Submission::Full => self.pause().await,
            Submission::NoneUsable => {
                let (shared, deadline) = (Arc::clone(&self.shared), self.deadline);
                tokio::select! {
                    heard = self.listen(deadline) => heard,
                    _ = shared.pool.usable(Stage::Draining, deadline) => Heard::Nothing,
                }
            }
            Submission::Queued(_) => match self.listen(clock::now() + RELEASE_ATTEMPT).await {
                Heard::Failed => self.pause().await,
                Heard::Nothing => {
                    self.silent.extend(self.newest.take());
                    Heard::Nothing
                }
                heard => heard,
            },
        }
    }

    fn submit(&mut self) -> Submission {
        let mut avoid = LaneSet::default();
        for attempt in &self.silent {
            avoid.insert(attempt.lane);
        }
        let order = Order::Release { token: self.token };
        let call = Arc::new(Call::new(self.keys.clone(), order, self.deadline, None));
        let submission = self.shared.pool.submit(&call, avoid);
        if let Submission::Queued(lane) = submission {
            self.newest = Some(Attempt { call, lane });
        }
        submission
    }

    async fn pause(&mut self) -> Heard {
        let pause = self.backoff.next();
        self.listen(clock::now() + pause).await
    }

    /// Waits for an answer, until that time or the end of the window.
    async fn listen(&mut self, until: Instant) -> Heard {
        let until = until.min(self.deadline);
        timeout_at(until, poll_fn(|cx| self.poll_answers(cx))).await.unwrap_or(Heard::Nothing)
    }

    fn poll_answers(&mut self, cx: &mut Context<'_>) -> Poll<Heard> {
        let mut index = 0;
        while let Some(attempt) = self.silent.get(index) {
            match attempt.call.poll_outcome(cx).map(judge) {
                Poll::Pending => index += 1,
                Poll::Ready(heard @ Heard::Definite(_)) => return Poll::Ready(heard),
                Poll::Ready(_) => drop(self.silent.swap_remove(index)),
            }
        }
        let Some(newest) = &self.newest else {
            return Poll::Pending;
        };
        newest.call.poll_outcome(cx).map(|outcome| {
            self.newest = None;
            judge(outcome)
        })
    }
}

fn judge(outcome: Outcome) -> Heard {
    let reply = match outcome {
        Outcome::Answered { reply, .. } => reply,
        Outcome::Unanswered => return Heard::Failed,
        Outcome::Unsent => return Heard::Unsent,
    };
    match reply {
        Reply::Released { .. } | Reply::ReleasedSet { .. } => {
            Heard::Definite(Ok(ReleaseOutcome::Released))
        }
        Reply::NotHeld { .. } => Heard::Definite(Ok(ReleaseOutcome::NotHeld)),
        Reply::Refused { code: ErrorCode::NoLeader | ErrorCode::NotActive, .. } => Heard::Failed,
        Reply::Refused { code, .. } => Heard::Definite(Err(Error::Rejected(code))),
        // `M` and `I`; the session lets no reply through that does not answer a release.
        _ => Heard::Failed,
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.call.abandon();
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        if let Some(job) = self.0.take() {
            job.finish_in_background();
        }
    }
}
