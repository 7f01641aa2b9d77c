//! One accepted connection: requests out, replies in, matched by id and kind (L3).
//!
//! Everything happens in one task and one `poll`: many queued requests become one write, one read
//! becomes many answers, and reading never waits for writing.

use crate::call::{Call, Order, Outcome};
use crate::clock::{self, Instant};
use crate::keys::Keys;
use crate::limits::{
    ANSWER_GRACE, INPUT_SIZE_BYTES, OUTPUT_SIZE_BYTES_MAX, OWED_COUNT_MAX, SWEEP_PERIOD,
    TAKE_COUNT_MAX,
};
use crate::shared::Shared;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use ticketing_wire_codec::limits::REQUEST_SIZE_BYTES_MAX;
use ticketing_wire_codec::{
    ErrorCode, Reply, ReplyRules, RequestId, Step, decode_reply, encode_acquire,
    encode_acquire_set, encode_release, encode_release_set,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use tokio::time::{Sleep, sleep_until};

/// Why a session ended in which no more came.
const CLOSED: &str = "the server closed the connection; check that it runs";

/// A request whose answer is to come.
struct Owed {
    call: Arc<Call>,
    /// Where its first byte is in the stream of all bytes out.
    starts_at: u64,
    /// How many bytes had come in when it was sent.
    received_before: u64,
    /// When its answer is overdue: acquires only, and only until that was found out.
    overdue_at: Option<Instant>,
}

/// What sets one connection apart.
#[derive(Clone, Copy)]
pub(crate) struct SessionOptions {
    /// Index of the connection: the slot, in a cluster.
    pub(crate) lane: usize,
    pub(crate) rules: ReplyRules,
    /// Whether a failed write certainly handed over nothing: plain sockets promise that, TLS does
    /// not.
    pub(crate) is_failed_write_unsent: bool,
}

/// A connection at work. Dropping it loses what it still has.
pub(crate) struct Session<S> {
    stream: S,
    options: SessionOptions,
    shared: Arc<Shared>,
    requests: mpsc::Receiver<Arc<Call>>,
    taken: Vec<Arc<Call>>,
    /// Taken from the queue, not yet in the output.
    waiting: VecDeque<Arc<Call>>,
    /// Whether it gives others a turn before it sends.
    is_gathering: bool,
    owed: HashMap<u64, Owed, BuildHasherDefault<IdHasher>>,
    request_id_last: u64,
    output: Vec<u8>,
    output_start: usize,
    /// Bytes of the outgoing stream that may have left.
    handed: u64,
    needs_flush: bool,
    input: Box<[u8; INPUT_SIZE_BYTES]>,
    input_size: usize,
    /// Bytes of the incoming stream.
    received: u64,
    scratch: Box<[u8; REQUEST_SIZE_BYTES_MAX]>,
    sweep: Pin<Box<Sleep>>,
    /// When something may be overdue.
    sweep_at: Option<Instant>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<S> {
    pub(crate) fn new(
        stream: S,
        options: SessionOptions,
        shared: Arc<Shared>,
        requests: mpsc::Receiver<Arc<Call>>,
    ) -> Self {
        Self {
            stream,
            options,
            shared,
            requests,
            taken: Vec::with_capacity(TAKE_COUNT_MAX),
            waiting: VecDeque::new(),
            is_gathering: false,
            owed: HashMap::default(),
            request_id_last: 0,
            output: Vec::new(),
            output_start: 0,
            handed: 0,
            needs_flush: false,
            input: Box::new([0; INPUT_SIZE_BYTES]),
            input_size: 0,
            received: 0,
            scratch: Box::new([0; REQUEST_SIZE_BYTES_MAX]),
            sweep: Box::pin(sleep_until(clock::now())),
            sweep_at: None,
        }
    }

    /// Works until the connection is over, and says why it is.
    pub(crate) fn poll_serve(&mut self, cx: &mut Context<'_>) -> Poll<String> {
        match self.serve(cx) {
            Ok(()) => Poll::Pending,
            Err(reason) => Poll::Ready(reason),
        }
    }

    fn serve(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        loop {
            // Reading first: an end that is already there keeps queued requests unsent.
            let has_read = self.read(cx)?;
            let has_received = self.receive(cx);
            if has_received && !self.is_gathering {
                // One turn for the other tasks that are ready to run: what they ask for goes out
                // in the same write.
                self.is_gathering = true;
                cx.waker().wake_by_ref();
                break;
            }
            self.is_gathering = false;
            if !(self.depart() | self.write(cx)? | has_read | has_received) {
                break;
            }
        }
        self.sweep(cx)
    }

    /// The broker is closing: nobody waits for a grant any more. The answers are still owed, and
    /// a grant among them is released.
    pub(crate) fn give_up_acquires(&mut self) {
        while let Ok(call) = self.requests.try_recv() {
            self.waiting.push_back(call);
        }
        self.waiting.retain(|call| {
            if call.kind().is_acquire() {
                call.give_up(Outcome::Unsent);
            }
            !call.kind().is_acquire()
        });
        for owed in self.owed.values().filter(|owed| owed.call.kind().is_acquire()) {
            owed.call.give_up(Outcome::Unanswered);
        }
    }

    /// Ends the connection in good order.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    /// Returns whether anything came in.
    fn read(&mut self, cx: &mut Context<'_>) -> Result<bool, String> {
        let mut has_progress = false;
        loop {
            let mut buffer = ReadBuf::new(&mut self.input[self.input_size..]);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                Poll::Pending => return Ok(has_progress),
                Poll::Ready(Err(error)) => return Err(lost(&error)),
                Poll::Ready(Ok(())) => {}
            }
            let size = buffer.filled().len();
            if size == 0 {
                return Err(CLOSED.into());
            }
            self.input_size += size;
            self.received += size as u64;
            self.decode()?;
            has_progress = true;
        }
    }

    fn decode(&mut self) -> Result<(), String> {
        let mut start = 0;
        loop {
            match decode_reply(&self.input[start..self.input_size], self.options.rules) {
                Ok(Step::Complete { value, size }) => {
                    start += size;
                    self.accept(value)?;
                }
                Ok(Step::Incomplete) => break,
                Err(fault) => return Err(broken(&fault)),
            }
        }
        self.input.copy_within(start..self.input_size, 0);
        self.input_size -= start;
        Ok(())
    }

    /// Hands a reply to its call. Protocol, "Reply frames", last paragraph.
    fn accept(&mut self, reply: Reply) -> Result<(), String> {
        let lane = self.options.lane;
        let Some(request_id) = reply.request_id() else {
            if let Reply::Leader { leader } = reply {
                self.shared.pool.set_leader(leader.map(|slot| usize::from(slot.get())));
            }
            return Ok(());
        };
        let Entry::Occupied(owed) = self.owed.entry(request_id.get()) else {
            return Err(broken(&"unknown or answered request id"));
        };
        // What has not left cannot have been answered.
        if owed.get().starts_at >= self.handed {
            return Err(broken(&"request id not sent yet"));
        }
        if !reply.answers(owed.get().call.kind()) {
            return Err(broken(&"wrong kind of reply"));
        }
        match reply {
            Reply::Moved { leader, .. } => {
                self.shared.pool.set_leader(leader.map(|slot| usize::from(slot.get())));
            }
            Reply::Refused { code: ErrorCode::NoLeader | ErrorCode::NotActive, .. } => {
                self.shared.pool.forget_leader(lane);
            }
            _ => {}
        }
        let call = owed.remove().call;
        if !call.answer(reply)
            && let Reply::Granted { token, .. } | Reply::GrantedSet { token, .. } = reply
        {
            self.shared.release_in_background(call.keys.clone(), token);
        }
        Ok(())
    }

    /// Takes requests from the queue. Returns whether there were any.
    fn receive(&mut self, cx: &mut Context<'_>) -> bool {
        let mut has_received = false;
        while self.waiting.len() < OWED_COUNT_MAX {
            match self.requests.poll_recv_many(cx, &mut self.taken, TAKE_COUNT_MAX) {
                Poll::Pending | Poll::Ready(0) => break,
                Poll::Ready(_) => has_received = true,
            }
            for call in self.taken.drain(..) {
                self.sweep_at = earlier(self.sweep_at, call.deadline);
                self.waiting.push_back(call);
            }
        }
        has_received
    }

    /// Moves requests to the output as far as there is room. Returns whether any moved.
    fn depart(&mut self) -> bool {
        if self.waiting.is_empty() || !self.has_room() {
            return false;
        }
        let now = clock::now();
        while self.has_room()
            && let Some(call) = self.waiting.pop_front()
        {
            if call.depart(now) {
                self.encode(call, now);
            }
        }
        true
    }

    fn has_room(&self) -> bool {
        self.output.len() - self.output_start < OUTPUT_SIZE_BYTES_MAX
            && self.owed.len() < OWED_COUNT_MAX
    }

    fn encode(&mut self, call: Arc<Call>, now: Instant) {
        self.request_id_last += 1;
        let request_id = RequestId::new(self.request_id_last).expect("counts up from 1");
        let buffer = &mut *self.scratch;
        let wait_seconds = call.wait_seconds(now);
        let frame = match (&call.order, &call.keys) {
            (Order::Acquire { lease_seconds, .. }, Keys::One(key)) => {
                encode_acquire(buffer, request_id, wait_seconds, *lease_seconds, key.as_bytes())
            }
            (Order::Acquire { lease_seconds, .. }, keys @ Keys::Set(_)) => {
                encode_acquire_set(buffer, request_id, wait_seconds, *lease_seconds, keys.bytes())
            }
            (Order::Release { token }, Keys::One(key)) => {
                encode_release(buffer, request_id, *token, key.as_bytes())
            }
            (Order::Release { token }, keys @ Keys::Set(_)) => {
                encode_release_set(buffer, request_id, *token, keys.bytes())
            }
        };
        let frame = frame.expect("keys and lease were checked before the call was queued");
        let starts_at = self.handed + (self.output.len() - self.output_start) as u64;
        self.output.extend_from_slice(frame);
        let overdue_at = call
            .kind()
            .is_acquire()
            .then(|| now + Duration::from_secs(wait_seconds.into()) + ANSWER_GRACE);
        if let Some(overdue_at) = overdue_at {
            self.sweep_at = earlier(self.sweep_at, overdue_at);
        }
        let owed = Owed { call, starts_at, received_before: self.received, overdue_at };
        self.owed.insert(request_id.get(), owed);
    }

    /// Returns whether anything went out.
    fn write(&mut self, cx: &mut Context<'_>) -> Result<bool, String> {
        let mut has_progress = false;
        while self.output_start < self.output.len() {
            let pending = &self.output[self.output_start..];
            match Pin::new(&mut self.stream).poll_write(cx, pending) {
                Poll::Pending => return Ok(has_progress),
                Poll::Ready(Ok(0)) => return Err(CLOSED.into()),
                Poll::Ready(Ok(size)) => {
                    self.output_start += size;
                    self.handed += size as u64;
                    self.needs_flush = true;
                    has_progress = true;
                }
                Poll::Ready(Err(error)) => {
                    if !self.options.is_failed_write_unsent {
                        self.handed += pending.len() as u64;
                    }
                    return Err(lost(&error));
                }
            }
            if self.output_start >= OUTPUT_SIZE_BYTES_MAX {
                self.output.drain(..self.output_start);
                self.output_start = 0;
            }
        }
        self.output.clear();
        self.output_start = 0;
        if self.needs_flush {
            match Pin::new(&mut self.stream).poll_flush(cx) {
                Poll::Pending => {}
                Poll::Ready(Ok(())) => self.needs_flush = false,
                Poll::Ready(Err(error)) => return Err(lost(&error)),
            }
        }
        Ok(has_progress)
    }

    /// Ends the waiting of overdue calls, and the connection when it is dead.
    fn sweep(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        while let Some(at) = self.sweep_at {
            if self.sweep.deadline() != at {
                self.sweep.as_mut().reset(at);
            }
            if self.sweep.as_mut().poll(cx).is_pending() {
                break;
            }
            let now = clock::now();
            self.sweep_at = self.find_overdue(now)?.map(|at| at.max(now + SWEEP_PERIOD));
        }
        Ok(())
    }

    /// Returns when the next may be overdue.
    fn find_overdue(&mut self, now: Instant) -> Result<Option<Instant>, String> {
        let mut next = None;
        self.waiting.retain(|call| {
            let is_over = call.deadline <= now;
            if is_over {
                call.give_up(Outcome::Unsent);
            } else {
                next = earlier(next, call.deadline);
            }
            !is_over
        });
        for owed in self.owed.values_mut() {
            match owed.overdue_at {
                Some(at) if at <= now => {
                    if owed.received_before == self.received {
                        return Err("the server went silent with answers overdue; check that it \
                                    runs and can be reached"
                            .into());
                    }
                    owed.overdue_at = None;
                    owed.call.give_up(Outcome::Unanswered);
                }
                Some(at) => next = earlier(next, at),
                None => {}
            }
        }
        Ok(next)
    }
}

impl<S> Drop for Session<S> {
    fn drop(&mut self) {
        self.requests.close();
        let mut owed: Vec<(u64, Owed)> = self.owed.drain().collect();
        // In the order of sending, so that callers try again in the order they came.
        owed.sort_unstable_by_key(|(request_id, _)| *request_id);
        for (_, owed) in owed {
            let is_unsent = owed.starts_at >= self.handed;
            owed.call.lose(if is_unsent { Outcome::Unsent } else { Outcome::Unanswered });
        }
        for call in self.waiting.drain(..) {
            call.lose(Outcome::Unsent);
        }
        while let Ok(call) = self.requests.try_recv() {
            call.lose(Outcome::Unsent);
        }
    }
}

fn lost(error: &io::Error) -> String {
    format!("connection lost: {error}; check that the server runs and can be reached")
}

fn broken(fault: &dyn fmt::Display) -> String {
    format!(
        "the server broke the protocol: {fault}; use a client and a server of the same protocol \
         version"
    )
}

fn earlier(known: Option<Instant>, other: Instant) -> Option<Instant> {
    Some(known.map_or(other, |known| known.min(other)))
}

/// Request ids are our own, so spreading them needs no secret.
#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        // 2^64 over the golden ratio: neighbours end up far apart in the high bits.
        self.0 = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Domain;
    use crate::pool::{LaneSet, Pool, Submission};
    use std::future::poll_fn;
    use tokio::runtime::Handle;

    /// Takes a number of bytes, then fails; nothing ever comes in.
    struct Failing(usize);

    impl AsyncRead for Failing {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl AsyncWrite for Failing {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let size = self.0.min(bytes.len());
            self.0 -= size;
            Poll::Ready(if size == 0 { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(size) })
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// How a call ends whose write fails after so many bytes were taken.
    async fn outcome(size: usize, is_failed_write_unsent: bool) -> Outcome {
        let shared =
            Arc::new(Shared::new(Domain::Single, Pool::new(1, "here"), 1, Handle::current()));
        let (sender, requests) = mpsc::channel(1);
        shared.pool.join(0, sender);
        let options = SessionOptions { lane: 0, rules: ReplyRules::Single, is_failed_write_unsent };
        let mut session = Session::new(Failing(size), options, Arc::clone(&shared), requests);
        let order = Order::Acquire { is_immediate: false, lease_seconds: 30 };
        let keys = Keys::one(b"k").expect("a key");
        let deadline = clock::now() + Duration::from_secs(5);
        let call = Arc::new(Call::new(keys, order, deadline, None));
        assert_eq!(shared.pool.submit(&call, LaneSet::default()), Submission::Queued(0));
        let reason = poll_fn(|cx| session.poll_serve(cx)).await;
        assert!(reason.contains("connection lost"), "{reason}");
        drop(session);
        poll_fn(|cx| call.poll_outcome(cx)).await
    }

    #[tokio::test]
    async fn a_failed_write_is_unsent_only_where_the_transport_promises_it() {
        assert_eq!(outcome(0, true).await, Outcome::Unsent);
        assert_eq!(outcome(0, false).await, Outcome::Unanswered);
        assert_eq!(outcome(1, true).await, Outcome::Unanswered);
        assert_eq!(outcome(1, false).await, Outcome::Unanswered);
    }
}
