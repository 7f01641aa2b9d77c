//! Group `close`: the end of a broker.

use super::{Moment, timing};
use crate::clock;
use crate::failure::{Check, fail, same};
use crate::frame::Identity;
use crate::limits::{RELEASE_WINDOW, STEP_LIMIT};
use crate::scenario::{Group, Scenario, Stage};
use crate::wire::Wire;
use std::time::Duration;

const TOKEN: u64 = 0xc105e;

/// The scenarios of this group.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new(Group::Close, "idle", idle),
        Scenario::new(Group::Close, "never-connected", never_connected),
        Scenario::new(Group::Close, "silent-server", silent_server),
        Scenario::new(Group::Close, "calls-under-way", calls_under_way),
        Scenario::new(Group::Close, "queued-calls", queued_calls),
        Scenario::new(Group::Close, "waits-for-release", waits_for_release),
        Scenario::new(Group::Close, "waits-for-background-release", waits_for_background),
        Scenario::new(Group::Close, "waits-at-most-5s", waits_at_most),
        Scenario::new(Group::Close, "others-live-on", others_live_on),
    ]
}

/// Both sockets are closed and no new one is made.
async fn ended(wire: &mut Wire) -> Check {
    let end = clock::now() + STEP_LIMIT;
    while wire.open_count() > 0 {
        let left = end.saturating_duration_since(clock::now());
        if wire.event_within(left).await?.is_none() {
            return fail("every socket closed", format!("{} open", wire.open_count()));
        }
    }
    let made = wire.conns.len();
    wire.quiet().await?;
    same("connections made", made, wire.conns.len())
}

async fn idle(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    broker.works(&mut wire).await?;
    let held = broker.hold(&mut wire, "61", TOKEN).await?;
    let mut close = broker.close();
    let outcome = close.expect("ok").await?;
    timing("close with nothing to do", Duration::ZERO, close.at, outcome.at)?;
    ended(&mut wire).await?;
    broker.close().expect("ok").await?;
    broker.acquire("61", 1_000, 30).expect("error Closed").await?;
    broker.acquire_set("61,62", 0, 30).expect("error Closed").await?;
    broker.release(&held).expect("error Closed").await.map(drop)
}

async fn never_connected(stage: Stage) -> Check {
    let mut wire = Wire::listen(Identity::single()).await?;
    wire.refuse(0);
    let broker = stage.open_on(&wire, "").await?;
    broker.close().expect("ok").await?;
    broker.acquire("61", 1_000, 30).expect("error Closed").await.map(drop)
}

/// A handshake under way does not hold the close up.
async fn silent_server(stage: Stage) -> Check {
    let mut wire = Wire::listen(Identity::single()).await?;
    let broker = stage.open_on(&wire, "").await?;
    let mut conns = [wire.accept(0).await?, wire.accept(0).await?];
    let mut close = broker.close();
    let outcome = close.expect("ok").await?;
    timing("close with nothing to do", Duration::ZERO, close.at, outcome.at)?;
    for conn in &mut conns {
        conn.closed_by_client(STEP_LIMIT).await?;
    }
    Ok(())
}

async fn calls_under_way(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let mut key = broker.acquire("61", 20_000, 30);
    wire.request_of('A').await?;
    let mut set = broker.acquire_set("62,63", 20_000, 30);
    wire.request_of('S').await?;
    let mut close = broker.close();
    key.expect("error Indeterminate").await?;
    set.expect("error Indeterminate").await?;
    close.expect("ok").await?;
    ended(&mut wire).await
}

async fn queued_calls(stage: Stage) -> Check {
    let mut wire = Wire::listen(Identity::single()).await?;
    wire.pause(0, true);
    let broker = stage.open_on(&wire, "").await?;
    let mut key = broker.acquire("61", 20_000, 30);
    let mut set = broker.acquire_set("62,63", 20_000, 30);
    broker.send("ready", "timeout_ms=200").expect("error NotConnected").await?;
    let mut close = broker.close();
    key.expect("error Closed").await?;
    set.expect("error Closed").await?;
    close.expect("ok").await.map(drop)
}

async fn waits_for_release(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let held = broker.hold(&mut wire, "61", TOKEN).await?;
    let mut release = broker.release(&held);
    let request = wire.request_of('R').await?;
    let mut close = broker.close();
    wire.quiet().await?;
    close.still_open()?;
    wire.favour(&request, TOKEN).await?;
    release.expect("released").await?;
    close.expect("ok").await?;
    ended(&mut wire).await
}

async fn waits_for_background(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let held = broker.hold(&mut wire, "61", TOKEN).await?;
    broker.drop_ticket(&held).expect("ok").await?;
    let mut close = broker.close();
    let request = wire.request_of('R').await?;
    wire.quiet().await?;
    close.still_open()?;
    wire.favour(&request, TOKEN).await?;
    close.expect("ok").await?;
    ended(&mut wire).await
}

async fn waits_at_most(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let held = broker.hold(&mut wire, "61", TOKEN).await?;
    let mut dropped = broker.drop_ticket(&held);
    dropped.expect("ok").await?;
    wire.request_of('R').await?;
    let mut close = broker.close();
    let outcome = close.expect("ok").await?;
    // The release has 5 s, and the close that waits for it as well.
    let begun = Moment { earliest: dropped.at, latest: close.at };
    timing("close with a release under way", RELEASE_WINDOW, begun, outcome.at)
}

async fn others_live_on(stage: Stage) -> Check {
    let (_first_wire, first) = stage.single().await?;
    let (mut wire, second) = stage.single().await?;
    first.close().expect("ok").await?;
    second.works(&mut wire).await
}
