//! Group `request`: the bytes of requests as they leave the socket.

use crate::failure::{Check, fail, hex, same, same_bytes};
use crate::frame::{self, Identity, with_id};
use crate::scenario::{Group, Scenario, Stage};
use crate::vectors::{Case, Vectors};
use std::collections::HashSet;

/// The scenarios of this group.
pub(super) fn scenarios(vectors: &Vectors) -> Vec<Scenario> {
    let mut all = Vec::new();
    for topic in
        ["request-acquire", "request-acquire-set", "request-release", "request-release-set"]
    {
        for case in vectors.of(topic) {
            let given = case.clone();
            all.push(Scenario::new(Group::Request, &case.id, move |stage| {
                golden(stage, given.clone())
            }));
        }
    }
    for (wait_ms, wait) in [(1, 1), (999, 1), (1_001, 2), (254_001, 255)] {
        all.push(Scenario::new(Group::Request, format!("wait-{wait_ms}ms"), move |stage| {
            rounded_wait(stage, wait_ms, wait)
        }));
    }
    let sixteen: Vec<Vec<u8>> = (0..16).map(|index| vec![b'a' + index; 128]).collect();
    let many: Vec<Vec<u8>> = sixteen.iter().chain(&sixteen).rev().cloned().collect();
    let two = vec![b"a".to_vec(), b"b".to_vec()];
    for (name, given, sent) in [
        ("unsorted", vec![b"b".to_vec(), b"a".to_vec()], two.clone()),
        ("duplicates", vec![b"b".to_vec(), b"a".to_vec(), b"b".to_vec()], two),
        (
            "bytewise-order",
            vec!["é".into(), b"z".to_vec(), b"ab".to_vec(), b"a".to_vec(), b"B".to_vec()],
            vec![b"B".to_vec(), b"a".to_vec(), b"ab".to_vec(), b"z".to_vec(), "é".into()],
        ),
        // UTF-16 order would put the first one last.
        ("code-points-above-bmp", vec!["🎟".into(), "ﬀ".into()], vec!["ﬀ".into(), "🎟".into()]),
        ("sixteen-different-of-32", many, sixteen),
        ("collapses-to-one", vec![b"a".to_vec(), b"a".to_vec()], vec![b"a".to_vec()]),
        ("of-one", vec![b"solo".to_vec()], vec![b"solo".to_vec()]),
    ] {
        all.push(Scenario::new(Group::Request, format!("set-{name}"), move |stage| {
            key_set(stage, given.clone(), sent.clone())
        }));
    }
    all.push(Scenario::new(Group::Request, "pipelined", pipelined));
    all.push(Scenario::new(Group::Request, "pairs", pairs));
    all
}

/// A request of the vectors, but for its id, which counts up on each connection.
async fn golden(stage: Stage, case: Case) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let verb = if case.is_set() { "acquire-set" } else { "acquire" };
    let is_acquire = matches!(case.op(), 'A' | 'S');
    let (wait, lease) = if is_acquire { (case.wait(), case.lease()) } else { (10, 30) };
    let rest = format!("{} wait_ms={} lease={lease}", case.key_option(), wait * 1_000);
    let mut call = broker.send(verb, &rest);
    let acquire = wire.request_of(if case.is_set() { 'S' } else { 'A' }).await?;
    if is_acquire {
        same_bytes(&case.note, &with_id(&case.bytes(), acquire.id()), &acquire.bytes)?;
        wire.reply(acquire.conn, &frame::answer('B', acquire.id())).await?;
        return call.expect("error Busy").await.map(drop);
    }
    wire.favour(&acquire, case.token()).await?;
    call.granted(case.token()).await?;
    let mut release = broker.release(&call);
    let request = wire.request().await?;
    same_bytes(&case.note, &with_id(&case.bytes(), request.id()), &request.bytes)?;
    wire.favour(&request, case.token()).await?;
    release.expect("released").await.map(drop)
}

/// Fractions of a second of wait are rounded up.
async fn rounded_wait(stage: Stage, wait_ms: u64, wait: u8) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let mut call = broker.acquire("6b", wait_ms, 9);
    let request = wire.request().await?;
    same_bytes("acquire", &frame::acquire(request.id(), wait, 9, b"k"), &request.bytes)?;
    wire.favour(&request, 5).await?;
    call.granted(5).await.map(drop)
}

async fn key_set(stage: Stage, given: Vec<Vec<u8>>, sent: Vec<Vec<u8>>) -> Check {
    const TOKEN: u64 = 0xfedc_ba98_7654_3210;
    let (mut wire, broker) = stage.single().await?;
    let given: Vec<String> = given.iter().map(|key| hex(key)).collect();
    let keys: Vec<&[u8]> = sent.iter().map(Vec::as_slice).collect();
    let mut call = broker.acquire_set(&given.join(","), 7_000, 250);
    let request = wire.request().await?;
    let expected = match keys[..] {
        [key] => frame::acquire(request.id(), 7, 250, key),
        _ => frame::acquire_set(request.id(), 7, 250, &keys),
    };
    same_bytes("acquire", &expected, &request.bytes)?;
    wire.favour(&request, TOKEN).await?;
    call.granted(TOKEN).await?;
    let mut release = broker.release(&call);
    let request = wire.request().await?;
    let expected = match keys[..] {
        [key] => frame::release(request.id(), TOKEN, key),
        _ => frame::release_set(request.id(), TOKEN, &keys),
    };
    same_bytes("release", &expected, &request.bytes)?;
    wire.favour(&request, TOKEN).await?;
    release.expect("released").await.map(drop)
}

/// Hundreds of requests are on the wire before the first is answered; answers come in any order.
async fn pipelined(stage: Stage) -> Check {
    const COUNT: usize = 300;
    let (mut wire, broker) = stage.single().await?;
    let mut calls: Vec<_> = (0..COUNT)
        .map(|index| broker.acquire(&hex(format!("key-{index}").as_bytes()), 20_000, 30))
        .collect();
    let mut requests = Vec::new();
    let mut keys = HashSet::new();
    while requests.len() < COUNT {
        let request = wire.request_of('A').await?;
        keys.insert(request.without_id());
        requests.push(request);
    }
    same("different requests on the wire", COUNT, keys.len())?;
    for request in requests.iter().rev() {
        let key = String::from_utf8_lossy(&request.bytes[13..]).replace("key-", "");
        let Ok(token) = key.parse::<u64>() else {
            return fail("one of the keys acquired", request.describe());
        };
        wire.favour(request, token + 1_000).await?;
    }
    for (index, call) in calls.iter_mut().enumerate() {
        call.granted(index as u64 + 1_000).await?;
    }
    Ok(())
}

/// The driver's load command does what it says.
async fn pairs(stage: Stage) -> Check {
    let (mut wire, broker) = stage.connected(Identity::cluster(3), "").await?;
    let mut pairs = broker.send("pairs", "key=70 callers=4 count=50");
    let mut counts = (0, 0);
    while counts != (50, 50) {
        let request = wire.request().await?;
        match request.op() {
            'A' => counts.0 += 1,
            _ => counts.1 += 1,
        }
        let key_at = if request.op() == 'A' { 13 } else { 19 };
        let key = request.bytes.get(key_at..).unwrap_or_default();
        if !matches!(key, [b'p', b'0'..=b'3']) {
            return fail("keys p0 to p3", request.describe());
        }
        wire.favour(&request, 1 + counts.0).await?;
    }
    let outcome = pairs.outcome().await?;
    if !outcome.text.starts_with("pairs count=50 failed=0 nanoseconds=") {
        return fail("pairs count=50 failed=0 nanoseconds=N", outcome.text);
    }
    wire.quiet().await
}
