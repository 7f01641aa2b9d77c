//! A connection's background worker: connect, serve, pause, for ever (L1, L4).

use crate::backoff::Backoff;
use crate::clock;
use crate::connect::{ConnectError, Target, Transport, connect};
use crate::limits::{GOOD_SESSION, SHUTDOWN_TIMEOUT};
use crate::pool::Stage;
use crate::session::{Session, SessionOptions};
use crate::shared::Shared;
use std::future::poll_fn;
use std::sync::Arc;
use ticketing_wire_codec::ReplyRules;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

/// One connection of the broker, usable or not.
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    /// Its index in the pool: the slot, in a cluster.
    pub(crate) lane: usize,
    pub(crate) rules: ReplyRules,
    pub(crate) target: Target,
    pub(crate) queue_count: usize,
    pub(crate) stage: watch::Receiver<Stage>,
}

impl Worker {
    /// Runs until the broker is closed.
    pub(crate) async fn run(mut self) {
        let mut backoff = Backoff::reconnect();
        loop {
            let mut stage = self.stage.clone();
            let connected = tokio::select! {
                () = closed(&mut stage) => return,
                connected = connect(&self.target) => connected,
            };
            match connected {
                Ok(transport) => {
                    let started = clock::now();
                    match transport {
                        #[cfg(test)]
                        Transport::Memory(stream) => self.serve(stream, true).await,
                        Transport::Plain(stream) => self.serve(stream, true).await,
                        Transport::Tls(stream) => self.serve(stream, false).await,
                    }
                    if clock::now() - started >= GOOD_SESSION {
                        backoff.reset();
                    }
                }
                Err(error) => self.report(error),
            }
            tokio::select! {
                () = closed(&mut stage) => return,
                () = sleep(backoff.next()) => {}
            }
        }
    }

    fn report(&self, error: ConnectError) {
        let address = &self.target.address;
        let (is_refused, reason) = match error {
            ConnectError::Failed(reason) => (false, format!("{address}: {reason}")),
            ConnectError::Refused => (true, format!("{address}: the server refused the token")),
        };
        self.shared.pool.failed(is_refused, reason);
    }

    async fn serve(
        &mut self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        is_failed_write_unsent: bool,
    ) {
        let (sender, requests) = mpsc::channel(self.queue_count);
        let options = SessionOptions { lane: self.lane, rules: self.rules, is_failed_write_unsent };
        let mut session = Session::new(stream, options, Arc::clone(&self.shared), requests);
        self.shared.pool.join(self.lane, sender);
        let reason = loop {
            tokio::select! {
                reason = poll_fn(|cx| session.poll_serve(cx)) => break reason,
                changed = self.stage.changed() => {
                    let stage = *self.stage.borrow_and_update();
                    if changed.is_err() || stage == Stage::Closed {
                        break "the broker is closed; build a new one".into();
                    }
                    session.give_up_acquires();
                }
            }
        };
        let address = &self.target.address;
        self.shared.pool.leave(self.lane, format!("{address}: {reason}"));
        if *self.stage.borrow() == Stage::Closed {
            // Politeness only; the peer sees the end either way.
            let _ = timeout(SHUTDOWN_TIMEOUT, poll_fn(|cx| session.poll_shutdown(cx))).await;
        }
    }
}

async fn closed(stage: &mut watch::Receiver<Stage>) {
    // An error means that the broker's state is gone altogether.
    let _ = stage.wait_for(|stage| *stage == Stage::Closed).await;
}
