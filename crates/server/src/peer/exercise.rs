//! Whatever a peer sends, against a node without sockets: for tests and for fuzzing.

use super::assembly::Assembly;
use super::convert::{PeerFault, decode, decode_head, encode, encode_frame, snapshot_head};
use super::hello::{AcceptorHello, DialerHello};
use super::limits::{CHUNK_SIZE_BYTES, FRAME_HEAD_SIZE_BYTES};
use super::message::PeerMessage;
use super::wire::kind;
use crate::cluster::life::{Birth, later};
use crate::cluster::replicated::{NodeSettings, Replicated};
use crate::engine::Engine;
use bytes::Bytes;
use std::time::Duration;
use ticketing_lock_core::{Instant, TableLimits};
use ticketing_raft_log::{Body, Message, NodeId, SnapshotOutcome};

/// The node that is exercised.
const SLOT: u8 = 2;
const SLOT_COUNT: u8 = 3;
/// Incarnation of a slot's process.
const INCARNATIONS: [u64; SLOT_COUNT as usize] = [10, 11, 12];
/// The cluster's group; that of the golden vectors.
const GROUP: u64 = 0x0102_0304_0506_0708;
/// How much time may pass before a frame.
const PAUSES: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(10),
    Duration::from_millis(200),
    Duration::from_millis(1_500),
];

/// Plays `bytes` to a node: first how it stands, then frames, each after a byte that says from whom
/// and when. A frame that is cut off has the payload that is there.
///
/// # Panics
/// When the node breaks: that is what this is for.
pub(crate) fn exercise(bytes: &[u8]) {
    hellos(bytes);
    let Some((standing, mut rest)) = bytes.split_first() else { return };
    let mut node = Node::new(*standing);
    while let Some((how, after)) = rest.split_first() {
        let Some((head, after)) = after.split_first_chunk::<FRAME_HEAD_SIZE_BYTES>() else {
            return;
        };
        let Ok((frame_kind, size)) = decode_head(*head) else { return };
        let (payload, after) = after.split_at(size.min(after.len()));
        rest = after;
        node.turn(*how);
        if node.take(how & 1, frame_kind, payload).is_err() {
            node.close(how & 1);
        }
    }
    // Whatever it believes now, its timers must not break it either.
    for _ in 0..PAUSES.len() {
        node.turn(u8::MAX);
    }
}

/// A hello that is taken has exactly these bytes; of another version only the verdict counts.
fn hellos(bytes: &[u8]) {
    if let Some(bytes) = bytes.first_chunk()
        && let Ok(Ok(hello)) = DialerHello::decode(bytes)
    {
        assert_eq!(&hello.encode(), bytes);
    }
    if let Some(bytes) = bytes.first_chunk()
        && let Ok(hello) = AcceptorHello::decode(bytes)
    {
        assert_eq!(AcceptorHello::decode(&hello.encode()), Ok(hello));
    }
}

/// A node, and the snapshots that its peers are sending.
struct Node {
    engine: Engine<Replicated>,
    now: Instant,
    assemblies: [Option<Assembly>; 2],
}

impl Node {
    /// Fresh, founding follower, or joiner.
    fn new(standing: u8) -> Self {
        let birth = Birth {
            slot: SLOT,
            slot_count: SLOT_COUNT,
            incarnation: INCARNATIONS[usize::from(SLOT)],
            bootstrap_until: later(Instant::from_nanos(0), Duration::from_secs(60)),
            was_member: false,
        };
        let settings = NodeSettings {
            birth,
            table: TableLimits { key_count_max: 100, waiters_per_key_max: 10 },
            hash_seed: [7; 16],
            seed: 1,
            unix_milliseconds_at_zero: 1_700_000_000_000,
        };
        let now = Instant::from_nanos(0);
        let engine = Engine::over(Replicated::new(settings, now), 1, 1);
        let mut node = Self { engine, now, assemblies: [None, None] };
        for slot in 0..SLOT {
            let incarnation = INCARNATIONS[usize::from(slot)];
            node.engine.peer_connected(slot, incarnation);
            node.engine.set_link(slot, Some(incarnation));
        }
        let first: &[PeerMessage] = match standing % 3 {
            0 => &[],
            1 => &[
                PeerMessage::Prepare { round: GROUP, incarnations: INCARNATIONS.into() },
                PeerMessage::Commit { round: GROUP, incarnations: INCARNATIONS.into() },
            ],
            _ => &[PeerMessage::Admitted {
                group: GROUP,
                node: NodeId::new(3, SLOT).expect("a slot of the cluster"),
            }],
        };
        for message in first {
            node.hear(0, message.clone()).expect("an honest beginning");
        }
        node
    }

    /// Lets time pass; sometimes the peer's last link was lost meanwhile.
    fn turn(&mut self, how: u8) {
        self.now = later(self.now, PAUSES[usize::from(how >> 1 & 3)]);
        self.engine.advance(self.now);
        if how & 0x78 == 0x78 {
            self.close(how & 1);
        }
        self.check_sent();
    }

    fn close(&mut self, slot: u8) {
        let incarnation = INCARNATIONS[usize::from(slot)];
        self.engine.peer_closed(slot, incarnation, self.now);
        self.engine.peer_connected(slot, incarnation);
        self.assemblies[usize::from(slot)] = None;
    }

    /// One frame, of a link or of a snapshot connection.
    fn take(&mut self, slot: u8, frame_kind: u8, payload: &[u8]) -> Result<(), PeerFault> {
        let payload = Bytes::copy_from_slice(payload);
        let place = &mut self.assemblies[usize::from(slot)];
        match frame_kind {
            kind::SNAPSHOT_HEAD => *place = Some(Assembly::begin(frame_kind, payload)?),
            kind::SNAPSHOT_CHUNK => {
                let assembly = place.as_mut().ok_or(PeerFault::Type)?;
                assembly.add(frame_kind, &payload)?;
            }
            _ => {
                let message = decode(frame_kind, payload)?;
                check_encoding(&message);
                return self.hear(slot, message);
            }
        }
        if let Some(whole) = place.take_if(|assembly| assembly.missing() == 0) {
            self.hear(slot, whole.finish())?;
        }
        Ok(())
    }

    fn hear(&mut self, slot: u8, message: PeerMessage) -> Result<(), PeerFault> {
        let incarnation = INCARNATIONS[usize::from(slot)];
        let heard = self.engine.peer_message(slot, incarnation, message, self.now);
        self.check_sent();
        heard.map_err(|_| PeerFault::Payload)
    }

    /// What a node sends, its peers can read.
    fn check_sent(&mut self) {
        for slot in 0..SLOT {
            let frames = self.engine.take_frames(slot);
            let mut rest = frames.as_slice();
            while let Some((head, after)) = rest.split_first_chunk() {
                let (frame_kind, size) = decode_head(*head).expect("its own frame");
                let (payload, after) = after.split_at(size);
                let message = decode(frame_kind, Bytes::copy_from_slice(payload));
                check_encoding(&message.expect("its own message"));
                rest = after;
            }
            assert!(rest.is_empty(), "whole frames");
        }
        for (group, message) in self.engine.take_snapshots() {
            let to = message.to;
            check_snapshot(group, message);
            self.engine.snapshot_sent(to, SnapshotOutcome::Failed, self.now);
        }
    }
}

/// A message's frame is that message again.
fn check_encoding(message: &PeerMessage) {
    let mut frame = Vec::new();
    encode(message.clone(), &mut frame);
    let (head, payload) = frame.split_first_chunk().expect("a head");
    let (frame_kind, size) = decode_head(*head).expect("a frame below the limit");
    assert_eq!(size, payload.len());
    assert_eq!(&decode(frame_kind, Bytes::copy_from_slice(payload)), &Ok(message.clone()));
}

/// So is a snapshot put together from its frames.
fn check_snapshot(group: u64, message: Message) {
    let Body::Snapshot { meta, data } = &message.body else { panic!("a snapshot") };
    let mut head = Vec::new();
    let size = data.len() as u64;
    encode_frame(kind::SNAPSHOT_HEAD, &snapshot_head(group, &message, meta, size), &mut head);
    let payload = Bytes::copy_from_slice(&head[FRAME_HEAD_SIZE_BYTES..]);
    let mut assembly = Assembly::begin(kind::SNAPSHOT_HEAD, payload).expect("its own head");
    for chunk in data.chunks(CHUNK_SIZE_BYTES) {
        assembly.add(kind::SNAPSHOT_CHUNK, chunk).expect("its own chunk");
    }
    assert_eq!(assembly.finish(), PeerMessage::Raft { group, message });
}
