//! The client against scripted servers, in memory and on paused time.

mod acquire;
mod closing;
mod cluster;
mod connections;
mod loss;
mod release;

#[path = "../../tests/support/mod.rs"]
mod support;

use crate::{AcquireOptions, Broker, BrokerBuilder, Error, Fingerprint, Ticket};
use std::time::Duration;
use support::{PATIENCE, Peer};
use ticketing_auth::ClientToken;
use tokio::io::{DuplexStream, duplex};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Bytes that an in-memory connection holds in each direction before it stops taking more.
const BUFFER_SIZE_BYTES: usize = 64 * 1024;
const FINGERPRINT: [u8; 32] = [7; 32];

/// Makes in-memory connections instead of TCP ones.
#[derive(Clone, Debug)]
pub(crate) struct MemoryDialer {
    port: u16,
    buffer_size_bytes: usize,
    dialed: mpsc::UnboundedSender<(u16, DuplexStream)>,
}

impl MemoryDialer {
    pub(crate) fn to(&self, port: u16) -> Self {
        Self { port, ..self.clone() }
    }

    pub(crate) fn dial(&self) -> Result<DuplexStream, String> {
        let (ours, theirs) = duplex(self.buffer_size_bytes);
        self.dialed.send((self.port, theirs)).map_err(|_| "connection refused".to_owned())?;
        Ok(ours)
    }
}

/// All servers of a test: connections come here. Dropping it refuses further ones.
struct Network {
    dialed: mpsc::UnboundedReceiver<(u16, DuplexStream)>,
}

type MemoryPeer = Peer<DuplexStream>;

fn network(mut builder: BrokerBuilder, buffer_size_bytes: usize) -> (Broker, Network) {
    let (sender, dialed) = mpsc::unbounded_channel();
    builder.memory = Some(MemoryDialer { port: 0, buffer_size_bytes, dialed: sender });
    (builder.build().expect("valid settings"), Network { dialed })
}

/// A broker of a single server.
fn single() -> (Broker, Network) {
    network(Broker::builder().address("localhost:1"), BUFFER_SIZE_BYTES)
}

/// A broker of a cluster of three; slot n has port n + 1.
fn cluster() -> (Broker, Network) {
    let addresses = ["localhost:1", "localhost:2", "localhost:3"];
    let builder =
        Broker::builder().addresses(addresses).fingerprint(Fingerprint::from(FINGERPRINT));
    network(builder, BUFFER_SIZE_BYTES)
}

impl Network {
    /// The next connection attempt, before the handshake, and the port it went to.
    async fn dialed(&mut self) -> (u16, DuplexStream) {
        let dialed = tokio::time::timeout(PATIENCE, self.dialed.recv()).await;
        dialed.expect("an attempt to connect").expect("the broker lives")
    }

    /// Accepts the next connection of a single server.
    async fn accept(&mut self) -> MemoryPeer {
        Peer::accept(self.dialed().await.1).await
    }

    /// Accepts one connection to each slot of the cluster.
    async fn accept_cluster(&mut self) -> [MemoryPeer; 3] {
        let mut peers = [None, None, None];
        while peers.iter().any(Option::is_none) {
            let (lane, peer) = self.accept_slot().await;
            peers[lane] = Some(peer);
        }
        settle().await;
        peers.map(|peer| peer.expect("accepted"))
    }

    async fn accept_slot(&mut self) -> (usize, MemoryPeer) {
        let (port, stream) = self.dialed().await;
        let lane = port - 1;
        let mode = support::slot(lane as u8);
        let peer = Peer::accept_as(stream, mode, &FINGERPRINT, &ClientToken::none()).await;
        (lane.into(), peer)
    }
}

/// An acquire of that key that runs by itself.
fn acquiring(
    broker: &Broker,
    key: &str,
    options: AcquireOptions,
) -> JoinHandle<Result<Ticket, Error>> {
    let (broker, key) = (broker.clone(), key.to_owned());
    tokio::spawn(async move { broker.acquire(key, options).await })
}

async fn ended<T>(call: JoinHandle<T>) -> T {
    tokio::time::timeout(PATIENCE, call).await.expect("an end").expect("no panic")
}

/// The ticket of a call that succeeded.
async fn granted(call: JoinHandle<Result<Ticket, Error>>) -> Ticket {
    ended(call).await.expect("granted")
}

/// The error of a call that failed.
async fn failed(call: JoinHandle<Result<Ticket, Error>>) -> Error {
    error(ended(call).await)
}

fn error<T: std::fmt::Debug>(result: Result<T, Error>) -> Error {
    result.expect_err("no lock")
}

/// Lets everything run that can run now.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn options(wait: u64, lease: u64) -> AcquireOptions {
    AcquireOptions::new().wait(seconds(wait)).lease(seconds(lease))
}
