//! The broker: owns the connections and is shared by all callers.

use crate::acquire::acquire;
use crate::builder::BrokerBuilder;
use crate::clock;
use crate::domain::Domain;
use crate::error::Error;
use crate::keys::Keys;
use crate::options::AcquireOptions;
use crate::pool::Stage;
use crate::shared::Anchor;
use crate::ticket::{Ticket, TicketSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A client of one lock server or one cluster.
///
/// Clones share everything and are cheap. The connections live in the background: they come up
/// after [`BrokerBuilder::build`], and a broken one reconnects for ever, so a dead server never
/// breaks a broker. It closes when [`Broker::close`] is called, or when the last clone and the
/// last ticket are gone.
#[derive(Clone)]
pub struct Broker {
    anchor: Arc<Anchor>,
}

impl Broker {
    /// Settings of a new broker.
    pub fn builder() -> BrokerBuilder {
        BrokerBuilder::new()
    }

    pub(crate) fn new(anchor: Anchor) -> Self {
        Self { anchor: Arc::new(anchor) }
    }

    /// The fencing domain of every token this broker gets.
    pub fn domain(&self) -> Domain {
        self.anchor.shared.domain
    }

    /// Waits until at least one connection is usable. Not needed before an acquire, which waits
    /// by itself.
    ///
    /// # Errors
    /// [`Error::NotConnected`] or [`Error::Unauthorized`] when the time is over first,
    /// [`Error::Closed`] on a closed broker.
    pub async fn ready(&self, limit: Duration) -> Result<(), Error> {
        let pool = &self.anchor.shared.pool;
        // A limit past the end of time is no limit.
        let deadline = clock::now().checked_add(limit);
        let deadline = deadline.unwrap_or_else(|| clock::now() + Duration::from_secs(86_400 * 365));
        if !pool.usable(Stage::Open, deadline).await {
            return Err(pool.unreachable());
        }
        if pool.stage() == Stage::Open { Ok(()) } else { Err(Error::Closed) }
    }

    /// Acquires the lock on one key: waits for its turn, first come, first served.
    ///
    /// A key is 1 to 128 bytes of UTF-8 without space, LF and CR. Locks are not re-entrant.
    /// Dropping the future gives up the place in the queue; should the server have granted the
    /// lock already, it is released in the background.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use ticketing_client::{AcquireOptions, Broker, Error};
    ///
    /// # async fn example() -> Result<(), Error> {
    /// let broker = Broker::builder().address("127.0.0.1:5225").build()?;
    /// let options = AcquireOptions::new().wait(Duration::from_secs(5));
    /// let ticket = match broker.acquire("order-1234", options).await {
    ///     Ok(ticket) => ticket,
    ///     Err(Error::Timeout) => return Ok(()), // Somebody else is at it.
    ///     Err(error) => return Err(error),
    /// };
    /// // update … where fence <= ticket.token()
    /// ticket.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Each variant of [`Error`] says what is then known about the lock. After
    /// [`Error::Indeterminate`] in particular, do not enter the critical section.
    pub async fn acquire(
        &self,
        key: impl AsRef<[u8]>,
        options: AcquireOptions,
    ) -> Result<Ticket, Error> {
        let keys = Keys::one(key.as_ref())?;
        let grant = acquire(&self.anchor.shared, keys, options.check()?).await?;
        Ok(Ticket::new(Arc::clone(&self.anchor), grant))
    }

    /// Acquires the locks on 1 to 16 keys under one token: all or nothing, without deadlocks.
    ///
    /// The keys are taken as a set, in any order and with duplicates.
    ///
    /// ```no_run
    /// use ticketing_client::{AcquireOptions, Broker, Error};
    ///
    /// # async fn example(broker: Broker) -> Result<(), Error> {
    /// let accounts = ["account-77", "account-12"];
    /// let tickets = broker.acquire_set(accounts, AcquireOptions::new()).await?;
    /// assert_eq!(tickets.keys().next(), Some("account-12"));
    /// tickets.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Broker::acquire`].
    pub async fn acquire_set(
        &self,
        keys: impl IntoIterator<Item = impl AsRef<[u8]>>,
        options: AcquireOptions,
    ) -> Result<TicketSet, Error> {
        let keys = Keys::set(keys)?;
        let grant = acquire(&self.anchor.shared, keys, options.check()?).await?;
        Ok(TicketSet::new(Arc::clone(&self.anchor), grant))
    }

    /// Refuses new calls, lets releases that are under way finish for at most 5 s, ends every
    /// connection, and returns when nothing runs any more. Calling it again does the same.
    ///
    /// Acquires under way end at once: with [`Error::Closed`] what was not sent, with
    /// [`Error::Indeterminate`] what may have been.
    pub async fn close(&self) {
        self.anchor.shared.close().await;
    }
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broker").field("domain", &self.domain()).finish_non_exhaustive()
    }
}
