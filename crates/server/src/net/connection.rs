//! The task of one authenticated connection. It owns the socket and the bytes that the socket has
//! not taken; everything else is the engine's.

use super::shared::{Scratch, Shared, with_scratch};
use super::transport::Transport;
use crate::engine::{Backlog, EndReason, Outgoing, Turn};
use crate::limits::{READS_PER_POLL_MAX, UNWRITTEN_SIZE_BYTES_MAX};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use ticketing_lock_core::SessionId;

/// A session that is closed when this goes away, however it goes.
pub(crate) struct Session {
    shared: Arc<Shared>,
    id: SessionId,
    outgoing: Outgoing,
}

/// Serves until the connection is over.
pub(crate) struct Connection {
    /// `None` after the end.
    serving: Option<Serving>,
}

struct Serving {
    transport: Transport,
    session: Session,
    turn: Turn,
    /// Whether the engine counts the time to drain.
    is_behind: bool,
    is_attended: bool,
}

/// How a connection ended.
pub(crate) struct Ended {
    /// Why the server ended it; `None` when the peer is gone or the socket is broken.
    pub(crate) reason: Option<EndReason>,
    /// Where the server ended it and has written every reply.
    pub(crate) flushed: Option<Transport>,
}

impl Session {
    /// Opens a session; `None` when there are too many.
    pub(crate) fn open(shared: &Arc<Shared>) -> Option<Self> {
        let id = shared.open()?;
        Some(Self { shared: Arc::clone(shared), id, outgoing: Outgoing::default() })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.close(self.id, &self.outgoing);
    }
}

impl Connection {
    pub(crate) fn new(transport: Transport, session: Session) -> Self {
        let (turn, is_behind, is_attended) = (Turn::Serve, false, false);
        Self { serving: Some(Serving { transport, session, turn, is_behind, is_attended }) }
    }
}

impl Future for Connection {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended> {
        let serving = self.serving.as_mut().expect("not polled after its end");
        let is_flushed = match with_scratch(|scratch| serving.drive(cx, scratch)) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(is_flushed) => is_flushed,
        };
        // The session ends here; the socket may linger.
        let Serving { transport, turn, .. } = self.serving.take().expect("it was there");
        let reason = if let Turn::End(reason) = turn { Some(reason) } else { None };
        Poll::Ready(Ended { reason, flushed: is_flushed.then_some(transport) })
    }
}

/// Nothing more can be read from or written to the peer.
struct Gone;

impl Serving {
    /// Ready at the end: whether every reply was written.
    fn drive(&mut self, cx: &mut Context<'_>, scratch: &mut Scratch) -> Poll<bool> {
        if !self.is_attended {
            self.is_attended = true;
            self.session.shared.attend(self.session.id, cx.waker());
        }
        let mut had_turn = false;
        for _ in 0..READS_PER_POLL_MAX {
            let could_read = self.may_read(&scratch.out);
            let Ok(input_size) = self.read(cx, scratch) else {
                self.part(cx, &mut scratch.out);
                return Poll::Ready(false);
            };
            if input_size > 0 || !had_turn {
                had_turn = true;
                self.turn = self.session.shared.turn(self.session.id, input_size, scratch);
                if self.turn == Turn::End(EndReason::DrainTime) {
                    self.session.outgoing.push(&scratch.out);
                    scratch.out.clear();
                    return Poll::Ready(false);
                }
            }
            // Reading comes before writing, to the end of what there is: a grant for a peer that
            // is gone must go on to the next in its queue, not into the socket.
            if input_size > 0 {
                continue;
            }
            if self.write(cx, &mut scratch.out).is_err() {
                return Poll::Ready(false);
            }
            if self.is_over() {
                return Poll::Ready(true);
            }
            if could_read || !self.may_read(&[]) {
                return Poll::Pending;
            }
        }
        if self.write(cx, &mut scratch.out).is_err() {
            return Poll::Ready(false);
        }
        if self.is_over() {
            return Poll::Ready(true);
        }
        // Others first; there is more to do here.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Whether the server ends the connection and every reply was written.
    fn is_over(&self) -> bool {
        matches!(self.turn, Turn::End(_)) && self.session.outgoing.is_empty()
    }

    /// The peer has closed its side at least. What became of its releases it may still want to
    /// know; a grant is taken back, and then nothing is said at all.
    fn part(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) {
        self.session.outgoing.push(out);
        out.clear();
        if self.session.outgoing.undelivered_grants().next().is_none() {
            // Whether it arrives is nobody's concern any more.
            let _ = self.write(cx, out);
        }
    }

    fn may_read(&self, out: &[u8]) -> bool {
        let unwritten_size = self.session.outgoing.unwritten().len() + out.len();
        self.turn == Turn::Serve && unwritten_size < UNWRITTEN_SIZE_BYTES_MAX
    }

    /// What was read; 0 when there is nothing, or nothing may be read now.
    fn read(&mut self, cx: &mut Context<'_>, scratch: &mut Scratch) -> Result<usize, Gone> {
        if !self.may_read(&scratch.out) {
            return match self.transport.poll_hang_up(cx) {
                Poll::Ready(()) => Err(Gone),
                Poll::Pending => Ok(0),
            };
        }
        match self.transport.poll_read(cx, &mut scratch.input) {
            Poll::Ready(Ok(size)) if size > 0 => Ok(size),
            Poll::Ready(_) => Err(Gone),
            Poll::Pending => Ok(0),
        }
    }

    /// Writes what was left and the new replies, as far as the socket takes them.
    fn write(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Result<(), Gone> {
        let Self { transport, session, .. } = self;
        let mut has_moved = false;
        if session.outgoing.is_empty() && !out.is_empty() {
            // The common case copies nothing.
            match transport.poll_write(cx, out) {
                Poll::Ready(Ok(size)) if size == out.len() => {
                    out.clear();
                    return Ok(());
                }
                Poll::Ready(Ok(size)) => {
                    session.outgoing.push(out);
                    session.outgoing.advance(size);
                }
                Poll::Ready(Err(_)) => {
                    session.outgoing.push(out);
                    out.clear();
                    return Err(Gone);
                }
                Poll::Pending => session.outgoing.push(out),
            }
        } else {
            session.outgoing.push(out);
        }
        out.clear();
        while !session.outgoing.is_empty() {
            match transport.poll_write(cx, session.outgoing.unwritten()) {
                Poll::Ready(Ok(size)) if size > 0 => session.outgoing.advance(size),
                Poll::Ready(_) => return Err(Gone),
                Poll::Pending => break,
            }
            has_moved = true;
        }
        self.note_backlog(has_moved);
        Ok(())
    }

    fn note_backlog(&mut self, has_moved: bool) {
        let is_behind = !self.session.outgoing.is_empty();
        if is_behind && (has_moved || !self.is_behind) {
            self.session.shared.set_backlog(self.session.id, Backlog::Moving);
        } else if !is_behind && self.is_behind {
            self.session.shared.set_backlog(self.session.id, Backlog::None);
        }
        self.is_behind = is_behind;
    }
}
