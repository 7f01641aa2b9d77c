//! The server is restarted, or killed, under the released client.

use crate::{LEASE, NO_BUDGET, SOON, broker, hold, server};
use std::net::Ipv4Addr;
use std::time::Duration;
use ticketing::TicketError;
use ticketing_conformance::server_process::ServerProcess;
use ticketing_test_ports::free_address;

#[tokio::test]
async fn the_client_reconnects_and_tokens_go_on_growing() {
    let address = free_address(Ipv4Addr::LOCALHOST).expect("a free port");
    let server = ServerProcess::start_at(address, &[]).await.expect("starts");
    let broker = broker(address).await;
    let ticket = hold(&broker, "k").await;
    let before = ticket.token();
    server.stop().await.expect("the server stops in order");
    let server = ServerProcess::start_at(address, &[]).await.expect("starts again");
    assert!(broker.wait_ready(SOON).await, "the released client reconnects");
    let again = hold(&broker, "k").await;
    assert!(again.token() > before);
    // The old server's grant means nothing to the new one, and cannot end another's.
    ticket.release().await.expect("answered");
    let waited = broker.acquire("k", Duration::ZERO, LEASE, NO_BUDGET).await;
    assert!(matches!(waited, Err(TicketError::Timeout)), "the new grant is still held");
    again.release().await.expect("released");
    server.stop().await.expect("the server stops in order");
}

#[tokio::test]
async fn a_request_under_way_when_the_server_dies_is_indeterminate() {
    let server = server(&[]).await;
    let broker = broker(server.address).await;
    let held = hold(&broker, "k").await;
    let waiter = tokio::spawn({
        let broker = broker.clone();
        async move { broker.acquire("k", Duration::from_secs(60), LEASE, NO_BUDGET).await }
    });
    // Long enough for the request to reach the server's queue; if it does not, the outcome is
    // another and the test says so.
    tokio::time::sleep(Duration::from_millis(500)).await;
    server.kill().await.expect("killed");
    let outcome = waiter.await.expect("the waiter ends");
    assert!(matches!(outcome, Err(TicketError::Indeterminate)), "{:?}", outcome.err());
    drop(held);
}
