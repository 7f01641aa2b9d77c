//! Counts what a payload holds before memory is taken for it.
//!
//! An empty log entry has two bytes on the wire and a hundred in memory, so the size of a frame
//! alone does not bound what decoding it takes.

use super::convert::PeerFault;

/// Field of a raft payload that holds an append.
const APPEND: u64 = 5;
/// Field of an append that holds one entry.
const ENTRY: u64 = 4;

/// Entries in a raft payload. A field that comes twice is merged when decoded, so all count.
pub(super) fn entry_count(raft: &[u8]) -> Result<usize, PeerFault> {
    let mut count = 0;
    each_field(raft, APPEND, &mut |append| {
        each_field(append, ENTRY, &mut |_| {
            count += 1;
            Ok(())
        })
    })?;
    Ok(count)
}

/// Shows every length-delimited field with that number.
fn each_field(
    mut payload: &[u8],
    wanted: u64,
    show: &mut dyn FnMut(&[u8]) -> Result<(), PeerFault>,
) -> Result<(), PeerFault> {
    while !payload.is_empty() {
        let tag = varint(&mut payload)?;
        let size = match tag & 7 {
            0 => {
                varint(&mut payload)?;
                continue;
            }
            1 => 8,
            2 => usize::try_from(varint(&mut payload)?).map_err(|_| PeerFault::Payload)?,
            5 => 4,
            // Groups: no message of this protocol ever had one.
            _ => return Err(PeerFault::Payload),
        };
        let (value, rest) = payload.split_at_checked(size).ok_or(PeerFault::Payload)?;
        payload = rest;
        if tag == wanted << 3 | 2 {
            show(value)?;
        }
    }
    Ok(())
}

/// At most ten bytes of seven bits each, the lowest first.
fn varint(payload: &mut &[u8]) -> Result<u64, PeerFault> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = payload.split_first().ok_or(PeerFault::Payload)?;
        *payload = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(PeerFault::Payload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::wire::{Append, Body, Entry, Raft};
    use prost::Message;

    fn raft(entry_count: usize) -> Vec<u8> {
        let append = Append { entries: vec![Entry::default(); entry_count], ..Append::default() };
        let body = Some(Body::Append(append));
        Raft { group: 1, from: 300, body, ..Raft::default() }.encode_to_vec()
    }

    #[test]
    fn entries_are_counted_in_every_append() {
        for count in [0, 1, 3] {
            assert_eq!(entry_count(&raft(count)), Ok(count));
        }
        assert_eq!(entry_count(&[raft(2), raft(3)].concat()), Ok(5));
    }

    #[test]
    fn what_is_cut_or_foreign_is_a_fault() {
        let whole = raft(2);
        for end in 1..whole.len() {
            let found = entry_count(&whole[..end]);
            assert!(matches!(found, Ok(0) | Err(PeerFault::Payload)), "{end}: {found:?}");
        }
        for foreign in [&[0x0b_u8][..], &[0x08, 0xff], &[0xff; 11], &[0x0a, 0xff, 0xff, 0x7f]] {
            assert_eq!(entry_count(foreign), Err(PeerFault::Payload), "{foreign:?}");
        }
    }
}
