//! A scripted server: one connection of it, which does exactly what a test says.

#![allow(dead_code, reason = "not every test program uses all of it")]

pub(crate) mod authority;
pub(crate) mod process;

use std::time::Duration;
use ticketing_auth::{ClientToken, SINGLE_FINGERPRINT};
use ticketing_wire_codec::limits::PROOF_SIZE_BYTES;
use ticketing_wire_codec::{
    Hello, Keys, Mode, Operation, Reply, RequestId, RequestKind, Slot, Step, Token,
    VERDICT_ACCEPTED, VERDICT_REFUSED, decode_request, proof_message,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Longer than any wait: on paused time a test that hangs fails at once.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1000);

/// A request as it came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) id: RequestId,
    pub(crate) kind: RequestKind,
    pub(crate) keys: Vec<String>,
    /// Acquires: wait and lease in seconds.
    pub(crate) terms: Option<(u8, u8)>,
    /// Releases.
    pub(crate) token: Option<u64>,
}

impl Request {
    pub(crate) fn granted(&self, token: u64) -> Reply {
        let token = Token::new(token).expect("not 0");
        match self.kind {
            RequestKind::Acquire => Reply::Granted { request_id: self.id, token },
            RequestKind::AcquireSet => Reply::GrantedSet { request_id: self.id, token },
            kind => panic!("a grant for {kind:?}"),
        }
    }

    pub(crate) fn released(&self) -> Reply {
        match self.kind {
            RequestKind::Release => Reply::Released { request_id: self.id },
            RequestKind::ReleaseSet => Reply::ReleasedSet { request_id: self.id },
            kind => panic!("a release for {kind:?}"),
        }
    }
}

/// The server's end of one connection.
pub(crate) struct Peer<S> {
    pub(crate) stream: S,
    input: Vec<u8>,
}

/// The mode byte's meaning for the slot of a cluster.
pub(crate) fn slot(slot: u8) -> Mode {
    Mode::Cluster { self_slot: Slot::new(slot).expect("0 to 4") }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Peer<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, input: Vec::new() }
    }

    /// Says hello, checks the proof, and accepts. Without a token, and in single mode.
    pub(crate) async fn accept(stream: S) -> Self {
        Self::accept_as(stream, Mode::Single, &SINGLE_FINGERPRINT, &ClientToken::none()).await
    }

    /// Says hello in that mode, and accepts the proof if it is the right one.
    pub(crate) async fn accept_as(
        stream: S,
        mode: Mode,
        fingerprint: &[u8; 32],
        token: &ClientToken,
    ) -> Self {
        let hello = Hello { mode, nonce: *b"0123456789abcdef" };
        let mut peer = Self::new(stream);
        peer.send(&hello.encode()).await;
        let mut proof = [0; PROOF_SIZE_BYTES];
        if peer.stream.read_exact(&mut proof).await.is_ok() {
            let is_right = proof == token.prove(&proof_message(&hello, fingerprint));
            peer.send(&[if is_right { VERDICT_ACCEPTED } else { VERDICT_REFUSED }]).await;
        }
        peer
    }

    /// Sends bytes as they are. The client may be gone already.
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        if self.stream.write_all(bytes).await.is_ok() {
            let _ = self.stream.flush().await;
        }
    }

    pub(crate) async fn reply(&mut self, reply: Reply) {
        self.send(reply.encode().as_bytes()).await;
    }

    /// The next request; `None` when the client has gone.
    pub(crate) async fn next(&mut self) -> Option<Request> {
        loop {
            match decode_request(&self.input).expect("clients send well-formed frames") {
                Step::Complete { value, size } => {
                    let operation = value.operation.expect("clients send valid values");
                    let mut request = Request {
                        id: value.request_id,
                        kind: value.kind,
                        keys: Vec::new(),
                        terms: None,
                        token: None,
                    };
                    let keys = match operation {
                        Operation::Acquire { wait_seconds, lease_seconds, keys } => {
                            request.terms = Some((wait_seconds, lease_seconds));
                            keys
                        }
                        Operation::Release { token, keys } => {
                            request.token = Some(token.get());
                            keys
                        }
                    };
                    let text = |key: &[u8]| String::from_utf8(key.to_vec()).expect("valid keys");
                    request.keys = match keys {
                        Keys::One(key) => vec![text(key)],
                        Keys::Set(keys) => keys.map(text).collect(),
                    };
                    self.input.drain(..size);
                    return Some(request);
                }
                Step::Incomplete => {
                    let mut bytes = [0; 4096];
                    let size = self.stream.read(&mut bytes).await.unwrap_or(0);
                    if size == 0 {
                        return None;
                    }
                    self.input.extend_from_slice(&bytes[..size]);
                }
            }
        }
    }

    /// The next request, which has to come.
    pub(crate) async fn request(&mut self) -> Request {
        let next = tokio::time::timeout(PATIENCE, self.next()).await;
        next.expect("a request in time").expect("a request")
    }

    /// Grants every acquire and confirms every release until the client goes. Returns the
    /// requests.
    pub(crate) async fn serve(mut self, token_first: u64) -> Vec<Request> {
        let mut requests = Vec::new();
        while let Some(request) = self.next().await {
            let reply = if request.kind.is_acquire() {
                request.granted(token_first + requests.len() as u64)
            } else {
                request.released()
            };
            self.reply(reply).await;
            requests.push(request);
        }
        requests
    }
}
