//! From bytes back to a table.

use alloc::vec::Vec;
use core::fmt;

use crate::command::{Event, TableLimits};
use crate::history::History;
use crate::node::State;
use crate::snapshot::{RECORD_SIZE_BYTES_MIN, Reader, Record, VERSION};
use crate::table::{Admitted, LockTable, Turned};
use crate::time::Instant;

/// Why bytes are no snapshot. The remedy is the same for all but `Version`: fetch it again, from
/// another replica if it happens again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SnapshotFault {
    /// A grant wants a key that another one holds.
    HeldTwice,
    /// A value is outside its range; a token or an arrival above the newest one is, too.
    OutOfRange,
    /// Two grants have one token, or two waiters one arrival.
    Repeated,
    /// The size does not fit the number of grants and waiters.
    Size,
    /// The replica that made it writes a format this one does not know.
    Version {
        /// The version found.
        found: u32,
    },
    /// A request waits although its turn has come.
    WaitsForNothing,
}

impl fmt::Display for SnapshotFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HeldTwice => {
                f.write_str("lock snapshot: two grants hold one key; fetch it again")
            }
            Self::OutOfRange => {
                f.write_str("lock snapshot: a value is outside its range; fetch it again")
            }
            Self::Repeated => {
                f.write_str("lock snapshot: a token or an arrival occurs twice; fetch it again")
            }
            Self::Size => {
                f.write_str("lock snapshot: its size does not fit its counts; fetch it again")
            }
            Self::Version { found } => write!(
                f,
                "lock snapshot: format {found}, but this program reads format {VERSION}; \
                 run the same version on all nodes"
            ),
            Self::WaitsForNothing => {
                f.write_str("lock snapshot: a request waits for free keys; fetch it again")
            }
        }
    }
}

impl core::error::Error for SnapshotFault {}

/// Where a record is, and its place in the order.
struct RecordAt<'a> {
    number: u64,
    bytes: Reader<'a>,
}

impl RecordAt<'_> {
    fn check_order(&self, before: u64, last: u64) -> Result<(), SnapshotFault> {
        if self.number == 0 || self.number > last {
            return Err(SnapshotFault::OutOfRange);
        }
        if self.number == before {
            return Err(SnapshotFault::Repeated);
        }
        Ok(())
    }
}

/// What is restored was told to its owners long ago.
fn ignore(_: Event) {}

impl LockTable {
    /// The table that [`LockTable::encode_snapshot`], or the slices of
    /// [`LockTable::continue_snapshot`], described. Leases and waits begin anew at `now`, so none
    /// ends early. Any bytes give a table in which every invariant holds, or a fault; memory is
    /// bounded by the size of the bytes.
    ///
    /// # Errors
    /// [`SnapshotFault`].
    pub fn decode_snapshot(
        bytes: &[u8],
        hash_seed: [u8; 16],
        now: Instant,
    ) -> Result<Self, SnapshotFault> {
        let mut reader = Reader::new(bytes);
        let head = Head::read(&mut reader)?;
        let (grants, waiters) = head.sort_records(reader)?;
        // Limits may have been lowered since; what is there stays.
        let unlimited = TableLimits { key_count_max: u32::MAX, waiters_per_key_max: u32::MAX };
        let mut table = Self::new(hash_seed, unlimited);
        table.advance_clock(now);
        for grant in grants {
            table.restore_grant(grant, &head)?;
        }
        // Even where tokens have run out, waiters had come before.
        table.token_last = 0;
        for waiter in waiters {
            table.restore_waiter(waiter, &head)?;
        }
        table.token_last = head.token_last;
        table.arrival_last = head.arrival_last;
        table.history = History::from_u64(head.history);
        table.limits = head.limits;
        table.check_waiters()?;
        Ok(table)
    }

    fn restore_grant(&mut self, at: RecordAt<'_>, head: &Head) -> Result<(), SnapshotFault> {
        at.check_order(self.token_last, head.token_last)?;
        let admitted = self.restore(at.bytes)?;
        if !admitted.is_free {
            return Err(SnapshotFault::HeldTwice);
        }
        self.token_last = at.number - 1;
        self.hold(admitted.index, &mut ignore);
        Ok(())
    }

    fn restore_waiter(&mut self, at: RecordAt<'_>, head: &Head) -> Result<(), SnapshotFault> {
        at.check_order(self.arrival_last, head.arrival_last)?;
        let admitted = self.restore(at.bytes)?;
        self.arrival_last = at.number - 1;
        self.wait(admitted.index, &mut ignore);
        Ok(())
    }

    /// Enters a request into its queues as when it arrived.
    fn restore(&mut self, mut bytes: Reader<'_>) -> Result<Admitted, SnapshotFault> {
        let record = Record::read(&mut bytes).ok_or(SnapshotFault::Size)?;
        self.admit(record.request, record.keys()).map_err(|turned| match turned {
            Turned::Away(_) => SnapshotFault::OutOfRange,
            Turned::NotFree => SnapshotFault::HeldTwice,
        })
    }

    /// Whoever could be granted would have been.
    fn check_waiters(&self) -> Result<(), SnapshotFault> {
        let is_late =
            |index: u32| self.nodes.get(index).state == State::Waiting && self.is_its_turn(index);
        if (0..self.nodes.slot_count()).any(is_late) {
            return Err(SnapshotFault::WaitsForNothing);
        }
        Ok(())
    }
}

struct Head {
    limits: TableLimits,
    token_last: u64,
    arrival_last: u64,
    history: u64,
    grant_count: usize,
    waiter_count: usize,
}

impl Head {
    fn read(reader: &mut Reader<'_>) -> Result<Self, SnapshotFault> {
        let found = reader.u32().ok_or(SnapshotFault::Size)?;
        if found != VERSION {
            return Err(SnapshotFault::Version { found });
        }
        Self::read_fields(reader).ok_or(SnapshotFault::Size)
    }

    fn read_fields(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            limits: TableLimits {
                key_count_max: reader.u32()?,
                waiters_per_key_max: reader.u32()?,
            },
            token_last: reader.u64()?,
            arrival_last: reader.u64()?,
            history: reader.u64()?,
            grant_count: reader.u32()? as usize,
            waiter_count: reader.u32()? as usize,
        })
    }

    /// Finds all records and puts the grants and the waiters in order.
    fn sort_records<'a>(
        &self,
        mut reader: Reader<'a>,
    ) -> Result<(Vec<RecordAt<'a>>, Vec<RecordAt<'a>>), SnapshotFault> {
        // Before any memory is taken: are there bytes for so many?
        let count = self.grant_count + self.waiter_count;
        if count > reader.remaining() / RECORD_SIZE_BYTES_MIN {
            return Err(SnapshotFault::Size);
        }
        let mut grants = Vec::with_capacity(self.grant_count);
        let mut waiters = Vec::with_capacity(self.waiter_count);
        for _ in 0..count {
            let bytes = reader;
            let record = Record::read(&mut reader).ok_or(SnapshotFault::Size)?;
            let at = RecordAt { number: record.number, bytes };
            if record.request.wait_seconds == 0 { grants.push(at) } else { waiters.push(at) }
        }
        if reader.remaining() > 0 || grants.len() != self.grant_count {
            return Err(SnapshotFault::Size);
        }
        grants.sort_unstable_by_key(|at| at.number);
        waiters.sort_unstable_by_key(|at| at.number);
        Ok((grants, waiters))
    }
}
