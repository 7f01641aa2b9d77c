//! Signals that are forwarded to the command.

use crate::exit::{Failure, INTERNAL};
use crate::sys;
use std::future::poll_fn;
use std::task::Poll;
use tokio::signal::unix::{Signal, SignalKind, signal};

const FORWARDED: [i32; 6] =
    [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

/// Listens to them, but not to those that this process was told to ignore: they stay ignored,
/// here and by the command.
pub(crate) struct Signals {
    listeners: Vec<(i32, Signal)>,
}

impl Signals {
    pub(crate) fn listen() -> Result<Self, Failure> {
        let mut listeners = Vec::new();
        for number in FORWARDED.into_iter().filter(|number| !sys::is_ignored(*number)) {
            let listener = signal(SignalKind::from_raw(number)).map_err(|error| {
                Failure::new(
                    INTERNAL,
                    format!(
                        "cannot listen to signal {number}: {error}; raise the limit of open files"
                    ),
                )
            })?;
            listeners.push((number, listener));
        }
        Ok(Self { listeners })
    }

    /// The number of the next signal that arrives.
    pub(crate) async fn next(&mut self) -> i32 {
        poll_fn(|cx| {
            for (number, listener) in &mut self.listeners {
                if listener.poll_recv(cx).is_ready() {
                    return Poll::Ready(*number);
                }
            }
            Poll::Pending
        })
        .await
    }
}
