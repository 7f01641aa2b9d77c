//! Connections on the peer port.

use super::dial::prepare;
use super::handshake::{self, Refusal};
use super::{PeerStream, Peers, snapshot};
use crate::net::{listener, lobby::Lobby};
use crate::peer::convert::{decode, decode_head};
use crate::peer::hello::{DialerHello, Purpose};
use crate::peer::limits::{
    FRAME_HEAD_SIZE_BYTES, PEER_HANDSHAKE_TIME_MAX, REFUSED_COUNT_MAX, REFUSED_MEMORY_TIME,
    UNPROVED_COUNT_MAX,
};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use ticketing_lock_core::Instant;
use tokio::io::{AsyncReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tracing::{debug, info, warn};

/// One read from the kernel, at most.
const READ_SIZE_BYTES: usize = 256 << 10;

/// Accepts for ever. Whoever has not proved the token yet waits in a lobby, where the oldest gives
/// way: silent connections keep no node out.
pub(super) async fn accept(peers: Arc<Peers>, listener: TcpListener) {
    let lobby = Arc::new(Lobby::new(UNPROVED_COUNT_MAX));
    let refused = Arc::new(Refused::new(peers.shared.now()));
    let hosts = Arc::clone(&lobby);
    let take = move |stream: TcpStream| {
        let (peers, refused) = (Arc::clone(&peers), Arc::clone(&refused));
        hosts.admit(|guest| async move {
            let address = stream.peer_addr().ok().map(|address| address.ip());
            let welcomed =
                tokio::time::timeout(PEER_HANDSHAKE_TIME_MAX, welcome(&peers, stream)).await;
            match welcomed {
                Ok(Ok((stream, hello))) => {
                    refused.forget(address);
                    // A task of its own: the lobby may still end this one.
                    tokio::spawn(async move { serve(&peers, stream, hello).await });
                }
                Ok(Err(Refusal::Io(error))) => debug!(?address, %error, "no peer link"),
                Ok(Err(refusal)) => {
                    let refusal = refusal.to_string();
                    if refused.is_news(address, &refusal, peers.shared.now()) {
                        warn!(?address, "peer refused: {refusal}");
                    }
                }
                Err(_) => debug!(?address, "no peer link: too slow"),
            }
            drop(guest);
        });
    };
    listener::accept(listener, take, move || lobby.make_room()).await;
}

/// What was said about whom: a node that is refused comes back ten times a second, and strangers as
/// often, and with as many faults, as they like.
struct Refused(Mutex<Said>);

struct Said {
    since: Instant,
    refusals: BTreeSet<(Option<IpAddr>, String)>,
}

impl Refused {
    fn new(now: Instant) -> Self {
        Self(Mutex::new(Said { since: now, refusals: BTreeSet::new() }))
    }

    /// Whether to say it. Beyond [`REFUSED_COUNT_MAX`] nothing is, until all is forgotten.
    fn is_news(&self, address: Option<IpAddr>, refusal: &str, now: Instant) -> bool {
        let mut said = self.lock();
        if said.since.until(now) >= REFUSED_MEMORY_TIME {
            *said = Said { since: now, refusals: BTreeSet::new() };
        }
        said.refusals.len() < REFUSED_COUNT_MAX
            && said.refusals.insert((address, refusal.to_owned()))
    }

    fn forget(&self, address: Option<IpAddr>) {
        self.lock().refusals.retain(|(of, _)| *of != address);
    }

    fn lock(&self) -> MutexGuard<'_, Said> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn welcome(
    peers: &Peers,
    stream: TcpStream,
) -> Result<(Box<dyn PeerStream>, DialerHello), Refusal> {
    prepare(&stream)?;
    let mut stream: Box<dyn PeerStream> = match &peers.tls {
        None => Box::new(stream),
        Some(tls) => Box::new(tls.accept(stream).await?),
    };
    let hello = handshake::accept(peers, &mut *stream).await?;
    Ok((stream, hello))
}

async fn serve(peers: &Peers, mut stream: Box<dyn PeerStream>, hello: DialerHello) {
    let DialerHello { from_slot: slot, incarnation, .. } = hello;
    if hello.purpose == Purpose::Snapshot {
        match snapshot::receive(peers, slot, incarnation, &mut *stream).await {
            Ok(size) => info!(slot, size, "snapshot received"),
            Err(error) if peers.broken.is_due(peers.shared.now()) => {
                warn!(slot, %error, "no snapshot");
            }
            Err(error) => debug!(slot, %error, "no snapshot"),
        }
        return;
    }
    peers.links.opened(slot, incarnation);
    peers.shared.cluster(|engine, _| engine.peer_connected(slot, incarnation));
    let error = read(peers, slot, incarnation, stream).await;
    let is_broken = error.kind() == io::ErrorKind::InvalidData;
    if is_broken && peers.broken.is_due(peers.shared.now()) {
        warn!(slot, %error, "a peer broke the protocol; its link is closed");
    } else {
        debug!(slot, %error, "peer's link closed");
    }
    if peers.links.closed(slot, incarnation) {
        peers.shared.cluster(|engine, now| engine.peer_closed(slot, incarnation, now));
    }
}

/// Takes frames until the link ends; says why.
async fn read(peers: &Peers, slot: u8, incarnation: u64, stream: Box<dyn PeerStream>) -> io::Error {
    let mut reader = BufReader::with_capacity(READ_SIZE_BYTES, stream);
    loop {
        let (kind, payload) = match read_frame(&mut reader).await {
            Ok(frame) => frame,
            Err(error) => return error,
        };
        let message = match decode(kind, payload) {
            Ok(message) => message,
            Err(fault) => return broken(&fault),
        };
        let taken = peers.shared.cluster(|engine, now| {
            let taken = engine.peer_message(slot, incarnation, message, now);
            peers.note_membership(engine.take_has_joined());
            taken
        });
        if let Some(Err(violation)) = taken {
            return broken(&violation.0);
        }
    }
}

/// What no honest node sends.
fn broken(fault: &dyn fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, fault.to_string())
}

/// One frame. Its size is checked before memory is taken.
pub(super) async fn read_frame(
    reader: &mut (impl AsyncReadExt + Unpin),
) -> io::Result<(u8, Bytes)> {
    let mut head = [0; FRAME_HEAD_SIZE_BYTES];
    reader.read_exact(&mut head).await?;
    let (kind, size) = decode_head(head).map_err(|fault| broken(&fault))?;
    let mut payload = vec![0; size];
    reader.read_exact(&mut payload).await?;
    Ok((kind, payload.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::life::later;

    #[test]
    fn each_refusal_of_an_address_is_news_once_in_a_while() {
        let start = Instant::from_nanos(1);
        let refused = Refused::new(start);
        let address = |number: u8| Some(IpAddr::from([127, 0, 0, number]));
        let is_news = |number, refusal| refused.is_news(address(number), refusal, start);
        assert!(is_news(1, "token") && is_news(2, "token") && is_news(1, "slot"));
        // Nor by turns.
        assert!(!is_news(1, "token") && !is_news(1, "slot") && !is_news(2, "token"));
        // It was let in meanwhile.
        refused.forget(address(2));
        assert!(is_news(2, "token"));
        let said = (0..=u8::MAX).filter(|number| is_news(*number, "slot")).count();
        assert_eq!(said, REFUSED_COUNT_MAX - 3);
        assert!(refused.is_news(address(1), "token", later(start, REFUSED_MEMORY_TIME)));
    }
}
