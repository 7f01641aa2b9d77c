//! The Rust client with the real server: what only both together can show.

use clap::Parser;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use ticketing_client::{AcquireOptions, Broker, Error, ReleaseOutcome, Ticket};
use ticketing_conformance::cluster_process::ClusterProcess;
use ticketing_server::config::Settings;
use ticketing_server::net::{End, Server};
use ticketing_test_ports::free_address;
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

/// Far more than anything here takes, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);

/// Lease in seconds of a lock that may be granted to a caller who is not told.
const GHOST_LEASE: u64 = 20;

/// A server in this process.
struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    end: JoinHandle<End>,
}

impl Running {
    fn start(address: &str, arguments: &[&str]) -> Self {
        let settings = [&["ticketing-server", "--listen", address], arguments].concat();
        let server = Server::bind(&Settings::parse_from(settings)).expect("it starts");
        let address = server.addresses()[0];
        let (stop, stopped) = oneshot::channel();
        let end = tokio::spawn(server.serve(async {
            let _ = stopped.await;
        }));
        Self { address, stop, end }
    }

    async fn stop(self) {
        self.stop.send(()).expect("it runs");
        self.end.await.expect("no panic");
    }
}

async fn connected() -> (Running, Broker) {
    let server = Running::start("127.0.0.1:0", &[]);
    let broker = broker(server.address);
    broker.ready(PATIENCE).await.expect("the server runs");
    (server, broker)
}

fn broker(address: SocketAddr) -> Broker {
    Broker::builder().address(address.to_string()).build().expect("valid settings")
}

fn options(wait: u64, lease: u64) -> AcquireOptions {
    AcquireOptions::new().wait(Duration::from_secs(wait)).lease(Duration::from_secs(lease))
}

fn acquiring(broker: &Broker, key: &'static str) -> JoinHandle<Result<Ticket, Error>> {
    let broker = broker.clone();
    tokio::spawn(async move { broker.acquire(key, options(60, 250)).await })
}

#[tokio::test]
async fn a_key_has_one_holder_and_its_queue_is_served_in_order() {
    let (server, broker) = connected().await;
    let first = broker.acquire("k", options(5, 250)).await.expect("free");
    let (sender, mut order) = tokio::sync::mpsc::unbounded_channel();
    let holders = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for index in 0..20 {
        let (waiter, sender, holders) = (broker.clone(), sender.clone(), Arc::clone(&holders));
        tasks.spawn(async move {
            let ticket = waiter.acquire("k", options(60, 250)).await.expect("its turn comes");
            assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "one holder at a time");
            sender.send((index, ticket.token())).expect("the test listens");
            tokio::task::yield_now().await;
            holders.fetch_sub(1, Ordering::SeqCst);
            assert_eq!(ticket.release().await, Ok(ReleaseOutcome::Released));
        });
        // Its request is before this one in the server's queue: both connections have been read.
        for _ in 0..2 {
            let probe = broker.acquire(format!("probe-{index}"), options(0, 1)).await;
            probe.expect("free").release().await.expect("released");
        }
    }
    let mut token_last = first.token();
    first.release().await.expect("released");
    drop(sender);
    let mut indexes = Vec::new();
    while let Some((index, token)) = order.recv().await {
        assert!(token > token_last, "tokens grow");
        token_last = token;
        indexes.push(index);
    }
    tasks.join_all().await;
    assert_eq!(indexes, (0..20).collect::<Vec<_>>());
    server.stop().await;
}

#[tokio::test]
async fn waits_end_in_time_and_locks_are_not_re_entrant() {
    let (_server, broker) = connected().await;
    let held = broker.acquire("k", options(5, 250)).await.expect("free");
    assert_eq!(broker.acquire("k", options(0, 30)).await.err(), Some(Error::Timeout));
    assert_eq!(broker.acquire("k", options(1, 30)).await.err(), Some(Error::Timeout));
    held.release().await.expect("released");
    let next = broker.acquire("k", options(0, 30)).await.expect("a timed out wait is over");
    next.release().await.expect("released");
}

#[tokio::test]
async fn sets_are_all_or_nothing_and_have_one_token() {
    let (_server, broker) = connected().await;
    let one = broker.acquire("b", options(5, 250)).await.expect("free");
    assert_eq!(broker.acquire_set(["a", "b"], options(0, 30)).await.err(), Some(Error::Timeout));
    let a = broker.acquire("a", options(0, 30)).await.expect("not held by the failed set");
    a.release().await.expect("released");
    one.release().await.expect("released");
    let set = broker.acquire_set(["b", "a", "b"], options(5, 250)).await.expect("free");
    assert_eq!(broker.acquire("a", options(0, 30)).await.err(), Some(Error::Timeout));
    assert_eq!(broker.acquire("b", options(0, 30)).await.err(), Some(Error::Timeout));
    assert_eq!(set.release().await, Ok(ReleaseOutcome::Released));
    drop(broker.acquire("a", options(0, 30)).await.expect("free again"));
}

#[tokio::test]
async fn a_lease_that_ends_passes_the_lock_on_and_the_late_release_is_told() {
    let (_server, broker) = connected().await;
    let first = broker.acquire("k", options(5, 1)).await.expect("free");
    let second = broker.acquire("k", options(60, 250)).await.expect("after the first lease");
    assert!(first.remaining().is_zero(), "valid_before is not after the server's end");
    assert!(second.token() > first.token());
    assert_eq!(first.release().await, Ok(ReleaseOutcome::NotHeld));
    assert_eq!(second.release().await, Ok(ReleaseOutcome::Released));
}

#[tokio::test]
async fn dropped_tickets_and_cancelled_waits_leave_nothing_behind() {
    let (_server, broker) = connected().await;
    drop(broker.acquire("k", options(5, 250)).await.expect("free"));
    let held = broker.acquire("k", options(60, 250)).await.expect("released by the drop");
    let cancelled = acquiring(&broker, "k");
    let probe = broker.acquire("probe", options(5, 30)).await.expect("free");
    probe.release().await.expect("released");
    cancelled.abort();
    held.release().await.expect("released");
    // The cancelled one may have been granted in between; then it is released at once.
    let next = broker.acquire("k", options(60, 250)).await.expect("the queue goes on");
    next.release().await.expect("released");
}

#[tokio::test]
async fn the_token_decides() {
    let server = Running::start("127.0.0.1:0", &["--token", "the right token, long enough"]);
    let builder = Broker::builder().address(server.address.to_string());
    let right = builder.clone().token("the right token, long enough").build().expect("valid");
    right.ready(PATIENCE).await.expect("accepted");
    let wrong = builder.token("a wrong token, long enough").build().expect("valid");
    let error = wrong.acquire("k", options(1, 30)).await.expect_err("refused");
    assert_eq!(error, Error::Unauthorized);
}

#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_callers_share_two_connections() {
    let (_server, broker) = connected().await;
    let mut tasks = JoinSet::new();
    for index in 0..500 {
        let broker = broker.clone();
        tasks.spawn(async move {
            let key = format!("key-{}", index % 50);
            for _ in 0..10 {
                let ticket = broker.acquire(&key, options(60, 250)).await.expect("its turn comes");
                // On a machine that stands still for 2 s a second attempt may find the first done.
                ticket.release().await.expect("a definite answer");
            }
        });
    }
    tasks.join_all().await;
    broker.close().await;
}

#[tokio::test]
async fn a_restarted_server_is_found_again_and_its_tokens_go_on() {
    let address = free_address(Ipv4Addr::LOCALHOST).expect("a free port").to_string();
    let server = Running::start(&address, &[]);
    let broker = broker(server.address);
    broker.ready(PATIENCE).await.expect("the server runs");
    let before = broker.acquire("k", options(5, 250)).await.expect("free");
    let waiting = acquiring(&broker, "k");
    let probe = broker.acquire("probe", options(5, 30)).await.expect("free");
    probe.release().await.expect("released");
    server.stop().await;
    // Sent and never answered.
    assert_eq!(waiting.await.expect("no panic").err(), Some(Error::Indeterminate));
    let _server = Running::start(&address, &[]);
    let after = broker.acquire("k", options(60, 250)).await.expect("reconnected by itself");
    assert!(after.token() > before.token());
    assert_eq!(before.release().await, Ok(ReleaseOutcome::NotHeld));
    assert_eq!(after.release().await, Ok(ReleaseOutcome::Released));
}

/// A broker for a cluster of real processes.
fn cluster_broker(cluster: &ClusterProcess) -> Broker {
    let fingerprint = cluster.identity.cluster.expect("a cluster").fingerprint;
    Broker::builder()
        .addresses(cluster.addresses().split(','))
        .fingerprint(fingerprint.into())
        .token(&cluster.identity.token)
        .build()
        .expect("valid settings")
}

/// Keeps acquiring and releasing until told to stop. Returns how many calls had no definite
/// outcome; anything worse fails the test.
async fn keep_busy(broker: Broker, key: String, stop: watch::Receiver<bool>) -> u64 {
    let (mut token_last, mut lost_count) = (0, 0);
    let mut lease = GHOST_LEASE;
    while !*stop.borrow() {
        let ticket = match broker.acquire(&key, options(60, lease)).await {
            Ok(ticket) => ticket,
            Err(Error::Indeterminate) => {
                lost_count += 1;
                // Next it may stand behind its own ghost, and needs a lease for that time.
                lease = 250;
                continue;
            }
            Err(error) => panic!("{error:?}"),
        };
        assert!(ticket.token() > token_last, "tokens grow across leaders");
        token_last = ticket.token();
        match ticket.release().await {
            Ok(_) => {}
            Err(Error::ReleaseUnconfirmed) => lost_count += 1,
            Err(error) => panic!("{error:?}"),
        }
    }
    lost_count
}

/// Eight callers, each on its own key, while the leader ends so.
async fn lost_while(
    cluster: &mut ClusterProcess,
    end_leader: impl AsyncFnOnce(&mut ClusterProcess) -> Result<(), String>,
) -> u64 {
    let broker = cluster_broker(cluster);
    broker.ready(PATIENCE).await.expect("the cluster runs");
    let (stop, stopped) = watch::channel(false);
    let mut callers = JoinSet::new();
    for caller in 0..8 {
        callers.spawn(keep_busy(broker.clone(), format!("key-{caller}"), stopped.clone()));
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    end_leader(cluster).await.expect("another node leads");
    // The same broker goes on at the new leader.
    let ticket = broker.acquire("after", options(60, 250)).await.expect("served again");
    ticket.release().await.expect("released");
    stop.send(true).expect("they listen");
    let lost_count = callers.join_all().await.into_iter().sum();
    broker.close().await;
    lost_count
}

#[tokio::test]
async fn a_planned_stop_of_the_leader_fails_no_call() {
    let mut cluster = ClusterProcess::start().await.expect("three nodes");
    let lost_count = lost_while(&mut cluster, ClusterProcess::stop_leader).await;
    assert_eq!(lost_count, 0);
}

#[tokio::test]
async fn a_killed_leader_costs_no_more_than_the_calls_it_had() {
    let mut cluster = ClusterProcess::start().await.expect("three nodes");
    let lost_count = lost_while(&mut cluster, ClusterProcess::kill_leader).await;
    assert!(lost_count <= 8, "{lost_count}: one call of each caller at most");
}
