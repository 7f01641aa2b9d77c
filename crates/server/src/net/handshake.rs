//! From an accepted socket to a session: TLS if configured, hello, proof, verdict. Protocol,
//! "Connection".

use super::connection::Session;
use super::linger::{self, Lingering};
use super::seldom::Seldom;
use super::shared::Shared;
use super::socket::Socket;
use super::transport::Transport;
use crate::limits::{HANDSHAKE_TIME_MAX, LINGER_TIME_MAX};
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;
use std::io;
use std::sync::Arc;
use ticketing_auth::TokenSet;
use ticketing_wire_codec::limits::{NONCE_SIZE_BYTES, PROOF_SIZE_BYTES};
use ticketing_wire_codec::{Hello, Mode, VERDICT_ACCEPTED, VERDICT_REFUSED, proof_message};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

/// What every handshake needs.
pub(crate) struct Gate {
    pub(crate) shared: Arc<Shared>,
    pub(crate) tokens: TokenSet,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) random: SystemRandom,
    pub(crate) lingering: Arc<Lingering>,
    /// That there are too many connections: whoever is refused for it comes back.
    pub(crate) full: Seldom,
    /// How the server introduces itself.
    pub(crate) mode: Mode,
    /// What proofs are for.
    pub(crate) fingerprint: [u8; 32],
}

/// Why there is no session.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The peer closed, or broke TLS.
    Io(io::Error),
    /// Wrong proof.
    Proof,
    /// It took too long.
    Time,
    /// As many connections as allowed are there.
    TooMany,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(
                f,
                "the connection failed: {error}; if a client complains, check that both sides use \
                 TLS or neither"
            ),
            Self::Proof => f.write_str(
                "wrong token, or a replayed proof; give the client a token that TICKETING_TOKEN \
                 or TICKETING_TOKEN_FILE has",
            ),
            Self::Time => f.write_str(
                "the handshake took too long; if a client complains, check that both sides use \
                 TLS or neither",
            ),
            Self::TooMany => f.write_str(
                "TICKETING_MAX_CONNECTIONS connections are open; raise it, or let clients share \
                 connections",
            ),
        }
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Gate {
    /// The whole handshake, within its time.
    pub(crate) async fn pass(&self, stream: TcpStream) -> Result<(Transport, Session), Refusal> {
        let handshake = self.shake_hands(stream);
        tokio::time::timeout(HANDSHAKE_TIME_MAX, handshake).await.map_err(|_| Refusal::Time)?
    }

    async fn shake_hands(&self, stream: TcpStream) -> Result<(Transport, Session), Refusal> {
        let mut socket = Socket::new(stream)?;
        let Some(tls) = &self.tls else {
            let session = self.authenticate(&mut socket).await?;
            return Ok((Transport::Plain(socket), session));
        };
        // Large while it lasts; boxed so that plain handshakes do not carry it.
        let mut stream = Box::pin(tls.accept(socket)).await?;
        let session = self.authenticate(&mut stream).await?;
        Ok((Transport::tls(stream), session))
    }

    async fn authenticate<S>(&self, stream: &mut S) -> Result<Session, Refusal>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let hello = Hello { mode: self.mode, nonce: self.nonce()? };
        stream.write_all(&hello.encode()).await?;
        stream.flush().await?;
        let mut proof = [0; PROOF_SIZE_BYTES];
        stream.read_exact(&mut proof).await?;
        if !self.tokens.verify(&proof_message(&hello, &self.fingerprint), &proof) {
            stream.write_all(&[VERDICT_REFUSED]).await?;
            // Whether the peer closes in time or not, it is its proof that was wrong.
            let _ = tokio::time::timeout(LINGER_TIME_MAX, linger::close(stream)).await;
            return Err(Refusal::Proof);
        }
        // No verdict for a connection that the proof is not to blame for.
        let session = Session::open(&self.shared).ok_or(Refusal::TooMany)?;
        stream.write_all(&[VERDICT_ACCEPTED]).await?;
        stream.flush().await?;
        Ok(session)
    }

    fn nonce(&self) -> io::Result<[u8; NONCE_SIZE_BYTES]> {
        let mut nonce = [0; NONCE_SIZE_BYTES];
        self.random
            .fill(&mut nonce)
            .map_err(|_| io::Error::other("no random bytes; check that getrandom(2) is allowed"))?;
        Ok(nonce)
    }
}
