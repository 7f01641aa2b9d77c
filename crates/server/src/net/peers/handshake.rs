//! Both sides of the handshake between nodes. Cluster protocol, "Handshake".

use super::tls::certificate_fault;
use super::{PeerStream, Peers};
use crate::peer::hello::{
    ACCEPTOR_HELLO_SIZE_BYTES, AcceptorHello, DIALER_HELLO_SIZE_BYTES, DialerHello, Purpose,
    Verdict,
};
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;
use std::io;
use ticketing_auth::{PEER_PROOF_SIZE_BYTES, PeerSide};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// How the end of a connection shows. A side without TLS ends one that begins with it.
const BROKEN_OFF: [io::ErrorKind; 2] =
    [io::ErrorKind::ConnectionReset, io::ErrorKind::UnexpectedEof];

/// Why there is no link.
#[derive(Debug)]
pub(super) enum Refusal {
    /// One side does not take the other's certificate.
    Certificate(String),
    /// The other side is no node, or broke off.
    Io(io::Error),
    /// The other side proved nothing, or the wrong token.
    Proof,
    /// It was refused, and told why.
    Verdict(Verdict),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        certificate_fault(&error).map_or(Self::Io(error), Self::Certificate)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificate(fault) => f.write_str(fault),
            Self::Io(error) if BROKEN_OFF.contains(&error.kind()) => f.write_str(
                "the peer broke off the handshake (is TICKETING_PEER_TLS_CERT set on every node, \
                 or on none?)",
            ),
            Self::Io(error) => error.fmt(f),
            Self::Proof => {
                f.write_str("the peer did not prove its token (compare TICKETING_PEER_TOKEN)")
            }
            Self::Verdict(verdict) => verdict.fmt(f),
        }
    }
}

/// Opens a link and proves one of the tokens; returns the incarnation of the process at its other
/// end.
pub(super) async fn dial(
    peers: &Peers,
    to_slot: u8,
    purpose: Purpose,
    token: usize,
    stream: &mut dyn PeerStream,
) -> Result<u64, Refusal> {
    let hello = DialerHello {
        purpose,
        from_slot: peers.config.slot,
        to_slot,
        incarnation: peers.incarnation,
        fingerprint: peers.config.fingerprint(),
        nonce: nonce()?,
    };
    let hello = hello.encode();
    stream.write_all(&hello).await?;
    stream.flush().await?;
    let mut answer = [0; ACCEPTOR_HELLO_SIZE_BYTES];
    stream.read_exact(&mut answer).await?;
    let theirs = AcceptorHello::decode(&answer)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not a node of a cluster"))?;
    if theirs.verdict != Verdict::Accepted {
        return Err(Refusal::Verdict(theirs.verdict));
    }
    if theirs.slot != to_slot {
        return Err(Refusal::Verdict(Verdict::Slot));
    }
    let hellos = [&hello[..], &answer[..]].concat();
    let tokens = &peers.config.tokens;
    stream.write_all(&tokens.prove(token, PeerSide::Dialer, &hellos)).await?;
    stream.flush().await?;
    let verdict = stream.read_u8().await?;
    match Verdict::from_byte(verdict) {
        Some(Verdict::Accepted) => {}
        Some(verdict) => return Err(Refusal::Verdict(verdict)),
        None => return Err(Refusal::Proof),
    }
    let mut proof = [0; PEER_PROOF_SIZE_BYTES];
    stream.read_exact(&mut proof).await?;
    if tokens.verify(PeerSide::Acceptor, &hellos, &proof).is_none() {
        return Err(Refusal::Proof);
    }
    Ok(theirs.incarnation)
}

/// Accepts a link.
pub(super) async fn accept(
    peers: &Peers,
    stream: &mut dyn PeerStream,
) -> Result<DialerHello, Refusal> {
    let mut hello = [0; DIALER_HELLO_SIZE_BYTES];
    stream.read_exact(&mut hello).await?;
    let theirs = DialerHello::decode(&hello)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not a node of a cluster"))?;
    let verdict = match &theirs {
        Err(verdict) => *verdict,
        Ok(theirs) => judge(peers, theirs),
    };
    let answer = AcceptorHello {
        verdict,
        slot: peers.config.slot,
        incarnation: peers.incarnation,
        nonce: nonce()?,
    };
    let answer = answer.encode();
    stream.write_all(&answer).await?;
    stream.flush().await?;
    let theirs = match theirs {
        Ok(theirs) if verdict == Verdict::Accepted => theirs,
        _ => return Err(Refusal::Verdict(verdict)),
    };
    let mut proof = [0; PEER_PROOF_SIZE_BYTES];
    stream.read_exact(&mut proof).await?;
    let hellos = [&hello[..], &answer[..]].concat();
    let tokens = &peers.config.tokens;
    let Some(token) = tokens.verify(PeerSide::Dialer, &hellos, &proof) else {
        stream.write_u8(Verdict::Token.byte()).await?;
        stream.shutdown().await?;
        return Err(Refusal::Proof);
    };
    stream.write_u8(Verdict::Accepted.byte()).await?;
    // The dialer may know only this one.
    stream.write_all(&tokens.prove(token, PeerSide::Acceptor, &hellos)).await?;
    stream.flush().await?;
    Ok(theirs)
}

fn judge(peers: &Peers, theirs: &DialerHello) -> Verdict {
    if theirs.fingerprint != peers.config.fingerprint() {
        Verdict::Identity
    } else if theirs.to_slot != peers.config.slot
        || theirs.from_slot == peers.config.slot
        || theirs.from_slot >= peers.config.slot_count()
    {
        Verdict::Slot
    } else {
        Verdict::Accepted
    }
}

fn nonce() -> io::Result<[u8; 32]> {
    let mut nonce = [0; 32];
    SystemRandom::new()
        .fill(&mut nonce)
        .map_err(|_| io::Error::other("the operating system gives no random bytes"))?;
    Ok(nonce)
}
