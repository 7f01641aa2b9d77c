//! etcd's lock service over gRPC: one lease per connection, as its own clients have one session.

use std::collections::HashMap;
use std::io::{self, Error, Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::grpc::{Field, Headers, Heard, PREFACE, bytes_field, call, field, hear, number_field};
use super::{Asked, Driver, Event, Fault, LEADS_TIME_MAX, LEASE_SECONDS};

const LEASE_GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
const STATUS: &str = "/etcdserverpb.Maintenance/Status";
const LOCK: &str = "/v3lockpb.Lock/Lock";
const UNLOCK: &str = "/v3lockpb.Lock/Unlock";

/// Streams opened by a client are odd and count up.
const STREAM_STEP: u32 = 2;

/// Driver for etcd 3.4 and later.
#[derive(Debug)]
pub struct EtcdDriver {
    lease_seconds: u8,
}

impl EtcdDriver {
    /// A driver with the usual lease.
    pub fn new() -> Self {
        Self { lease_seconds: LEASE_SECONDS }
    }

    /// The same with another lease.
    pub fn with_lease(self, lease_seconds: u8) -> Self {
        Self { lease_seconds }
    }

    /// Whether the node at `address` leads its cluster.
    ///
    /// # Errors
    /// When the node does not answer in time.
    pub fn leads(address: SocketAddr) -> io::Result<bool> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(LEADS_TIME_MAX))?;
        Ok(is_of_leader(&first_answer(&mut stream, STATUS, &[])?))
    }
}

impl Default for EtcdDriver {
    fn default() -> Self {
        Self::new()
    }
}

/// The connection's lease and its open calls.
#[derive(Debug)]
pub struct Session {
    lease: u64,
    next_stream: u32,
    calls: HashMap<u32, Call>,
}

#[derive(Debug)]
struct Call {
    lane: usize,
    asked: Asked,
    /// Whether the answer's message is there; a failed call ends without one.
    answered: bool,
}

/// A worker's lock request, and the unlock request of what it holds.
#[derive(Debug)]
pub struct Lane {
    lock: Vec<u8>,
    unlock: Vec<u8>,
}

/// Tag and length before the name in a lock request.
const NAME_AT: usize = 2;

impl Driver for EtcdDriver {
    type Session = Session;
    type Lane = Lane;

    fn open(&self, address: SocketAddr, depth: usize) -> io::Result<(TcpStream, Session)> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut request = Vec::new();
        number_field(1, u64::from(self.lease_seconds), &mut request);
        let granted = first_answer(&mut stream, LEASE_GRANT, &request)?;
        let Some(Field::Number(lease)) = field(&granted, 2) else {
            return Err(Error::other("a lease grant without a lease"));
        };
        let calls = HashMap::with_capacity(depth);
        Ok((stream, Session { lease, next_stream: 1 + STREAM_STEP, calls }))
    }

    fn lane(&self, session: &Session, key: &[u8]) -> Lane {
        let mut lock = Vec::new();
        bytes_field(1, key, &mut lock);
        number_field(2, session.lease, &mut lock);
        Lane { lock, unlock: Vec::new() }
    }

    fn rekey(&self, lane: &mut Lane, key: &[u8]) {
        lane.lock[NAME_AT..NAME_AT + key.len()].copy_from_slice(key);
    }

    fn acquire(&self, session: &mut Session, index: usize, lane: &mut Lane, output: &mut Vec<u8>) {
        session.call(index, Asked::Acquire, LOCK, &lane.lock, output);
    }

    fn release(&self, session: &mut Session, index: usize, lane: &mut Lane, output: &mut Vec<u8>) {
        session.call(index, Asked::Release, UNLOCK, &lane.unlock, output);
    }

    fn event(
        &self,
        session: &mut Session,
        lanes: &mut [Lane],
        bytes: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<Option<(Event, usize)>, Fault> {
        let Some((heard, size)) = hear(bytes, output)? else { return Ok(None) };
        let event = match heard {
            Heard::Message(stream, message) => {
                session.answered(stream, message, lanes)?;
                Event::Housekeeping
            }
            Heard::End(stream) => session.ended(stream)?,
            Heard::Nothing => Event::Housekeeping,
        };
        Ok(Some((event, size)))
    }
}

impl Session {
    fn call(
        &mut self,
        lane: usize,
        asked: Asked,
        path: &str,
        message: &[u8],
        output: &mut Vec<u8>,
    ) {
        let stream = self.next_stream;
        self.next_stream += STREAM_STEP;
        self.calls.insert(stream, Call { lane, asked, answered: false });
        call(Headers::Later, stream, path, message, output);
    }

    fn answered(&mut self, stream: u32, message: &[u8], lanes: &mut [Lane]) -> Result<(), Fault> {
        let call = self.calls.get_mut(&stream);
        let call = call.ok_or_else(|| Fault(format!("a message on unknown stream {stream}")))?;
        call.answered = true;
        if call.asked == Asked::Acquire {
            let Some(Field::Bytes(held)) = field(message, 2) else {
                return Err(Fault::unexpected("a lock's key", message));
            };
            let unlock = &mut lanes[call.lane].unlock;
            unlock.clear();
            bytes_field(1, held, unlock);
        }
        Ok(())
    }

    fn ended(&mut self, stream: u32) -> Result<Event, Fault> {
        match self.calls.remove(&stream) {
            Some(Call { lane, asked: Asked::Acquire, answered: true }) => {
                Ok(Event::Granted { lane })
            }
            Some(Call { lane, asked: Asked::Release, answered: true }) => {
                Ok(Event::Released { lane })
            }
            Some(call) => Err(Fault(format!("{:?} failed without a message", call.asked))),
            // The tail of the call that got the lease.
            None if stream == 1 => Ok(Event::Housekeeping),
            None => Err(Fault(format!("an end of unknown stream {stream}"))),
        }
    }
}

/// Opens the protocol with one call. Its answer is read frame by frame, so that nothing after it is
/// taken.
fn first_answer(stream: &mut TcpStream, path: &str, request: &[u8]) -> io::Result<Vec<u8>> {
    let mut output = PREFACE.to_vec();
    call(Headers::First, 1, path, request, &mut output);
    stream.write_all(&output)?;
    loop {
        let mut frame = vec![0; 9];
        stream.read_exact(&mut frame)?;
        let body_size = u32::from_be_bytes([0, frame[0], frame[1], frame[2]]) as usize;
        frame.resize(9 + body_size, 0);
        stream.read_exact(&mut frame[9..])?;
        output.clear();
        let heard = hear(&frame, &mut output).map_err(|fault| Error::other(fault.to_string()))?;
        stream.write_all(&output)?;
        match heard {
            Some((Heard::Message(1, message), _)) => return Ok(message.to_owned()),
            Some((Heard::End(1), _)) => return Err(Error::other(format!("{path} failed"))),
            _ => {}
        }
    }
}

/// Whether a status is of the node that it names as the leader.
fn is_of_leader(status: &[u8]) -> bool {
    let Some(Field::Bytes(head)) = field(status, 1) else { return false };
    let (own, leader) = (field(head, 2), field(status, 4));
    leader.is_some_and(|leader| leader != Field::Number(0)) && own == leader
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u8, body: &[u8]) -> Vec<u8> {
        let mut frame = vec![0, 0, body.len() as u8, kind, flags, 0, 0, 0, stream];
        frame.extend_from_slice(body);
        frame
    }

    #[test]
    fn a_pair() {
        let driver = EtcdDriver::new();
        let mut session = Session { lease: 77, next_stream: 3, calls: HashMap::new() };
        let mut lanes = vec![driver.lane(&session, b"abc")];
        driver.rekey(&mut lanes[0], b"xyz");
        let mut output = Vec::new();
        driver.acquire(&mut session, 0, &mut lanes[0], &mut output);
        assert!(output.ends_with(b"\x0a\x03xyz\x10\x4d"));
        let event = |session: &mut Session, lanes: &mut [Lane], frame: &[u8]| {
            driver.event(session, lanes, frame, &mut Vec::new()).map(|event| event.expect("whole"))
        };
        let answer = frame(0, 0, 3, b"\0\0\0\0\x08\x12\x06xyz/4d");
        assert_eq!(event(&mut session, &mut lanes, &answer), Ok((Event::Housekeeping, 22)));
        let end = frame(1, 5, 3, b"\x88");
        assert_eq!(event(&mut session, &mut lanes, &end), Ok((Event::Granted { lane: 0 }, 10)));
        output.clear();
        driver.release(&mut session, 0, &mut lanes[0], &mut output);
        assert!(output.ends_with(b"\x0a\x06xyz/4d"));
        let end = frame(1, 5, 5, b"\x88");
        assert!(event(&mut session, &mut lanes, &end).is_err(), "no message: the call failed");
    }

    #[test]
    fn a_leader_is_who_names_itself() {
        let status = |own, leader| {
            let (mut head, mut status) = (Vec::new(), Vec::new());
            number_field(1, 99, &mut head);
            number_field(2, own, &mut head);
            bytes_field(1, &head, &mut status);
            bytes_field(2, b"3.4", &mut status);
            number_field(4, leader, &mut status);
            status
        };
        assert!(is_of_leader(&status(u64::MAX, u64::MAX)));
        assert!(!is_of_leader(&status(7, 8)) && !is_of_leader(&status(0, 0)));
        assert!(!is_of_leader(b""));
    }
}
