//! The frames of a snapshot connection, put together. Cluster protocol, "Frames".

use super::convert::{PeerFault, read, snapshot_message};
use super::limits::SNAPSHOT_SIZE_BYTES_MAX;
use super::message::PeerMessage;
use super::wire::{SnapshotHead, kind};
use bytes::Bytes;
use ticketing_raft_log::{Body, Message, NodeId};

/// A snapshot that is arriving.
#[derive(Debug)]
pub(crate) struct Assembly {
    group: u64,
    /// Whole but for the state.
    message: Message,
    /// Grows with what arrives, not with what is announced.
    data: Vec<u8>,
    size: u64,
}

impl Assembly {
    /// From the first frame.
    pub(crate) fn begin(frame_kind: u8, payload: Bytes) -> Result<Self, PeerFault> {
        if frame_kind != kind::SNAPSHOT_HEAD {
            return Err(PeerFault::Type);
        }
        let head: SnapshotHead = read(payload)?;
        if head.size > SNAPSHOT_SIZE_BYTES_MAX {
            return Err(PeerFault::Size);
        }
        let message = snapshot_message(&head)?;
        Ok(Self { group: head.group, message, data: Vec::new(), size: head.size })
    }

    /// The group and the process that it is for.
    pub(crate) fn addressee(&self) -> (u64, NodeId) {
        (self.group, self.message.to)
    }

    /// Bytes that are still to come.
    pub(crate) fn missing(&self) -> u64 {
        self.size - self.data.len() as u64
    }

    /// Takes the next frame.
    pub(crate) fn add(&mut self, frame_kind: u8, chunk: &[u8]) -> Result<(), PeerFault> {
        if frame_kind != kind::SNAPSHOT_CHUNK {
            return Err(PeerFault::Type);
        }
        if chunk.is_empty() {
            return Err(PeerFault::Payload);
        }
        if chunk.len() as u64 > self.missing() {
            return Err(PeerFault::Size);
        }
        self.data.extend_from_slice(chunk);
        Ok(())
    }

    /// The message, once nothing is missing.
    pub(crate) fn finish(mut self) -> PeerMessage {
        assert_eq!(self.missing(), 0, "only a whole snapshot is used");
        if let Body::Snapshot { data, .. } = &mut self.message.body {
            *data = self.data.into();
        }
        PeerMessage::Raft { group: self.group, message: self.message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::convert::snapshot_head;
    use prost::Message as _;
    use ticketing_raft_log::{Membership, SnapshotMeta};

    fn message(data: &'static [u8]) -> (Message, SnapshotMeta) {
        let id = |slot| NodeId::new(1, slot).expect("valid");
        let membership = Membership {
            voters: vec![id(0), id(1), id(2)],
            outgoing: Vec::new(),
            learners: vec![NodeId::new(2, 1).expect("valid")],
            generations: [1, 2, 1, 0, 0],
        };
        let meta = SnapshotMeta { index: 9, term: 3, membership };
        let body = Body::Snapshot { meta: meta.clone(), data: Bytes::from_static(data) };
        (Message { from: id(0), to: id(1), term: 4, body }, meta)
    }

    fn head(size: u64) -> SnapshotHead {
        let (message, meta) = message(b"");
        snapshot_head(7, &message, &meta, size)
    }

    fn begin(head: &SnapshotHead) -> Result<Assembly, PeerFault> {
        Assembly::begin(kind::SNAPSHOT_HEAD, head.encode_to_vec().into())
    }

    #[test]
    fn a_snapshot_arrives_as_it_was_sent() {
        let mut assembly = begin(&head(5)).expect("a head");
        for chunk in [&b"ab"[..], b"cd", b"e"] {
            assert!(assembly.missing() > 0);
            assembly.add(kind::SNAPSHOT_CHUNK, chunk).expect("a chunk");
        }
        let whole = PeerMessage::Raft { group: 7, message: message(b"abcde").0 };
        assert_eq!(assembly.finish(), whole);
        let empty = PeerMessage::Raft { group: 7, message: message(b"").0 };
        assert_eq!(begin(&head(0)).expect("a head").finish(), empty);
    }

    #[test]
    fn heads_that_cannot_be_are_refused_before_any_chunk() {
        assert!(begin(&head(SNAPSHOT_SIZE_BYTES_MAX)).is_ok());
        let fault = |head: &SnapshotHead| begin(head).expect_err("refused");
        assert_eq!(fault(&head(SNAPSHOT_SIZE_BYTES_MAX + 1)), PeerFault::Size);
        assert_eq!(fault(&SnapshotHead { voters: vec![256; 6], ..head(1) }), PeerFault::Payload);
        assert_eq!(fault(&SnapshotHead { learners: vec![255], ..head(1) }), PeerFault::Payload);
        assert_eq!(fault(&SnapshotHead { generations: vec![1; 4], ..head(1) }), PeerFault::Payload);
        assert_eq!(fault(&SnapshotHead { from: 0, ..head(1) }), PeerFault::Payload);
        let other = Assembly::begin(kind::SNAPSHOT_CHUNK, Bytes::from_static(b"x"));
        assert_eq!(other.expect_err("no head"), PeerFault::Type);
    }

    #[test]
    fn chunks_fill_exactly_what_was_announced() {
        let mut assembly = begin(&head(2)).expect("a head");
        assert_eq!(assembly.add(kind::SNAPSHOT_HEAD, b"a"), Err(PeerFault::Type));
        assert_eq!(assembly.add(kind::SNAPSHOT_CHUNK, b""), Err(PeerFault::Payload));
        assert_eq!(assembly.add(kind::SNAPSHOT_CHUNK, b"abc"), Err(PeerFault::Size));
        assert_eq!(assembly.add(kind::SNAPSHOT_CHUNK, b"ab"), Ok(()));
        assert_eq!(assembly.add(kind::SNAPSHOT_CHUNK, b"c"), Err(PeerFault::Size));
    }
}
