//! A blocking client for tests: plain sockets, frames from the codec, generous time limits.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use ticketing_auth::{ClientToken, SINGLE_FINGERPRINT};
use ticketing_wire_codec::limits::{HELLO_SIZE_BYTES, REQUEST_SIZE_BYTES_MAX};
use ticketing_wire_codec::{
    Hello, Reply, ReplyRules, RequestId, Step, Token, VERDICT_ACCEPTED, decode_reply,
    encode_acquire, encode_acquire_set, encode_release, encode_release_set, proof_message,
};

/// Longer than any answer takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// How long silence has to last to count as silence.
pub(crate) const SILENCE: Duration = Duration::from_millis(200);

/// A stream that the client talks over: plain, or TLS.
pub(crate) trait Stream: Read + Write + Send {
    /// The socket below.
    fn socket(&self) -> &TcpStream;
}

impl Stream for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

/// An authenticated connection.
pub(crate) struct Client {
    stream: Box<dyn Stream>,
    received: Vec<u8>,
    rules: ReplyRules,
}

/// The ways in which a client can go away; what it returns must be kept to stay half open.
pub(crate) const WAYS_TO_GO: [fn(Client) -> Option<Client>; 3] = [
    |client| {
        drop(client);
        None
    },
    |client| {
        client.reset();
        None
    },
    |client| {
        client.half_close();
        Some(client)
    },
];

/// The time now.
#[expect(clippy::disallowed_methods, reason = "tests on real sockets run in real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Leave to open thousands of connections, for as long as the guard lives: all tests share the
/// process and its open files, and two crowds at once are more than many systems allow.
pub(crate) fn crowd() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ticketing_server::raise_file_limit(16_384);
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until `condition` holds.
pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) {
    let start = now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A connection before its handshake.
pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket option");
    stream.set_nodelay(true).expect("a socket option");
    stream
}

/// Reads the hello.
pub(crate) fn read_hello(stream: &mut dyn Stream) -> io::Result<Hello> {
    let mut hello = [0; HELLO_SIZE_BYTES];
    stream.read_exact(&mut hello)?;
    Ok(Hello::decode(&hello).expect("a hello of this version"))
}

/// The proof that answers the hello.
pub(crate) fn proof(hello: &Hello, token: Option<&str>) -> [u8; 32] {
    let token = token.map_or_else(ClientToken::none, |token| {
        ClientToken::new(token.as_bytes()).expect("a valid token")
    });
    token.prove(&proof_message(hello, &SINGLE_FINGERPRINT))
}

/// Shakes hands and returns the verdict.
pub(crate) fn shake_hands(stream: &mut dyn Stream, token: Option<&str>) -> io::Result<u8> {
    let hello = read_hello(stream)?;
    stream.write_all(&proof(&hello, token))?;
    let mut verdict = [0];
    stream.read_exact(&mut verdict)?;
    Ok(verdict[0])
}

/// Whether the peer has ended the stream, gracefully or not, after `allowed` bytes at most.
pub(crate) fn is_ended(stream: &mut dyn Stream, allowed: usize) -> bool {
    let mut bytes = vec![0; allowed + 1];
    let mut count = 0;
    loop {
        match stream.read(&mut bytes[count..]) {
            Ok(0) => return true,
            Ok(size) if count + size <= allowed => count += size,
            Ok(_) => return false,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                return !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
            }
        }
    }
}

impl Client {
    /// Connects without a token.
    pub(crate) fn open(address: SocketAddr) -> Self {
        Self::over(connect(address), None)
    }

    /// Shakes hands on a stream.
    pub(crate) fn over(mut stream: impl Stream + 'static, token: Option<&str>) -> Self {
        let verdict = shake_hands(&mut stream, token).expect("a handshake");
        assert_eq!(verdict, VERDICT_ACCEPTED);
        Self::shaken(stream, ReplyRules::Single)
    }

    /// On a stream whose handshake is over.
    pub(crate) fn shaken(stream: impl Stream + 'static, rules: ReplyRules) -> Self {
        Self { stream: Box::new(stream), received: Vec::new(), rules }
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server reads");
        self.stream.flush().expect("the server reads");
    }

    /// The next reply.
    pub(crate) fn receive(&mut self) -> Reply {
        self.try_receive().expect("a reply")
    }

    /// The next reply, or how the stream ended.
    pub(crate) fn try_receive(&mut self) -> io::Result<Reply> {
        loop {
            match decode_reply(&self.received, self.rules).expect("a valid reply") {
                Step::Complete { value, size } => {
                    self.received.drain(..size);
                    return Ok(value);
                }
                Step::Incomplete => {
                    let mut bytes = [0; 4096];
                    match self.stream.read(&mut bytes) {
                        Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                        Ok(size) => self.received.extend_from_slice(&bytes[..size]),
                        // This process was stopped for a moment.
                        Err(error) if error.kind() == ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        }
    }

    /// Asserts that nothing comes.
    pub(crate) fn expect_silence(&mut self) {
        self.stream.socket().set_read_timeout(Some(SILENCE)).expect("a socket option");
        let error = self.try_receive().expect_err("silence");
        assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
        self.stream.socket().set_read_timeout(Some(PATIENCE)).expect("a socket option");
    }

    /// Asserts that the server ends the connection without another byte.
    pub(crate) fn expect_end(&mut self) {
        assert!(self.received.is_empty(), "nothing is left: {:?}", self.received);
        assert!(is_ended(&mut *self.stream, 0), "the server ends the connection");
    }

    /// Takes one key; the caller knows that it is free or will be soon.
    pub(crate) fn take(&mut self, request: u64, key: &str, lease: u8) -> Token {
        self.send(&acquire(request, 60, lease, key));
        match self.receive() {
            Reply::Granted { request_id, token } if request_id == id(request) => token,
            other => panic!("a grant of {key} expected: {other:?}"),
        }
    }

    /// Says that it will send nothing more.
    pub(crate) fn half_close(&self) {
        self.stream.socket().shutdown(Shutdown::Write).expect("the socket is open");
    }

    /// Drops the connection with a reset.
    pub(crate) fn reset(self) {
        let linger = socket2::SockRef::from(self.stream.socket());
        linger.set_linger(Some(Duration::ZERO)).expect("a socket option");
    }

    /// The socket.
    pub(crate) fn socket(&self) -> &TcpStream {
        self.stream.socket()
    }
}

/// A request id.
pub(crate) fn id(value: u64) -> RequestId {
    RequestId::new(value).expect("not zero")
}

/// An acquire frame.
pub(crate) fn acquire(request: u64, wait: u8, lease: u8, key: &str) -> Vec<u8> {
    let mut buffer = [0; REQUEST_SIZE_BYTES_MAX];
    encode_acquire(&mut buffer, id(request), wait, lease, key.as_bytes()).expect("valid").to_vec()
}

/// A release frame.
pub(crate) fn release(request: u64, token: Token, key: &str) -> Vec<u8> {
    let mut buffer = [0; REQUEST_SIZE_BYTES_MAX];
    encode_release(&mut buffer, id(request), token, key.as_bytes()).expect("valid").to_vec()
}

/// A set acquire frame.
pub(crate) fn acquire_set(request: u64, wait: u8, lease: u8, keys: &[&str]) -> Vec<u8> {
    let mut buffer = [0; REQUEST_SIZE_BYTES_MAX];
    let keys = keys.iter().map(|key| key.as_bytes());
    encode_acquire_set(&mut buffer, id(request), wait, lease, keys).expect("valid").to_vec()
}

/// A set release frame.
pub(crate) fn release_set(request: u64, token: Token, keys: &[&str]) -> Vec<u8> {
    let mut buffer = [0; REQUEST_SIZE_BYTES_MAX];
    let keys = keys.iter().map(|key| key.as_bytes());
    encode_release_set(&mut buffer, id(request), token, keys).expect("valid").to_vec()
}
