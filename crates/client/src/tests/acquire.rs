//! One server: what each answer means for the caller, and what each limit does.

use super::*;
use crate::ErrorCode;
use crate::ReleaseOutcome;
use ticketing_wire_codec::Reply;

#[tokio::test(start_paused = true)]
async fn a_lock_is_acquired_and_released_with_its_token() {
    let (broker, mut network) = single();
    let mut peer = network.accept().await;
    let server = tokio::spawn(async move {
        let request = peer.request().await;
        assert_eq!((&*request.keys, request.terms), (&["k".to_owned()][..], Some((5, 30))));
        peer.reply(request.granted(77)).await;
        let request = peer.request().await;
        assert_eq!((&*request.keys, request.token), (&["k".to_owned()][..], Some(77)));
        peer.reply(request.released()).await;
        peer
    });
    let ticket = broker.acquire("k", options(5, 30)).await.expect("granted");
    assert_eq!((ticket.key(), ticket.token()), ("k", 77));
    assert_eq!(ticket.domain(), crate::Domain::Single);
    assert_eq!(ticket.remaining(), seconds(30));
    assert_eq!(ticket.valid_before(), (Instant::now() + seconds(30)).into_std());
    assert_eq!(ticket.release().await, Ok(ReleaseOutcome::Released));
    server.await.expect("as scripted");
}

#[tokio::test(start_paused = true)]
async fn sets_are_sorted_and_a_set_of_one_is_a_single_key() {
    let (broker, mut network) = single();
    let server = tokio::spawn(network.accept().await.serve(1));
    let tickets = broker.acquire_set(["b", "a", "b"], options(5, 30)).await.expect("granted");
    assert_eq!(tickets.keys().collect::<Vec<_>>(), ["a", "b"]);
    tickets.release().await.expect("released");
    let tickets = broker.acquire_set(["a", "a"], options(5, 30)).await.expect("granted");
    assert_eq!(tickets.keys().collect::<Vec<_>>(), ["a"]);
    tickets.release().await.expect("released");
    broker.close().await;
    let opcodes: Vec<u8> =
        server.await.expect("served").iter().map(|request| request.kind.opcode()).collect();
    assert_eq!(opcodes, *b"SGAR");
}

#[tokio::test(start_paused = true)]
async fn definite_refusals_reach_the_caller_at_once() {
    let (broker, mut network) = single();
    let mut peer = network.accept().await;
    type Answer = fn(ticketing_wire_codec::RequestId) -> Reply;
    let cases: [(Answer, Error); 5] = [
        (|request_id| Reply::TimedOut { request_id }, Error::Timeout),
        (|request_id| Reply::Busy { request_id }, Error::Busy),
        (|request_id| Reply::Indeterminate { request_id }, Error::Indeterminate),
        (
            |request_id| Reply::Refused { request_id, code: ErrorCode::BadKey },
            Error::Rejected(ErrorCode::BadKey),
        ),
        (
            |request_id| Reply::Refused { request_id, code: ErrorCode::BadLease },
            Error::Rejected(ErrorCode::BadLease),
        ),
    ];
    for (answer, expected) in cases {
        let begin = Instant::now();
        let call = acquiring(&broker, "k", options(5, 30));
        let request = peer.request().await;
        peer.reply(answer(request.id)).await;
        assert_eq!(failed(call).await, expected);
        assert_eq!(begin.elapsed(), Duration::ZERO, "{expected:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_input_is_refused_before_sending() {
    let (broker, mut network) = single();
    let server = tokio::spawn(network.accept().await.serve(1));
    let fine = options(5, 30);
    assert!(matches!(broker.acquire("", fine).await, Err(Error::InvalidInput { .. })));
    assert!(matches!(broker.acquire("k", options(256, 30)).await, Err(Error::InvalidInput { .. })));
    assert!(matches!(broker.acquire("k", options(5, 251)).await, Err(Error::InvalidInput { .. })));
    let nothing: [&str; 0] = [];
    assert!(matches!(broker.acquire_set(nothing, fine).await, Err(Error::InvalidInput { .. })));
    broker.close().await;
    assert_eq!(server.await.expect("served"), []);
}

#[tokio::test(start_paused = true)]
async fn a_grant_with_too_little_time_left_is_released() {
    let (broker, mut network) = single();
    let mut peer = network.accept().await;
    // The turn comes after 7 of 10 seconds.
    for (budget, is_enough) in [(seconds(3), true), (Duration::from_millis(3001), false)] {
        let call = acquiring(&broker, "k", options(8, 10).budget(budget));
        let request = peer.request().await;
        tokio::time::sleep(seconds(7)).await;
        peer.reply(request.granted(5)).await;
        let result = ended(call).await;
        if is_enough {
            assert_eq!(result.expect("enough").remaining(), seconds(3));
        } else {
            assert_eq!(error(result), Error::InsufficientLease);
        }
        let release = peer.request().await;
        assert_eq!(release.token, Some(5));
        peer.reply(release.released()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_after_the_whole_lease_is_useless_even_without_a_budget() {
    let (broker, mut network) = single();
    let mut peer = network.accept().await;
    let call = acquiring(&broker, "k", options(10, 1));
    let request = peer.request().await;
    tokio::time::sleep(seconds(1)).await;
    peer.reply(request.granted(5)).await;
    assert_eq!(failed(call).await, Error::InsufficientLease);
    assert_eq!(peer.request().await.token, Some(5));
}

#[tokio::test(start_paused = true)]
async fn the_wait_sent_is_what_remains_rounded_up() {
    for (millis_late, wait, sent) in [(0, 255, 255), (0, 1, 1), (999, 5, 5), (1001, 5, 4)] {
        let (broker, mut network) = single();
        let call = acquiring(&broker, "k", options(wait, 30));
        let (_, stream) = network.dialed().await;
        tokio::time::sleep(Duration::from_millis(millis_late)).await;
        let mut peer = Peer::accept(stream).await;
        let request = peer.request().await;
        assert_eq!(request.terms, Some((sent, 30)));
        peer.reply(request.granted(1)).await;
        drop(granted(call).await);
    }
}

#[tokio::test(start_paused = true)]
async fn an_immediate_try_may_look_for_a_server_for_five_seconds() {
    let (broker, mut network) = single();
    let call = acquiring(&broker, "k", options(0, 30));
    let (_, stream) = network.dialed().await;
    tokio::time::sleep(Duration::from_millis(4900)).await;
    let mut peer = Peer::accept(stream).await;
    let request = peer.request().await;
    assert_eq!(request.terms, Some((0, 30)));
    peer.reply(request.granted(1)).await;
    drop(granted(call).await);

    let (broker, network) = single();
    drop(network);
    let begin = Instant::now();
    let error = error(broker.acquire("k", options(0, 30)).await);
    assert!(matches!(error, Error::NotConnected { .. }), "{error:?}");
    assert_eq!(begin.elapsed(), seconds(5));
}

#[tokio::test(start_paused = true)]
async fn a_request_stuck_behind_a_full_socket_ends_unsent_with_its_wait() {
    let builder = Broker::builder().address("localhost:1");
    let (broker, mut network) = network(builder, 64);
    let peer = network.accept().await;
    settle().await;
    // The first fills the socket, so that nothing of the second can leave.
    let long = "x".repeat(100);
    let _stuck = acquiring(&broker, &long, options(200, 250));
    settle().await;
    let mut calls = Vec::new();
    for _ in 0..700 {
        calls.push(acquiring(&broker, &long, options(100, 250)));
    }
    let begin = Instant::now();
    calls.push(acquiring(&broker, "k", options(2, 30)));
    let last = calls.pop().expect("just pushed");
    assert_eq!(failed(last).await, Error::Timeout);
    assert_eq!(begin.elapsed(), seconds(2));
    // Nor is it sent when the socket goes on.
    let served = tokio::spawn(peer.serve(1));
    settle().await;
    broker.close().await;
    let requests = served.await.expect("served");
    assert!(requests.iter().all(|request| request.keys != ["k"]), "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn calls_over_the_pending_limit_are_refused() {
    let builder = Broker::builder().address("localhost:1").pending_limit(2);
    let (broker, mut network) = network(builder, BUFFER_SIZE_BYTES);
    let mut peer = network.accept().await;
    settle().await;
    let first = acquiring(&broker, "a", options(5, 30));
    let request = peer.request().await;
    let second = acquiring(&broker, "b", options(5, 30));
    let other = peer.request().await;
    assert_eq!(error(broker.acquire("c", options(5, 30)).await), Error::ClientCapacity);

    // Cancelled, but its answer is owed: it still counts.
    first.abort();
    settle().await;
    assert_eq!(error(broker.acquire("c", options(5, 30)).await), Error::ClientCapacity);
    peer.reply(Reply::TimedOut { request_id: request.id }).await;
    peer.reply(other.granted(9)).await;
    let _ticket = granted(second).await;
    // Both places are free again.
    let _calls = ["c", "d"].map(|key| acquiring(&broker, key, options(5, 30)));
    assert_eq!(peer.request().await.keys, ["c"]);
    assert_eq!(peer.request().await.keys, ["d"]);
}

#[tokio::test(start_paused = true)]
async fn replies_are_matched_by_id_in_any_order() {
    let (broker, mut network) = single();
    let mut peer = network.accept().await;
    settle().await;
    let calls: Vec<_> = ["a", "b", "c"].map(|key| acquiring(&broker, key, options(5, 30))).into();
    let mut requests = Vec::new();
    for index in 1..=3 {
        let request = peer.request().await;
        assert_eq!(request.id.get(), index);
        requests.push(request);
    }
    for request in requests.iter().rev() {
        peer.reply(request.granted(u64::from(request.keys[0].as_bytes()[0]))).await;
    }
    for call in calls {
        let ticket = granted(call).await;
        assert_eq!(ticket.token(), u64::from(ticket.key().as_bytes()[0]));
    }
}
