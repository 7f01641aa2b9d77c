//! The released client, crate `ticketing` 0.4.0, against this repository's server.

mod basics;
mod cluster;
mod load;
mod restart;

use std::net::SocketAddr;
use std::time::Duration;
use ticketing::{TicketBroker, TicketError};
use ticketing_conformance::server_process::ServerProcess;

/// Generous for anything that should happen at once: the machine may be busy.
const SOON: Duration = Duration::from_secs(10);
const LEASE: Duration = Duration::from_secs(30);
const NO_BUDGET: Duration = Duration::ZERO;

async fn server(arguments: &[&str]) -> ServerProcess {
    ServerProcess::start(arguments).await.expect("the server starts")
}

/// A connected broker without authentication.
async fn broker(address: SocketAddr) -> TicketBroker {
    let broker = TicketBroker::connect_loopback([address.to_string()]);
    assert!(broker.wait_ready(SOON).await, "the released client connects");
    broker
}

async fn hold(broker: &TicketBroker, key: &str) -> ticketing::Ticket {
    broker.acquire(key, SOON, LEASE, NO_BUDGET).await.expect("granted")
}

async fn try_once(broker: &TicketBroker, key: &str) -> Result<ticketing::Ticket, TicketError> {
    broker.acquire(key, Duration::ZERO, LEASE, NO_BUDGET).await
}
