//! The state as bytes.
//!
//! All integers are unsigned big-endian. A head of 44 bytes: version u32 = 1 · key count limit
//! u32 · waiters per key limit u32 · newest token u64 · newest arrival u64 · history u64 · grant
//! count u32 · waiter count u32. Then one record per grant and waiter: token or arrival u64 ·
//! session u64 · request id u64 · wait u8 (0: it is a grant) · lease u8 · key count u8 · key count
//! × (size u8 · key). The canonical form has the grants by token, then the waiters by arrival.
//! Nothing local to a process is in it: no deadline, no hash, no place in memory.

use alloc::collections::BinaryHeap;
use alloc::collections::binary_heap::PeekMut;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::command::{Owner, SessionId};
use crate::limits::SET_KEY_COUNT_MAX;
use crate::node::{NIL, State, TIMER};
use crate::table::{LockTable, Request};

/// Version of the format.
pub(crate) const VERSION: u32 = 1;
/// A record with one key of one byte.
pub(crate) const RECORD_SIZE_BYTES_MIN: usize = 29;
/// The digest is taken over pieces of about this size.
const DIGEST_PIECE_SIZE_BYTES: usize = 64 * 1024;

impl LockTable {
    /// Appends the canonical encoding of the state. Equal states give equal bytes.
    pub fn encode_snapshot(&self, out: &mut Vec<u8>) {
        self.encode_head(out);
        self.visit_in_order(|index| self.encode_record(index, out));
    }

    /// BLAKE3 over the canonical encoding. Takes time in proportion to what is stored; for frequent
    /// comparison there is [`LockTable::history`].
    pub fn digest(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        let mut piece = Vec::with_capacity(DIGEST_PIECE_SIZE_BYTES * 2);
        self.encode_head(&mut piece);
        self.visit_in_order(|index| {
            self.encode_record(index, &mut piece);
            if piece.len() >= DIGEST_PIECE_SIZE_BYTES {
                hasher.update(&piece);
                piece.clear();
            }
        });
        hasher.update(&piece);
        hasher.finalize().into()
    }

    pub(crate) fn encode_head(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&self.limits.key_count_max.to_be_bytes());
        out.extend_from_slice(&self.limits.waiters_per_key_max.to_be_bytes());
        out.extend_from_slice(&self.token_last.to_be_bytes());
        out.extend_from_slice(&self.arrival_last.to_be_bytes());
        out.extend_from_slice(&self.history.get().to_be_bytes());
        out.extend_from_slice(&self.holding_count.to_be_bytes());
        out.extend_from_slice(&(self.waiters.count() as u32).to_be_bytes());
    }

    pub(crate) fn encode_record(&self, index: u32, out: &mut Vec<u8>) {
        let node = self.nodes.get(index);
        // How long a grant had been willing to wait does not matter any more.
        let wait_seconds = if node.state == State::Holding { 0 } else { node.wait_seconds };
        out.extend_from_slice(&node.number.to_be_bytes());
        out.extend_from_slice(&node.owner.session.get().to_be_bytes());
        out.extend_from_slice(&node.owner.request_id.to_be_bytes());
        out.extend_from_slice(&[wait_seconds, node.lease_seconds, node.key_count]);
        let mut link = self.nodes.first_link(index);
        while link != NIL {
            let key = self.keys.bytes(self.nodes.get(link).key);
            out.push(key.len() as u8);
            out.extend_from_slice(key);
            link = self.nodes.next_link(link);
        }
    }

    /// All grants by token, then all waiters by arrival. Each timer ring has its part of them in
    /// order already, so merging the rings is enough.
    fn visit_in_order(&self, mut visit: impl FnMut(u32)) {
        let grants = (0..=u8::MAX).map(|lease| self.timers.first_holding(lease));
        self.merge(grants, &mut visit);
        let waiters = (0..=u8::MAX).map(|wait| self.timers.first_waiting(wait));
        self.merge(waiters, &mut visit);
    }

    fn merge(&self, rings: impl Iterator<Item = u32>, visit: &mut impl FnMut(u32)) {
        let mut heads: BinaryHeap<Reverse<(u64, u32, u32)>> = rings
            .filter(|first| *first != NIL)
            .map(|first| Reverse((self.nodes.get(first).number, first, first)))
            .collect();
        while let Some(mut head) = heads.peek_mut() {
            let Reverse((_, index, first)) = *head;
            visit(index);
            let next = self.nodes.next::<TIMER>(first, index);
            if next == NIL {
                PeekMut::pop(head);
            } else {
                *head = Reverse((self.nodes.get(next).number, next, first));
            }
        }
    }
}

/// A grant or a waiter as encoded.
pub(crate) struct Record<'a> {
    pub(crate) number: u64,
    pub(crate) request: Request,
    key_count: usize,
    keys: [&'a [u8]; SET_KEY_COUNT_MAX],
}

impl<'a> Record<'a> {
    pub(crate) fn keys(&self) -> &[&'a [u8]] {
        &self.keys[..self.key_count]
    }

    /// Reads one record; `None` when the bytes end within it or it has too many keys. Its values
    /// are still to be checked.
    pub(crate) fn read(reader: &mut Reader<'a>) -> Option<Self> {
        let number = reader.u64()?;
        let session = SessionId::from_u64(reader.u64()?);
        let owner = Owner { session, request_id: reader.u64()? };
        let [wait_seconds, lease_seconds, key_count] = *reader.array()?;
        let mut keys: [&[u8]; SET_KEY_COUNT_MAX] = [&[]; SET_KEY_COUNT_MAX];
        let key_count = usize::from(key_count);
        for key in keys.get_mut(..key_count)? {
            let [size] = *reader.array()?;
            *key = reader.take(usize::from(size))?;
        }
        let request = Request { owner, wait_seconds, lease_seconds };
        Some(Self { number, request, key_count, keys })
    }
}

/// Reads from the front of bytes and cannot leave them.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) const fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(size)?;
        self.rest = rest;
        Some(taken)
    }

    pub(crate) fn array<const SIZE: usize>(&mut self) -> Option<&'a [u8; SIZE]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(taken)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().copied().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().copied().map(u64::from_be_bytes)
    }
}
