//! What goes in and what comes out.

/// Who asks: a session of the engine. The low half is a dense index that the engine uses again
/// only after [`Command::CloseSession`] was applied; the high half tells its users apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(u64);

impl SessionId {
    /// From a dense index and a generation.
    pub const fn new(index: u32, generation: u32) -> Self {
        Self((generation as u64) << 32 | index as u64)
    }

    /// From the plain number.
    pub const fn from_u64(value: u64) -> Self {
        Self(value)
    }

    /// The plain number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The dense index.
    pub const fn index(self) -> u32 {
        self.0 as u32
    }
}

/// Who asks, and with which request. The core attaches no meaning to the request id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// The session.
    pub session: SessionId,
    /// The request id within the session.
    pub request_id: u64,
}

/// Capacity of a table. Both are at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableLimits {
    /// Most keys held at once.
    pub key_count_max: u32,
    /// Most requests waiting for one key.
    pub waiters_per_key_max: u32,
}

/// A state change. `keys` is one key, or a set of 2–16 in strictly ascending order; the caller has
/// checked that, and [`Event::Refused`] answers what it has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Asks for the keys. Grants, queues, or (wait 0 and not free) times out at once.
    Acquire {
        /// Who is answered.
        owner: Owner,
        /// Upper bound on queueing, in seconds; 0 is one immediate try.
        wait_seconds: u8,
        /// Lease, 1–250 seconds.
        lease_seconds: u8,
        /// What is asked for.
        keys: &'a [&'a [u8]],
    },
    /// Drops every waiter, by wait length and then in order of arrival: the first command of a new
    /// term. Who is not in this process any more is dropped like the others; the caller passes
    /// over events for sessions it does not know.
    ClearWaiters,
    /// Drops the session's waiters in order of arrival. Its holds stay.
    CloseSession {
        /// The session that ended.
        session: SessionId,
    },
    /// Sets the capacity limits; they are part of the state, so that replicas agree on refusals.
    Configure {
        /// The limits from now on. What is already there stays.
        limits: TableLimits,
    },
    /// The grant's lease has ended. No effect when the token does not hold that key.
    Expire {
        /// The grant.
        token: u64,
        /// Any one of its keys, by which it is found.
        key: &'a [u8],
    },
    /// No token at or below `floor` is granted any more.
    RaiseTokenFloor {
        /// The floor.
        floor: u64,
    },
    /// Takes back a grant whose reply can no longer be delivered; the keys go on as after a
    /// release. No effect when the session does not hold that token. It may come after
    /// [`Command::CloseSession`]. Several are cheapest in the order of their tokens, up or down.
    Reclaim {
        /// Whom it was granted to.
        session: SessionId,
        /// The grant.
        token: u64,
    },
    /// Releases a grant by its token and exactly its keys.
    Release {
        /// Who is answered.
        owner: Owner,
        /// The grant.
        token: u64,
        /// What it was granted for.
        keys: &'a [&'a [u8]],
    },
    /// The waiter's wait has ended. `arrival` is the number that [`Event::Queued`] gave, so that a
    /// late command cannot hit another request. No effect when it no longer waits.
    TimeOut {
        /// The waiter.
        arrival: u64,
    },
}

/// Why the core did not take a request. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedReason {
    /// Too many keys, or too many waiters on a key.
    Capacity,
    /// The command breaks a rule its proposer should have checked (key count, order or size, lease,
    /// session index).
    Malformed,
}

/// An effect. Those with an owner answer that owner's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A lease ended and the keys went on; nobody is answered.
    Expired {
        /// The grant that ended.
        token: u64,
    },
    /// The owner holds its keys.
    Granted {
        /// Who.
        owner: Owner,
        /// Fencing token.
        token: u64,
        /// How many keys; above 1 it is a set.
        key_count: u8,
    },
    /// The token is current but was granted for other keys.
    GroupMismatch {
        /// Who asked.
        owner: Owner,
    },
    /// That token does not hold that key.
    NotHeld {
        /// Who asked.
        owner: Owner,
    },
    /// The request waits for its turn.
    Queued {
        /// Who.
        owner: Owner,
        /// Its place in the order of all requests ever queued.
        arrival: u64,
    },
    /// Nothing was done.
    Refused {
        /// Who asked.
        owner: Owner,
        /// Why.
        reason: RefusedReason,
    },
    /// Released.
    Released {
        /// Who asked.
        owner: Owner,
    },
    /// The turn did not come within the wait; the request is gone.
    TimedOut {
        /// Who asked.
        owner: Owner,
        /// How many keys; above 1 it is a set.
        key_count: u8,
    },
    /// The waiter was removed by [`Command::ClearWaiters`] or [`Command::CloseSession`].
    WaiterDropped {
        /// Whose request it was.
        owner: Owner,
    },
}

/// Receives the events of one command, in order.
pub trait EventSink {
    /// Takes one event.
    fn event(&mut self, event: Event);
}

impl<F: FnMut(Event)> EventSink for F {
    fn event(&mut self, event: Event) {
        self(event);
    }
}
