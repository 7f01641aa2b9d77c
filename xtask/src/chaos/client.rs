//! One blocking connection to one slot.

use super::cluster::Target;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use ticketing_auth::ClientToken;
use ticketing_wire_codec::limits::{HELLO_SIZE_BYTES, REQUEST_SIZE_BYTES_MAX};
use ticketing_wire_codec::{
    ErrorCode, Hello, Reply, ReplyRules, RequestId, Step, Token, VERDICT_ACCEPTED, decode_reply,
    encode_acquire, encode_release, proof_message,
};

/// A node that takes longer to connect to is gone.
const CONNECT_TIME_MAX: Duration = Duration::from_millis(300);
/// An answer that takes longer is lost. Above every wait asked for.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(3);

/// What a node answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Granted(u64),
    Indeterminate,
    /// Nothing was done; somebody else leads, perhaps that slot.
    Moved(Option<u8>),
    NotHeld,
    Other,
    Released,
    TimedOut,
}

/// An authenticated connection.
pub(crate) struct Connection {
    stream: TcpStream,
    request_id: u64,
    buffer: Vec<u8>,
    slot_count: u8,
    /// The leader by an `L` that nobody has asked for yet.
    told_leader: Option<u8>,
}

impl Connection {
    pub(crate) fn open(cluster: &Target, slot: usize) -> io::Result<Self> {
        let mut stream = TcpStream::connect_timeout(&cluster.clients[slot], CONNECT_TIME_MAX)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(CONNECT_TIME_MAX * 3))?;
        let mut hello = [0; HELLO_SIZE_BYTES];
        stream.read_exact(&mut hello)?;
        let hello = Hello::decode(&hello).map_err(invalid)?;
        let token = ClientToken::new(&cluster.token).map_err(invalid)?;
        stream.write_all(&token.prove(&proof_message(&hello, &cluster.fingerprint)))?;
        let mut verdict = [0];
        stream.read_exact(&mut verdict)?;
        if verdict[0] != VERDICT_ACCEPTED {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        stream.set_read_timeout(Some(ANSWER_TIME_MAX))?;
        let slot_count = cluster.slot_count() as u8;
        Ok(Self { stream, request_id: 0, buffer: Vec::new(), slot_count, told_leader: None })
    }

    /// Waits longer than usual for answers.
    pub(crate) fn set_answer_time_max(&self, time_max: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(time_max))
    }

    pub(crate) fn acquire(&mut self, key: &str, wait: u8, lease: u8) -> io::Result<Answer> {
        let id = self.next_id();
        let mut buffer = [0; REQUEST_SIZE_BYTES_MAX];
        let frame =
            encode_acquire(&mut buffer, id, wait, lease, key.as_bytes()).map_err(invalid)?;
        self.stream.write_all(frame)?;
        self.answer(id)
    }

    pub(crate) fn release(&mut self, key: &str, token: u64) -> io::Result<Answer> {
        let id = self.next_id();
        let mut buffer = [0; REQUEST_SIZE_BYTES_MAX];
        let token = Token::new(token).ok_or_else(|| invalid("token 0"))?;
        let frame = encode_release(&mut buffer, id, token, key.as_bytes()).map_err(invalid)?;
        self.stream.write_all(frame)?;
        self.answer(id)
    }

    /// The leader, if the node has named one since the last time.
    ///
    /// # Errors
    /// The node has closed the connection, as far as is known; nothing was sent on it since.
    pub(crate) fn news(&mut self) -> io::Result<Option<u8>> {
        self.stream.set_nonblocking(true)?;
        let end = loop {
            let mut bytes = [0; 64];
            match self.stream.read(&mut bytes) {
                Ok(0) => break Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(size) => self.buffer.extend_from_slice(&bytes[..size]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.stream.set_nonblocking(false)?;
        while let Some(reply) = self.decode()? {
            self.note(reply)?;
        }
        end.map(|()| self.told_leader.take())
    }

    fn next_id(&mut self) -> RequestId {
        self.request_id += 1;
        RequestId::new(self.request_id).expect("counts from 1")
    }

    fn answer(&mut self, id: RequestId) -> io::Result<Answer> {
        loop {
            let reply = self.reply()?;
            match reply.request_id() {
                Some(answered) if answered == id => return Ok(answer(reply)),
                _ => self.note(reply)?,
            }
        }
    }

    /// Takes what nobody asked for, which can only be news.
    fn note(&mut self, reply: Reply) -> io::Result<()> {
        match reply {
            Reply::Leader { leader } => {
                self.told_leader = leader.map(|slot| slot.get());
                Ok(())
            }
            _ => Err(invalid("a reply to nothing that was asked")),
        }
    }

    fn reply(&mut self) -> io::Result<Reply> {
        loop {
            if let Some(reply) = self.decode()? {
                return Ok(reply);
            }
            let mut bytes = [0; 512];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(size) => self.buffer.extend_from_slice(&bytes[..size]),
                // This process was stopped for a moment; a read with a time limit says so.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The first reply that has arrived whole.
    fn decode(&mut self) -> io::Result<Option<Reply>> {
        let rules = ReplyRules::Cluster { voter_count: self.slot_count };
        match decode_reply(&self.buffer, rules).map_err(invalid)? {
            Step::Complete { value, size } => {
                self.buffer.drain(..size);
                Ok(Some(value))
            }
            Step::Incomplete => Ok(None),
        }
    }
}

fn answer(reply: Reply) -> Answer {
    match reply {
        Reply::Granted { token, .. } => Answer::Granted(token.get()),
        Reply::Indeterminate { .. } => Answer::Indeterminate,
        Reply::Moved { leader, .. } => Answer::Moved(leader.map(|slot| slot.get())),
        Reply::Refused { code: ErrorCode::NoLeader | ErrorCode::NotActive, .. } => {
            Answer::Moved(None)
        }
        Reply::NotHeld { .. } => Answer::NotHeld,
        Reply::Released { .. } => Answer::Released,
        Reply::TimedOut { .. } => Answer::TimedOut,
        _ => Answer::Other,
    }
}

fn invalid(reason: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.to_string())
}
