//! Shared buffer sizes, and the unfinished frame a connection keeps between two receives.

use std::io::{self, Read};

/// One receive takes at most this much.
pub const BUFFER_SIZE_BYTES: usize = 256 * 1024;
/// One wait reports at most this many ready connections.
pub const EVENT_COUNT_MAX: usize = 256;

/// The bytes of a frame whose end has not arrived yet.
#[derive(Debug, Default)]
pub struct Unfinished(Vec<u8>);

impl Unfinished {
    /// Puts the kept bytes at the start of `buffer`, receives once behind them, and returns how
    /// many bytes there are together.
    ///
    /// # Errors
    /// The reader's own, and `UnexpectedEof` when the peer has closed.
    pub fn read(&mut self, reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
        let kept = self.0.len();
        buffer[..kept].copy_from_slice(&self.0);
        loop {
            match reader.read(&mut buffer[kept..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(received) => return Ok(kept + received),
                // This process was stopped for a moment.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Keeps `rest` for the next receive.
    pub fn keep(&mut self, rest: &[u8]) {
        self.0.clear();
        self.0.extend_from_slice(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_bytes_come_first() {
        let mut unfinished = Unfinished::default();
        let mut buffer = [0; 8];
        unfinished.keep(b"ab");
        assert_eq!(unfinished.read(&mut &b"cd"[..], &mut buffer).expect("bytes"), 4);
        assert_eq!(&buffer[..4], b"abcd");
        unfinished.keep(&[]);
        let closed = unfinished.read(&mut &b""[..], &mut buffer);
        assert_eq!(closed.expect_err("closed").kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_receive_that_is_interrupted_is_no_end() {
        struct Interrupted(bool);
        impl Read for Interrupted {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                if !std::mem::replace(&mut self.0, true) {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                (&b"ab"[..]).read(buffer)
            }
        }
        let mut buffer = [0; 8];
        let received = Unfinished::default().read(&mut Interrupted(false), &mut buffer);
        assert_eq!(received.expect("bytes"), 2);
    }
}
