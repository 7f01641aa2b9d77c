//! One accepted connection of the judge: raw bytes, handshake, frames.

use crate::clock;
use crate::failure::{Check, fail, hex, same, same_bytes};
use crate::frame::{HEAD_SIZE_BYTES, Identity, PROOF_SIZE_BYTES, Request};
use crate::limits::{SPLIT_PAUSE, STEP_LIMIT};
use ring::rand::{SecureRandom, SystemRandom};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// A connection from the client, from its acceptance to its end.
pub struct Conn {
    /// Slot of the address it came to; 0 in single mode.
    pub slot: usize,
    /// `None` once cut or closed.
    stream: Option<Stream>,
    /// Bytes read but not yet given out.
    buffer: Vec<u8>,
    /// Request id that must come next.
    next_id: u64,
}

/// The bytes' way.
pub enum Stream {
    /// Straight.
    Plain(TcpStream),
    /// Through TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

/// How the judge ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// As a process that exits: FIN, or RST when it had not read everything.
    Close,
    /// As a host that forgot: RST.
    Reset,
}

trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

impl Stream {
    fn io(&mut self) -> &mut dyn Socket {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.as_mut(),
        }
    }

    fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }
}

impl Conn {
    /// Of a stream just accepted.
    pub const fn new(slot: usize, stream: Stream) -> Self {
        Self { slot, stream: Some(stream), buffer: Vec::new(), next_id: 1 }
    }

    /// Whether the judge still has it.
    pub const fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    /// The server's side of a good handshake, the proof checked. `false` when the client closes
    /// without a byte: it may have given up while it waited to be accepted.
    ///
    /// # Errors
    /// When the proof is not the one right one, or only a part of it comes.
    pub async fn greet(&mut self, identity: &Identity) -> Check<bool> {
        let nonce = fresh_nonce();
        if self.write(&identity.hello(self.slot, &nonce)).await.is_err() {
            return Ok(false);
        }
        let mut first = [0];
        let read = match &mut self.stream {
            Some(stream) => tokio::time::timeout(STEP_LIMIT, stream.io().read(&mut first)).await,
            None => return Ok(false),
        };
        match read {
            Ok(Ok(1)) => self.buffer.push(first[0]),
            Ok(_) => return Ok(false),
            Err(_) => return fail("the proof", format!("none within {STEP_LIMIT:?}")),
        }
        let proof = self.take("the proof", PROOF_SIZE_BYTES).await?;
        same_bytes("proof", &identity.proof(self.slot, &nonce), &proof)?;
        self.write(&[1]).await?;
        Ok(true)
    }

    /// Sends bytes as one write.
    ///
    /// # Errors
    /// When the connection is gone.
    pub async fn write(&mut self, bytes: &[u8]) -> Check {
        let Some(stream) = &mut self.stream else {
            return fail("an open connection", "the judge had cut it");
        };
        let io = stream.io();
        let sent = async {
            io.write_all(bytes).await?;
            io.flush().await
        };
        match sent.await {
            Ok(()) => Ok(()),
            Err(error) => fail(
                "an open connection",
                format!("the client closed it before it was sent {}: {error}", hex(bytes)),
            ),
        }
    }

    /// Sends bytes in pieces that end at `places`, so that they arrive apart.
    ///
    /// # Errors
    /// When the connection is gone.
    pub async fn write_split(&mut self, bytes: &[u8], places: &[usize]) -> Check {
        let mut from = 0;
        for place in places.iter().copied().chain([bytes.len()]) {
            if from > 0 {
                tokio::time::sleep(SPLIT_PAUSE).await;
            }
            self.write(&bytes[from..place]).await?;
            from = place;
        }
        Ok(())
    }

    /// Exactly the next `count` bytes; nothing after them is taken from the socket.
    ///
    /// # Errors
    /// When they do not come.
    pub async fn take(&mut self, what: &str, count: usize) -> Check<Vec<u8>> {
        let mut bytes: Vec<u8> = self.buffer.drain(..count.min(self.buffer.len())).collect();
        let Some(stream) = &mut self.stream else {
            return fail(what, "a connection that the judge had cut");
        };
        let limit = clock::now() + STEP_LIMIT;
        while bytes.len() < count {
            let mut part = vec![0; count - bytes.len()];
            match tokio::time::timeout_at(limit.into(), stream.io().read(&mut part)).await {
                Ok(Ok(0)) => {
                    return fail(what, format!("end of connection after {}", hex(&bytes)));
                }
                Ok(Ok(size)) => bytes.extend(&part[..size]),
                Ok(Err(error)) => return fail(what, format!("{error} after {}", hex(&bytes))),
                Err(_) => {
                    return fail(what, format!("{} within {STEP_LIMIT:?}", hex(&bytes)));
                }
            }
        }
        Ok(bytes)
    }

    /// Waits for the client to close, without a byte more.
    ///
    /// # Errors
    /// When it sends something or keeps the connection.
    pub async fn closed_by_client(&mut self, limit: Duration) -> Check {
        let expected = "the client closes the connection without another byte";
        let Some(stream) = &mut self.stream else {
            return fail(expected, "the judge had cut it");
        };
        if !self.buffer.is_empty() {
            return fail(expected, hex(&self.buffer));
        }
        let mut part = [0; 256];
        match tokio::time::timeout(limit, stream.io().read(&mut part)).await {
            Ok(Ok(0) | Err(_)) => {
                self.stream = None;
                Ok(())
            }
            Ok(Ok(size)) => fail(expected, format!("it sent {}", hex(&part[..size]))),
            Err(_) => fail(expected, format!("still open after {limit:?}")),
        }
    }

    /// Ends it.
    pub fn cut(&mut self, how: Cut) {
        if let Some(stream) = self.stream.take()
            && how == Cut::Reset
        {
            // Refused only for sockets that are gone already.
            let _ = stream.tcp().set_zero_linger();
        }
    }

    /// Closes the sending direction only: the client reads an end, but can still write.
    ///
    /// # Errors
    /// The socket's.
    pub async fn half_close(&mut self) -> Check {
        if let Some(stream) = &mut self.stream {
            stream.io().shutdown().await?;
        }
        Ok(())
    }

    /// Ready when bytes wait in the socket or the client has closed; takes none.
    pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(Stream::Plain(tcp)) = &self.stream else {
            return Poll::Pending;
        };
        let mut byte = [0];
        tcp.poll_peek(cx, &mut ReadBuf::new(&mut byte)).map(|_| ())
    }

    /// The next whole request, or `None` when the client has closed; the judge then lets go too.
    pub(crate) fn poll_request(
        &mut self,
        cx: &mut Context<'_>,
        conn: usize,
    ) -> Poll<Check<Option<Request>>> {
        loop {
            if let Some(request) = self.parse(conn)? {
                return Poll::Ready(Ok(Some(request)));
            }
            let Some(stream) = &mut self.stream else {
                return Poll::Pending;
            };
            let mut part = [0; 4096];
            let mut space = ReadBuf::new(&mut part);
            let read = ready!(Pin::new(stream.io()).poll_read(cx, &mut space));
            if read.is_err() || space.filled().is_empty() {
                self.stream = None;
                return Poll::Ready(Ok(None));
            }
            self.buffer.extend(space.filled());
        }
    }

    /// A complete frame at the start of the buffer, its opcode and id checked.
    fn parse(&mut self, conn: usize) -> Check<Option<Request>> {
        let Some(op) = self.buffer.first() else {
            return Ok(None);
        };
        if !b"ARSG".contains(op) {
            return fail("a request", format!("bytes {}", hex(&self.buffer)));
        }
        let Some(size) = self.buffer.get(1..HEAD_SIZE_BYTES) else {
            return Ok(None);
        };
        let size = HEAD_SIZE_BYTES + usize::from(u16::from_be_bytes([size[0], size[1]]));
        if self.buffer.len() < size {
            return Ok(None);
        }
        let bytes = self.buffer.drain(..size).collect();
        let request = Request { conn, slot: self.slot, bytes, at: clock::now() };
        same("request ids count up from 1 on each connection", self.next_id, request.id())?;
        self.next_id += 1;
        Ok(Some(request))
    }
}

/// A nonce from the system's random source.
pub fn fresh_nonce() -> [u8; 16] {
    let mut nonce = [0; 16];
    // The judge needs different nonces, not secret ones.
    let _ = SystemRandom::new().fill(&mut nonce);
    nonce
}

/// The index of the first connection in which bytes wait.
pub(crate) fn first_readable(conns: &[Conn]) -> impl Future<Output = usize> + '_ {
    poll_fn(|cx| {
        let found = conns.iter().position(|conn| conn.poll_readable(cx).is_ready());
        found.map_or(Poll::Pending, Poll::Ready)
    })
}
