//! Ticketing's own protocol, version 3; the echo reference speaks it too.

use std::io::{self, Error, Read, Write};
use std::net::{SocketAddr, TcpStream};

use ticketing_auth::{ClientToken, SINGLE_FINGERPRINT};
use ticketing_wire_codec::limits::{
    ACQUIRE_FIXED_SIZE_BYTES, FINGERPRINT_SIZE_BYTES, HEAD_SIZE_BYTES, HELLO_SIZE_BYTES,
    LEASE_SECONDS_MIN, PROOF_SIZE_BYTES, RELEASE_FIXED_SIZE_BYTES, REQUEST_SIZE_BYTES_MAX,
};
use ticketing_wire_codec::{
    Hello, Reply, ReplyRules, RequestId, Step, Token, VERDICT_ACCEPTED, decode_reply,
    encode_acquire, encode_release, proof_message,
};

use super::{Driver, Event, Fault, LEADS_TIME_MAX, LEASE_SECONDS, WAIT_SECONDS};
use crate::buffer::Unfinished;

const ID_AT: usize = HEAD_SIZE_BYTES;
const TOKEN_AT: usize = HEAD_SIZE_BYTES + 8;
/// Key that is tried to find out who leads.
const LEADS_KEY: &[u8] = b"bench/who-leads";
/// Room for a reply and news of who leads.
const LEADS_INPUT_SIZE_BYTES: usize = 256;

/// Driver for a server in single mode or for the leader of a cluster.
#[derive(Debug)]
pub struct TicketingDriver {
    token: ClientToken,
    fingerprint: [u8; FINGERPRINT_SIZE_BYTES],
    rules: ReplyRules,
    wait_seconds: u8,
    lease_seconds: u8,
}

impl TicketingDriver {
    /// A driver without a client token, with the usual wait and lease.
    pub fn new() -> Self {
        Self {
            token: ClientToken::none(),
            fingerprint: SINGLE_FINGERPRINT,
            rules: ReplyRules::Single,
            wait_seconds: WAIT_SECONDS,
            lease_seconds: LEASE_SECONDS,
        }
    }

    /// The same with another lease.
    pub fn with_lease(self, lease_seconds: u8) -> Self {
        Self { lease_seconds, ..self }
    }

    /// The same for nodes of a cluster.
    pub fn in_cluster(self, fingerprint: [u8; FINGERPRINT_SIZE_BYTES], voter_count: u8) -> Self {
        Self { fingerprint, rules: ReplyRules::Cluster { voter_count }, ..self }
    }

    /// The same with a client token, if there is one.
    ///
    /// # Errors
    /// When the token breaks the token rule.
    pub fn with_token(self, token: Option<&str>) -> io::Result<Self> {
        let Some(token) = token else { return Ok(self) };
        let token = ClientToken::new(token.as_bytes());
        Ok(Self { token: token.map_err(|fault| Error::other(format!("{fault:?}")))?, ..self })
    }

    /// Whether the node at `address` decides on requests itself. A hello does not say who leads, so
    /// a lock is tried: only a leader grants it, or answers that it is taken.
    ///
    /// # Errors
    /// When the node does not answer in time.
    pub fn leads(&self, address: SocketAddr) -> io::Result<bool> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(LEADS_TIME_MAX))?;
        self.shake_hands(&mut stream)?;
        let mut buffer = [0; REQUEST_SIZE_BYTES_MAX];
        let id = RequestId::new(1).expect("1 is not 0");
        let try_once = encode_acquire(&mut buffer, id, 0, LEASE_SECONDS_MIN, LEADS_KEY);
        stream.write_all(try_once.expect("the key, lease and wait keep the rules"))?;
        let (mut input, mut received) = (Unfinished::default(), [0; LEADS_INPUT_SIZE_BYTES]);
        loop {
            let size = input.read(&mut stream, &mut received)?;
            let mut rest = &received[..size];
            while let Step::Complete { value, size } = self.reply(rest).map_err(Error::other)? {
                if value.request_id() == Some(id) {
                    return Ok(matches!(value, Reply::Granted { .. } | Reply::TimedOut { .. }));
                }
                rest = &rest[size..];
            }
            input.keep(rest);
        }
    }

    fn reply(&self, bytes: &[u8]) -> Result<Step<Reply>, String> {
        let step = decode_reply(bytes, self.rules);
        step.map_err(|fault| format!("the server sent a bad reply: {fault:?}"))
    }

    /// Hello, proof, verdict.
    fn shake_hands(&self, stream: &mut TcpStream) -> io::Result<()> {
        let mut hello = [0; HELLO_SIZE_BYTES];
        stream.read_exact(&mut hello)?;
        stream.write_all(&self.proof(&hello)?)?;
        let mut verdict = [0];
        stream.read_exact(&mut verdict)?;
        if verdict[0] == VERDICT_ACCEPTED {
            Ok(())
        } else {
            Err(Error::other("the server refused the client's proof"))
        }
    }

    /// The answer to a hello.
    fn proof(&self, hello: &[u8; HELLO_SIZE_BYTES]) -> io::Result<[u8; PROOF_SIZE_BYTES]> {
        let hello = Hello::decode(hello);
        let hello = hello.map_err(|fault| Error::other(format!("bad hello: {fault:?}")))?;
        Ok(self.token.prove(&proof_message(&hello, &self.fingerprint)))
    }
}

impl Default for TicketingDriver {
    fn default() -> Self {
        Self::new()
    }
}

/// Numbers the requests of a connection so that a reply's id names its lane.
#[derive(Debug)]
pub struct Session {
    /// The low bits of an id are the lane.
    lane_bits: u32,
    next: u64,
}

impl Session {
    fn id(&mut self, lane: usize) -> [u8; 8] {
        self.next += 1;
        (self.next << self.lane_bits | lane as u64).to_be_bytes()
    }
}

/// Both frames of a worker, ready but for id and token.
#[derive(Debug)]
pub struct Lane {
    acquire: Vec<u8>,
    release: Vec<u8>,
}

impl Driver for TicketingDriver {
    type Session = Session;
    type Lane = Lane;

    fn open(&self, address: SocketAddr, depth: usize) -> io::Result<(TcpStream, Session)> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        self.shake_hands(&mut stream)?;
        let lane_bits = depth.next_power_of_two().trailing_zeros();
        Ok((stream, Session { lane_bits, next: 0 }))
    }

    fn lane(&self, _: &Session, key: &[u8]) -> Lane {
        let mut buffer = [0; REQUEST_SIZE_BYTES_MAX];
        let (id, token) = (RequestId::new(1), Token::new(1));
        let (id, token) = (id.expect("1 is not 0"), token.expect("1 is not 0"));
        let valid = "the load tool's keys, lease and wait keep the rules";
        let acquire = encode_acquire(&mut buffer, id, self.wait_seconds, self.lease_seconds, key);
        let acquire = acquire.expect(valid).to_vec();
        let release = encode_release(&mut buffer, id, token, key).expect(valid).to_vec();
        Lane { acquire, release }
    }

    fn rekey(&self, lane: &mut Lane, key: &[u8]) {
        lane.acquire[HEAD_SIZE_BYTES + ACQUIRE_FIXED_SIZE_BYTES..].copy_from_slice(key);
        lane.release[HEAD_SIZE_BYTES + RELEASE_FIXED_SIZE_BYTES..].copy_from_slice(key);
    }

    fn acquire(&self, session: &mut Session, index: usize, lane: &mut Lane, output: &mut Vec<u8>) {
        lane.acquire[ID_AT..ID_AT + 8].copy_from_slice(&session.id(index));
        output.extend_from_slice(&lane.acquire);
    }

    fn release(&self, session: &mut Session, index: usize, lane: &mut Lane, output: &mut Vec<u8>) {
        lane.release[ID_AT..ID_AT + 8].copy_from_slice(&session.id(index));
        output.extend_from_slice(&lane.release);
    }

    fn event(
        &self,
        session: &mut Session,
        lanes: &mut [Lane],
        bytes: &[u8],
        _: &mut Vec<u8>,
    ) -> Result<Option<(Event, usize)>, Fault> {
        let step = self.reply(bytes).map_err(Fault)?;
        let Step::Complete { value: reply, size } = step else { return Ok(None) };
        let lane_mask = (1 << session.lane_bits) - 1;
        let lane_of = |id: RequestId| (id.get() & lane_mask) as usize;
        let event = match reply {
            Reply::Granted { request_id, token } => {
                let lane = lane_of(request_id);
                let frame = lanes.get_mut(lane);
                let frame = frame.ok_or_else(|| Fault("reply with an unknown id".into()))?;
                frame.release[TOKEN_AT..TOKEN_AT + 8].copy_from_slice(&token.get().to_be_bytes());
                Event::Granted { lane }
            }
            Reply::Released { request_id } => Event::Released { lane: lane_of(request_id) },
            // News of who leads. When it is another node, the next answer says so.
            Reply::Leader { .. } => Event::Housekeeping,
            other => return Err(Fault(format!("the server answered {other:?}"))),
        };
        Ok(Some((event, size)))
    }
}

#[cfg(test)]
mod tests {
    use ticketing_wire_codec::{Operation, decode_request};

    use super::*;

    #[test]
    fn ids_name_lanes_and_count_up() {
        let mut session = Session { lane_bits: 4, next: 0 };
        let mut last = 0;
        for lane in [3, 0, 15, 3] {
            let id = u64::from_be_bytes(session.id(lane));
            assert!(id > last && id & 15 == lane as u64);
            last = id;
        }
    }

    #[test]
    fn a_grant_fills_the_release() {
        let driver = TicketingDriver::new();
        let mut session = Session { lane_bits: 1, next: 0 };
        let mut lanes = vec![driver.lane(&session, b"one"), driver.lane(&session, b"two")];
        driver.rekey(&mut lanes[1], b"six");
        let mut output = Vec::new();
        driver.acquire(&mut session, 1, &mut lanes[1], &mut output);
        let Ok(Step::Complete { value, .. }) = decode_request(&output) else { panic!("a frame") };
        let token = Token::new(99).expect("not 0");
        let reply = Reply::Granted { request_id: value.request_id, token }.encode();
        let event = driver.event(&mut session, &mut lanes, reply.as_bytes(), &mut Vec::new());
        assert_eq!(event, Ok(Some((Event::Granted { lane: 1 }, 19))));
        output.clear();
        driver.release(&mut session, 1, &mut lanes[1], &mut output);
        let Ok(Step::Complete { value, .. }) = decode_request(&output) else { panic!("a frame") };
        let keys = ticketing_wire_codec::Keys::One(b"six");
        assert_eq!(value.operation, Ok(Operation::Release { token, keys }));
    }

    #[test]
    fn any_other_answer_is_a_fault() {
        let driver = TicketingDriver::new();
        let mut session = Session { lane_bits: 0, next: 0 };
        let mut lanes = vec![driver.lane(&session, b"one")];
        let request_id = RequestId::new(1).expect("not 0");
        let reply = Reply::Busy { request_id }.encode();
        let fault = driver.event(&mut session, &mut lanes, reply.as_bytes(), &mut Vec::new());
        assert!(fault.expect_err("busy").0.contains("Busy"));
    }
}
