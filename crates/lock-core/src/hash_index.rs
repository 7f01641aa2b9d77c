//! From a 32-bit hash to a 32-bit index.
//!
//! Linear probing with backward-shift deletion. It leaves no tombstones behind, so a table whose
//! members come and go for ever neither grows nor has to be cleaned: general-purpose tables do one
//! of the two, at some later request's expense. The home place is the hash's high bits, so growing
//! moves members from left to right, which a million of them need to be quick.

use alloc::vec;
use alloc::vec::Vec;

use crate::node::NIL;

/// Places of a new table, as a power of two.
const CAPACITY_BITS_MIN: u32 = 4;

#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u32,
    /// [`NIL`]: empty.
    value: u32,
}

const EMPTY: Slot = Slot { hash: 0, value: NIL };

#[derive(Debug)]
pub(crate) struct HashIndex {
    slots: Vec<Slot>,
    capacity_bits: u32,
    count: usize,
}

impl HashIndex {
    pub(crate) fn new() -> Self {
        Self {
            slots: vec![EMPTY; 1 << CAPACITY_BITS_MIN],
            capacity_bits: CAPACITY_BITS_MIN,
            count: 0,
        }
    }

    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    fn home(&self, hash: u32) -> usize {
        (hash >> (u32::BITS - self.capacity_bits)) as usize
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }

    /// The member with this hash for which `is_equal` says yes.
    pub(crate) fn find(&self, hash: u32, mut is_equal: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = self.home(hash);
        loop {
            let slot = self.slots[at];
            if slot.value == NIL {
                return None;
            }
            if slot.hash == hash && is_equal(slot.value) {
                return Some(slot.value);
            }
            at = self.after(at);
        }
    }

    /// Adds a member that is not there yet.
    pub(crate) fn insert(&mut self, hash: u32, value: u32) {
        assert!(value != NIL);
        // At most three quarters full: a search ends after a few places on average.
        if (self.count + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        self.count += 1;
        self.place(Slot { hash, value });
    }

    /// Removes a member that is there.
    pub(crate) fn remove(&mut self, hash: u32, value: u32) {
        let mut hole = self.home(hash);
        while self.slots[hole].value != value {
            assert!(self.slots[hole].value != NIL);
            hole = self.after(hole);
        }
        self.count -= 1;
        let mut at = self.after(hole);
        loop {
            let slot = self.slots[at];
            if slot.value == NIL {
                break;
            }
            // A member may move back to the hole unless its home lies after the hole.
            let mask = self.slots.len() - 1;
            let distance = at.wrapping_sub(self.home(slot.hash)) & mask;
            if distance >= at.wrapping_sub(hole) & mask {
                self.slots[hole] = slot;
                hole = at;
            }
            at = self.after(at);
        }
        self.slots[hole] = EMPTY;
    }

    fn place(&mut self, slot: Slot) {
        let mut at = self.home(slot.hash);
        while self.slots[at].value != NIL {
            at = self.after(at);
        }
        self.slots[at] = slot;
    }

    fn grow(&mut self) {
        self.capacity_bits += 1;
        assert!(self.capacity_bits < u32::BITS);
        let old = core::mem::replace(&mut self.slots, vec![EMPTY; 1 << self.capacity_bits]);
        for slot in old {
            if slot.value != NIL {
                self.place(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Few distinct hashes, so that runs of members collide, wrap around and shift back.
        #[test]
        fn behaves_as_a_map(
            operations in prop::collection::vec((any::<bool>(), 0..64_u32), 1..400),
        ) {
            let hash = |value: u32| (value % 7) << 29 | 0x1fff_ffff;
            let mut index = HashIndex::new();
            let mut model = BTreeMap::new();
            for (insert, value) in operations {
                if insert && model.insert(value, ()).is_none() {
                    index.insert(hash(value), value);
                } else if !insert && model.remove(&value).is_some() {
                    index.remove(hash(value), value);
                }
                prop_assert_eq!(index.count(), model.len());
                for value in 0..64 {
                    let found = index.find(hash(value), |other| other == value);
                    prop_assert_eq!(found.is_some(), model.contains_key(&value));
                }
            }
        }
    }

    #[test]
    fn coming_and_going_never_grows_it() {
        let mut index = HashIndex::new();
        let hash = |value: u32| value.wrapping_mul(0x9e37_79b9);
        for value in 0..24 {
            index.insert(hash(value), value);
        }
        let capacity = index.slots.capacity();
        for value in 24..100_000 {
            index.remove(hash(value - 24), value - 24);
            index.insert(hash(value), value);
        }
        assert_eq!(index.slots.capacity(), capacity);
    }
}
