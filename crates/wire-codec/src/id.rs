//! Numbers that must not be mixed up.

use core::num::NonZeroU64;

/// Fencing token: non-zero, strictly larger than every token granted before it in its domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(NonZeroU64);

/// Request id: non-zero, chosen by the client, echoed by the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(NonZeroU64);

/// A node's fixed place in a cluster, 0–4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u8);

impl Token {
    /// `None` for 0, which is no token.
    pub const fn new(value: u64) -> Option<Self> {
        match NonZeroU64::new(value) {
            Some(value) => Some(Self(value)),
            None => None,
        }
    }

    /// The plain number.
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl RequestId {
    /// `None` for 0, which no request may carry.
    pub const fn new(value: u64) -> Option<Self> {
        match NonZeroU64::new(value) {
            Some(value) => Some(Self(value)),
            None => None,
        }
    }

    /// The plain number.
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl Slot {
    /// `None` above [`crate::limits::SLOT_MAX`].
    pub const fn new(value: u8) -> Option<Self> {
        if value <= crate::limits::SLOT_MAX { Some(Self(value)) } else { None }
    }

    /// The plain number.
    pub const fn get(self) -> u8 {
        self.0
    }
}
