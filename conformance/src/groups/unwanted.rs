//! Group `unwanted`: grants that nobody wants any more are released in the background.

use crate::conn::Cut;
use crate::failure::{Check, same, same_bytes};
use crate::frame::{self, Request, answer};
use crate::limits::{ANSWER_GRACE, STEP_LIMIT};
use crate::scenario::{Group, Scenario, Stage};
use crate::wire::Wire;
use std::time::Duration;

const TOKEN: u64 = 0x5151;

/// The scenarios of this group.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new(Group::Unwanted, "dropped-ticket", dropped),
        Scenario::new(Group::Unwanted, "dropped-set", dropped_set),
        Scenario::new(Group::Unwanted, "dropped-ticket-connection-cut", dropped_and_cut),
        Scenario::new(Group::Unwanted, "dropped-ticket-without-answer", dropped_unanswered),
        Scenario::new(Group::Unwanted, "cancelled-then-granted", cancelled_then_granted),
        Scenario::new(Group::Unwanted, "cancelled-set-then-granted", cancelled_set_then_granted),
        Scenario::new(Group::Unwanted, "cancelled-then-refused", cancelled_then_refused),
        Scenario::new(Group::Unwanted, "cancelled-then-cut", cancelled_then_cut),
        Scenario::new(Group::Unwanted, "cancelled-while-queued", cancelled_queued),
        Scenario::new(Group::Unwanted, "insufficient-lease", insufficient),
        Scenario::new(Group::Unwanted, "insufficient-lease-without-budget", expired),
        Scenario::new(Group::Unwanted, "budget-met", budget_met),
        Scenario::new(Group::Unwanted, "grant-after-indeterminate", after_indeterminate),
    ]
}

/// The background release of key `a` must come; it is answered.
async fn released(wire: &mut Wire) -> Check<Request> {
    let request = wire.request().await?;
    same_bytes("background release", &frame::release(request.id(), TOKEN, b"a"), &request.bytes)?;
    wire.favour(&request, TOKEN).await?;
    Ok(request)
}

async fn released_set(wire: &mut Wire) -> Check {
    let request = wire.request().await?;
    let expected = frame::release_set(request.id(), TOKEN, &[b"a", b"b"]);
    same_bytes("background release", &expected, &request.bytes)?;
    wire.favour(&request, TOKEN).await
}

async fn dropped(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let held = broker.hold(&mut wire, "61", TOKEN).await?;
    broker.drop_ticket(&held).expect("ok").await?;
    released(&mut wire).await?;
    wire.quiet().await
}

async fn dropped_set(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let held = broker.hold_set(&mut wire, "61,62", TOKEN).await?;
    broker.drop_ticket(&held).expect("ok").await?;
    released_set(&mut wire).await?;
    wire.quiet().await
}

async fn dropped_and_cut(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let held = broker.hold(&mut wire, "61", TOKEN).await?;
    broker.drop_ticket(&held).expect("ok").await?;
    let first = wire.request_of('R').await?;
    wire.cut(first.conn, Cut::Close);
    released(&mut wire).await?;
    wire.quiet().await
}

async fn dropped_unanswered(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let held = broker.hold(&mut wire, "61", TOKEN).await?;
    broker.drop_ticket(&held).expect("ok").await?;
    let first = wire.request_of('R').await?;
    let second = released(&mut wire).await?;
    same("the other connection", true, first.conn != second.conn)?;
    wire.quiet().await
}

async fn cancelled_then_granted(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let mut call = broker.acquire("61", 5_000, 30);
    let request = wire.request_of('A').await?;
    broker.cancel(&call).expect("ok").await?;
    call.expect("error Cancelled").await?;
    wire.quiet().await?;
    wire.favour(&request, TOKEN).await?;
    released(&mut wire).await?;
    // The connection stays, with everything else on it.
    same("open connections", 2, wire.open_count())?;
    broker.works(&mut wire).await
}

async fn cancelled_set_then_granted(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let mut call = broker.acquire_set("61,62", 5_000, 30);
    let request = wire.request_of('S').await?;
    broker.cancel(&call).expect("ok").await?;
    call.expect("error Cancelled").await?;
    wire.favour(&request, TOKEN).await?;
    released_set(&mut wire).await?;
    broker.works(&mut wire).await
}

async fn cancelled_then_refused(stage: Stage) -> Check {
    for op in ['T', 'B', 'I'] {
        let (mut wire, broker) = stage.single().await?;
        let mut call = broker.acquire("61", 5_000, 30);
        let request = wire.request_of('A').await?;
        broker.cancel(&call).expect("ok").await?;
        call.expect("error Cancelled").await?;
        wire.reply(request.conn, &answer(op, request.id())).await?;
        wire.quiet().await?;
        same("open connections", 2, wire.open_count())?;
        broker.works(&mut wire).await?;
    }
    Ok(())
}

async fn cancelled_then_cut(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let mut call = broker.acquire("61", 5_000, 30);
    let request = wire.request_of('A').await?;
    broker.cancel(&call).expect("ok").await?;
    call.expect("error Cancelled").await?;
    wire.cut(request.conn, Cut::Close);
    wire.quiet().await?;
    broker.works(&mut wire).await
}

async fn cancelled_queued(stage: Stage) -> Check {
    let mut wire = Wire::listen(frame::Identity::single()).await?;
    wire.pause(0, true);
    let broker = stage.open_on(&wire, "").await?;
    let mut call = broker.acquire("61", 20_000, 30);
    broker.send("ready", "timeout_ms=200").expect("error NotConnected").await?;
    call.still_open()?;
    broker.cancel(&call).expect("ok").await?;
    call.expect("error Cancelled").await?;
    wire.pause(0, false);
    wire.connected(2).await?;
    wire.quiet().await?;
    broker.works(&mut wire).await
}

/// The grant comes when less than the budget is left of the lease.
async fn insufficient(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let mut call = broker.send("acquire", "key=61 wait_ms=5000 lease=2 budget_ms=1500");
    let request = wire.request_of('A').await?;
    tokio::time::sleep(Duration::from_millis(700)).await;
    wire.favour(&request, TOKEN).await?;
    call.expect("error InsufficientLease").await?;
    released(&mut wire).await?;
    wire.quiet().await
}

/// A grant whose lease is over on arrival is no grant, budget or not.
async fn expired(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let mut call = broker.acquire("61", 5_000, 1);
    let request = wire.request_of('A').await?;
    tokio::time::sleep(Duration::from_millis(1_050)).await;
    wire.favour(&request, TOKEN).await?;
    call.expect("error InsufficientLease").await?;
    released(&mut wire).await?;
    wire.quiet().await
}

async fn budget_met(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let mut call = broker.send("acquire", "key=61 wait_ms=5000 lease=250 budget_ms=240000");
    let request = wire.request_of('A').await?;
    wire.favour(&request, TOKEN).await?;
    call.granted(TOKEN).await?;
    wire.quiet().await
}

/// The answer to an indeterminate acquire may still come; a grant is then given back. Another
/// reply meanwhile shows that the connection lives.
async fn after_indeterminate(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let mut call = broker.acquire("61", 0, 30);
    let request = wire.request_of('A').await?;
    // Two more, so that one of them takes the same connection.
    for key in ["62", "63"] {
        let mut other = broker.acquire(key, 5_000, 30);
        let other_request = wire.request_of('A').await?;
        wire.reply(other_request.conn, &answer('T', other_request.id())).await?;
        other.expect("error Timeout").await?;
    }
    call.expect_within(ANSWER_GRACE + STEP_LIMIT, "error Indeterminate").await?;
    wire.favour(&request, TOKEN).await?;
    released(&mut wire).await?;
    same("open connections", 2, wire.open_count())?;
    broker.works(&mut wire).await
}
