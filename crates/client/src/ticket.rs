//! Held locks.

use crate::acquire::Grant;
use crate::clock;
use crate::domain::Domain;
use crate::error::Error;
use crate::keys::Keys;
use crate::release::{ReleaseOutcome, release};
use crate::shared::Anchor;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A held lock on one key.
///
/// Release it with [`Ticket::release`]. Dropping it releases too, in the background and without a
/// report. It keeps the broker's connections open as long as it lives.
#[must_use = "dropping a ticket releases the lock"]
pub struct Ticket {
    held: Held,
}

/// A held lock on a set of keys, under one token. See [`Ticket`].
#[must_use = "dropping a ticket releases the lock"]
pub struct TicketSet {
    held: Held,
}

/// What both kinds have in common.
struct Held {
    anchor: Arc<Anchor>,
    grant: Grant,
    /// Whether a release has taken over.
    is_released: bool,
}

macro_rules! ticket_methods {
    ($name:ident) => {
        impl $name {
            pub(crate) fn new(anchor: Arc<Anchor>, grant: Grant) -> Self {
                Self { held: Held { anchor, grant, is_released: false } }
            }

            /// The fencing token: strictly larger than every token granted before it in the same
            /// [`domain`](Self::domain). Pass it along with every protected write; the database
            /// refuses a token below the highest it has seen, in the same transaction.
            pub fn token(&self) -> u64 {
                self.held.grant.token.get()
            }

            /// Where the token counts.
            pub fn domain(&self) -> Domain {
                self.held.anchor.shared.domain
            }

            /// Do not act on the lock from then on. Conservative: the time just before the
            /// request was sent plus the lease, on this machine's monotonic clock.
            ///
            /// That clock may stand still while the machine or the virtual machine is suspended,
            /// but the server's goes on: after it resumes, this time can lie ahead although the
            /// lease has ended, and only the fencing [`token`](Self::token) protects.
            ///
            /// `tokio::time::timeout_at(ticket.valid_before().into(), work)` ends the work in
            /// time.
            pub fn valid_before(&self) -> Instant {
                self.held.grant.valid_before.into_std()
            }

            /// The time left until [`valid_before`](Self::valid_before), zero when it has passed.
            pub fn remaining(&self) -> Duration {
                self.held.grant.valid_before.saturating_duration_since(clock::now())
            }

            /// Releases the lock and waits for the server's definite answer, at most 5 s.
            ///
            /// Dropping the future does not stop the release: it goes on in the background.
            ///
            /// # Errors
            /// [`Error::ReleaseUnconfirmed`] after 5 s without a definite answer, and
            /// [`Error::Rejected`], [`Error::ClientCapacity`] or [`Error::Closed`] when the lock
            /// was not released; then it ends with its lease.
            pub async fn release(self) -> Result<ReleaseOutcome, Error> {
                self.held.release().await
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("keys", &self.held.grant.keys)
                    .field("token", &self.token())
                    .field("remaining", &self.remaining())
                    .finish_non_exhaustive()
            }
        }
    };
}

ticket_methods!(Ticket);
ticket_methods!(TicketSet);

impl Ticket {
    /// The key.
    pub fn key(&self) -> &str {
        match &self.held.grant.keys {
            Keys::One(key) => key,
            Keys::Set(_) => unreachable!("made from one key"),
        }
    }
}

impl TicketSet {
    /// The keys, ascending bytewise and without duplicates.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        self.held.grant.keys.iter()
    }
}

impl Held {
    async fn release(mut self) -> Result<ReleaseOutcome, Error> {
        self.is_released = true;
        release(&self.anchor.shared, self.grant.keys.clone(), self.grant.token).await
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.is_released {
            let keys = self.grant.keys.clone();
            self.anchor.shared.release_in_background(keys, self.grant.token);
        }
    }
}
