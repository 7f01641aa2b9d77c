//! Closing without cutting off: a socket that closes while bytes are unread is reset, and a reset
//! may overtake the last replies. So the server says that it is done and gives the peer a moment
//! to read and to close.

use crate::limits::{LINGER_SIZE_BYTES_MAX, LINGER_TIME_MAX};
use std::pin::pin;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Semaphore;

/// Room for the sockets of sessions that have ended, which no other bound counts.
#[derive(Debug)]
pub(crate) struct Lingering {
    places: Semaphore,
}

impl Lingering {
    /// Room for `count_max` of them.
    pub(crate) fn new(count_max: usize) -> Self {
        Self { places: Semaphore::new(count_max) }
    }

    /// Lingers if there is room.
    pub(crate) async fn linger(&self, stream: impl AsyncRead + AsyncWrite) {
        if let Ok(_place) = self.places.try_acquire() {
            let close = close(stream);
            // Time is up: then it is a reset after all.
            tokio::time::timeout(LINGER_TIME_MAX, close).await.unwrap_or(());
        }
    }
}

/// Says that nothing more comes, then throws away what does until the peer closes.
pub(crate) async fn close(stream: impl AsyncRead + AsyncWrite) {
    let mut stream = pin!(stream);
    if stream.shutdown().await.is_err() {
        return;
    }
    let mut bytes = [0; 1024];
    let mut size = 0;
    while size < LINGER_SIZE_BYTES_MAX {
        match stream.read(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(more) => size += more,
        }
    }
}
