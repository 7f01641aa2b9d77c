//! Group `limits`: inputs refused before any byte leaves, capacities, and the driver's own rules.

use crate::failure::{Check, Failure, hex};
use crate::frame::{Identity, answer};
use crate::scenario::{Group, Scenario, Stage, options_of};
use crate::vectors::Vectors;
use crate::wire::Wire;

/// The scenarios of this group.
pub(super) fn scenarios(vectors: &Vectors) -> Vec<Scenario> {
    let mut all: Vec<Scenario> = bad_acquires()
        .into_iter()
        .map(|(name, command, rest)| {
            Scenario::new(Group::Limits, format!("input-{name}"), move |stage| {
                bad_acquire(stage, command, rest.clone())
            })
        })
        .collect();
    for topic in ["invalid-value-request", "order-of-checks"] {
        for case in vectors.of(topic) {
            let rest = format!(
                "{} wait_ms={} lease={}",
                case.key_option(),
                case.wait() * 1_000,
                case.lease()
            );
            let command = if case.is_set() { "acquire-set" } else { "acquire" };
            all.push(Scenario::new(Group::Limits, &case.id, move |stage| {
                bad_acquire(stage, command, rest.clone())
            }));
        }
    }
    all.extend(bad_opens().into_iter().map(|(name, options)| {
        Scenario::new(Group::Limits, format!("open-{name}"), move |stage| {
            bad_open(stage, options.clone())
        })
    }));
    all.push(Scenario::new(Group::Limits, "open-extremes", good_opens));
    all.push(Scenario::new(Group::Limits, "pending-limit", pending_limit));
    all.push(Scenario::new(Group::Limits, "pending-limit-while-queued", pending_queued));
    all.push(Scenario::new(Group::Limits, "pending-limit-counts-cancelled", pending_cancelled));
    all.push(Scenario::new(Group::Limits, "pending-limit-frees-releases", releases_apart));
    all.push(Scenario::new(Group::Limits, "driver-bad-command", bad_command));
    all
}

/// What the vectors cannot say, because it has no place in a frame.
fn bad_acquires() -> Vec<(&'static str, &'static str, String)> {
    let key = |bytes: &[u8]| format!("key={} wait_ms=1000 lease=30", hex(bytes));
    let times = |text: &str| format!("key=61 {text}");
    vec![
        ("key-129-bytes", "acquire", key(&[b'k'; 129])),
        // 65 characters, 129 bytes.
        ("key-129-bytes-of-utf-8", "acquire", key(("é".repeat(64) + "a").as_bytes())),
        ("lease-256", "acquire", times("wait_ms=1000 lease=256")),
        ("lease-257", "acquire", times("wait_ms=1000 lease=257")),
        ("wait-255001ms", "acquire", times("wait_ms=255001 lease=30")),
        ("wait-256s", "acquire", times("wait_ms=256000 lease=30")),
        ("wait-4294967296ms", "acquire", times("wait_ms=4294967296 lease=30")),
        ("budget-is-lease", "acquire", times("wait_ms=1000 lease=2 budget_ms=2000")),
        ("budget-above-lease", "acquire", times("wait_ms=1000 lease=2 budget_ms=2001")),
        ("set-of-empty-key", "acquire-set", "keys=- wait_ms=1000 lease=30".to_owned()),
    ]
}

/// Refused, nothing sent, no request id used up.
async fn bad_acquire(stage: Stage, command: &str, rest: String) -> Check {
    let (mut wire, broker) = stage.single().await?;
    broker.send(command, &rest).expect("error InvalidInput").await?;
    wire.quiet().await?;
    broker.works(&mut wire).await
}

fn bad_opens() -> Vec<(&'static str, String)> {
    let cluster = options_of(&Identity::cluster(3));
    let fingerprint = "fingerprint=".to_owned() + &"ab".repeat(31);
    let three = "addrs=127.0.0.1:9,127.0.0.1:10,127.0.0.1:11";
    let single = "addrs=127.0.0.1:9 mode=single";
    vec![
        ("two-addresses-single", "addrs=127.0.0.1:9,127.0.0.1:10 mode=single".into()),
        ("one-address-cluster", format!("addrs=127.0.0.1:9 {cluster}")),
        ("two-addresses-cluster", format!("addrs=127.0.0.1:9,127.0.0.1:10 {cluster}")),
        ("four-addresses-cluster", format!("{three},127.0.0.1:12 {cluster}")),
        ("six-addresses-cluster", format!("{three},[::1]:9,[::1]:10,[::1]:11 {cluster}")),
        ("no-fingerprint", format!("{three} mode=cluster")),
        ("short-fingerprint", format!("{three} mode=cluster {fingerprint}")),
        ("long-fingerprint", format!("{three} mode=cluster {fingerprint}abab")),
        ("token-15-bytes", format!("{single} token={}", "61".repeat(15))),
        ("token-4097-bytes", format!("{single} token={}", "61".repeat(4_097))),
        ("no-token-elsewhere", "addrs=192.0.2.1:9 mode=single".into()),
        ("no-token-name", "addrs=ticketing.example:9 mode=single".into()),
        ("address-without-port", "addrs=127.0.0.1 mode=single".into()),
        ("address-port-0", "addrs=127.0.0.1:0 mode=single".into()),
        ("address-port-65536", "addrs=127.0.0.1:65536 mode=single".into()),
        ("address-without-host", "addrs=:9 mode=single".into()),
        ("pending-0", format!("{single} pending=0")),
        ("pending-16385", format!("{single} pending=16385")),
        ("ca-file-missing", format!("{single} tls=ca:no/such/file.pem")),
    ]
}

async fn bad_open(stage: Stage, options: String) -> Check {
    stage.send_open(&options).expect("error InvalidInput").await.map(drop)
}

/// The first values that are still good.
async fn good_opens(stage: Stage) -> Check {
    let wire = Wire::listen(Identity::single().with_token(&[b't'; 16])).await?;
    stage.open_on(&wire, "pending=1").await?;
    stage.open_on(&wire, "pending=16384").await?;
    stage.open(&format!("addrs=localhost:{} mode=single", wire.port(0))).await?;
    stage.open("addrs=[::1]:9 mode=single").await?;
    stage.open("addrs=127.9.9.9:9 mode=single").await?;
    Ok(())
}

async fn pending_limit(stage: Stage) -> Check {
    let (mut wire, broker) = stage.connected(Identity::single(), "pending=3").await?;
    let mut calls = Vec::new();
    for key in ["61", "62", "63"] {
        calls.push((broker.acquire(key, 9_000, 30), wire.request_of('A').await?));
    }
    broker.acquire("64", 9_000, 30).expect("error ClientCapacity").await?;
    broker.acquire_set("64,65", 9_000, 30).expect("error ClientCapacity").await?;
    wire.quiet().await?;
    let Some((call, request)) = calls.first_mut() else {
        return Err(Failure { expected: "a call".into(), seen: "none".into() });
    };
    wire.reply(request.conn, &answer('B', request.id())).await?;
    call.expect("error Busy").await?;
    // An answer makes room for one.
    let mut fourth = broker.acquire("64", 9_000, 30);
    let request = wire.request_of('A').await?;
    broker.acquire("65", 9_000, 30).expect("error ClientCapacity").await?;
    wire.favour(&request, 5).await?;
    fourth.granted(5).await.map(drop)
}

async fn pending_queued(stage: Stage) -> Check {
    let mut wire = Wire::listen(Identity::single()).await?;
    wire.pause(0, true);
    let broker = stage.open_on(&wire, "pending=2").await?;
    let mut first = broker.acquire("61", 20_000, 30);
    let mut second = broker.acquire("62", 20_000, 30);
    // Both are in once a later command has been answered.
    broker.send("ready", "timeout_ms=300").expect("error NotConnected").await?;
    broker.acquire("63", 20_000, 30).expect("error ClientCapacity").await?;
    wire.pause(0, false);
    for _ in 0..2 {
        let request = wire.request_of('A').await?;
        wire.favour(&request, 5).await?;
    }
    first.granted(5).await?;
    second.granted(5).await.map(drop)
}

/// A cancelled request counts until it is answered.
async fn pending_cancelled(stage: Stage) -> Check {
    let (mut wire, broker) = stage.connected(Identity::single(), "pending=1").await?;
    let mut call = broker.acquire("61", 9_000, 30);
    let request = wire.request_of('A').await?;
    broker.cancel(&call).expect("ok").await?;
    call.expect("error Cancelled").await?;
    broker.acquire("62", 9_000, 30).expect("error ClientCapacity").await?;
    wire.reply(request.conn, &answer('T', request.id())).await?;
    wire.quiet().await?;
    broker.works(&mut wire).await
}

/// Releases do not compete with acquires.
async fn releases_apart(stage: Stage) -> Check {
    let (mut wire, broker) = stage.connected(Identity::single(), "pending=1").await?;
    let held = broker.hold(&mut wire, "61", 7).await?;
    let mut waiting = broker.acquire("62", 9_000, 30);
    let waiting_request = wire.request_of('A').await?;
    let mut release = broker.release(&held);
    let request = wire.request_of('R').await?;
    wire.favour(&request, 7).await?;
    release.expect("released").await?;
    wire.favour(&waiting_request, 8).await?;
    waiting.granted(8).await.map(drop)
}

async fn bad_command(stage: Stage) -> Check {
    stage.send("frobnicate", "").expect("error BadCommand").await?;
    let (mut wire, broker) = stage.single().await?;
    let rest = "key=61 wait_ms=1000 lease=30 colour=red";
    broker.send("acquire", rest).expect("error BadCommand").await?;
    broker.works(&mut wire).await
}
