//! The end of a broker.

use super::*;
use ticketing_wire_codec::Reply;

#[tokio::test(start_paused = true)]
async fn closing_ends_calls_by_what_was_sent_and_refuses_new_ones() {
    let (broker, mut network) = single();
    let mut peer = network.accept().await;
    settle().await;
    let sent = acquiring(&broker, "k", options(5, 30));
    peer.request().await;
    broker.close().await;
    assert_eq!(failed(sent).await, Error::Indeterminate);
    assert_eq!(peer.next().await, None);
    assert_eq!(error(broker.acquire("k", options(5, 30)).await), Error::Closed);
    assert_eq!(error(broker.ready(seconds(1)).await), Error::Closed);
    broker.close().await;

    let (broker, _network) = single();
    let unsent = acquiring(&broker, "k", options(5, 30));
    settle().await;
    let begin = Instant::now();
    broker.close().await;
    assert_eq!(failed(unsent).await, Error::Closed);
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn closing_lets_releases_finish_but_not_for_ever() {
    for is_answered in [true, false] {
        let (broker, mut network) = single();
        let mut peer = network.accept().await;
        settle().await;
        let call = acquiring(&broker, "k", options(5, 30));
        let request = peer.request().await;
        peer.reply(request.granted(8)).await;
        drop(granted(call).await);
        let release = peer.request().await;
        let begin = Instant::now();
        let closing = tokio::spawn({
            let broker = broker.clone();
            async move { broker.close().await }
        });
        tokio::time::sleep(seconds(1)).await;
        assert!(!closing.is_finished());
        assert_eq!(error(broker.acquire("k", options(5, 30)).await), Error::Closed);
        if is_answered {
            peer.reply(release.released()).await;
        }
        closing.await.expect("closed");
        assert_eq!(begin.elapsed(), seconds(if is_answered { 1 } else { 5 }));
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_while_releases_finish_is_released_too() {
    let (broker, mut network) = single();
    let mut peer = network.accept().await;
    settle().await;
    let held = acquiring(&broker, "held", options(5, 30));
    let request = peer.request().await;
    peer.reply(request.granted(8)).await;
    let waiting = acquiring(&broker, "waiting", options(5, 30));
    let late = peer.request().await;
    drop(granted(held).await);
    let release = peer.request().await;
    let closing = tokio::spawn(async move { broker.close().await });
    assert_eq!(failed(waiting).await, Error::Indeterminate);
    peer.reply(late.granted(9)).await;
    let late_release = peer.request().await;
    assert_eq!(late_release.token, Some(9));
    peer.reply(late_release.released()).await;
    peer.reply(release.released()).await;
    closing.await.expect("closed");
}

#[tokio::test(start_paused = true)]
async fn a_release_after_closing_is_refused() {
    let (broker, mut network) = single();
    let mut peer = network.accept().await;
    settle().await;
    let call = acquiring(&broker, "k", options(5, 30));
    let request = peer.request().await;
    peer.reply(request.granted(8)).await;
    let ticket = granted(call).await;
    broker.close().await;
    assert_eq!(ticket.release().await, Err(Error::Closed));
}

#[tokio::test(start_paused = true)]
async fn a_ticket_keeps_the_connections_open_and_the_last_handle_closes_them() {
    let (broker, mut network) = single();
    let mut peer = network.accept().await;
    settle().await;
    let call = acquiring(&broker, "k", options(5, 30));
    let request = peer.request().await;
    peer.reply(request.granted(8)).await;
    let ticket = granted(call).await;
    drop(broker);
    assert!(tokio::time::timeout(seconds(60), peer.next()).await.is_err(), "still open");
    drop(ticket);
    let release = peer.request().await;
    peer.reply(Reply::NotHeld { request_id: release.id }).await;
    assert_eq!(peer.next().await, None);
}
