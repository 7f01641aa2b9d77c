//! Group `handshake`: hello, proof and verdict.

use super::{Moment, timing};
use crate::clock;
use crate::conn::Conn;
use crate::failure::{Check, fail, same_bytes};
use crate::frame::{HELLO_SIZE_BYTES, Identity, PROOF_SIZE_BYTES, favourable};
use crate::limits::{HANDSHAKE_LIMIT, STEP_LIMIT};
use crate::scenario::{Broker, Group, Scenario, Stage};
use crate::vectors::{Case, Vectors};
use crate::wire::Wire;
use std::net::Ipv6Addr;

const NONCE: [u8; 16] = *b"nonce of a judge";
const TOKEN: &[u8] = b"a token of 24 bytes long";

/// The scenarios of this group.
pub(super) fn scenarios(vectors: &Vectors) -> Vec<Scenario> {
    let mut all = vec![
        scenario("single-no-token", |stage| proof(stage, Identity::single())),
        scenario("single-token", |stage| proof(stage, Identity::single().with_token(TOKEN))),
        scenario("cluster-3", |stage| proof(stage, Identity::cluster(3).with_token(TOKEN))),
        scenario("cluster-5-no-token", |stage| proof(stage, Identity::cluster(5))),
        scenario("ipv6-address", ipv6),
        scenario("hello-byte-by-byte", hello_byte_by_byte),
        scenario("refused-then-accepted", refused_then_accepted),
        scenario("verdict-with-first-frame", verdict_with_first_frame),
        scenario("silence-ends-after-10s", silence),
        scenario("end-before-verdict", end_before_verdict),
    ];
    for case in vectors.of("hello").chain(vectors.of("invalid-hello")) {
        let given = case.clone();
        all.push(scenario(&case.id, move |stage| hello(stage, given.clone())));
    }
    for case in vectors.of("proof") {
        let given = case.clone();
        all.push(scenario(&case.id, move |stage| golden_proof(stage, given.clone())));
    }
    for verdict in [2, 0xff] {
        all.push(scenario(&format!("verdict-{verdict}"), move |stage| {
            wrong_verdict(stage, verdict)
        }));
    }
    all
}

fn scenario<F, R>(name: &str, run: R) -> Scenario
where
    R: Fn(Stage) -> F + Send + Sync + 'static,
    F: Future<Output = Check> + Send + 'static,
{
    Scenario::new(Group::Handshake, name, run)
}

/// Every connection proves itself, over the nonce of its own hello.
async fn proof(stage: Stage, identity: Identity) -> Check {
    let (mut wire, broker) = stage.connected(identity, "").await?;
    broker.works(&mut wire).await
}

async fn ipv6(stage: Stage) -> Check {
    // Not every machine has it.
    let Ok(mut wire) = Wire::listen_on(Identity::single(), Ipv6Addr::LOCALHOST.into(), None) else {
        return Ok(());
    };
    let broker = stage.open_on(&wire, "").await?;
    recovers(&mut wire, &broker).await
}

async fn hello_byte_by_byte(stage: Stage) -> Check {
    let (mut wire, broker) = single_unanswered(&stage).await?;
    let mut conn = wire.accept(0).await?;
    let places: Vec<usize> = (1..HELLO_SIZE_BYTES).collect();
    conn.write_split(&wire.identity.hello(0, &NONCE), &places).await?;
    take_proof(&wire, &mut conn).await?;
    conn.write(&[1]).await?;
    wire.adopt(conn);
    broker.ready().await?;
    broker.works(&mut wire).await
}

fn identity_of(case: &Case) -> Identity {
    case.cluster_size().map_or_else(Identity::single, Identity::cluster)
}

/// A hello of the vectors, at the address of the slot that the client expects there. A short one
/// ends with the connection.
async fn hello(stage: Stage, case: Case) -> Check {
    let mut wire = Wire::listen(identity_of(&case)).await?;
    let broker = stage.open_on(&wire, "").await?;
    let slot = case.cluster_size().and(case.expected_slot).map_or(0, usize::from);
    let bytes = case.bytes();
    let mut conn = wire.accept(slot).await?;
    conn.write(&bytes).await?;
    if case.is_ok() {
        let proof = conn.take("the proof", PROOF_SIZE_BYTES).await?;
        same_bytes("proof", &wire.identity.proof(slot, &case.nonce()), &proof)?;
        conn.write(&[1]).await?;
        wire.adopt(conn);
    } else {
        if bytes.len() < HELLO_SIZE_BYTES {
            conn.half_close().await?;
        }
        conn.closed_by_client(STEP_LIMIT).await?;
    }
    recovers(&mut wire, &broker).await
}

async fn golden_proof(stage: Stage, case: Case) -> Check {
    let mut identity = identity_of(&case).with_token(&case.client_token());
    if let Some(cluster) = &mut identity.cluster {
        cluster.fingerprint = case.fingerprint();
    }
    let mut wire = Wire::listen(identity).await?;
    let broker = stage.open_on(&wire, "").await?;
    let slot = case.cluster_size().map_or(0, |_| usize::from(case.slot()));
    let mut conn = wire.accept(slot).await?;
    conn.write(&wire.identity.hello(slot, &case.nonce())).await?;
    let proof = conn.take("the proof", PROOF_SIZE_BYTES).await?;
    same_bytes("proof", &case.bytes(), &proof)?;
    conn.write(&[1]).await?;
    wire.adopt(conn);
    recovers(&mut wire, &broker).await
}

async fn end_before_verdict(stage: Stage) -> Check {
    let (mut wire, broker) = single_unanswered(&stage).await?;
    let mut conn = wire.accept(0).await?;
    conn.write(&wire.identity.hello(0, &NONCE)).await?;
    take_proof(&wire, &mut conn).await?;
    conn.half_close().await?;
    conn.closed_by_client(STEP_LIMIT).await?;
    recovers(&mut wire, &broker).await
}

/// Neither 0 nor 1 is no verdict at all: the connection ends, but nobody was refused.
async fn wrong_verdict(stage: Stage, verdict: u8) -> Check {
    let (mut wire, broker) = single_unanswered(&stage).await?;
    for _ in 0..2 {
        let mut conn = wire.accept(0).await?;
        conn.write(&wire.identity.hello(0, &NONCE)).await?;
        take_proof(&wire, &mut conn).await?;
        conn.write(&[verdict]).await?;
        conn.closed_by_client(STEP_LIMIT).await?;
    }
    wire.pause(0, true);
    broker.send("ready", "timeout_ms=300").expect("error NotConnected").await?;
    wire.pause(0, false);
    recovers(&mut wire, &broker).await
}

/// A refusal is remembered and reported, and does not stop the client from trying again.
async fn refused_then_accepted(stage: Stage) -> Check {
    let mut wire = Wire::listen(Identity::single().with_token(TOKEN)).await?;
    let broker = stage.open_on(&wire, "").await?;
    let mut ready = broker.send("ready", "timeout_ms=1000");
    let mut acquire = broker.acquire("61", 1_000, 30);
    let (mut ready_seen, mut acquire_seen) = (None, None);
    while ready_seen.is_none() || acquire_seen.is_none() {
        tokio::select! {
            conn = wire.accept(0) => {
                let mut conn = conn?;
                conn.write(&wire.identity.hello(0, &NONCE)).await?;
                take_proof(&wire, &mut conn).await?;
                conn.write(&[0]).await?;
                conn.closed_by_client(STEP_LIMIT).await?;
            }
            seen = ready.outcome(), if ready_seen.is_none() => ready_seen = Some(seen?),
            seen = acquire.outcome(), if acquire_seen.is_none() => acquire_seen = Some(seen?),
        }
    }
    for (what, seen) in [("ready", ready_seen), ("acquire", acquire_seen)] {
        let text = seen.map(|outcome| outcome.text).unwrap_or_default();
        if text != "error Unauthorized" {
            return fail(format!("{what} with every proof refused: error Unauthorized"), text);
        }
    }
    recovers(&mut wire, &broker).await
}

/// The verdict and the first frame may come in one segment.
async fn verdict_with_first_frame(stage: Stage) -> Check {
    let mut wire = Wire::listen(Identity::cluster(3)).await?;
    let broker = stage.open_on(&wire, "").await?;
    for slot in 0..3 {
        let mut conn = wire.accept(slot).await?;
        conn.write(&wire.identity.hello(slot, &NONCE)).await?;
        take_proof_of(&wire, &mut conn, slot).await?;
        let leader = crate::frame::leader(2);
        conn.write(&[&[1], &leader[..]].concat()).await?;
        wire.adopt(conn);
    }
    broker.ready().await?;
    let mut call = broker.acquire("61", 5_000, 30);
    let request = wire.request_of('A').await?;
    wire.reply(request.conn, &favourable(&request, 5)).await?;
    call.granted(5).await?;
    Ok(())
}

/// The client gives the handshake 10 s.
async fn silence(stage: Stage) -> Check {
    let earliest = clock::now();
    let (mut wire, broker) = single_unanswered(&stage).await?;
    let mut conn = wire.accept(0).await?;
    let begun = Moment { earliest, latest: clock::now() };
    conn.write(&wire.identity.hello(0, &NONCE)).await?;
    take_proof(&wire, &mut conn).await?;
    conn.closed_by_client(HANDSHAKE_LIMIT + STEP_LIMIT).await?;
    timing("the client gives up a silent handshake", HANDSHAKE_LIMIT, begun, clock::now())?;
    recovers(&mut wire, &broker).await
}

async fn single_unanswered(stage: &Stage) -> Check<(Wire, Broker)> {
    let wire = Wire::listen(Identity::single()).await?;
    let broker = stage.open_on(&wire, "").await?;
    Ok((wire, broker))
}

async fn take_proof(wire: &Wire, conn: &mut Conn) -> Check {
    take_proof_of(wire, conn, 0).await
}

async fn take_proof_of(wire: &Wire, conn: &mut Conn, slot: usize) -> Check {
    let proof = conn.take("the proof", PROOF_SIZE_BYTES).await?;
    same_bytes("proof", &wire.identity.proof(slot, &NONCE), &proof)
}

/// From now on the server is as it should be, and so is the client.
async fn recovers(wire: &mut Wire, broker: &Broker) -> Check {
    let count = wire.identity.cluster.map_or(2, |cluster| usize::from(cluster.voter_count));
    wire.connected(count).await?;
    broker.ready().await?;
    broker.works(wire).await
}
