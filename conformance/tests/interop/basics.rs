//! Acquire, wait, timeout, set, release, tokens.

use crate::{LEASE, NO_BUDGET, SOON, broker, hold, server, try_once};
use std::time::Duration;
use ticketing::{ReleaseOutcome, TicketBroker, TicketDomain, TicketError};

#[tokio::test]
async fn acquire_and_release() {
    let server = server(&[]).await;
    let broker = broker(server.address).await;
    let ticket = hold(&broker, "order-1234").await;
    assert_eq!(ticket.key(), "order-1234");
    assert_eq!(ticket.domain(), TicketDomain::SingleProcess);
    let first = ticket.token();
    assert_eq!(ticket.release().await.expect("answered"), ReleaseOutcome::Released);
    let ticket = hold(&broker, "order-1234").await;
    assert!(ticket.token() > first);
    ticket.release().await.expect("released");
    broker.close().await;
    server.stop().await.expect("the server stops in order");
}

#[tokio::test]
async fn an_immediate_try_does_not_queue() {
    let server = server(&[]).await;
    let broker = broker(server.address).await;
    let ticket = hold(&broker, "k").await;
    assert!(matches!(try_once(&broker, "k").await, Err(TicketError::Timeout)));
    ticket.release().await.expect("released");
    // Nothing was left in the queue that could hold the key now.
    try_once(&broker, "k").await.expect("granted").release().await.expect("released");
}

#[tokio::test]
async fn a_wait_that_is_too_short_times_out_and_is_never_granted() {
    let server = server(&[]).await;
    let broker = broker(server.address).await;
    let ticket = hold(&broker, "k").await;
    let waited = broker.acquire("k", Duration::from_secs(1), LEASE, NO_BUDGET).await;
    // The released client stops waiting at the moment when the server answers, which is never
    // early: mostly it does not see the `T` any more, and knows nothing.
    let Err(error) = waited else { panic!("granted though held") };
    assert!(matches!(error, TicketError::Timeout | TicketError::Indeterminate), "{error}");
    ticket.release().await.expect("released");
    try_once(&broker, "k").await.expect("granted").release().await.expect("released");
}

#[tokio::test]
async fn waiters_are_served_in_order() {
    let server = server(&[]).await;
    let broker = broker(server.address).await;
    let held = hold(&broker, "k").await;
    let (sender, mut order) = tokio::sync::mpsc::unbounded_channel();
    let mut waiters = Vec::new();
    for number in 0..5 {
        let (broker, sender) = (broker.clone(), sender.clone());
        waiters.push(tokio::spawn(async move {
            let ticket = hold(&broker, "k").await;
            sender.send((number, ticket.token())).expect("the test listens");
            ticket.release().await.expect("released");
        }));
        // The next request must not overtake this one on the way.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    held.release().await.expect("released");
    for waiter in waiters {
        waiter.await.expect("served");
    }
    drop(sender);
    let mut served = Vec::new();
    while let Some(waiter) = order.recv().await {
        served.push(waiter);
    }
    assert_eq!(served.iter().map(|waiter| waiter.0).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert!(served.is_sorted_by(|one, next| one.1 < next.1), "tokens grow: {served:?}");
}

#[tokio::test]
async fn a_lease_ends_by_itself() {
    let server = server(&[]).await;
    let broker = broker(server.address).await;
    let lease = Duration::from_secs(1);
    let ticket = broker.acquire("k", SOON, lease, NO_BUDGET).await.expect("granted");
    let next = hold(&broker, "k").await;
    assert!(next.token() > ticket.token());
    let late = ticket.release().await.expect("answered");
    assert_eq!(late, ReleaseOutcome::AlreadyGoneOrNotCurrent);
    next.release().await.expect("released");
}

#[tokio::test]
async fn sets_are_all_or_nothing() {
    let server = server(&[]).await;
    let broker = broker(server.address).await;
    let single = hold(&broker, "b").await;
    let keys = ["c", "a", "b"];
    let refused = broker.acquire_set(&keys, Duration::ZERO, LEASE, NO_BUDGET).await;
    assert!(matches!(refused, Err(TicketError::Timeout)));
    // The refused set holds neither of the free keys.
    try_once(&broker, "a").await.expect("granted").release().await.expect("released");
    single.release().await.expect("released");
    let set = broker.acquire_set(&keys, SOON, LEASE, NO_BUDGET).await.expect("granted");
    assert_eq!(set.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
    assert!(matches!(try_once(&broker, "c").await, Err(TicketError::Timeout)));
    assert_eq!(set.release().await.expect("answered"), ReleaseOutcome::Released);
    try_once(&broker, "c").await.expect("granted").release().await.expect("released");
}

#[tokio::test]
async fn the_token_opens_and_another_does_not() {
    let token = "the right token of this server";
    let server = server(&["--token", token]).await;
    let connect = |token: &str| {
        TicketBroker::builder()
            .addrs([server.address.to_string()])
            .token(token)
            .connect()
            .expect("settings")
    };
    let right = connect(token);
    assert!(right.wait_ready(SOON).await);
    hold(&right, "k").await.release().await.expect("released");
    let wrong = connect("the wrong token of this server");
    assert!(!wrong.wait_ready(Duration::from_secs(1)).await);
    let refused = wrong.acquire("k", Duration::from_secs(1), LEASE, NO_BUDGET).await;
    assert!(matches!(refused, Err(TicketError::Auth)), "{:?}", refused.err());
    // The refusals disturb nobody else.
    hold(&right, "k").await.release().await.expect("released");
}
