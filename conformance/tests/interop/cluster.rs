//! A cluster of real processes whose leader ends under the released client.

use crate::{LEASE, NO_BUDGET, SOON};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use ticketing::{BrokerMode, TicketBroker, TicketError};
use ticketing_client::{AcquireOptions, Broker};
use ticketing_conformance::cluster_process::ClusterProcess;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Callers of each client.
const CALLER_COUNT: u64 = 4;
/// Every caller may have to wait for all others, on a machine that does much else.
const LONG: Duration = Duration::from_secs(60);
/// Load before a leader ends.
const CALM: Duration = Duration::from_millis(500);

fn fingerprint(cluster: &ClusterProcess) -> [u8; 32] {
    cluster.identity.cluster.expect("a cluster").fingerprint
}

async fn released_client(cluster: &ClusterProcess) -> TicketBroker {
    let token = String::from_utf8(cluster.identity.token.clone()).expect("hex digits");
    let broker = TicketBroker::builder()
        .addrs(cluster.addresses().split(','))
        .token(token)
        .mode(BrokerMode::Cluster { identity_fingerprint: fingerprint(cluster) })
        .connect()
        .expect("valid settings");
    assert!(broker.wait_ready(SOON).await, "the released client connects");
    broker
}

async fn own_client(cluster: &ClusterProcess) -> Broker {
    let broker = Broker::builder()
        .addresses(cluster.addresses().split(','))
        .fingerprint(fingerprint(cluster).into())
        .token(&cluster.identity.token)
        .build()
        .expect("valid settings");
    broker.ready(SOON).await.expect("the own client connects");
    broker
}

/// Takes a key of its own after the other until told to stop, so that a call in doubt holds up
/// nobody. Returns how many calls were in doubt; anything worse fails the test.
async fn keep_busy(
    broker: TicketBroker,
    caller: u64,
    granted: Arc<AtomicU64>,
    stop: watch::Receiver<bool>,
) -> u64 {
    let (mut token_last, mut doubt_count) = (0, 0);
    for turn in 0_u64.. {
        if *stop.borrow() {
            break;
        }
        match broker.acquire(&format!("key-{caller}-{turn}"), LONG, LEASE, NO_BUDGET).await {
            Ok(ticket) => {
                assert!(ticket.token() > token_last, "tokens grow across leaders");
                token_last = ticket.token();
                granted.fetch_add(1, Ordering::Relaxed);
                ticket.release().await.expect("released, if need be by the next leader");
            }
            Err(TicketError::Indeterminate) => doubt_count += 1,
            Err(error) => panic!("{error:?}"),
        }
    }
    doubt_count
}

#[tokio::test]
async fn the_client_goes_on_after_its_leader_was_killed() {
    let mut cluster = ClusterProcess::start().await.expect("three nodes");
    let broker = released_client(&cluster).await;
    let (stop, stopped) = watch::channel(false);
    let granted = Arc::new(AtomicU64::new(0));
    let mut callers = JoinSet::new();
    for caller in 0..CALLER_COUNT {
        callers.spawn(keep_busy(broker.clone(), caller, Arc::clone(&granted), stopped.clone()));
    }
    tokio::time::sleep(CALM).await;
    cluster.kill_leader().await.expect("another node leads");
    let before = granted.load(Ordering::Relaxed);
    let goes_on = async {
        while granted.load(Ordering::Relaxed) < before + 10 * CALLER_COUNT {
            tokio::time::sleep(CALM / 10).await;
        }
    };
    tokio::time::timeout(LONG, goes_on).await.expect("granted again, by the same broker");
    stop.send(true).expect("they listen");
    let doubt_count: u64 = callers.join_all().await.into_iter().sum();
    assert!(doubt_count <= CALLER_COUNT, "{doubt_count}: one call of each caller at most");
}

/// Whoever is inside, and the last token, of a key that both clients queue for.
#[derive(Default)]
struct Guarded {
    inside: AtomicU64,
    token_last: AtomicU64,
}

impl Guarded {
    async fn enter(&self, token: u64) {
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "one holder at a time");
        assert!(self.token_last.swap(token, Ordering::SeqCst) < token, "tokens grow");
        tokio::task::yield_now().await;
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_planned_stop_fails_no_call_of_either_client() {
    let mut cluster = ClusterProcess::start().await.expect("three nodes");
    let (released, own) = (released_client(&cluster).await, own_client(&cluster).await);
    let (stop, stopped) = watch::channel(false);
    let guarded = Arc::new(Guarded::default());
    let mut callers = JoinSet::new();
    for _ in 0..CALLER_COUNT {
        let (broker, one_holder, stop) = (released.clone(), Arc::clone(&guarded), stopped.clone());
        callers.spawn(async move {
            while !*stop.borrow() {
                let ticket = broker.acquire("shared", LONG, LEASE, NO_BUDGET).await;
                let ticket = ticket.expect("the released client's turn comes");
                one_holder.enter(ticket.token()).await;
                ticket.release().await.expect("released");
            }
        });
        let (broker, one_holder, stop) = (own.clone(), Arc::clone(&guarded), stopped.clone());
        let options = AcquireOptions::new().wait(LONG).lease(LEASE);
        callers.spawn(async move {
            while !*stop.borrow() {
                let ticket = broker.acquire("shared", options).await;
                let ticket = ticket.expect("the own client's turn comes");
                one_holder.enter(ticket.token()).await;
                ticket.release().await.expect("released");
            }
        });
    }
    tokio::time::sleep(CALM).await;
    let before = guarded.token_last.load(Ordering::SeqCst);
    cluster.stop_leader().await.expect("another node leads");
    tokio::time::sleep(CALM).await;
    stop.send(true).expect("they listen");
    callers.join_all().await;
    assert!(guarded.token_last.load(Ordering::SeqCst) > before);
}
