//! The keys that are held or waited for: their bytes, their queues, and how they are found.

use alloc::vec::Vec;

use siphasher::sip::SipHasher13;

use crate::hash_index::HashIndex;
use crate::limits::KEY_SIZE_BYTES_MAX;
use crate::node::NIL;

/// Key bytes are stored in places of a multiple of this size.
const SIZE_STEP_BYTES: usize = 16;
const SIZE_CLASS_COUNT: usize = KEY_SIZE_BYTES_MAX / SIZE_STEP_BYTES;
/// Most members of a queue, the holder included; see [`Entry::count`].
const MEMBER_COUNT_MAX: u32 = (1 << 24) - 1;

const _: () = assert!(MEMBER_COUNT_MAX > crate::limits::WAITERS_PER_KEY_MAX);

/// One key. 16 bytes.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// First member of the queue: the holder, or the waiter whose turn it is. Of an unused entry,
    /// the next unused one.
    first: u32,
    /// Where the bytes are, within their size class.
    place: u32,
    hash: u32,
    /// Size of the key in the high 8 bits, members of the queue in the low 24.
    size_and_count: u32,
}

const _: () = assert!(size_of::<Entry>() == 16);

impl Entry {
    const fn size(self) -> usize {
        (self.size_and_count >> 24) as usize
    }

    const fn count(self) -> u32 {
        self.size_and_count & MEMBER_COUNT_MAX
    }
}

/// Places of one size. An unused place keeps the number of the next unused one in its first bytes.
#[derive(Debug)]
struct SizeClass {
    bytes: Vec<u8>,
    free: u32,
}

#[derive(Debug)]
pub(crate) struct Keys {
    hasher: SipHasher13,
    index: HashIndex,
    entries: Vec<Entry>,
    free: u32,
    size_classes: [SizeClass; SIZE_CLASS_COUNT],
}

impl Keys {
    pub(crate) fn new(hash_seed: &[u8; 16]) -> Self {
        Self {
            hasher: SipHasher13::new_with_key(hash_seed),
            index: HashIndex::new(),
            entries: Vec::new(),
            free: NIL,
            size_classes: [const { SizeClass { bytes: Vec::new(), free: NIL } }; SIZE_CLASS_COUNT],
        }
    }

    /// How many keys there are.
    pub(crate) const fn count(&self) -> usize {
        self.index.count()
    }

    pub(crate) fn hash(&self, key: &[u8]) -> u32 {
        (self.hasher.hash(key) >> 32) as u32
    }

    pub(crate) fn find(&self, hash: u32, key: &[u8]) -> Option<u32> {
        self.index.find(hash, |entry| self.bytes(entry) == key)
    }

    /// Adds a key that is not there, with an empty queue.
    pub(crate) fn insert(&mut self, hash: u32, key: &[u8]) -> u32 {
        assert!(!key.is_empty());
        assert!(key.len() <= KEY_SIZE_BYTES_MAX);
        let place = self.store(key);
        let size_and_count = (key.len() as u32) << 24;
        let entry = Entry { first: NIL, place, hash, size_and_count };
        let index = if self.free == NIL {
            self.entries.push(entry);
            (self.entries.len() - 1) as u32
        } else {
            let index = self.free;
            self.free = self.entries[index as usize].first;
            self.entries[index as usize] = entry;
            index
        };
        self.index.insert(hash, index);
        index
    }

    /// Removes a key whose queue is empty.
    pub(crate) fn remove(&mut self, index: u32) {
        let entry = self.entries[index as usize];
        assert!(entry.count() == 0);
        assert!(entry.first == NIL);
        self.index.remove(entry.hash, index);
        let step = size_step(entry.size());
        let class = &mut self.size_classes[class_of(entry.size())];
        let start = entry.place as usize * step;
        class.bytes[start..start + 4].copy_from_slice(&class.free.to_ne_bytes());
        class.free = entry.place;
        let unused = &mut self.entries[index as usize];
        unused.first = self.free;
        unused.size_and_count = 0;
        self.free = index;
    }

    pub(crate) fn bytes(&self, index: u32) -> &[u8] {
        let entry = self.entries[index as usize];
        let start = entry.place as usize * size_step(entry.size());
        &self.size_classes[class_of(entry.size())].bytes[start..start + entry.size()]
    }

    /// The first member of the key's queue.
    pub(crate) fn first(&self, index: u32) -> u32 {
        self.entries[index as usize].first
    }

    /// Members of the key's queue, the holder included.
    pub(crate) fn member_count(&self, index: u32) -> u32 {
        self.entries[index as usize].count()
    }

    /// For adding a member; says where the queue begins.
    pub(crate) fn grow_queue(&mut self, index: u32) -> &mut u32 {
        let entry = &mut self.entries[index as usize];
        assert!(entry.count() < MEMBER_COUNT_MAX);
        entry.size_and_count += 1;
        &mut entry.first
    }

    /// For removing a member; says where the queue begins.
    pub(crate) fn shrink_queue(&mut self, index: u32) -> &mut u32 {
        let entry = &mut self.entries[index as usize];
        assert!(entry.count() > 0);
        entry.size_and_count -= 1;
        &mut entry.first
    }

    /// Every key in use, for whole-table checks.
    pub(crate) fn indices(&self) -> impl Iterator<Item = u32> {
        let used = |index: &u32| self.entries[*index as usize].size() > 0;
        (0..self.entries.len() as u32).filter(used)
    }

    /// Panics unless every entry is either used and found, or free.
    pub(crate) fn check_invariants(&self) {
        let mut used_count = 0;
        for index in self.indices() {
            let key = self.bytes(index);
            assert!(self.find(self.hash(key), key) == Some(index));
            used_count += 1;
        }
        assert!(used_count == self.count());
        let mut free_count = 0;
        let mut at = self.free;
        while at != NIL {
            free_count += 1;
            at = self.entries[at as usize].first;
        }
        assert!(used_count + free_count == self.entries.len());
    }

    fn store(&mut self, key: &[u8]) -> u32 {
        let step = size_step(key.len());
        let class = &mut self.size_classes[class_of(key.len())];
        let place = if class.free == NIL {
            let place = (class.bytes.len() / step) as u32;
            class.bytes.resize(class.bytes.len() + step, 0);
            place
        } else {
            let start = class.free as usize * step;
            let mut next = [0; 4];
            next.copy_from_slice(&class.bytes[start..start + 4]);
            core::mem::replace(&mut class.free, u32::from_ne_bytes(next))
        };
        let start = place as usize * step;
        class.bytes[start..start + key.len()].copy_from_slice(key);
        place
    }
}

const fn class_of(size: usize) -> usize {
    (size - 1) / SIZE_STEP_BYTES
}

const fn size_step(size: usize) -> usize {
    (class_of(size) + 1) * SIZE_STEP_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn keys_of_every_size_are_kept_apart_and_places_are_reused() {
        let mut keys = Keys::new(&[7; 16]);
        let all: Vec<Vec<u8>> =
            (1..=KEY_SIZE_BYTES_MAX).map(|size| (0..size as u8).collect()).collect();
        for _ in 0..3 {
            let indices: Vec<u32> =
                all.iter().map(|key| keys.insert(keys.hash(key), key)).collect();
            for (key, index) in all.iter().zip(&indices) {
                assert_eq!(keys.find(keys.hash(key), key), Some(*index));
                assert_eq!(keys.bytes(*index), key);
            }
            for index in indices {
                keys.remove(index);
            }
            assert_eq!(keys.count(), 0);
            assert_eq!(keys.entries.len(), KEY_SIZE_BYTES_MAX);
        }
        for (class, places) in keys.size_classes.iter().enumerate() {
            assert_eq!(places.bytes.len(), SIZE_STEP_BYTES * size_step(class * 16 + 1));
        }
    }
}
