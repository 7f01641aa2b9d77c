//! Hundreds of tasks over two connections.

use crate::{LEASE, NO_BUDGET, broker, hold, server};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

const TASK_COUNT: usize = 400;
/// Every task may have to wait for all others.
const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn hundreds_of_tasks_on_keys_of_their_own() {
    let server = server(&[]).await;
    let broker = broker(server.address).await;
    let mut tasks = JoinSet::new();
    for number in 0..TASK_COUNT {
        let broker = broker.clone();
        tasks.spawn(async move {
            let mut last = 0;
            for _ in 0..20 {
                let ticket = hold(&broker, &format!("key-{number}")).await;
                assert!(ticket.token() > last);
                last = ticket.token();
                ticket.release().await.expect("released");
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("every pair is granted and released");
    }
}

#[tokio::test]
async fn hundreds_of_tasks_on_one_key() {
    let server = server(&[]).await;
    let broker = broker(server.address).await;
    let inside = Arc::new(AtomicBool::new(false));
    let high_water = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..TASK_COUNT {
        let broker = broker.clone();
        let (inside, high_water) = (Arc::clone(&inside), Arc::clone(&high_water));
        tasks.spawn(async move {
            let ticket = broker.acquire("one", LONG, LEASE, NO_BUDGET).await.expect("granted");
            assert!(!inside.swap(true, Ordering::SeqCst), "two holders at once");
            let before = high_water.swap(ticket.token(), Ordering::SeqCst);
            assert!(before < ticket.token(), "tokens grow in the order of grants");
            tokio::task::yield_now().await;
            inside.store(false, Ordering::SeqCst);
            ticket.release().await.expect("released");
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("every task gets its turn");
    }
}
