//! Who takes part: a process in a slot.

use crate::limits::SLOT_COUNT_MAX;
use core::fmt;

/// One process that is or was a member: a slot and the generation that it took the slot with.
///
/// Generations of a slot are given out through the log, from 1, and none is given out twice; so a
/// process that lost its memory can never vote again under the identity that voted before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u64);

impl NodeId {
    /// `None` for a slot no cluster has, or generation 0.
    pub const fn new(generation: u32, slot: u8) -> Option<Self> {
        if generation == 0 || slot as usize >= SLOT_COUNT_MAX {
            return None;
        }
        Some(Self((generation as u64) << 8 | slot as u64))
    }

    /// From the plain number; `None` unless [`NodeId::get`] can give it.
    pub const fn from_u64(value: u64) -> Option<Self> {
        if value >> 40 != 0 {
            return None;
        }
        Self::new((value >> 8) as u32, value as u8)
    }

    /// The plain number: generation in bits 8–39, slot in bits 0–7.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// How many processes have had the slot, this one included.
    pub const fn generation(self) -> u32 {
        (self.0 >> 8) as u32
    }

    /// Its place in the cluster.
    pub const fn slot(self) -> u8 {
        self.0 as u8
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {} generation {}", self.slot(), self.generation())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip_and_others_are_refused() {
        let id = NodeId::new(7, 4).expect("valid");
        assert_eq!((id.generation(), id.slot()), (7, 4));
        assert_eq!(NodeId::from_u64(id.get()), Some(id));
        assert_eq!(NodeId::new(0, 0), None);
        assert_eq!(NodeId::new(1, 5), None);
        assert_eq!(NodeId::from_u64(0), None);
        assert_eq!(NodeId::from_u64(u64::MAX), None);
        assert_eq!(NodeId::from_u64(1 << 40 | 1 << 8), None);
    }
}
