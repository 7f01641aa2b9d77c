//! Releases: definite answers, repeated attempts within 5 s, and the background.

use super::*;
use crate::{ErrorCode, ReleaseOutcome};
use ticketing_wire_codec::{Reply, RequestId};

/// Both connections of a broker and a ticket, with round-robin standing at the first again.
async fn held() -> (Broker, Network, [MemoryPeer; 2], Ticket) {
    let (broker, mut network) = single();
    let mut peers = [network.accept().await, network.accept().await];
    settle().await;
    let call = acquiring(&broker, "k", options(5, 250));
    let request = peers[0].request().await;
    peers[0].reply(request.granted(8)).await;
    let ticket = granted(call).await;
    (broker, network, peers, ticket)
}

fn releasing(ticket: Ticket) -> JoinHandle<Result<ReleaseOutcome, Error>> {
    tokio::spawn(ticket.release())
}

#[tokio::test(start_paused = true)]
async fn definite_answers_are_reported() {
    type Answer = fn(RequestId) -> Reply;
    let cases: [(Answer, Result<ReleaseOutcome, Error>); 3] = [
        (|request_id| Reply::Released { request_id }, Ok(ReleaseOutcome::Released)),
        (|request_id| Reply::NotHeld { request_id }, Ok(ReleaseOutcome::NotHeld)),
        (
            |request_id| Reply::Refused { request_id, code: ErrorCode::GroupMismatch },
            Err(Error::Rejected(ErrorCode::GroupMismatch)),
        ),
    ];
    for (answer, expected) in cases {
        let (_broker, _network, [_first, mut second], ticket) = held().await;
        let release = releasing(ticket);
        let request = second.request().await;
        assert_eq!(request.token, Some(8));
        second.reply(answer(request.id)).await;
        assert_eq!(ended(release).await, expected);
        assert!(tokio::time::timeout(seconds(9), second.next()).await.is_err(), "sent once");
    }
}

#[tokio::test(start_paused = true)]
async fn indefinite_answers_are_followed_by_another_attempt_after_the_pause() {
    let (_broker, _network, [mut first, mut second], ticket) = held().await;
    let begin = Instant::now();
    let release = releasing(ticket);
    let request = second.request().await;
    second.reply(Reply::Indeterminate { request_id: request.id }).await;
    let request = first.request().await;
    assert_eq!(begin.elapsed(), Duration::from_millis(10));
    let code = ErrorCode::NotActive;
    first.reply(Reply::Refused { request_id: request.id, code }).await;
    let request = second.request().await;
    assert_eq!(begin.elapsed(), Duration::from_millis(30));
    second.reply(Reply::Moved { request_id: request.id, leader: None }).await;
    let request = first.request().await;
    assert_eq!(begin.elapsed(), Duration::from_millis(70));
    drop(first);
    let request_again = second.request().await;
    assert_eq!(begin.elapsed(), Duration::from_millis(150));
    assert_eq!((&request_again.keys, request_again.token), (&request.keys, request.token));
    second.reply(Reply::NotHeld { request_id: request_again.id }).await;
    assert_eq!(ended(release).await, Ok(ReleaseOutcome::NotHeld));
}

#[tokio::test(start_paused = true)]
async fn a_silent_attempt_is_repeated_on_the_other_connection_and_may_still_answer() {
    let (_broker, _network, [mut first, mut second], ticket) = held().await;
    let begin = Instant::now();
    let release = releasing(ticket);
    let silent = second.request().await;
    let repeated = first.request().await;
    assert_eq!(begin.elapsed(), seconds(2));
    assert_eq!((silent.token, repeated.token), (Some(8), Some(8)));
    tokio::time::sleep(seconds(1)).await;
    second.reply(silent.released()).await;
    assert_eq!(ended(release).await, Ok(ReleaseOutcome::Released));
    assert_eq!(begin.elapsed(), seconds(3));
    // The other attempt's answer is no fault when it comes.
    first.reply(Reply::NotHeld { request_id: repeated.id }).await;
    assert!(tokio::time::timeout(seconds(9), first.next()).await.is_err(), "still connected");
}

#[tokio::test(start_paused = true)]
async fn five_seconds_without_a_definite_answer_are_unconfirmed() {
    let (_broker, _network, [mut first, mut second], ticket) = held().await;
    let begin = Instant::now();
    let result = ticket.release().await;
    assert_eq!(result, Err(Error::ReleaseUnconfirmed));
    assert_eq!(begin.elapsed(), seconds(5));
    let mut attempts = 0;
    for peer in [&mut first, &mut second] {
        while let Ok(Some(request)) = tokio::time::timeout(seconds(9), peer.next()).await {
            assert_eq!(request.token, Some(8));
            attempts += 1;
        }
    }
    assert_eq!(attempts, 3, "at 0, 2 and 4 s");
}

#[tokio::test(start_paused = true)]
async fn the_window_counts_from_the_call_even_without_a_connection() {
    let (_broker, network, peers, ticket) = held().await;
    drop((network, peers));
    let begin = Instant::now();
    assert_eq!(ticket.release().await, Err(Error::ReleaseUnconfirmed));
    assert_eq!(begin.elapsed(), seconds(5));
}

#[tokio::test(start_paused = true)]
async fn a_release_waits_for_a_connection_that_comes_back() {
    let (_broker, mut network, peers, ticket) = held().await;
    drop(peers);
    let release = releasing(ticket);
    let mut peer = network.accept().await;
    let request = peer.request().await;
    peer.reply(request.released()).await;
    assert_eq!(ended(release).await, Ok(ReleaseOutcome::Released));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_ticket_is_released_in_the_background() {
    let (_broker, _network, [mut first, mut second], ticket) = held().await;
    drop(ticket);
    let request = second.request().await;
    assert_eq!(request.token, Some(8));
    drop(second);
    let request = first.request().await;
    first.reply(request.released()).await;
}

#[tokio::test(start_paused = true)]
async fn a_release_that_nobody_waits_for_any_more_goes_on() {
    // Before its first poll, and between two attempts.
    let (_broker, _network, [_first, mut second], ticket) = held().await;
    drop(ticket.release());
    assert_eq!(second.request().await.token, Some(8));

    let (_broker, _network, [mut first, mut second], ticket) = held().await;
    let release = releasing(ticket);
    let request = second.request().await;
    release.abort();
    settle().await;
    second.reply(Reply::Indeterminate { request_id: request.id }).await;
    assert_eq!(first.request().await.token, Some(8));
}

#[tokio::test(start_paused = true)]
async fn releases_have_their_own_bounded_queue() {
    let (broker, mut network) = single();
    let mut peer = network.accept().await;
    settle().await;
    let mut tickets = Vec::new();
    for token in 1..=crate::limits::RELEASE_COUNT_MAX as u64 + 1 {
        let call = acquiring(&broker, "k", options(5, 250));
        let request = peer.request().await;
        peer.reply(request.granted(token)).await;
        tickets.push(granted(call).await);
    }
    let last = tickets.pop().expect("one too many");
    let releases: Vec<_> = tickets.into_iter().map(releasing).collect();
    settle().await;
    assert_eq!(last.release().await, Err(Error::ClientCapacity));
    for _ in &releases {
        let request = peer.request().await;
        peer.reply(request.released()).await;
    }
    for release in releases {
        assert_eq!(ended(release).await, Ok(ReleaseOutcome::Released));
    }
}
