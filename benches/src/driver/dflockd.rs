//! dflockd's line protocol: three lines a request, one line a reply, one request at a time.

use std::io;
use std::net::{SocketAddr, TcpStream};

use super::{Asked, Driver, Event, Fault, InOrder, LEASE_SECONDS, WAIT_SECONDS, line};

const TOKEN_SIZE_BYTES: usize = 32;

/// Driver for dflockd.
#[derive(Debug)]
pub struct DflockdDriver {
    lease_seconds: u8,
}

impl DflockdDriver {
    /// A driver with the usual wait and lease.
    pub fn new() -> Self {
        Self { lease_seconds: LEASE_SECONDS }
    }

    /// The same with another lease.
    pub fn with_lease(self, lease_seconds: u8) -> Self {
        Self { lease_seconds }
    }
}

impl Default for DflockdDriver {
    fn default() -> Self {
        Self::new()
    }
}

/// Both requests of a worker; the release's token is filled in by the grant.
#[derive(Debug)]
pub struct Lane {
    acquire: Vec<u8>,
    release: Vec<u8>,
}

/// Command and line end before the key.
const KEY_AT: usize = 2;

impl Driver for DflockdDriver {
    type Session = InOrder;
    type Lane = Lane;

    fn open(&self, address: SocketAddr, depth: usize) -> io::Result<(TcpStream, InOrder)> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok((stream, InOrder::new(depth)))
    }

    fn lane(&self, _: &InOrder, key: &[u8]) -> Lane {
        let end = format!("\n{WAIT_SECONDS} {}\n", self.lease_seconds);
        let acquire = [b"l\n", key, end.as_bytes()].concat();
        let release = [b"r\n", key, b"\n", &[b'0'; TOKEN_SIZE_BYTES], b"\n"].concat();
        Lane { acquire, release }
    }

    fn rekey(&self, lane: &mut Lane, key: &[u8]) {
        lane.acquire[KEY_AT..KEY_AT + key.len()].copy_from_slice(key);
        lane.release[KEY_AT..KEY_AT + key.len()].copy_from_slice(key);
    }

    fn acquire(&self, session: &mut InOrder, index: usize, lane: &mut Lane, output: &mut Vec<u8>) {
        output.extend_from_slice(&lane.acquire);
        session.sent(index, Asked::Acquire);
    }

    fn release(&self, session: &mut InOrder, index: usize, lane: &mut Lane, output: &mut Vec<u8>) {
        output.extend_from_slice(&lane.release);
        session.sent(index, Asked::Release);
    }

    fn event(
        &self,
        session: &mut InOrder,
        lanes: &mut [Lane],
        bytes: &[u8],
        _: &mut Vec<u8>,
    ) -> Result<Option<(Event, usize)>, Fault> {
        let Some(reply) = line(bytes) else { return Ok(None) };
        let event = match session.answered(bytes)? {
            (lane, Asked::Acquire) => {
                let token = reply
                    .strip_prefix(b"ok ")
                    .and_then(|rest| rest.first_chunk::<TOKEN_SIZE_BYTES>());
                let token = token.ok_or_else(|| Fault::unexpected("a token", reply))?;
                let release = &mut lanes[lane].release;
                let end = release.len() - 1;
                release[end - TOKEN_SIZE_BYTES..end].copy_from_slice(token);
                Event::Granted { lane }
            }
            (lane, Asked::Release) if reply == b"ok" => Event::Released { lane },
            (_, Asked::Release) => return Err(Fault::unexpected("ok", reply)),
        };
        Ok(Some((event, reply.len() + 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_fills_the_release() {
        let (driver, mut session) = (DflockdDriver::new(), InOrder::new(1));
        let mut lanes = vec![driver.lane(&session, b"abc")];
        driver.rekey(&mut lanes[0], b"xyz");
        let mut output = Vec::new();
        driver.acquire(&mut session, 0, &mut lanes[0], &mut output);
        assert_eq!(output, b"l\nxyz\n60 60\n");
        let token = "0123456789abcdef0123456789abcdef";
        let reply = format!("ok {token} 60\n");
        let event = driver.event(&mut session, &mut lanes, reply.as_bytes(), &mut Vec::new());
        assert_eq!(event, Ok(Some((Event::Granted { lane: 0 }, reply.len()))));
        output.clear();
        driver.release(&mut session, 0, &mut lanes[0], &mut output);
        assert_eq!(output, format!("r\nxyz\n{token}\n").as_bytes());
        let event = driver.event(&mut session, &mut lanes, b"ok\n", &mut Vec::new());
        assert_eq!(event, Ok(Some((Event::Released { lane: 0 }, 3))));
    }

    #[test]
    fn a_timeout_is_a_fault() {
        let (driver, mut session) = (DflockdDriver::new(), InOrder::new(1));
        session.sent(0, Asked::Acquire);
        assert!(driver.event(&mut session, &mut [], b"timeout\n", &mut Vec::new()).is_err());
    }
}
