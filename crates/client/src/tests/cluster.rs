//! Three slots: who is asked, and what `M`, `L`, `NoLeader` and `NotActive` change.

use super::*;

use ticketing_wire_codec::{ErrorCode, Reply, Slot};

fn moved(request: &support::Request, leader: u8) -> Reply {
    Reply::Moved { request_id: request.id, leader: Slot::new(leader) }
}

#[tokio::test(start_paused = true)]
async fn the_leader_named_by_m_is_asked_next_and_from_then_on() {
    let (broker, mut network) = cluster();
    let [mut first, second, third] = network.accept_cluster().await;
    let server = tokio::spawn(async move {
        let request = first.request().await;
        assert_eq!(request.terms, Some((5, 30)));
        first.reply(moved(&request, 2)).await;
        let requests = third.serve(1).await;
        drop((first, second));
        requests
    });
    for token in [1, 2, 3] {
        let ticket = broker.acquire("k", options(5, 30)).await.expect("granted by the leader");
        assert_eq!(ticket.domain(), crate::Domain::Cluster(FINGERPRINT.into()));
        assert_eq!(ticket.token(), 2 * token - 1);
        ticket.release().await.expect("released by the leader");
    }
    broker.close().await;
    assert_eq!(server.await.expect("as scripted").len(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_a_leader_is_asked_all_the_wait_long() {
    let (broker, mut network) = cluster();
    let peers = network.accept_cluster().await;
    for mut peer in peers {
        tokio::spawn(async move {
            while let Some(request) = peer.next().await {
                let code = ErrorCode::NoLeader;
                peer.reply(Reply::Refused { request_id: request.id, code }).await;
            }
        });
    }
    let begin = Instant::now();
    let result = broker.acquire("k", options(3, 30)).await;
    assert_eq!(result.err(), Some(Error::NoLeader));
    assert_eq!(begin.elapsed(), seconds(3));
    settle().await;
}

#[tokio::test(start_paused = true)]
async fn l_names_and_forgets_the_leader() {
    let (broker, mut network) = cluster();
    let mut peers = network.accept_cluster().await;
    let asked = async |broker: &Broker, peers: &mut [MemoryPeer; 3]| {
        let call = acquiring(broker, "k", options(0, 30));
        settle().await;
        for (slot, peer) in peers.iter_mut().enumerate() {
            let next = tokio::time::timeout(Duration::ZERO, peer.next()).await;
            if let Ok(Some(request)) = next {
                peer.reply(Reply::TimedOut { request_id: request.id }).await;
                assert_eq!(failed(call).await, Error::Timeout);
                return slot;
            }
        }
        panic!("nobody was asked");
    };
    assert_eq!(asked(&broker, &mut peers).await, 0);
    assert_eq!(asked(&broker, &mut peers).await, 1);
    peers[2].reply(Reply::Leader { leader: Slot::new(0) }).await;
    settle().await;
    for _ in 0..3 {
        assert_eq!(asked(&broker, &mut peers).await, 0);
    }
    peers[0].reply(Reply::Leader { leader: None }).await;
    settle().await;
    assert_eq!(asked(&broker, &mut peers).await, 2);
    assert_eq!(asked(&broker, &mut peers).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_leads_no_more_is_not_asked_for_ever() {
    for code in [ErrorCode::NoLeader, ErrorCode::NotActive] {
        let (broker, mut network) = cluster();
        let [mut first, mut second, _third] = network.accept_cluster().await;
        first.reply(Reply::Leader { leader: Slot::new(0) }).await;
        settle().await;
        let begin = Instant::now();
        let call = acquiring(&broker, "k", options(5, 30));
        let request = first.request().await;
        first.reply(Reply::Refused { request_id: request.id, code }).await;
        // Round-robin goes on where it stood: the first again, then the second.
        let request = first.request().await;
        assert_eq!(begin.elapsed(), Duration::from_millis(10));
        first.reply(Reply::Refused { request_id: request.id, code }).await;
        let request = second.request().await;
        assert_eq!(begin.elapsed(), Duration::from_millis(30));
        second.reply(request.granted(1)).await;
        drop(granted(call).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_leader_is_forgotten_and_an_unreachable_one_passed_over() {
    let (broker, mut network) = cluster();
    let [first, mut second, mut third] = network.accept_cluster().await;
    second.reply(Reply::Leader { leader: Slot::new(0) }).await;
    settle().await;
    drop(first);
    settle().await;
    let call = acquiring(&broker, "k", options(5, 30));
    let request = second.request().await;
    // It has not heard yet that slot 0 is gone.
    second.reply(moved(&request, 0)).await;
    let request = third.request().await;
    third.reply(request.granted(1)).await;
    drop(granted(call).await);
}

#[tokio::test(start_paused = true)]
async fn a_grant_is_never_asked_for_again_after_i() {
    let (broker, mut network) = cluster();
    let [mut first, mut second, _third] = network.accept_cluster().await;
    let call = acquiring(&broker, "k", options(5, 30));
    let request = first.request().await;
    first.reply(Reply::Indeterminate { request_id: request.id }).await;
    assert_eq!(failed(call).await, Error::Indeterminate);
    assert!(tokio::time::timeout(seconds(60), second.next()).await.is_err(), "sent once");
}

#[tokio::test(start_paused = true)]
async fn a_slot_outside_the_cluster_ends_the_session() {
    let (_broker, mut network) = cluster();
    let [mut first, ..] = network.accept_cluster().await;
    first.reply(Reply::Leader { leader: Slot::new(3) }).await;
    assert_eq!(first.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn the_pause_between_attempts_doubles_up_to_its_bound() {
    let (broker, mut network) = cluster();
    let [mut first, ..] = network.accept_cluster().await;
    let begin = Instant::now();
    let _call = acquiring(&broker, "k", options(5, 30));
    let mut times = Vec::new();
    for _ in 0..8 {
        let request = first.request().await;
        times.push(begin.elapsed().as_millis());
        first.reply(moved(&request, 0)).await;
    }
    let pauses: Vec<u128> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(pauses, [10, 20, 40, 80, 100, 100, 100]);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_was_lost_is_no_leader_when_it_comes_back() {
    let (broker, mut network) = cluster();
    let [first, mut second, _third] = network.accept_cluster().await;
    second.reply(Reply::Leader { leader: Slot::new(0) }).await;
    let call = acquiring(&broker, "k", options(5, 30));
    settle().await;
    drop(first);
    assert_eq!(failed(call).await, Error::Indeterminate);
    let (slot, mut first) = network.accept_slot().await;
    assert_eq!(slot, 0);
    settle().await;
    // Round-robin begins at the first, then goes on.
    for peer in [&mut first, &mut second] {
        let call = acquiring(&broker, "k", options(5, 30));
        let request = peer.request().await;
        peer.reply(Reply::TimedOut { request_id: request.id }).await;
        assert_eq!(failed(call).await, Error::Timeout);
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_passes_over_a_leader_that_is_silent() {
    let (broker, mut network) = cluster();
    let [mut first, mut second, _third] = network.accept_cluster().await;
    first.reply(Reply::Leader { leader: Slot::new(0) }).await;
    settle().await;
    let call = acquiring(&broker, "k", options(5, 30));
    let request = first.request().await;
    first.reply(request.granted(8)).await;
    let begin = Instant::now();
    let release = tokio::spawn(granted(call).await.release());
    assert_eq!(first.request().await.token, Some(8));
    let request = second.request().await;
    assert_eq!(begin.elapsed(), seconds(2));
    second.reply(request.released()).await;
    assert!(ended(release).await.is_ok());
}
