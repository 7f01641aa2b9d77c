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
