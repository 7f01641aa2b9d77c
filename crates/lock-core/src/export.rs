//! A snapshot in slices, while commands go on being applied.
//!
//! A record never changes between the grant, or the arrival, and the end of it. So it is enough to
//! go through the nodes piece by piece, to write a record down early when its end comes first, and
//! to leave out what began after the start. The result is the state at the start, with the records
//! in no particular order.

use alloc::vec::Vec;

use crate::node::{Node, State};
use crate::table::LockTable;

/// A snapshot on its way.
#[derive(Debug)]
pub(crate) struct Export {
    /// Nodes below this have been visited.
    visited: u32,
    /// Nodes from this on were added after the start.
    end: u32,
    token_last: u64,
    arrival_last: u64,
    /// The head, and records written down early.
    pending: Vec<u8>,
}

impl Export {
    /// Whether this node has a record that is still to be written.
    fn wants(&self, index: u32, node: &Node) -> bool {
        let is_old = match node.state {
            State::Free | State::Link => false,
            State::Waiting | State::Dropping => node.number <= self.arrival_last,
            State::Holding => node.number <= self.token_last,
        };
        is_old && index >= self.visited && index < self.end
    }
}

impl LockTable {
    /// Starts a snapshot of the present state, to be taken in slices. One that was on its way is
    /// given up.
    pub fn begin_snapshot(&mut self) {
        let mut pending = Vec::new();
        self.encode_head(&mut pending);
        self.export = Some(Export {
            visited: 0,
            end: self.nodes.slot_count(),
            token_last: self.token_last,
            arrival_last: self.arrival_last,
            pending,
        });
    }

    /// Appends the next slice of the snapshot: the work for at most `node_count_max` requests, and
    /// what had to be written down since the last slice. `true` when there is more to come; the
    /// slices together are then what [`LockTable::decode_snapshot`] takes.
    pub fn continue_snapshot(&mut self, node_count_max: u32, out: &mut Vec<u8>) -> bool {
        let Some(mut export) = self.export.take() else {
            return false;
        };
        out.append(&mut export.pending);
        let end = export.visited.saturating_add(node_count_max).min(export.end);
        for index in export.visited..end {
            if export.wants(index, self.nodes.get(index)) {
                self.encode_record(index, out);
            }
        }
        export.visited = end;
        let has_more = end < export.end;
        if has_more {
            self.export = Some(export);
        }
        has_more
    }

    /// Gives up a snapshot that is on its way, and its memory.
    pub fn abandon_snapshot(&mut self) {
        self.export = None;
    }

    /// To be called before a waiter or a grant ceases to be what it is.
    #[inline]
    pub(crate) fn export_before_change(&mut self, index: u32) {
        if self.export.is_some() {
            self.write_down(index);
        }
    }

    #[cold]
    fn write_down(&mut self, index: u32) {
        let Some(mut export) = self.export.take() else {
            return;
        };
        if export.wants(index, self.nodes.get(index)) {
            self.encode_record(index, &mut export.pending);
        }
        self.export = Some(export);
    }
}
