//! Broken connections and broken servers: `Indeterminate` exactly when a byte may have been sent.

use super::*;
use ticketing_wire_codec::{ErrorCode, Reply, RequestId, RequestKind, Token};
use tokio::io::AsyncReadExt;

/// Size of an acquire of a one-byte key on the wire.
const FRAME_SIZE_BYTES: usize = 14;

#[tokio::test(start_paused = true)]
async fn a_cut_after_any_byte_of_a_request_is_indeterminate() {
    for size in 0..=FRAME_SIZE_BYTES {
        let (broker, mut network) = single();
        let mut peer = network.accept().await;
        settle().await;
        let call = acquiring(&broker, "k", options(5, 30));
        settle().await;
        let mut bytes = vec![0; size];
        peer.stream.read_exact(&mut bytes).await.expect("sent");
        drop(peer);
        assert_eq!(failed(call).await, Error::Indeterminate, "{size} bytes");
        // Never sent again: the other connection sees nothing.
        let mut other = network.accept().await;
        broker.close().await;
        assert_eq!(other.next().await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_first_byte_did_not_leave_is_sent_again() {
    // The socket takes the first request and a part of the second, nothing of the others.
    let builder = Broker::builder().address("localhost:1");
    let (broker, mut network) = network(builder, FRAME_SIZE_BYTES + 1);
    let peer = {
        let (_, stream) = network.dialed().await;
        let mut peer = Peer::new(stream);
        let hello = ticketing_wire_codec::Hello {
            mode: ticketing_wire_codec::Mode::Single,
            nonce: [0; 16],
        };
        peer.send(&hello.encode()).await;
        let mut proof = [0; 32];
        peer.stream.read_exact(&mut proof).await.expect("a proof");
        peer.send(&[1]).await;
        peer
    };
    settle().await;
    let [first, second] = ["a", "b"].map(|key| acquiring(&broker, key, options(5, 30)));
    let later = ["c", "d", "e", "f"].map(|key| acquiring(&broker, key, options(5, 30)));
    settle().await;
    drop(peer);
    let mut other = network.accept().await;
    // In the order they came.
    for key in ["c", "d", "e", "f"] {
        let request = other.request().await;
        assert_eq!(request.keys, [key]);
        other.reply(request.granted(3)).await;
    }
    assert_eq!(failed(first).await, Error::Indeterminate);
    assert_eq!(failed(second).await, Error::Indeterminate);
    for call in later {
        drop(granted(call).await);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_what_has_not_left_ends_the_session() {
    let builder = Broker::builder().address("localhost:1");
    let (broker, mut network) = network(builder, 2 * FRAME_SIZE_BYTES);
    let mut peer = network.accept().await;
    settle().await;
    let stuck = acquiring(&broker, &"x".repeat(100), options(5, 30));
    settle().await;
    let behind = acquiring(&broker, "k", options(5, 30));
    settle().await;
    let (request_id, token) = (RequestId::new(2).expect("not 0"), Token::new(9).expect("not 0"));
    let reply = Reply::Granted { request_id, token }.encode();
    peer.send(reply.as_bytes()).await;
    assert_eq!(failed(stuck).await, Error::Indeterminate);
    let mut other = network.accept().await;
    let request = other.request().await;
    assert_eq!(request.keys, ["k"]);
    other.reply(request.granted(3)).await;
    assert_eq!(granted(behind).await.token(), 3);
}

#[tokio::test(start_paused = true)]
async fn requests_in_the_queue_of_a_lost_connection_move_on_at_once() {
    let (broker, mut network) = single();
    let peer = network.accept().await;
    settle().await;
    // The connection is gone before the call, but the worker has not seen it yet.
    drop(peer);
    let begin = Instant::now();
    let call = acquiring(&broker, "k", options(5, 30));
    let mut other = network.accept().await;
    let request = other.request().await;
    other.reply(request.granted(1)).await;
    drop(granted(call).await);
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn one_broken_connection_of_two_interrupts_nothing() {
    let (broker, mut network) = single();
    let mut first = network.accept().await;
    let server = tokio::spawn(network.accept().await.serve(1));
    settle().await;
    let call = acquiring(&broker, "lost", options(5, 30));
    first.request().await;
    drop(first);
    assert_eq!(failed(call).await, Error::Indeterminate);
    for _ in 0..5 {
        let ticket = broker.acquire("k", options(5, 30)).await.expect("granted");
        ticket.release().await.expect("released");
    }
    broker.close().await;
    assert_eq!(server.await.expect("served").len(), 10);
}

/// Sends `bytes` in answer to a lone acquire and returns how it ended.
async fn outcome_of(bytes: impl Fn(&support::Request) -> Vec<u8>) -> Result<Ticket, Error> {
    let (broker, mut network) = single();
    let mut peer = network.accept().await;
    settle().await;
    let call = acquiring(&broker, "k", options(5, 30));
    let request = peer.request().await;
    peer.send(&bytes(&request)).await;
    let result = tokio::time::timeout(seconds(1), call).await;
    let result = result.expect("the session ends at once").expect("no panic");
    if result.is_err() {
        // Closed: nothing comes any more.
        assert_eq!(peer.next().await, None);
    }
    result
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_breaks_the_rules_ends_the_session() {
    let encoded = |reply: Reply| reply.encode().as_bytes().to_vec();
    let other = RequestId::new(2).expect("not 0");
    let token = Token::new(9).expect("not 0");
    type Bytes = Box<dyn Fn(&support::Request) -> Vec<u8>>;
    let cases: Vec<(&str, Bytes)> = vec![
        ("unknown id", Box::new(move |_| encoded(Reply::Granted { request_id: other, token }))),
        (
            "a set's grant",
            Box::new(move |r| encoded(Reply::GrantedSet { request_id: r.id, token })),
        ),
        ("a release's answer", Box::new(move |r| encoded(Reply::Released { request_id: r.id }))),
        ("not held", Box::new(move |r| encoded(Reply::NotHeld { request_id: r.id }))),
        (
            "a release's code",
            Box::new(move |r| {
                encoded(Reply::Refused { request_id: r.id, code: ErrorCode::BadToken })
            }),
        ),
        ("an unknown code", Box::new(|_| b"E\x00\x09\x00\x00\x00\x00\x00\x00\x00\x01\x08".into())),
        ("an unknown opcode", Box::new(|_| b"Z\x00\x08\x00\x00\x00\x00\x00\x00\x00\x01".into())),
        ("a wrong length", Box::new(|_| b"T\x00\x09\x00\x00\x00\x00\x00\x00\x00\x01\x00".into())),
        ("a slot", Box::new(|_| b"M\x00\x09\x00\x00\x00\x00\x00\x00\x00\x01\x00".into())),
        ("L", Box::new(|_| b"L\x00\x01\xff".into())),
        ("id 0", Box::new(|_| b"T\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00".into())),
        (
            "token 0",
            Box::new(|_| b"A\x00\x10\x00\x00\x00\x00\x00\x00\x00\x01\0\0\0\0\0\0\0\0".into()),
        ),
    ];
    for (case, bytes) in cases {
        assert_eq!(error(outcome_of(bytes).await), Error::Indeterminate, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_given_twice_ends_the_session_but_counts_once() {
    let (broker, mut network) = single();
    let mut peer = network.accept().await;
    settle().await;
    let call = acquiring(&broker, "k", options(5, 30));
    let request = peer.request().await;
    let reply = request.granted(4).encode();
    peer.send(&[reply.as_bytes(), reply.as_bytes()].concat()).await;
    let ticket = granted(call).await;
    assert_eq!(peer.next().await, None);
    let mut other = network.accept().await;
    drop(ticket);
    assert_eq!(other.request().await.token, Some(4));
}

#[tokio::test(start_paused = true)]
async fn replies_may_come_byte_by_byte() {
    let (broker, mut network) = single();
    let mut peer = network.accept().await;
    settle().await;
    let call = acquiring(&broker, "k", options(5, 30));
    let request = peer.request().await;
    for byte in request.granted(4).encode().as_bytes() {
        assert!(!call.is_finished());
        peer.send(&[*byte]).await;
        settle().await;
    }
    assert_eq!(granted(call).await.token(), 4);
}

#[tokio::test(start_paused = true)]
async fn half_a_reply_and_a_cut_are_indeterminate() {
    let (broker, mut network) = single();
    let mut peer = network.accept().await;
    settle().await;
    let call = acquiring(&broker, "k", options(5, 30));
    let request = peer.request().await;
    peer.send(&request.granted(4).encode().as_bytes()[..18]).await;
    drop(peer);
    assert_eq!(failed(call).await, Error::Indeterminate);
}

#[tokio::test(start_paused = true)]
async fn silence_for_the_answer_grace_is_indeterminate_and_the_connection_dead() {
    let (broker, mut network) = single();
    let mut peer = network.accept().await;
    settle().await;
    let begin = Instant::now();
    let call = acquiring(&broker, "k", options(5, 30));
    peer.request().await;
    assert_eq!(failed(call).await, Error::Indeterminate);
    assert_eq!(begin.elapsed(), seconds(10));
    assert_eq!(peer.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_others_keeps_its_connection_and_a_late_grant_is_released() {
    let (broker, mut network) = single();
    let mut peer = network.accept().await;
    settle().await;
    let begin = Instant::now();
    let call = acquiring(&broker, "k", options(5, 30));
    let overdue = peer.request().await;
    tokio::time::sleep(seconds(3)).await;
    let other = acquiring(&broker, "other", options(5, 30));
    let request = peer.request().await;
    peer.reply(Reply::TimedOut { request_id: request.id }).await;
    assert_eq!(failed(other).await, Error::Timeout);
    assert_eq!(failed(call).await, Error::Indeterminate);
    assert_eq!(begin.elapsed(), seconds(10));
    tokio::time::sleep(seconds(60)).await;
    peer.reply(overdue.granted(8)).await;
    let release = peer.request().await;
    assert_eq!((release.kind, release.token), (RequestKind::Release, Some(8)));
}

#[tokio::test(start_paused = true)]
async fn a_call_cancelled_in_the_queue_is_never_sent() {
    let (broker, mut network) = single();
    let call = acquiring(&broker, "cancelled", options(5, 30));
    settle().await;
    call.abort();
    settle().await;
    let mut peer = network.accept().await;
    settle().await;
    let _call = acquiring(&broker, "k", options(5, 30));
    assert_eq!(peer.request().await.keys, ["k"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_cancelled_after_sending_releases_its_late_grant() {
    let (broker, mut network) = single();
    let mut peer = network.accept().await;
    settle().await;
    let call = acquiring(&broker, "k", options(5, 30));
    let request = peer.request().await;
    call.abort();
    settle().await;
    peer.reply(request.granted(8)).await;
    let release = peer.request().await;
    assert_eq!((release.keys, release.token), (vec!["k".to_owned()], Some(8)));
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_arrives_with_the_cancellation_is_released() {
    let (broker, mut network) = single();
    let mut peer = network.accept().await;
    settle().await;
    let mut call = Box::pin(broker.acquire("k", options(5, 30)));
    let request = tokio::select! {
        _ = &mut call => panic!("not answered yet"),
        request = peer.request() => request,
    };
    peer.reply(request.granted(8)).await;
    // Delivered to the call, which is not polled any more.
    settle().await;
    drop(call);
    assert_eq!(peer.request().await.token, Some(8));
}
