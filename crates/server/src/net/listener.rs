//! Listening sockets.

use crate::limits::{ACCEPT_PAUSE, LISTEN_BACKLOG, MADE_ROOM_PAUSE};
use socket2::{Domain, Protocol, Socket, Type};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpStream};
use tracing::warn;

/// An address that cannot be listened on.
#[derive(Debug)]
pub struct ListenError {
    setting: &'static str,
    address: SocketAddr,
    error: io::Error,
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remedy = match self.error.kind() {
            io::ErrorKind::AddrInUse => {
                "another process has it: stop that one or take another port"
            }
            io::ErrorKind::AddrNotAvailable => "no interface has it: check the address",
            io::ErrorKind::PermissionDenied => "take a port from 1024 up, or grant the permission",
            _ => "check the address",
        };
        write!(f, "{}: {}: {}; {remedy}", self.setting, self.address, self.error)
    }
}

impl std::error::Error for ListenError {}

impl ListenError {
    /// The address came from another setting than `TICKETING_LISTEN`.
    pub(crate) fn for_setting(self, setting: &'static str) -> Self {
        Self { setting, ..self }
    }
}

/// Binds. Needs a running tokio runtime.
///
/// # Errors
/// Names the address and what to do about it.
pub(crate) fn bind(address: SocketAddr) -> Result<TcpListener, ListenError> {
    try_bind(address).map_err(|error| ListenError { setting: "TICKETING_LISTEN", address, error })
}

fn try_bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        // The same on every system, and `0.0.0.0` can be listed beside `[::]`.
        socket.set_only_v6(true)?;
    }
    // A restart must not wait for connections of the predecessor.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(LISTEN_BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Hands every accepted connection on, for ever. When there is no descriptor for another one,
/// `make_room` may give one up, and says whether it did.
pub(crate) async fn accept(
    listener: TcpListener,
    take: impl Fn(TcpStream),
    make_room: impl Fn() -> bool,
) {
    let mut is_failing = false;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                is_failing = false;
                take(stream);
            }
            // That peer gave up before it was accepted.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                // Once, not twenty times a second.
                if !std::mem::replace(&mut is_failing, true) {
                    warn!(
                        %error,
                        "cannot accept connections; trying again until it works. If open files \
                         ran out, raise their limit (ulimit -n, LimitNOFILE=) or lower \
                         TICKETING_MAX_CONNECTIONS"
                    );
                }
                let pause = if make_room() { MADE_ROOM_PAUSE } else { ACCEPT_PAUSE };
                tokio::time::sleep(pause).await;
            }
        }
    }
}
