//! What can go wrong, and what is then known about the lock.

use std::fmt;
use ticketing_wire_codec::ErrorCode;

/// Why a call failed. Each variant says what is known about the lock.
///
/// A cancelled call, that is a dropped future, returns nothing: the lock is then not held, and
/// whatever the server may have granted is released in the background.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The server refused for capacity: too many keys, waiters or requests in flight.
    ///
    /// Not held, and this request can never be granted.
    Busy,
    /// As many acquires (or releases) are under way as this broker may have.
    ///
    /// Nothing was sent. After a release: the lock is held until its lease ends.
    ClientCapacity,
    /// The broker was closed.
    ///
    /// Nothing was sent. After a release: the lock is held until its lease ends.
    Closed,
    /// The acquire may have reached the server, but no definite answer came.
    ///
    /// Unknown: do **not** enter the critical section. The client never sends such a request
    /// again; a grant that still arrives is released in the background, and at worst the lease
    /// ends it.
    Indeterminate,
    /// Granted, but with less time left than the work budget.
    ///
    /// Being released in the background. A lease is counted from before the request was sent, so
    /// it has to cover the time in the queue as well.
    InsufficientLease,
    /// A value breaks a rule; nothing was sent.
    InvalidInput {
        /// Which one, why, and what would be right.
        problem: String,
    },
    /// No node serves: the cluster has no leader, or a restarted single server still waits for the
    /// leases of its predecessor to end.
    ///
    /// Not held, and this request can never be granted.
    NoLeader,
    /// No server could be reached at any time during the call.
    ///
    /// Not held: nothing was sent.
    NotConnected {
        /// What the last attempt to connect ended with.
        reason: String,
    },
    /// The server refused the request's values, although the client found them right.
    ///
    /// After an acquire: not held. After a release: not released.
    Rejected(ErrorCode),
    /// Release only: no definite answer came within 5 s.
    ///
    /// Unknown: the lock is released or will be when its lease ends.
    ReleaseUnconfirmed,
    /// The turn did not come within the wait.
    ///
    /// Not held, and this request can never be granted.
    Timeout,
    /// The server refused the token, or its cluster has another fingerprint: one proof covers both.
    ///
    /// Not held: nothing was sent but the proof.
    Unauthorized,
}

impl Error {
    pub(crate) fn invalid(problem: impl Into<String>) -> Self {
        Self::InvalidInput { problem: problem.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Busy => "the server is at capacity; try again later or raise its limits",
            Self::ClientCapacity => {
                "too many calls are pending on this broker; wait for some or raise its limit"
            }
            Self::Closed => "the broker is closed; build a new one",
            Self::Indeterminate => {
                "the acquire may have reached the server but was not answered; do not enter the \
                 critical section, the lease ends whatever was granted"
            }
            Self::InsufficientLease => {
                "the lock was granted too late for the work budget and is being released; ask for \
                 a longer lease or a shorter wait"
            }
            Self::InvalidInput { problem } => return write!(f, "{problem}"),
            Self::NoLeader => {
                "no server grants now: a restarted single server waits until its predecessor's \
                 leases are over, a cluster needs a majority of its nodes; wait longer or try again"
            }
            Self::NotConnected { reason } => {
                return write!(f, "no server could be reached: {reason}");
            }
            Self::Rejected(code) => {
                return write!(
                    f,
                    "the server rejected the request's values: {code}; use a client and a server \
                     of the same protocol version"
                );
            }
            Self::ReleaseUnconfirmed => {
                "no answer to the release within 5 s; the lock ends with its lease at the latest"
            }
            Self::Timeout => "the turn did not come within the wait; wait longer or try again",
            Self::Unauthorized => {
                "the server refused the token, or its cluster has another fingerprint; give the \
                 client those that the server accepts"
            }
        })
    }
}

impl std::error::Error for Error {}
