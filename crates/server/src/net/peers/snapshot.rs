//! Snapshots, each on a connection of its own, so that heartbeats never wait behind one.

use super::accept::read_frame;
use super::{PeerStream, Peers, dial};
use crate::peer::assembly::Assembly;
use crate::peer::convert::{PeerFault, encode_frame, snapshot_head};
use crate::peer::hello::Purpose;
use crate::peer::limits::{
    CHUNK_SIZE_BYTES, FRAME_HEAD_SIZE_BYTES, SNAPSHOT_SILENCE_TIME_MAX, SNAPSHOT_TAKEN_TIME_MAX,
};
use crate::peer::wire::{SnapshotHead, kind};
use bytes::Bytes;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use ticketing_raft_log::{Body, Message, SnapshotOutcome};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tracing::{info, warn};

/// The receiver's last byte: all of it arrived and was taken.
const TAKEN: u8 = 1;

/// Sends what the engine has made, for ever.
pub(super) async fn send_all(peers: Arc<Peers>) {
    let mut sending = JoinSet::new();
    loop {
        peers.shared.cluster_news.notified().await;
        let snapshots = peers.shared.cluster(|engine, _| engine.take_snapshots());
        for (group, message) in snapshots.unwrap_or_default() {
            sending.spawn(send(Arc::clone(&peers), group, message));
        }
        while sending.try_join_next().is_some() {}
    }
}

async fn send(peers: Arc<Peers>, group: u64, message: Message) {
    let to = message.to;
    let outcome = match try_send(&peers, group, message).await {
        Ok(size) => {
            info!(%to, size, "snapshot sent");
            SnapshotOutcome::Sent
        }
        Err(error) => {
            warn!(%to, %error, "snapshot not sent; trying again");
            SnapshotOutcome::Failed
        }
    };
    peers.shared.cluster(|engine, now| engine.snapshot_sent(to, outcome, now));
}

async fn try_send(peers: &Peers, group: u64, mut message: Message) -> io::Result<usize> {
    let body = std::mem::replace(&mut message.body, Body::TimeoutNow);
    let Body::Snapshot { meta, data } = body else {
        return Err(io::Error::other("not a snapshot"));
    };
    let (mut stream, _) = dial::open(peers, message.to.slot(), Purpose::Snapshot)
        .await
        .map_err(|refusal| io::Error::other(refusal.to_string()))?;
    write(&mut *stream, &snapshot_head(group, &message, &meta, data.len() as u64), &data).await?;
    match within(SNAPSHOT_TAKEN_TIME_MAX, stream.read_u8()).await? {
        TAKEN => Ok(data.len()),
        _ => Err(io::Error::other("the peer did not take it")),
    }
}

async fn write(stream: &mut dyn PeerStream, head: &SnapshotHead, data: &Bytes) -> io::Result<()> {
    let mut frame = Vec::new();
    encode_frame(kind::SNAPSHOT_HEAD, head, &mut frame);
    patiently(stream.write_all(&frame)).await?;
    for chunk in data.chunks(CHUNK_SIZE_BYTES) {
        let mut frame_head = [0; FRAME_HEAD_SIZE_BYTES];
        frame_head[..4].copy_from_slice(&(chunk.len() as u32).to_be_bytes());
        frame_head[4] = kind::SNAPSHOT_CHUNK;
        patiently(stream.write_all(&frame_head)).await?;
        patiently(stream.write_all(chunk)).await?;
    }
    patiently(stream.flush()).await
}

/// Takes one snapshot; its size.
pub(super) async fn receive(
    peers: &Peers,
    slot: u8,
    incarnation: u64,
    stream: &mut dyn PeerStream,
) -> io::Result<u64> {
    let broken = |fault: PeerFault| io::Error::new(io::ErrorKind::InvalidData, fault.to_string());
    let (frame_kind, payload) = patiently(read_frame(&mut &mut *stream)).await?;
    let mut assembly = Assembly::begin(frame_kind, payload).map_err(broken)?;
    // The slot's process before may have died while the snapshot was made for it. Taking it would
    // look like a sign of life of that one.
    let own = peers.shared.cluster(|engine, _| engine.member()).flatten();
    if own != Some(assembly.addressee()) {
        return Err(io::Error::other("it is for another process of this slot"));
    }
    let size = assembly.missing();
    while assembly.missing() > 0 {
        let (frame_kind, chunk) = patiently(read_frame(&mut &mut *stream)).await?;
        assembly.add(frame_kind, &chunk).map_err(broken)?;
    }
    let message = assembly.finish();
    let taken =
        peers.shared.cluster(|engine, now| engine.peer_message(slot, incarnation, message, now));
    match taken {
        Some(Ok(())) => {
            stream.write_u8(TAKEN).await?;
            stream.flush().await?;
            Ok(size)
        }
        Some(Err(violation)) => {
            Err(io::Error::new(io::ErrorKind::InvalidData, violation.0.to_string()))
        }
        None => Err(io::Error::other("not in a cluster")),
    }
}

/// Gives up on a peer that is silent for too long.
async fn patiently<T>(step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    within(SNAPSHOT_SILENCE_TIME_MAX, step).await
}

async fn within<T>(time_max: Duration, step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match tokio::time::timeout(time_max, step).await {
        Ok(result) => result,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::cluster::life::Birth;
    use crate::cluster::replicated::{NodeSettings, Replicated};
    use crate::config::{ClusterConfig, parse_slots};
    use crate::engine::Engine;
    use crate::net::engines::Engines;
    use crate::net::shared::Shared;
    use crate::peer::message::PeerMessage;
    use ticketing_auth::{ClusterId, PeerTokens};
    use ticketing_lock_core::TableLimits;
    use ticketing_raft_log::{Membership, NodeId, SnapshotMeta};

    const GROUP: u64 = 7;
    const LEADER_INCARNATION: u64 = 5;

    fn id(generation: u32, slot: u8) -> NodeId {
        NodeId::new(generation, slot).expect("valid")
    }

    /// A process in slot 1 that knows nothing yet.
    fn fresh() -> Arc<Peers> {
        let clock = Clock::start();
        let now = clock.now();
        let birth = Birth {
            slot: 1,
            slot_count: 3,
            incarnation: 6,
            bootstrap_until: now,
            was_member: false,
        };
        let settings = NodeSettings {
            birth,
            table: TableLimits { key_count_max: 10, waiters_per_key_max: 10 },
            hash_seed: [1; 16],
            seed: 1,
            unix_milliseconds_at_zero: 0,
        };
        let engine = Engine::over(Replicated::new(settings, now), 10, 10);
        let shared = Arc::new(Shared::new(Engines::Cluster(Box::new(engine)), clock));
        let slots = ["a:1", "b:1", "c:1"].map(str::to_owned);
        let config = ClusterConfig {
            id: ClusterId::new([7; 16], 1_700_000_000, 60),
            slot: 1,
            slots: parse_slots(&slots).expect("three"),
            tokens: PeerTokens::from_value("TOKEN", "0123456789abcdef").expect("a token"),
            peer_listen: ([127, 0, 0, 1], 1).into(),
        };
        Peers::new(shared, config, birth.incarnation, None, None)
    }

    /// The leader has admitted the process as this one.
    fn admit(peers: &Peers, node: NodeId) {
        let admitted = PeerMessage::Admitted { group: GROUP, node };
        let taken = peers.shared.cluster(|engine, now| {
            engine.peer_message(0, LEADER_INCARNATION, admitted, now).expect("from a leader");
        });
        assert_eq!(taken, Some(()));
    }

    /// What a process says to the head of a snapshot for the second process of its slot.
    async fn answer(peers: &Peers) -> io::Result<u64> {
        let membership = Membership {
            voters: vec![id(1, 0), id(1, 1), id(1, 2)],
            outgoing: Vec::new(),
            learners: vec![id(2, 1)],
            generations: [1, 2, 1, 0, 0],
        };
        let meta = SnapshotMeta { index: 9, term: 3, membership };
        let body = Body::Snapshot { meta: meta.clone(), data: Bytes::new() };
        let message = Message { from: id(1, 0), to: id(2, 1), term: 4, body };
        let (mut theirs, mut ours) = tokio::io::duplex(CHUNK_SIZE_BYTES);
        let head = snapshot_head(GROUP, &message, &meta, 1);
        write(&mut theirs, &head, &Bytes::from_static(b"x")).await.expect("room");
        receive(peers, 0, LEADER_INCARNATION, &mut ours).await
    }

    #[tokio::test]
    async fn a_process_takes_no_snapshot_for_another_one_of_its_slot() {
        let peers = fresh();
        let is_for_another = |answer: io::Result<u64>| {
            answer.expect_err("refused").to_string().contains("another process")
        };
        assert!(is_for_another(answer(&peers).await));
        admit(&peers, id(3, 1));
        assert!(is_for_another(answer(&peers).await));
        let peers = fresh();
        admit(&peers, id(2, 1));
        // One byte is no lock table.
        assert!(!is_for_another(answer(&peers).await));
    }
}
