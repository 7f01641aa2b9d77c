//! One TCP connection: socket options, and noticing a hang-up without reading.

use crate::limits::{
    KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, KEEPALIVE_PROBE_COUNT, PEER_SILENCE_TIME_MAX,
};
use socket2::{SockRef, TcpKeepalive};
use std::future::Future;
use std::io::{self, ErrorKind, Read};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// A client's socket.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: TcpStream,
    /// Readiness was cleared while there may be something to read; so the next read asks the
    /// kernel first.
    is_readiness_stale: bool,
}

impl Socket {
    /// Takes over a freshly accepted stream.
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let socket = SockRef::from(&stream);
        let keepalive = TcpKeepalive::new()
            .with_time(KEEPALIVE_IDLE)
            .with_interval(KEEPALIVE_INTERVAL)
            .with_retries(KEEPALIVE_PROBE_COUNT);
        socket.set_tcp_keepalive(&keepalive)?;
        #[cfg(target_os = "linux")]
        socket.set_tcp_user_timeout(Some(PEER_SILENCE_TIME_MAX))?;
        Ok(Self { stream, is_readiness_stale: false })
    }

    /// Ready when the peer has closed its side or reset the connection, even if bytes before that
    /// are unread: a connection that is not read from must not hide that its client is gone.
    pub(crate) fn poll_hang_up(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if ready!(self.stream.poll_read_ready(cx)).is_err() {
                return Poll::Ready(());
            }
            let readiness = pin!(self.stream.ready(Interest::READABLE));
            match readiness.poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Ok(state)) if !state.is_read_closed() => {}
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => {}
            }
            // Only bytes. Forget them, so that the next event is news.
            self.is_readiness_stale = true;
            let forget = || Err::<(), _>(ErrorKind::WouldBlock.into());
            let _ = self.stream.try_io(Interest::READABLE, forget);
        }
    }

    fn read_stale(&mut self, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match (&*SockRef::from(&self.stream)).read(buf.initialize_unfilled()) {
            Ok(size) => {
                // A short read emptied the socket; what comes later is a new event.
                self.is_readiness_stale = buf.remaining() == size;
                buf.advance(size);
                Poll::Ready(Ok(()))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.is_readiness_stale = false;
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_readiness_stale
            && let Poll::Ready(result) = self.read_stale(buf)
        {
            return Poll::Ready(result);
        }
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        // A read that filled its buffer used up an old event; a newer one, perhaps of the end, may
        // not have been looked at. The handshake ends with such a read.
        self.is_readiness_stale = buf.remaining() == 0;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    async fn pair() -> (Socket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let (client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (server, _) = server.expect("accepted");
        (Socket::new(server).expect("socket options"), client.expect("connected"))
    }

    /// What they do is the chaos scenario `vanished-host`, which needs privileges; that every
    /// socket has them is this.
    #[tokio::test]
    async fn a_vanished_host_will_be_noticed() {
        let (socket, _client) = pair().await;
        let options = SockRef::from(&socket.stream);
        assert!(options.keepalive().expect("an option"));
        assert_eq!(options.tcp_keepalive_time().expect("an option"), KEEPALIVE_IDLE);
        assert_eq!(options.tcp_keepalive_interval().expect("an option"), KEEPALIVE_INTERVAL);
        assert_eq!(options.tcp_keepalive_retries().expect("an option"), KEEPALIVE_PROBE_COUNT);
        #[cfg(target_os = "linux")]
        assert_eq!(options.tcp_user_timeout().expect("an option"), Some(PEER_SILENCE_TIME_MAX));
    }

    async fn has_hung_up(socket: &mut Socket) -> bool {
        poll_fn(|cx| Poll::Ready(socket.poll_hang_up(cx).is_ready())).await
    }

    #[tokio::test]
    async fn an_end_behind_unread_bytes_is_noticed_and_the_bytes_are_kept() {
        let (mut socket, mut client) = pair().await;
        for piece in [b"one", b"two"] {
            client.write_all(piece).await.expect("sent");
            socket.stream.readable().await.expect("bytes");
            assert!(!has_hung_up(&mut socket).await);
            // Bytes are forgotten as news; asking again waits for the next.
            assert!(!has_hung_up(&mut socket).await);
        }
        client.shutdown().await.expect("half closed");
        poll_fn(|cx| socket.poll_hang_up(cx)).await;
        let mut bytes = Vec::new();
        socket.read_to_end(&mut bytes).await.expect("all before the end");
        assert_eq!(bytes, b"onetwo");
    }

    #[tokio::test]
    async fn reading_goes_on_after_it_was_paused() {
        let (mut socket, mut client) = pair().await;
        client.write_all(&[7; 100]).await.expect("sent");
        socket.stream.readable().await.expect("bytes");
        assert!(!has_hung_up(&mut socket).await);
        let mut bytes = [0; 60];
        assert_eq!(socket.read(&mut bytes).await.expect("bytes"), 60);
        assert_eq!(socket.read(&mut bytes).await.expect("bytes"), 40);
        assert!(!has_hung_up(&mut socket).await);
        let (read, sent) = tokio::join!(socket.read(&mut bytes), client.write_all(b"more"));
        assert_eq!((read.expect("bytes"), sent.is_ok()), (4, true));
    }

    #[tokio::test]
    async fn a_reset_is_noticed() {
        let (mut socket, mut client) = pair().await;
        client.write_all(b"unread").await.expect("sent");
        SockRef::from(&client).set_linger(Some(std::time::Duration::ZERO)).expect("an option");
        drop(client);
        poll_fn(|cx| socket.poll_hang_up(cx)).await;
    }
}
