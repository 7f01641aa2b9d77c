//! From an address to an accepted connection: TCP, TLS, handshake. Protocol, "Connection".

use crate::address::Address;
use crate::limits::{CONNECT_TIMEOUT, HANDSHAKE_TIMEOUT, KEEPALIVE_IDLE, KEEPALIVE_INTERVAL};
use crate::tls::{TlsTarget, explain};
use socket2::{SockRef, TcpKeepalive};
use std::io;
use ticketing_auth::ClientToken;
use ticketing_wire_codec::limits::{FINGERPRINT_SIZE_BYTES, HELLO_SIZE_BYTES};
use ticketing_wire_codec::{
    Hello, HelloFault, Mode, VERDICT_ACCEPTED, VERDICT_REFUSED, proof_message,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

/// Where a connection goes, and what it says and expects there.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) address: Address,
    pub(crate) tls: Option<TlsTarget>,
    pub(crate) identity: Identity,
    /// Where tests take the server's end of an in-memory connection instead.
    #[cfg(test)]
    pub(crate) memory: Option<crate::tests::MemoryDialer>,
}

/// Both sides of the handshake.
#[derive(Clone)]
pub(crate) struct Identity {
    /// What the server's hello has to say.
    pub(crate) mode: Mode,
    pub(crate) fingerprint: [u8; FINGERPRINT_SIZE_BYTES],
    pub(crate) token: ClientToken,
}

/// An accepted connection.
pub(crate) enum Transport {
    #[cfg(test)]
    Memory(tokio::io::DuplexStream),
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Why there is no connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ConnectError {
    /// Anything but the token.
    Failed(String),
    /// The server refused the token.
    Refused,
}

/// What to do about a peer that does not shake hands.
const CHECK_TLS: &str = "check that both sides use TLS or neither";

/// Connects and shakes hands.
pub(crate) async fn connect(target: &Target) -> Result<Transport, ConnectError> {
    #[cfg(test)]
    if let Some(dialer) = &target.memory {
        let shaken = async {
            let mut stream = dialer.dial().map_err(ConnectError::Failed)?;
            shake_hands(&mut stream, &target.identity).await?;
            Ok(Transport::Memory(stream))
        };
        return timeout(HANDSHAKE_TIMEOUT, shaken).await.unwrap_or_else(|_| Err(too_slow()));
    }
    let place = (&*target.address.host, target.address.port);
    let stream = within(CONNECT_TIMEOUT, TcpStream::connect(place)).await?;
    prepare(&stream).map_err(|error| {
        ConnectError::Failed(format!("cannot set the socket's options: {error}; try again"))
    })?;
    let handshake = async {
        match &target.tls {
            None => {
                let mut stream = stream;
                shake_hands(&mut stream, &target.identity).await?;
                Ok(Transport::Plain(stream))
            }
            Some(TlsTarget { connector, server_name }) => {
                let stream = connector.connect(server_name.clone(), stream).await;
                let mut stream = stream.map_err(|error| ConnectError::Failed(explain(&error)))?;
                shake_hands(&mut stream, &target.identity).await?;
                Ok(Transport::Tls(Box::new(stream)))
            }
        }
    };
    timeout(HANDSHAKE_TIMEOUT, handshake).await.unwrap_or_else(|_| Err(too_slow()))
}

fn too_slow() -> ConnectError {
    ConnectError::Failed(format!("no handshake within {HANDSHAKE_TIMEOUT:?}; {CHECK_TLS}"))
}

async fn within<T>(
    limit: std::time::Duration,
    action: impl Future<Output = io::Result<T>>,
) -> Result<T, ConnectError> {
    let reason = match timeout(limit, action).await {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            format!("{error}; check that the server runs there")
        }
        Ok(Err(error)) => format!("{error}; check the address"),
        Err(_) => format!(
            "no connection within {limit:?}; check the address, and that no firewall is in between"
        ),
    };
    Err(ConnectError::Failed(reason))
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

/// The client's side of the handshake.
pub(crate) async fn shake_hands(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    identity: &Identity,
) -> Result<(), ConnectError> {
    let failed =
        |error: io::Error| ConnectError::Failed(format!("handshake: {error}; {CHECK_TLS}"));
    let mut hello = [0; HELLO_SIZE_BYTES];
    stream.read_exact(&mut hello).await.map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => ConnectError::Failed(format!(
            "handshake: the peer closed the connection without a word; {CHECK_TLS}"
        )),
        _ => failed(error),
    })?;
    let hello = Hello::decode(&hello).map_err(hello_fault)?;
    if hello.mode != identity.mode {
        return Err(ConnectError::Failed(mode_mismatch(identity.mode, hello.mode)));
    }
    let proof = identity.token.prove(&proof_message(&hello, &identity.fingerprint));
    stream.write_all(&proof).await.map_err(failed)?;
    stream.flush().await.map_err(failed)?;
    let verdict = stream.read_u8().await.map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => ConnectError::Failed(
            "handshake: the server closed the connection without a verdict; it has as many \
             connections as it may have, or is stopping: look at its log"
                .into(),
        ),
        _ => failed(error),
    })?;
    match verdict {
        VERDICT_ACCEPTED => Ok(()),
        VERDICT_REFUSED => Err(ConnectError::Refused),
        other => Err(ConnectError::Failed(format!(
            "handshake: unknown verdict {other}; check that a Ticketing server of this release \
             runs there"
        ))),
    }
}

fn hello_fault(fault: HelloFault) -> ConnectError {
    let remedy = match fault {
        HelloFault::Magic => "check the address, and that both sides use TLS or neither",
        _ => "use a client and a server of the same protocol version",
    };
    ConnectError::Failed(format!("handshake: {fault}; {remedy}"))
}

fn mode_mismatch(expected: Mode, found: Mode) -> String {
    let name = |mode| match mode {
        Mode::Single => "a single server".to_owned(),
        Mode::Cluster { self_slot } => format!("slot {} of a cluster", self_slot.get()),
    };
    format!(
        "handshake: expected {}, found {}; list the addresses of a cluster in slot order, with its \
         fingerprint",
        name(expected),
        name(found)
    )
}
