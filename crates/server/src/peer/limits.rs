//! Bounds of the peer protocol, with their units.

use crate::limits::DESCRIPTOR_RESERVE_COUNT;
use std::time::Duration;
use ticketing_raft_log::limits::{
    APPEND_SIZE_BYTES_MAX, APPENDS_IN_FLIGHT_MAX, ENTRY_SIZE_BYTES_MAX,
};

/// Length u32 and type u8 before every payload.
pub(crate) const FRAME_HEAD_SIZE_BYTES: usize = 5;
/// Largest payload. One append message carries entries of [`APPEND_SIZE_BYTES_MAX`] or a single one
/// of [`ENTRY_SIZE_BYTES_MAX`]; the rest is room for their fields.
pub(crate) const FRAME_SIZE_BYTES_MAX: usize = 3 << 20;
const _: () = {
    assert!(FRAME_SIZE_BYTES_MAX >= 2 * ENTRY_SIZE_BYTES_MAX);
    assert!(FRAME_SIZE_BYTES_MAX as u64 >= 2 * APPEND_SIZE_BYTES_MAX);
};
/// Largest payload of the other messages: a few numbers for each slot.
pub(crate) const SMALL_FRAME_SIZE_BYTES_MAX: usize = 1 << 10;
/// Payload of a snapshot chunk.
pub(crate) const CHUNK_SIZE_BYTES: usize = 256 << 10;
/// Largest snapshot that is taken.
pub(crate) const SNAPSHOT_SIZE_BYTES_MAX: u64 = 4 << 30;
/// Entries of one raft message. More than a leader sends, and few enough that decoding costs
/// little memory beyond the frame.
pub(crate) const ENTRIES_PER_MESSAGE_MAX: usize = 65_536;

/// Frames for one peer that wait to be sent. Beyond it the oldest knowledge is worthless: the link
/// is reset and raft starts over with what the peer has.
pub(crate) const QUEUED_SIZE_BYTES_MAX: usize = 32 << 20;
/// A peer that catches up is sent this much at once.
const _: () = assert!(
    QUEUED_SIZE_BYTES_MAX as u64 >= 2 * APPENDS_IN_FLIGHT_MAX as u64 * APPEND_SIZE_BYTES_MAX
);

/// TCP connect, TLS and handshake with a peer.
pub(crate) const PEER_HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(3);
/// Pause before a link that broke or was refused is opened again.
pub(crate) const REDIAL_PAUSE: Duration = Duration::from_millis(100);
/// A peer that takes or sends nothing of a snapshot for this long is given up.
pub(crate) const SNAPSHOT_SILENCE_TIME_MAX: Duration = Duration::from_secs(5);
/// From the last byte of a snapshot to the receiver's word that it has taken it: in between it
/// reads millions of records, on a slow machine. That its host is gone shows earlier.
pub(crate) const SNAPSHOT_TAKEN_TIME_MAX: Duration = Duration::from_secs(60);
/// Unacknowledged bytes or probes on a link end it after this: its host is gone.
pub(crate) const PEER_UNACKNOWLEDGED_TIME_MAX: Duration = Duration::from_secs(4);
/// Silence before the kernel probes whether the other host still exists, and between two probes. An
/// acceptor sends nothing on a link, so it would never notice.
pub(crate) const PEER_PROBE_PAUSE: Duration = Duration::from_secs(2);
/// Unanswered probes that end a link where unacknowledged bytes do not.
pub(crate) const PEER_PROBE_COUNT: u32 = 3;
/// Connections on the peer port that have not proved anything yet. One more displaces the oldest.
pub(crate) const UNPROVED_COUNT_MAX: usize = 64;
/// Beside them there are links and snapshots, and what every server has.
const _: () = assert!(UNPROVED_COUNT_MAX as u64 + 64 <= DESCRIPTOR_RESERVE_COUNT);
/// Refusals that are remembered, so that each is logged once.
pub(crate) const REFUSED_COUNT_MAX: usize = 64;
/// After this they are forgotten, and logged again.
pub(crate) const REFUSED_MEMORY_TIME: Duration = Duration::from_secs(600);
