//! A client's byte stream, plain or in TLS, as the connection task uses it.

use super::socket::Socket;
use crate::limits::TLS_RECORD_SIZE_BYTES_MAX;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

/// A byte stream whose writes count only what the peer may be able to read.
pub(crate) enum Transport {
    /// TCP.
    Plain(Socket),
    /// TLS over TCP.
    Tls(Box<Tls>),
}

/// A TLS stream with at most one record on its way to the socket.
pub(crate) struct Tls {
    stream: TlsStream<Socket>,
    /// Plaintext in the record that the socket has not taken completely.
    record_size_bytes: usize,
}

impl Transport {
    pub(crate) fn tls(stream: TlsStream<Socket>) -> Self {
        Self::Tls(Box::new(Tls { stream, record_size_bytes: 0 }))
    }

    /// Reads what there is; 0 is the end.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        ready!(self.stream().poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    /// Writes from the start of `bytes`, which begins with what the last call did not report
    /// written. Bytes are reported once they are out of this process: a TLS record is all or
    /// nothing to its reader, and so it is here.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            Self::Tls(tls) => tls.poll_write(cx, bytes),
        }
    }

    /// Ready when the peer is gone, whether or not everything before was read.
    pub(crate) fn poll_hang_up(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Plain(socket) => socket.poll_hang_up(cx),
            Self::Tls(tls) => tls.stream.get_mut().0.poll_hang_up(cx),
        }
    }

    /// As any byte stream.
    pub(crate) fn stream(&mut self) -> Pin<&mut (dyn Stream + Unpin + Send)> {
        match self {
            Self::Plain(socket) => Pin::new(socket),
            Self::Tls(tls) => Pin::new(&mut tls.stream),
        }
    }
}

/// A byte stream in both directions.
pub(crate) trait Stream: AsyncRead + AsyncWrite {}
impl<T: AsyncRead + AsyncWrite> Stream for T {}

impl Tls {
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.record_size_bytes == 0 {
            let record = &bytes[..bytes.len().min(TLS_RECORD_SIZE_BYTES_MAX)];
            self.record_size_bytes = ready!(Pin::new(&mut self.stream).poll_write(cx, record))?;
        }
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        Poll::Ready(Ok(std::mem::take(&mut self.record_size_bytes)))
    }
}
