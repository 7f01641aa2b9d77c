//! Operations of one log entry, fixed-width and versioned.
//!
//! `version u8 = 1`, then operations: `kind u8` and its fields, unsigned big-endian. Keys are
//! `count u8 · count × (size u8 · key)`. Every replica reads an entry alike; bytes that make no
//! operation end it, on every replica at the same place.

use ticketing_lock_core::limits::SET_KEY_COUNT_MAX;
use ticketing_lock_core::{Command, Owner, SessionId, TableLimits};

const VERSION: u8 = 1;

mod kind {
    pub(super) const ACQUIRE: u8 = 1;
    pub(super) const CLEAR_WAITERS: u8 = 2;
    pub(super) const CLOSE_SESSION: u8 = 3;
    pub(super) const COMPARE: u8 = 4;
    pub(super) const CONFIGURE: u8 = 5;
    pub(super) const EXPIRE: u8 = 6;
    pub(super) const RAISE_TOKEN_FLOOR: u8 = 7;
    pub(super) const RECLAIM: u8 = 8;
    pub(super) const RELEASE: u8 = 9;
    pub(super) const TIME_OUT: u8 = 10;
}

/// The operations of an entry under construction.
#[derive(Debug)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![VERSION] }
    }

    /// An entry that could not be proposed.
    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Appends a command.
    pub(crate) fn push(&mut self, command: Command<'_>) {
        match command {
            Command::Acquire { owner, wait_seconds, lease_seconds, keys } => {
                self.bytes.push(kind::ACQUIRE);
                self.owner(owner);
                self.bytes.extend_from_slice(&[wait_seconds, lease_seconds]);
                self.keys(keys);
            }
            Command::ClearWaiters => self.bytes.push(kind::CLEAR_WAITERS),
            Command::CloseSession { session } => {
                self.bytes.push(kind::CLOSE_SESSION);
                self.u64(session.get());
            }
            Command::Configure { limits } => {
                self.bytes.push(kind::CONFIGURE);
                self.bytes.extend_from_slice(&limits.key_count_max.to_be_bytes());
                self.bytes.extend_from_slice(&limits.waiters_per_key_max.to_be_bytes());
            }
            Command::Expire { token, key } => {
                self.bytes.push(kind::EXPIRE);
                self.u64(token);
                self.keys(&[key]);
            }
            Command::RaiseTokenFloor { floor } => {
                self.bytes.push(kind::RAISE_TOKEN_FLOOR);
                self.u64(floor);
            }
            Command::Reclaim { session, token } => {
                self.bytes.push(kind::RECLAIM);
                self.u64(session.get());
                self.u64(token);
            }
            Command::Release { owner, token, keys } => {
                self.bytes.push(kind::RELEASE);
                self.owner(owner);
                self.u64(token);
                self.keys(keys);
            }
            Command::TimeOut { arrival } => {
                self.bytes.push(kind::TIME_OUT);
                self.u64(arrival);
            }
        }
    }

    /// Appends the proposer's checksum of everything up to a log index.
    pub(crate) fn push_comparison(&mut self, comparison: Comparison) {
        self.bytes.push(kind::COMPARE);
        self.u64(comparison.index);
        self.u64(comparison.history);
    }

    fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    fn owner(&mut self, owner: Owner) {
        self.u64(owner.session.get());
        self.u64(owner.request_id);
    }

    fn keys(&mut self, keys: &[&[u8]]) {
        self.bytes.push(keys.len() as u8);
        for key in keys {
            self.bytes.push(key.len() as u8);
            self.bytes.extend_from_slice(key);
        }
    }
}

/// A checksum over the effects of all entries up to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub(crate) index: u64,
    pub(crate) history: u64,
}

/// One operation, borrowed from its entry. Keys are in the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation<'a> {
    Command(Command<'a>),
    Compare(Comparison),
}

/// Reads the operations of an entry.
pub(crate) struct Operations<'a> {
    rest: &'a [u8],
    keys: [&'a [u8]; SET_KEY_COUNT_MAX],
}

impl<'a> Operations<'a> {
    /// Of an entry; none of a version that is not ours.
    pub(crate) fn new(entry: &'a [u8]) -> Self {
        let rest = match entry.split_first() {
            Some((&VERSION, rest)) => rest,
            _ => &[],
        };
        Self { rest, keys: [&[]; SET_KEY_COUNT_MAX] }
    }

    /// The next operation; `None` at the end, and at anything that is none.
    pub(crate) fn next(&mut self) -> Option<Operation<'_>> {
        let [kind] = self.array()?;
        let command = match kind {
            kind::ACQUIRE => {
                let owner = self.owner()?;
                let [wait_seconds, lease_seconds] = self.array()?;
                let keys = self.keys()?;
                Command::Acquire { owner, wait_seconds, lease_seconds, keys }
            }
            kind::CLEAR_WAITERS => Command::ClearWaiters,
            kind::CLOSE_SESSION => {
                Command::CloseSession { session: SessionId::from_u64(self.u64()?) }
            }
            kind::COMPARE => {
                let comparison = Comparison { index: self.u64()?, history: self.u64()? };
                return Some(Operation::Compare(comparison));
            }
            kind::CONFIGURE => {
                let key_count_max = u32::from_be_bytes(self.array()?);
                let waiters_per_key_max = u32::from_be_bytes(self.array()?);
                Command::Configure { limits: TableLimits { key_count_max, waiters_per_key_max } }
            }
            kind::EXPIRE => {
                let token = self.u64()?;
                Command::Expire { token, key: self.keys()?.first()? }
            }
            kind::RAISE_TOKEN_FLOOR => Command::RaiseTokenFloor { floor: self.u64()? },
            kind::RECLAIM => {
                let session = SessionId::from_u64(self.u64()?);
                Command::Reclaim { session, token: self.u64()? }
            }
            kind::RELEASE => {
                let owner = self.owner()?;
                let token = self.u64()?;
                Command::Release { owner, token, keys: self.keys()? }
            }
            kind::TIME_OUT => Command::TimeOut { arrival: self.u64()? },
            _ => return None,
        };
        Some(Operation::Command(command))
    }

    fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(size)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const SIZE: usize>(&mut self) -> Option<[u8; SIZE]> {
        self.take(SIZE)?.first_chunk().copied()
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn owner(&mut self) -> Option<Owner> {
        let session = SessionId::from_u64(self.u64()?);
        Some(Owner { session, request_id: self.u64()? })
    }

    fn keys(&mut self) -> Option<&[&'a [u8]]> {
        let [count] = self.array()?;
        let count = usize::from(count);
        if count > SET_KEY_COUNT_MAX {
            return None;
        }
        for at in 0..count {
            let [size] = self.array()?;
            self.keys[at] = self.take(usize::from(size))?;
        }
        Some(&self.keys[..count])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands() -> Vec<Command<'static>> {
        let owner = Owner { session: SessionId::new(7, 3), request_id: u64::MAX };
        let limits = TableLimits { key_count_max: 1, waiters_per_key_max: u32::MAX };
        vec![
            Command::Acquire { owner, wait_seconds: 255, lease_seconds: 1, keys: &[b"a", b"bb"] },
            Command::ClearWaiters,
            Command::CloseSession { session: owner.session },
            Command::Configure { limits },
            Command::Expire { token: 5, key: b"key" },
            Command::RaiseTokenFloor { floor: u64::MAX },
            Command::Reclaim { session: owner.session, token: 9 },
            Command::Release { owner, token: 1, keys: &[b"a"] },
            Command::TimeOut { arrival: 12 },
        ]
    }

    fn entry() -> Vec<u8> {
        let mut batch = Batch::new();
        for command in commands() {
            batch.push(command);
        }
        batch.push_comparison(Comparison { index: 4, history: 5 });
        batch.into_bytes()
    }

    #[test]
    fn every_operation_round_trips() {
        let entry = entry();
        let mut operations = Operations::new(&entry);
        for command in commands() {
            assert_eq!(operations.next(), Some(Operation::Command(command)));
        }
        let comparison = Comparison { index: 4, history: 5 };
        assert_eq!(operations.next(), Some(Operation::Compare(comparison)));
        assert_eq!(operations.next(), None);
    }

    #[test]
    fn a_cut_or_foreign_entry_ends_early_and_nothing_panics() {
        let entry = entry();
        for end in 0..entry.len() {
            let mut operations = Operations::new(&entry[..end]);
            while operations.next().is_some() {}
        }
        assert_eq!(Operations::new(&[2, kind::CLEAR_WAITERS]).next(), None);
        assert_eq!(Operations::new(&[VERSION, 99]).next(), None);
        let too_many_keys = [&[VERSION, kind::EXPIRE][..], &[0; 8], &[17]].concat();
        assert_eq!(Operations::new(&too_many_keys).next(), None);
    }

    #[test]
    fn the_bytes_are_for_ever() {
        let mut batch = Batch::new();
        batch.push(Command::RaiseTokenFloor { floor: 258 });
        batch.push(Command::Expire { token: 3, key: b"k" });
        let bytes = [1, 7, 0, 0, 0, 0, 0, 0, 1, 2, 6, 0, 0, 0, 0, 0, 0, 0, 3, 1, 1, b'k'];
        assert_eq!(batch.into_bytes(), bytes);
    }
}
