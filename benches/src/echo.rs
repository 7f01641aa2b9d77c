//! Bare echo: answers every request frame with a reply of the right size and does nothing else.
//!
//! It is the floor under every figure: one thread, one epoll, one receive and one send per ready
//! connection. What it costs is what the kernel and the framing cost.

use std::io::{self, ErrorKind, Write};
use std::net::{TcpListener, TcpStream};

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::time::Timespec;
use ticketing_wire_codec::limits::{HEAD_SIZE_BYTES, HELLO_SIZE_BYTES, PROOF_SIZE_BYTES};
use ticketing_wire_codec::{Hello, Mode, VERDICT_ACCEPTED};

use crate::buffer::{BUFFER_SIZE_BYTES, EVENT_COUNT_MAX, Unfinished};

const LISTENER: u64 = u64::MAX;
/// A granted token: any non-zero number will do.
const TOKEN: u64 = 1;
const ID_SIZE_BYTES: usize = 8;

struct Connection {
    stream: TcpStream,
    /// Whether the client's proof has been read.
    open: bool,
    input: Unfinished,
    output: Vec<u8>,
}

/// The echo server: call [`Echo::turn`] for ever.
pub struct Echo {
    epoll: OwnedFd,
    listener: TcpListener,
    connections: Vec<Option<Connection>>,
    events: Vec<epoll::Event>,
    input: Box<[u8]>,
    output: Vec<u8>,
}

impl Echo {
    /// Serves the clients of `listener`.
    ///
    /// # Errors
    /// When the kernel refuses an epoll descriptor.
    pub fn new(listener: TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(LISTENER);
        epoll::add(&epoll, &listener, data, epoll::EventFlags::IN)?;
        Ok(Self {
            epoll,
            listener,
            connections: Vec::new(),
            events: Vec::with_capacity(EVENT_COUNT_MAX),
            input: vec![0; BUFFER_SIZE_BYTES].into_boxed_slice(),
            output: Vec::with_capacity(BUFFER_SIZE_BYTES),
        })
    }

    /// Waits for work, at most `timeout`, and does it.
    ///
    /// # Errors
    /// When the kernel refuses to wait or to accept.
    pub fn turn(&mut self, timeout: Option<&Timespec>) -> io::Result<()> {
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), timeout) {
            Err(rustix::io::Errno::INTR) => return Ok(()),
            other => other?,
        };
        for at in 0..self.events.len() {
            match self.events[at].data.u64() {
                LISTENER => self.accept()?,
                // The index fits: it came from `connections`.
                index => self.ready(index as usize),
            }
        }
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        let (mut stream, _) = match self.listener.accept() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            other => other?,
        };
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        // 28 bytes fit any fresh socket's buffer; a client that is gone already is met again by
        // the first read.
        let _ = stream.write(&Hello { mode: Mode::Single, nonce: [0; 16] }.encode());
        let free = self.connections.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        let data = epoll::EventData::new_u64(index as u64);
        epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN)?;
        let (input, output) = (Unfinished::default(), Vec::new());
        self.connections[index] = Some(Connection { stream, open: false, input, output });
        Ok(())
    }

    fn ready(&mut self, index: usize) {
        let Some(connection) = self.connections[index].as_mut() else { return };
        if answer(connection, &mut self.input, &mut self.output).is_err() {
            self.connections[index] = None;
        }
    }
}

/// One receive, one send.
fn answer(
    connection: &mut Connection,
    input: &mut [u8],
    output: &mut Vec<u8>,
) -> Result<(), ErrorKind> {
    let size = match connection.input.read(&mut connection.stream, input) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
        Err(error) => return Err(error.kind()),
        Ok(size) => size,
    };
    let mut bytes = &input[..size];
    output.clear();
    if !connection.open {
        if bytes.len() < PROOF_SIZE_BYTES {
            connection.input.keep(bytes);
            return Ok(());
        }
        bytes = &bytes[PROOF_SIZE_BYTES..];
        output.push(VERDICT_ACCEPTED);
        connection.open = true;
    }
    let used = echo_frames(bytes, output);
    connection.input.keep(&bytes[used..]);
    send(connection, output)
}

/// Sends what earlier sends left over, then `output`. A generator with a bounded number of
/// requests in flight never fills the socket; if it does, the rest waits for its next request.
fn send(connection: &mut Connection, output: &[u8]) -> Result<(), ErrorKind> {
    if !connection.output.is_empty() {
        connection.output.extend_from_slice(output);
        let sent = write_some(&mut connection.stream, &connection.output)?;
        connection.output.drain(..sent);
        return Ok(());
    }
    let sent = write_some(&mut connection.stream, output)?;
    connection.output.extend_from_slice(&output[sent..]);
    Ok(())
}

fn write_some(stream: &mut TcpStream, bytes: &[u8]) -> Result<usize, ErrorKind> {
    match stream.write(bytes) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        Err(error) => Err(error.kind()),
        Ok(sent) => Ok(sent),
    }
}

/// Appends a reply for every whole request in `bytes`; returns the size of those requests.
fn echo_frames(bytes: &[u8], output: &mut Vec<u8>) -> usize {
    let mut used = 0;
    while let Some(frame) = whole_frame(&bytes[used..]) {
        used += frame.len();
        let id = &frame[HEAD_SIZE_BYTES..HEAD_SIZE_BYTES + ID_SIZE_BYTES];
        let opcode = frame[0];
        if opcode == b'A' || opcode == b'S' {
            output.extend_from_slice(&[opcode, 0, 16]);
            output.extend_from_slice(id);
            output.extend_from_slice(&TOKEN.to_be_bytes());
        } else {
            output.extend_from_slice(&[opcode, 0, 8]);
            output.extend_from_slice(id);
        }
    }
    used
}

fn whole_frame(bytes: &[u8]) -> Option<&[u8]> {
    let head = bytes.first_chunk::<HEAD_SIZE_BYTES>()?;
    let body_size = usize::from(u16::from_be_bytes([head[1], head[2]]));
    bytes.get(..HEAD_SIZE_BYTES + body_size.max(ID_SIZE_BYTES))
}

const _: () = assert!(HELLO_SIZE_BYTES == 28);

#[cfg(test)]
mod tests {
    use ticketing_wire_codec::{
        Reply, ReplyRules, RequestId, Step, Token, decode_reply, encode_acquire, encode_release,
    };

    use super::*;

    fn requests() -> Vec<u8> {
        let mut buffer = [0; 2084];
        let id = RequestId::new(7).expect("not 0");
        let token = Token::new(TOKEN).expect("not 0");
        let mut bytes = encode_acquire(&mut buffer, id, 1, 2, b"key").expect("valid").to_vec();
        bytes.extend_from_slice(encode_release(&mut buffer, id, token, b"key").expect("valid"));
        bytes
    }

    #[test]
    fn replies_are_what_the_codec_expects() {
        let (bytes, mut output) = (requests(), Vec::new());
        assert_eq!(echo_frames(&bytes, &mut output), bytes.len());
        let request_id = RequestId::new(7).expect("not 0");
        let token = Token::new(TOKEN).expect("not 0");
        let mut expected = Reply::Granted { request_id, token }.encode().as_bytes().to_vec();
        expected.extend_from_slice(Reply::Released { request_id }.encode().as_bytes());
        assert_eq!(output, expected);
        let first = decode_reply(&output, ReplyRules::Single);
        assert!(matches!(first, Ok(Step::Complete { value: Reply::Granted { .. }, size: 19 })));
    }

    #[test]
    fn a_cut_frame_is_left_for_later() {
        let bytes = requests();
        for cut in 0..bytes.len() {
            let mut output = Vec::new();
            let used = echo_frames(&bytes[..cut], &mut output);
            assert!(used <= cut);
            echo_frames(&bytes[used..], &mut output);
            assert_eq!(output.len(), 19 + 11, "cut at {cut}");
        }
    }
}
