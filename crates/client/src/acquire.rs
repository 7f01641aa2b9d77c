//! A logical acquire: attempts until one is answered or may have been taken (L5–L7, L10).

use crate::backoff::Backoff;
use crate::call::{Abandoned, Call, Order, Outcome};
use crate::clock::{self, Instant};
use crate::error::Error;
use crate::keys::Keys;
use crate::limits::SEARCH_WINDOW;
use crate::options::Terms;
use crate::pool::{LaneSet, Stage, Submission};
use crate::shared::Shared;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;
use ticketing_wire_codec::{ErrorCode, Reply, Token};
use tokio::time::sleep_until;

/// A lock that the server granted.
pub(crate) struct Grant {
    pub(crate) keys: Keys,
    pub(crate) token: Token,
    pub(crate) valid_before: Instant,
}

/// What an answered attempt means for the call.
enum Verdict {
    Granted(Grant),
    /// Nothing was done there: try again.
    NotLeading,
    Failed(Error),
}

/// The caller's end of the call. Dropping it, also by cancelling, gives back a grant that nobody
/// took.
struct Waiter<'a> {
    shared: &'a Arc<Shared>,
    call: Arc<Call>,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if let Abandoned::Grant(token) = self.call.abandon() {
            self.shared.release_in_background(self.call.keys.clone(), token);
        }
    }
}

/// Acquires, or says what is known about the lock instead.
pub(crate) async fn acquire(
    shared: &Arc<Shared>,
    keys: Keys,
    terms: Terms,
) -> Result<Grant, Error> {
    let permit = shared.pending.try_take().ok_or(Error::ClientCapacity)?;
    let is_immediate = terms.wait_seconds == 0;
    let window =
        if is_immediate { SEARCH_WINDOW } else { Duration::from_secs(terms.wait_seconds.into()) };
    let deadline = clock::now() + window;
    let order = Order::Acquire { is_immediate, lease_seconds: terms.lease_seconds };
    let call = Arc::new(Call::new(keys, order, deadline, Some(permit)));
    let waiter = Waiter { shared, call };

    let mut backoff = Backoff::retry();
    // What the caller is told when the time is over with nothing outstanding; none means that no
    // connection was usable so far.
    let mut last_resort = None;
    loop {
        match shared.pool.submit(&waiter.call, LaneSet::default()) {
            Submission::Closed => return Err(Error::Closed),
            Submission::NoneUsable => {
                if shared.pool.usable(Stage::Open, deadline).await {
                    continue;
                }
                return Err(last_resort.unwrap_or_else(|| shared.pool.unreachable()));
            }
            Submission::Full => {
                last_resort.get_or_insert(Error::Timeout);
                pause(&mut backoff, deadline).await;
            }
            Submission::Queued(_) => {
                last_resort.get_or_insert(Error::Timeout);
                match poll_fn(|cx| waiter.call.poll_outcome(cx)).await {
                    Outcome::Unsent => {}
                    Outcome::Unanswered => return Err(Error::Indeterminate),
                    Outcome::Answered { reply, sent_at } => {
                        match judge(&waiter.call, terms, reply, sent_at) {
                            Verdict::Granted(grant) => return usable(shared, grant, terms.budget),
                            Verdict::Failed(error) => return Err(error),
                            Verdict::NotLeading => {
                                last_resort = Some(Error::NoLeader);
                                pause(&mut backoff, deadline).await;
                            }
                        }
                    }
                }
            }
        }
        if clock::now() >= deadline {
            return Err(last_resort.unwrap_or(Error::Timeout));
        }
    }
}

fn judge(call: &Call, terms: Terms, reply: Reply, sent_at: Instant) -> Verdict {
    match reply {
        Reply::Granted { token, .. } | Reply::GrantedSet { token, .. } => {
            let lease = Duration::from_secs(terms.lease_seconds.into());
            Verdict::Granted(Grant {
                keys: call.keys.clone(),
                token,
                valid_before: sent_at + lease,
            })
        }
        Reply::TimedOut { .. } => Verdict::Failed(Error::Timeout),
        Reply::Busy { .. } => Verdict::Failed(Error::Busy),
        Reply::Moved { .. }
        | Reply::Refused { code: ErrorCode::NoLeader | ErrorCode::NotActive, .. } => {
            Verdict::NotLeading
        }
        Reply::Refused { code, .. } => Verdict::Failed(Error::Rejected(code)),
        // `I`; the session lets no reply through that does not answer an acquire.
        _ => Verdict::Failed(Error::Indeterminate),
    }
}

/// Keeps a grant only if there is time left to use it (L10).
fn usable(shared: &Arc<Shared>, grant: Grant, budget: Duration) -> Result<Grant, Error> {
    let remaining = grant.valid_before.saturating_duration_since(clock::now());
    if remaining >= budget && !remaining.is_zero() {
        return Ok(grant);
    }
    shared.release_in_background(grant.keys, grant.token);
    Err(Error::InsufficientLease)
}

async fn pause(backoff: &mut Backoff, deadline: Instant) {
    sleep_until(deadline.min(clock::now() + backoff.next())).await;
}
