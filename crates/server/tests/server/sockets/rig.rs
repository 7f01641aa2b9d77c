//! A server in this process, on a thread of its own.

use crate::support::{PATIENCE, eventually};
use clap::Parser;
use std::net::SocketAddr;
use std::thread::JoinHandle;
use ticketing_server::config::Settings;
use ticketing_server::engine::Counters;
use ticketing_server::net::{Server, runtime};
use tokio::sync::oneshot;

/// A running server; it stops when this is dropped.
pub(crate) struct Rig {
    pub(crate) address: SocketAddr,
    counters: Box<dyn Fn() -> Counters + Send>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Rig {
    /// With settings as on the command line, on a free port. On two threads, unless they say
    /// otherwise.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let program = ["ticketing-server", "--listen", "127.0.0.1:0"];
        let settings = Settings::parse_from([&program, arguments].concat());
        let thread_count = settings.threads.unwrap_or(2) as usize;
        let (stop, stopped) = oneshot::channel::<()>();
        let (started, running) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            runtime(thread_count).expect("a runtime").block_on(async {
                let server = Server::bind(&settings).expect("the server starts");
                let counters = server.counters();
                started.send((server.addresses()[0], counters)).expect("the test waits");
                server.serve(async { stopped.await.unwrap_or(()) }).await;
            });
        });
        let (address, counters) = running.recv_timeout(PATIENCE).expect("the server starts");
        Self { address, counters: Box::new(counters), stop: Some(stop), thread: Some(thread) }
    }

    pub(crate) fn counters(&self) -> Counters {
        (self.counters)()
    }

    /// Waits until nobody is connected and nobody waits.
    pub(crate) fn expect_empty(&self) {
        eventually("all sessions closed", || {
            let Counters { sessions, in_flight, .. } = self.counters();
            (sessions, in_flight) == (0, 0)
        });
    }

    pub(crate) fn stop(&mut self) {
        // Only a server that panicked is gone already, and then the join says so.
        self.stop.take().map(|stop| stop.send(()));
        if let Some(thread) = self.thread.take() {
            assert!(thread.join().is_ok() || std::thread::panicking(), "the server panicked");
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stop();
    }
}
