//! Coming up, staying up, and coming back: two connections, handshakes, back-off.

use super::*;
use ticketing_wire_codec::{Hello, Mode};

fn not_connected(error: Error) -> String {
    match error {
        Error::NotConnected { reason } => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_single_server_gets_two_connections_that_take_turns() {
    let (broker, mut network) = single();
    let mut peers = [network.accept().await, network.accept().await];
    settle().await;
    assert!(tokio::time::timeout(seconds(60), network.dialed()).await.is_err(), "only two");
    for round in 1..=2 {
        for peer in &mut peers {
            let call = acquiring(&broker, "k", options(0, 30));
            let request = peer.request().await;
            assert_eq!(request.id.get(), round, "ids count up on each connection");
            peer.reply(ticketing_wire_codec::Reply::TimedOut { request_id: request.id }).await;
            assert_eq!(failed(call).await, Error::Timeout);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn reconnecting_backs_off_and_starts_again_after_a_good_session() {
    let (_broker, mut network) = cluster();
    let begin = Instant::now();
    let mut times = Vec::new();
    // Slot 0 only; the others are left in their handshakes.
    let mut others = Vec::new();
    let mut dialed = async |network: &mut Network| loop {
        match network.dialed().await {
            (1, stream) => return stream,
            other => others.push(other),
        }
    };
    for _ in 0..9 {
        drop(dialed(&mut network).await);
        times.push(begin.elapsed().as_millis());
    }
    let pauses: Vec<u128> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 3200, 3200]);

    let mut ends = Vec::new();
    for lived in [999, 1000] {
        let stream = dialed(&mut network).await;
        let token = ClientToken::none();
        let peer = Peer::accept_as(stream, support::slot(0), &FINGERPRINT, &token).await;
        settle().await;
        tokio::time::sleep(Duration::from_millis(lived)).await;
        drop(peer);
        ends.push(Instant::now());
    }
    drop(dialed(&mut network).await);
    assert_eq!(ends[1] - ends[0], Duration::from_millis(3200 + 1000));
    assert_eq!(ends[1].elapsed(), Duration::from_millis(100));
}

#[tokio::test(start_paused = true)]
async fn a_hello_that_does_not_match_is_refused_with_the_reason() {
    let good = Hello { mode: Mode::Single, nonce: [1; 16] }.encode();
    let with = |index: usize, byte: u8| {
        let mut hello = good;
        hello[index] = byte;
        hello
    };
    let in_cluster = Hello { mode: support::slot(1), nonce: [1; 16] }.encode();
    for (hello, reason) in [
        (with(0, b'X'), "wrong magic"),
        (with(9, 4), "another wire version"),
        (with(10, 2), "unknown mode"),
        (with(11, 0), "does not fit its mode"),
        (in_cluster, "expected a single server, found slot 1 of a cluster"),
    ] {
        let (broker, mut network) = single();
        let (_, stream) = network.dialed().await;
        let mut peer = Peer::new(stream);
        peer.send(&hello).await;
        // The client goes without a word.
        assert_eq!(peer.next().await, None);
        let text = not_connected(error(broker.ready(Duration::from_millis(50)).await));
        assert!(text.contains(reason) && text.contains("localhost:1"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_slot_of_the_cluster_is_refused() {
    let (broker, mut network) = cluster();
    let (port, stream) = network.dialed().await;
    let slot = support::slot(u8::from(port == 1));
    let mut peer = Peer::accept_as(stream, slot, &FINGERPRINT, &ClientToken::none()).await;
    assert_eq!(peer.next().await, None);
    let text = not_connected(error(broker.ready(Duration::from_millis(50)).await));
    assert!(text.contains("expected slot"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn the_token_is_proved_and_a_refusal_is_unauthorized() {
    let token = ClientToken::new(b"a token of the server").expect("long enough");
    for (ours, is_right) in [("a token of the server", true), ("a token of a stranger", false)] {
        let builder = Broker::builder().address("localhost:1").token(ours);
        let (broker, mut network) = network(builder, BUFFER_SIZE_BYTES);
        let (token, fingerprint) = (token.clone(), ticketing_auth::SINGLE_FINGERPRINT);
        let server = tokio::spawn(async move {
            let mut peers = Vec::new();
            loop {
                let stream = network.dialed().await.1;
                peers.push(Peer::accept_as(stream, Mode::Single, &fingerprint, &token).await);
                if !is_right {
                    peers.clear();
                }
            }
        });
        let begin = Instant::now();
        if is_right {
            assert_eq!(broker.ready(seconds(1)).await, Ok(()));
            server.abort();
        } else {
            assert_eq!(error(broker.ready(seconds(1)).await), Error::Unauthorized);
            assert_eq!(begin.elapsed(), seconds(1));
            assert_eq!(error(broker.acquire("k", options(2, 30)).await), Error::Unauthorized);
            server.abort();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_counts_until_the_next_verdict() {
    let (broker, mut network) = cluster();
    let (port, stream) = network.dialed().await;
    let stranger = ClientToken::new(&[7; 16]).expect("long enough");
    drop(Peer::accept_as(stream, support::slot(port as u8 - 1), &FINGERPRINT, &stranger).await);
    let short = Duration::from_millis(50);
    assert_eq!(error(broker.ready(short).await), Error::Unauthorized);
    drop(network.accept_slot().await);
    settle().await;
    drop(network);
    not_connected(error(broker.ready(short).await));
}

#[tokio::test(start_paused = true)]
async fn a_handshake_takes_ten_seconds_at_most() {
    let (_broker, mut network) = cluster();
    let begin = Instant::now();
    let mut silent = Vec::new();
    for _ in 0..3 {
        silent.push(network.dialed().await);
    }
    network.dialed().await;
    assert_eq!(begin.elapsed(), Duration::from_millis(10_100));
}

#[tokio::test(start_paused = true)]
async fn settings_are_checked_as_a_whole() {
    let problem = |builder: BrokerBuilder| match builder.build() {
        Err(Error::InvalidInput { problem }) => problem,
        other => panic!("{other:?}"),
    };
    let one = || Broker::builder().address("127.0.0.1:1");
    let print = Fingerprint::from(FINGERPRINT);
    let many = |count| Broker::builder().addresses(vec!["localhost:1"; count]);
    for (builder, text) in [
        (Broker::builder(), "0 addresses and no fingerprint"),
        (one().fingerprint(print), "1 addresses and a fingerprint"),
        (many(3), "3 addresses and no fingerprint"),
        (many(2).fingerprint(print), "2 addresses and a fingerprint"),
        (many(4).fingerprint(print), "4 addresses"),
        (many(6).fingerprint(print), "6 addresses"),
        (one().pending_limit(0), "pending limit 0"),
        (one().pending_limit(16_385), "pending limit 16385"),
        (one().token("fifteen bytes.."), "15 bytes"),
        (one().token(vec![b'x'; 4097]), "more than 4096"),
        (Broker::builder().address("example.org:1"), "example.org:1 without a token"),
        (
            Broker::builder().address("127.0.0.1:1").tls_server_name("a.example"),
            "\"a.example\" without TLS",
        ),
        (one().tls(crate::Tls::CaFile("/no/such/file".into())), "/no/such/file"),
        (one().tls(crate::Tls::InsecureAcceptAnyCertificate).tls_server_name("a b"), "\"a b\""),
    ] {
        let problem = problem(builder);
        assert!(problem.contains(text), "{problem}");
    }
    for builder in [
        many(3).fingerprint(print),
        many(5).fingerprint(print),
        one().pending_limit(16_384).token("sixteen bytes..."),
        Broker::builder().address("example.org:1").token([0; 4096]),
    ] {
        builder.build().expect("valid").close().await;
    }
}

#[test]
fn secrets_never_show_and_a_runtime_is_needed() {
    let builder = Broker::builder().address("localhost:1").token("hunter2-hunter2-hunter2");
    let text = format!("{builder:?}");
    assert!(!text.contains("hunter2") && text.contains("localhost:1"), "{text}");
    let error = builder.build().expect_err("no runtime").to_string();
    assert!(error.contains("Tokio runtime"), "{error}");
}
