//! Redis: `SET key value NX PX lease`, released by the usual compare-and-delete script.
//!
//! Redis has no queue, so a worker whose key is taken has to ask again. The pause in between is the
//! one of 0 to 3 ms that gave Redis the most pairs per second on contended keys: without a pause
//! the tries crowd out the release, and with long ones the same worker gets the key again.

use std::io::{self, Error, Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::{Asked, Driver, Event, Fault, InOrder, LEASE_SECONDS, line};

const SCRIPT: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then \
                      return redis.call('del', KEYS[1]) else return 0 end";
/// Size of the random value that marks the holder; here a counter in hex.
const VALUE_SIZE_BYTES: usize = 16;
const SHA_SIZE_BYTES: usize = 40;

/// Driver for RESP.
#[derive(Debug)]
pub struct RedisDriver {
    lease_seconds: u8,
}

impl RedisDriver {
    /// A driver with the usual lease.
    pub fn new() -> Self {
        Self { lease_seconds: LEASE_SECONDS }
    }

    /// The same with another lease.
    pub fn with_lease(self, lease_seconds: u8) -> Self {
        Self { lease_seconds }
    }
}

impl Default for RedisDriver {
    fn default() -> Self {
        Self::new()
    }
}

/// Which lanes wait for a reply, the script's name, and the counter under the values.
#[derive(Debug)]
pub struct Session {
    in_order: InOrder,
    script_sha: [u8; SHA_SIZE_BYTES],
    /// High half: the client's local port, so that no two connections share a value.
    next_value: u64,
}

/// Both commands of a worker, and where the value stands in them.
#[derive(Debug)]
pub struct Lane {
    acquire: Vec<u8>,
    acquire_value_at: usize,
    release: Vec<u8>,
    release_value_at: usize,
    key_at: [usize; 2],
}

impl Driver for RedisDriver {
    type Session = Session;
    type Lane = Lane;

    const POLL_PAUSE_NANOS: u64 = 3_000_000;

    fn open(&self, address: SocketAddr, depth: usize) -> io::Result<(TcpStream, Session)> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.write_all(&command(&[b"SCRIPT", b"LOAD", SCRIPT.as_bytes()]).0)?;
        let mut reply = [0; "$40\r\n".len() + SHA_SIZE_BYTES + "\r\n".len()];
        stream.read_exact(&mut reply)?;
        let sha = reply.strip_prefix(b"$40\r\n").and_then(|rest| rest.first_chunk());
        let script_sha = *sha.ok_or_else(|| Error::other("SCRIPT LOAD gave no SHA-1"))?;
        let next_value = u64::from(stream.local_addr()?.port()) << 32;
        Ok((stream, Session { in_order: InOrder::new(depth), script_sha, next_value }))
    }

    fn lane(&self, session: &Session, key: &[u8]) -> Lane {
        let value = [b'0'; VALUE_SIZE_BYTES];
        let lease = (u32::from(self.lease_seconds) * 1_000).to_string();
        let (acquire, at) = command(&[b"SET", key, &value, b"NX", b"PX", lease.as_bytes()]);
        let (key_in_acquire, acquire_value_at) = (at[1], at[2]);
        let (release, at) = command(&[b"EVALSHA", &session.script_sha, b"1", key, &value]);
        let (key_in_release, release_value_at) = (at[3], at[4]);
        let key_at = [key_in_acquire, key_in_release];
        Lane { acquire, acquire_value_at, release, release_value_at, key_at }
    }

    fn rekey(&self, lane: &mut Lane, key: &[u8]) {
        let [in_acquire, in_release] = lane.key_at;
        lane.acquire[in_acquire..in_acquire + key.len()].copy_from_slice(key);
        lane.release[in_release..in_release + key.len()].copy_from_slice(key);
    }

    fn acquire(&self, session: &mut Session, index: usize, lane: &mut Lane, output: &mut Vec<u8>) {
        session.next_value += 1;
        let value = hex(session.next_value);
        let (in_acquire, in_release) = (lane.acquire_value_at, lane.release_value_at);
        lane.acquire[in_acquire..in_acquire + VALUE_SIZE_BYTES].copy_from_slice(&value);
        lane.release[in_release..in_release + VALUE_SIZE_BYTES].copy_from_slice(&value);
        output.extend_from_slice(&lane.acquire);
        session.in_order.sent(index, Asked::Acquire);
    }

    fn release(&self, session: &mut Session, index: usize, lane: &mut Lane, output: &mut Vec<u8>) {
        output.extend_from_slice(&lane.release);
        session.in_order.sent(index, Asked::Release);
    }

    fn event(
        &self,
        session: &mut Session,
        _: &mut [Lane],
        bytes: &[u8],
        _: &mut Vec<u8>,
    ) -> Result<Option<(Event, usize)>, Fault> {
        let Some(reply) = line(bytes) else { return Ok(None) };
        let event = match (session.in_order.answered(bytes)?, reply) {
            ((lane, Asked::Acquire), b"+OK\r") => Event::Granted { lane },
            ((lane, Asked::Acquire), b"$-1\r") => Event::Denied { lane },
            ((lane, Asked::Release), b":1\r") => Event::Released { lane },
            ((_, asked), _) => return Err(Fault::unexpected(&format!("{asked:?}"), reply)),
        };
        Ok(Some((event, reply.len() + 1)))
    }
}

/// A RESP command, and where each argument starts in it.
fn command(arguments: &[&[u8]]) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    let mut starts = Vec::new();
    for argument in arguments {
        bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        starts.push(bytes.len());
        bytes.extend_from_slice(argument);
        bytes.extend_from_slice(b"\r\n");
    }
    (bytes, starts)
}

fn hex(value: u64) -> [u8; VALUE_SIZE_BYTES] {
    let mut digits = [0; VALUE_SIZE_BYTES];
    for (at, digit) in digits.iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(value >> (60 - 4 * at) & 15) as usize];
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Session {
        Session { in_order: InOrder::new(2), script_sha: [b's'; SHA_SIZE_BYTES], next_value: 0x1e }
    }

    #[test]
    fn commands_carry_key_and_value() {
        let (driver, mut session) = (RedisDriver::new(), session());
        let mut lane = driver.lane(&session, b"abc");
        driver.rekey(&mut lane, b"xyz");
        let mut output = Vec::new();
        driver.acquire(&mut session, 0, &mut lane, &mut output);
        let set = b"*6\r\n$3\r\nSET\r\n$3\r\nxyz\r\n$16\r\n000000000000001f\r\n$2\r\nNX\r\n\
                    $2\r\nPX\r\n$5\r\n60000\r\n";
        assert_eq!(output.escape_ascii().to_string(), set.escape_ascii().to_string());
        output.clear();
        driver.release(&mut session, 0, &mut lane, &mut output);
        assert!(output.ends_with(b"$1\r\n1\r\n$3\r\nxyz\r\n$16\r\n000000000000001f\r\n"));
    }

    #[test]
    fn replies_come_in_order() {
        let (driver, mut session) = (RedisDriver::new(), session());
        session.in_order.sent(1, Asked::Acquire);
        session.in_order.sent(0, Asked::Acquire);
        session.in_order.sent(1, Asked::Release);
        let mut next = |bytes: &[u8]| driver.event(&mut session, &mut [], bytes, &mut Vec::new());
        assert_eq!(next(b"+OK"), Ok(None));
        assert_eq!(next(b"+OK\r\n$-1\r\n"), Ok(Some((Event::Granted { lane: 1 }, 5))));
        assert_eq!(next(b"$-1\r\n"), Ok(Some((Event::Denied { lane: 0 }, 5))));
        assert!(next(b":0\r\n").is_err(), "a release that found another holder");
        assert!(next(b"+OK\r\n").is_err(), "nothing was asked");
    }
}
