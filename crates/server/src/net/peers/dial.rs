//! The link to one peer: opened again for ever, carrying what the engine has for it.

use super::handshake::{self, Refusal};
use super::{PeerStream, Peers};
use crate::peer::hello::{Purpose, Verdict};
use crate::peer::limits::{
    PEER_HANDSHAKE_TIME_MAX, PEER_PROBE_COUNT, PEER_PROBE_PAUSE, PEER_UNACKNOWLEDGED_TIME_MAX,
    QUEUED_SIZE_BYTES_MAX, REDIAL_PAUSE,
};
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tracing::{debug, info, warn};

/// Keeps a link open.
pub(super) async fn keep_link(peers: Arc<Peers>, slot: u8) {
    let mut last_refusal = String::new();
    loop {
        match open(&peers, slot, Purpose::Messages).await {
            Ok((stream, incarnation)) => {
                info!(slot, "link open");
                last_refusal.clear();
                peers.shared.cluster(|engine, _| engine.set_link(slot, Some(incarnation)));
                let error = carry(&peers, slot, stream).await;
                debug!(slot, %error, "link closed");
                peers.shared.cluster(|engine, now| {
                    engine.set_link(slot, None);
                    engine.peer_closed(slot, incarnation, now);
                });
            }
            Err(refusal) => {
                let refusal = refusal.to_string();
                if refusal != last_refusal {
                    warn!(slot, address = peers.config.peer_address(slot), "no link: {refusal}");
                    last_refusal = refusal;
                }
            }
        }
        tokio::time::sleep(REDIAL_PAUSE).await;
    }
}

/// Connects and shakes hands. While the token is being replaced, the peer may know only one of
/// ours: one after another is tried.
pub(super) async fn open(
    peers: &Peers,
    slot: u8,
    purpose: Purpose,
) -> Result<(Box<dyn PeerStream>, u64), Refusal> {
    let mut token = 0;
    loop {
        let opened = open_with(peers, slot, purpose, token).await;
        token += 1;
        let is_refused = matches!(opened, Err(Refusal::Verdict(Verdict::Token)));
        if !is_refused || token == peers.config.tokens.count() {
            return opened;
        }
    }
}

/// Connects and proves one of the tokens, within its time.
async fn open_with(
    peers: &Peers,
    slot: u8,
    purpose: Purpose,
    token: usize,
) -> Result<(Box<dyn PeerStream>, u64), Refusal> {
    let attempt = async {
        let address = peers.config.peer_address(slot);
        let stream = TcpStream::connect(address).await?;
        prepare(&stream)?;
        let mut stream: Box<dyn PeerStream> = match &peers.tls {
            None => Box::new(stream),
            Some(tls) => Box::new(tls.connect(address, stream).await?),
        };
        let incarnation = handshake::dial(peers, slot, purpose, token, &mut *stream).await?;
        Ok((stream, incarnation))
    };
    match tokio::time::timeout(PEER_HANDSHAKE_TIME_MAX, attempt).await {
        Ok(result) => result,
        Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
    }
}

/// Socket options of every peer connection.
pub(super) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let options = SockRef::from(stream);
    let keepalive = TcpKeepalive::new()
        .with_time(PEER_PROBE_PAUSE)
        .with_interval(PEER_PROBE_PAUSE)
        .with_retries(PEER_PROBE_COUNT);
    options.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    options.set_tcp_user_timeout(Some(PEER_UNACKNOWLEDGED_TIME_MAX))?;
    Ok(())
}

/// Writes frames until the link breaks; says why.
async fn carry(peers: &Peers, slot: u8, stream: Box<dyn PeerStream>) -> io::Error {
    let (reader, writer) = tokio::io::split(stream);
    tokio::select! {
        error = write(peers, slot, writer) => error,
        error = wait_for_end(reader) => error,
    }
}

async fn write(peers: &Peers, slot: u8, mut writer: WriteHalf<Box<dyn PeerStream>>) -> io::Error {
    loop {
        peers.shared.peers[usize::from(slot)].notified().await;
        let frames = peers.shared.cluster(|engine, _| engine.take_frames(slot));
        let frames = frames.unwrap_or_default();
        if frames.len() > QUEUED_SIZE_BYTES_MAX {
            return io::Error::other("the peer is too far behind");
        }
        let written = async {
            writer.write_all(&frames).await?;
            writer.flush().await
        };
        if let Err(error) = written.await {
            return error;
        }
    }
}

/// The acceptor says nothing on a link, so anything but silence is its end.
async fn wait_for_end(mut reader: ReadHalf<Box<dyn PeerStream>>) -> io::Error {
    let mut byte = [0];
    match reader.read(&mut byte).await {
        Ok(0) => io::ErrorKind::UnexpectedEof.into(),
        Ok(_) => io::Error::new(io::ErrorKind::InvalidData, "bytes on a link that has none"),
        Err(error) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_link_notices_that_the_other_host_is_gone_although_nothing_is_sent() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("bound");
        let stream = TcpStream::connect(address).await.expect("connected");
        prepare(&stream).expect("the options exist");
        let options = SockRef::from(&stream);
        assert!(stream.nodelay().expect("an option"));
        assert!(options.keepalive().expect("an option"));
        assert_eq!(options.tcp_keepalive_time().expect("an option"), PEER_PROBE_PAUSE);
        assert_eq!(options.tcp_keepalive_interval().expect("an option"), PEER_PROBE_PAUSE);
    }
}
