//! The golden vectors of the cluster protocol, both ways, and bytes that are none.

use super::assembly::Assembly;
use super::convert::{PeerFault, decode, decode_head, encode, encode_frame, snapshot_head};
use super::exercise::exercise;
use super::hello::{AcceptorHello, DialerHello, Purpose, Verdict};
use super::limits::{
    ENTRIES_PER_MESSAGE_MAX, FRAME_HEAD_SIZE_BYTES, FRAME_SIZE_BYTES_MAX,
    SMALL_FRAME_SIZE_BYTES_MAX,
};
use super::message::{PeerMessage, PeerStatus};
use super::wire::kind;
use bytes::Bytes;
use std::collections::BTreeMap;
use ticketing_raft_log::{
    Body, Entry, Membership, MembershipChange, Message, NodeId, Payload, SnapshotMeta, VoteKind,
};

fn node(generation: u32, slot: u8) -> NodeId {
    NodeId::new(generation, slot).expect("valid")
}

/// The file has a case a line; its words are what stands between quotation marks.
fn vectors() -> BTreeMap<String, Vec<u8>> {
    let text = include_str!("../../../../vectors/peer/frames.json");
    let hex = |text: &str| -> Vec<u8> {
        let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("hex"));
        digits.map(|pair| u8::from_str_radix(pair, 16).expect("hex")).collect()
    };
    let cases: BTreeMap<_, _> = text
        .lines()
        .filter(|line| line.starts_with("{\"id\""))
        .map(|line| line.split('"').collect::<Vec<_>>())
        .map(|words| (words[3].to_owned(), hex(words[11])))
        .collect();
    assert!(text.contains(&format!("\"case_count\": {}", cases.len())));
    cases
}

fn raft(body: Body) -> PeerMessage {
    let message = Message { from: node(1, 1), to: node(3, 2), term: 9, body };
    PeerMessage::Raft { group: 0x0102_0304_0506_0708, message }
}

fn messages() -> Vec<(&'static str, PeerMessage)> {
    let data = Payload::Data(Bytes::from_static(b"entry"));
    let replace = MembershipChange::Replace { old: node(1, 0), new: node(2, 0) };
    let entries = vec![
        Entry { index: 8, term: 9, payload: data },
        Entry { index: 9, term: 9, payload: Payload::Membership(replace) },
    ];
    let member = PeerStatus::Member { group: 5, node: node(1, 1), leader_slot: Some(0) };
    let pre_vote =
        Body::Vote { kind: VoteKind::Pre, last_index: 8, last_term: 7, commit: 6, commit_term: 5 };
    let vote = Body::VoteReply { kind: VoteKind::Real, granted: true, commit: 0, commit_term: 0 };
    vec![
        ("peer-003-admitted", PeerMessage::Admitted { group: 5, node: node(2, 0) }),
        ("peer-004-commit", PeerMessage::Commit { round: 5, incarnations: vec![1, 2, 3] }),
        ("peer-005-join", PeerMessage::Join),
        ("peer-006-prepare", PeerMessage::Prepare { round: u64::MAX, incarnations: vec![1, 2, 3] }),
        ("peer-007-promise", PeerMessage::Promise { round: u64::MAX }),
        ("peer-008-removed", PeerMessage::Removed { node: node(1, 4) }),
        ("peer-009-status-fresh", PeerMessage::Status(PeerStatus::Fresh { may_bootstrap: true })),
        ("peer-010-status-member", PeerMessage::Status(member)),
        (
            "peer-011-append",
            raft(Body::Append { previous_index: 7, previous_term: 8, commit: 6, entries }),
        ),
        ("peer-012-appended", raft(Body::Appended { index: 300, commit: 299 })),
        (
            "peer-013-append-refused",
            raft(Body::AppendRefused { index: 9, hint_index: 4, hint_term: 2, commit: 1 }),
        ),
        ("peer-014-heartbeat", raft(Body::Heartbeat { commit: 0 })),
        ("peer-015-heartbeat-reply", raft(Body::HeartbeatReply { commit: 128 })),
        ("peer-016-time-out-now", raft(Body::TimeoutNow)),
        ("peer-017-pre-vote", raft(pre_vote)),
        ("peer-018-vote-reply", raft(vote)),
    ]
}

fn decode_frame(frame: &[u8]) -> Result<PeerMessage, PeerFault> {
    let (head, payload) = frame.split_first_chunk::<FRAME_HEAD_SIZE_BYTES>().expect("a head");
    let (kind, size) = decode_head(*head)?;
    assert_eq!(size, payload.len());
    decode(kind, Bytes::copy_from_slice(payload))
}

#[test]
fn every_vector_decodes_to_its_message_and_encodes_back() {
    let vectors = vectors();
    let messages = messages();
    assert_eq!(
        vectors.len(),
        messages.len() + 4,
        "hellos and the snapshot have tests of their own"
    );
    for (id, message) in messages {
        let bytes = &vectors[id];
        assert_eq!(decode_frame(bytes), Ok(message.clone()), "{id}");
        let mut encoded = Vec::new();
        encode(message, &mut encoded);
        assert_eq!(&encoded, bytes, "{id}");
    }
}

#[test]
fn a_snapshot_is_the_vectors() {
    let vectors = vectors();
    let membership = Membership {
        voters: vec![node(1, 0), node(1, 1), node(1, 2)],
        outgoing: Vec::new(),
        learners: vec![node(3, 2)],
        generations: [1, 1, 3, 0, 0],
    };
    let meta = SnapshotMeta { index: 8, term: 7, membership };
    let body = Body::Snapshot { meta: meta.clone(), data: Bytes::from_static(b"state") };
    let message = Message { from: node(1, 1), to: node(3, 2), term: 9, body };
    let (mut head, group) = (Vec::new(), 0x0102_0304_0506_0708);
    encode_frame(kind::SNAPSHOT_HEAD, &snapshot_head(group, &message, &meta, 5), &mut head);
    assert_eq!(head, vectors["peer-019-snapshot-head"]);
    let head = Bytes::copy_from_slice(&head[FRAME_HEAD_SIZE_BYTES..]);
    let mut assembly = Assembly::begin(kind::SNAPSHOT_HEAD, head).expect("a head");
    let chunk = &vectors["peer-020-snapshot-chunk"];
    assert_eq!(chunk[..FRAME_HEAD_SIZE_BYTES], [0, 0, 0, 5, kind::SNAPSHOT_CHUNK]);
    assembly.add(kind::SNAPSHOT_CHUNK, &chunk[FRAME_HEAD_SIZE_BYTES..]).expect("a chunk");
    assert_eq!(assembly.finish(), PeerMessage::Raft { group, message });
}

#[test]
fn hellos_are_the_vectors() {
    let vectors = vectors();
    let dialer = DialerHello {
        purpose: Purpose::Messages,
        from_slot: 2,
        to_slot: 1,
        incarnation: 0x1122_3344_5566_7788,
        fingerprint: [0xf0; 32],
        nonce: [0x0d; 32],
    };
    assert_eq!(dialer.encode().as_slice(), vectors["peer-001-dialer-hello"]);
    let acceptor = AcceptorHello {
        verdict: Verdict::Accepted,
        slot: 1,
        incarnation: 0x8877_6655_4433_2211,
        nonce: [0x0a; 32],
    };
    assert_eq!(acceptor.encode().as_slice(), vectors["peer-002-acceptor-hello"]);
}

#[test]
fn cut_and_changed_frames_stop_no_node() {
    let vectors = vectors();
    // From slot 1, as the vectors have it, after some milliseconds.
    let input = |standing: u8, frames: &[&[u8]]| {
        let frames = frames.iter().flat_map(|frame| [&[3], *frame].concat());
        [standing].into_iter().chain(frames).collect::<Vec<u8>>()
    };
    for standing in 0..3 {
        for frame in vectors.values() {
            for end in 0..=frame.len() {
                exercise(&input(standing, &[&frame[..end]]));
            }
            for at in 0..frame.len() {
                let mut changed = frame.clone();
                changed[at] ^= 0x81;
                exercise(&input(standing, &[&changed, frame]));
            }
        }
        exercise(&input(standing, &vectors.values().map(Vec::as_slice).collect::<Vec<_>>()));
    }
    assert_eq!(decode(99, Bytes::new()), Err(PeerFault::Type));
}

#[test]
fn entries_are_counted_before_they_are_decoded() {
    // Empty ones, two bytes each.
    let raft = |count: usize| {
        let entries = [0x22, 0x00].repeat(count);
        let (low, high) = (entries.len() as u8 & 0x7f | 0x80, entries.len() >> 7);
        let size = [low, high as u8 & 0x7f | 0x80, (high >> 7) as u8];
        let ends = [0x10, 0x81, 0x02, 0x18, 0x82, 0x02];
        let payload = [&ends[..], &[0x2a], &size, &entries].concat();
        decode(kind::RAFT, payload.into())
    };
    let Ok(PeerMessage::Raft { message, .. }) = raft(ENTRIES_PER_MESSAGE_MAX) else {
        panic!("a message");
    };
    let Body::Append { entries, .. } = message.body else { panic!("an append") };
    assert_eq!(entries.len(), ENTRIES_PER_MESSAGE_MAX);
    assert_eq!(raft(ENTRIES_PER_MESSAGE_MAX + 1), Err(PeerFault::Payload));
}

#[test]
fn the_size_of_a_frame_is_checked_at_its_edge() {
    let head = |kind: u8, size: usize| {
        let [a, b, c, d] = (size as u32).to_be_bytes();
        decode_head([a, b, c, d, kind])
    };
    for kind in kind::ADMITTED..=kind::SNAPSHOT_CHUNK {
        let size_max = match kind {
            kind::RAFT | kind::SNAPSHOT_CHUNK => FRAME_SIZE_BYTES_MAX,
            _ => SMALL_FRAME_SIZE_BYTES_MAX,
        };
        assert_eq!(head(kind, size_max), Ok((kind, size_max)));
        assert_eq!(head(kind, size_max + 1), Err(PeerFault::Size));
    }
    for kind in [0, kind::SNAPSHOT_CHUNK + 1, u8::MAX] {
        assert_eq!(head(kind, 0), Err(PeerFault::Type));
    }
}
