//! Group `retry`: what an acquire does with refusals, silence and absent servers.

use super::{Moment, timing, wait_over};
use crate::clock;
use crate::failure::{Check, fail, same, same_bytes};
use crate::frame::{NO_SLOT, Request, answer, answer_byte};
use crate::limits::{ANSWER_GRACE, BACK_OFF_MS, STEP_LIMIT};
use crate::scenario::{Group, Scenario, Stage};
use crate::wire::Wire;
use std::time::Duration;

const TOKEN: u64 = 9;

/// Makes a reply after which the request goes on.
type Refusal = fn(&Request) -> Vec<u8>;

const REFUSALS: [(&str, Refusal); 3] = [
    ("M", |request| answer_byte('M', request.id(), NO_SLOT)),
    ("NoLeader", |request| answer_byte('E', request.id(), 4)),
    ("NotActive", |request| answer_byte('E', request.id(), 3)),
];

/// The scenarios of this group.
pub(super) fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for (name, refusal) in REFUSALS {
        all.push(Scenario::new(Group::Retry, format!("{name}-then-granted"), move |stage| {
            then_granted(stage, refusal)
        }));
        all.push(Scenario::new(Group::Retry, format!("{name}-to-set"), move |stage| {
            set_then_granted(stage, refusal)
        }));
        all.push(Scenario::new(Group::Retry, format!("{name}-until-wait-is-over"), move |stage| {
            until_over(stage, refusal)
        }));
        all.push(Scenario::new(Group::Retry, format!("{name}-to-release"), move |stage| {
            release_again(stage, refusal)
        }));
    }
    all.push(Scenario::new(Group::Retry, "I-to-release", |stage| {
        release_again(stage, |request| answer('I', request.id()))
    }));
    all.push(Scenario::new(Group::Retry, "B-at-once", |stage| once(stage, 'B', "error Busy")));
    all.push(Scenario::new(Group::Retry, "T-at-once", |stage| once(stage, 'T', "error Timeout")));
    all.push(Scenario::new(Group::Retry, "I-is-final", |stage| {
        once(stage, 'I', "error Indeterminate")
    }));
    all.push(Scenario::new(Group::Retry, "B-after-M", busy_after_moved));
    all.push(Scenario::new(Group::Retry, "wait-sent-shrinks", wait_shrinks));
    all.push(Scenario::new(Group::Retry, "wait-0-lasts-5s", wait_zero_lasts));
    all.push(Scenario::new(Group::Retry, "nobody-there", |stage| nobody(stage, 1_000)));
    all.push(Scenario::new(Group::Retry, "nobody-there-wait-0", |stage| nobody(stage, 0)));
    all.push(Scenario::new(Group::Retry, "server-comes-late", comes_late));
    all.push(Scenario::new(Group::Retry, "no-answer-wait-0", |stage| no_answer(stage, 0)));
    all.push(Scenario::new(Group::Retry, "no-answer-wait-2", |stage| no_answer(stage, 2_000)));
    all
}

async fn then_granted(stage: Stage, refusal: Refusal) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let mut call = broker.acquire("61", 9_000, 30);
    let mut first: Option<Request> = None;
    for _ in 0..3 {
        let request = wire.request_of('A').await?;
        if let Some(first) = &first {
            same_bytes("sent again", &first.without_id(), &request.without_id())?;
        }
        wire.reply(request.conn, &refusal(&request)).await?;
        first.get_or_insert(request);
    }
    let request = wire.request_of('A').await?;
    wire.favour(&request, TOKEN).await?;
    call.granted(TOKEN).await?;
    wire.quiet().await
}

async fn set_then_granted(stage: Stage, refusal: Refusal) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let mut call = broker.acquire_set("62,61", 9_000, 30);
    let first = wire.request_of('S').await?;
    wire.reply(first.conn, &refusal(&first)).await?;
    let request = wire.request_of('S').await?;
    same_bytes("sent again", &first.without_id(), &request.without_id())?;
    wire.favour(&request, TOKEN).await?;
    call.granted(TOKEN).await.map(drop)
}

/// The call ends when its wait does, and does not storm the server meanwhile.
async fn until_over(stage: Stage, refusal: Refusal) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let mut call = broker.acquire("61", 1_000, 30);
    let mut attempts = 0;
    let outcome = loop {
        tokio::select! {
            outcome = call.outcome() => break outcome?,
            request = wire.request() => {
                let request = request?;
                same("wait sent", 1, request.wait())?;
                attempts += 1;
                wire.reply(request.conn, &refusal(&request)).await?;
            }
        }
    };
    same("outcome", "error NoLeader", &outcome.text)?;
    wait_over(Duration::from_secs(1), call.at, outcome.at)?;
    // Pauses of 10, 20, 40, 80 and then 100 ms: 12 or 13 in all, fewer on a busy machine.
    if !(4..=14).contains(&attempts) {
        return fail("4 to 14 attempts in 1 s", attempts.to_string());
    }
    Ok(())
}

async fn release_again(stage: Stage, refusal: Refusal) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let held = broker.hold(&mut wire, "61", TOKEN).await?;
    let mut release = broker.release(&held);
    let first = wire.request_of('R').await?;
    wire.reply(first.conn, &refusal(&first)).await?;
    let second = wire.request_of('R').await?;
    same_bytes("release sent again", &first.without_id(), &second.without_id())?;
    wire.favour(&second, TOKEN).await?;
    release.expect("released").await.map(drop)
}

async fn once(stage: Stage, op: char, outcome: &str) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let mut call = broker.acquire("61", 5_000, 30);
    let request = wire.request_of('A').await?;
    wire.reply(request.conn, &answer(op, request.id())).await?;
    call.expect(outcome).await?;
    wire.quiet().await
}

async fn busy_after_moved(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let mut call = broker.acquire("61", 5_000, 30);
    let request = wire.request_of('A').await?;
    wire.reply(request.conn, &answer_byte('M', request.id(), NO_SLOT)).await?;
    let request = wire.request_of('A').await?;
    wire.reply(request.conn, &answer('B', request.id())).await?;
    call.expect("error Busy").await?;
    wire.quiet().await
}

/// An attempt after 1.3 of 3 seconds has 2 seconds left, rounded up; later ones have less.
async fn wait_shrinks(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let mut call = broker.acquire("61", 3_000, 30);
    let request = wire.request_of('A').await?;
    same("wait sent", 3, request.wait())?;
    tokio::time::sleep(Duration::from_millis(1_300)).await;
    wire.reply(request.conn, &answer_byte('E', request.id(), 4)).await?;
    let request = wire.request_of('A').await?;
    let left = Duration::from_secs(3).saturating_sub(request.at - call.at);
    let least = left.as_secs() as u8 + u8::from(left.subsec_nanos() > 0);
    if !(least..=2).contains(&request.wait()) {
        let seen = format!("{} s sent with {left:?} left", request.wait());
        return fail("the rest of the wait, rounded up", seen);
    }
    wire.favour(&request, TOKEN).await?;
    call.granted(TOKEN).await.map(drop)
}

/// Wait 0 is one immediate try, but finding a server that takes it may last 5 s.
async fn wait_zero_lasts(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let mut call = broker.acquire("61", 0, 30);
    let outcome = loop {
        tokio::select! {
            outcome = call.outcome() => break outcome?,
            request = wire.request() => {
                let request = request?;
                same("wait sent", 0, request.wait())?;
                wire.reply(request.conn, &answer_byte('E', request.id(), 4)).await?;
            }
        }
    };
    same("outcome", "error NoLeader", &outcome.text)?;
    wait_over(Duration::from_secs(5), call.at, outcome.at)
}

async fn nobody(stage: Stage, wait_ms: u64) -> Check {
    let mut wire = Wire::listen(crate::frame::Identity::single()).await?;
    wire.refuse(0);
    let broker = stage.open_on(&wire, "").await?;
    let mut ready = broker.send("ready", "timeout_ms=200");
    let mut call = broker.acquire("61", wait_ms, 30);
    ready.expect("error NotConnected").await?;
    let outcome = call.expect("error NotConnected").await?;
    let due = if wait_ms == 0 { 5_000 } else { wait_ms };
    wait_over(Duration::from_millis(due), call.at, outcome.at)
}

async fn comes_late(stage: Stage) -> Check {
    let mut wire = Wire::listen(crate::frame::Identity::single()).await?;
    wire.refuse(0);
    let broker = stage.open_on(&wire, "").await?;
    let mut call = broker.acquire("61", 20_000, 30);
    let mut immediate = broker.acquire("62", 0, 30);
    tokio::time::sleep(Duration::from_millis(500)).await;
    call.still_open()?;
    wire.listen_again(0).await?;
    for _ in 0..2 {
        let request = wire.request_of('A').await?;
        wire.favour(&request, TOKEN).await?;
    }
    call.granted(TOKEN).await?;
    immediate.granted(TOKEN).await?;
    broker.works(&mut wire).await
}

/// A sent acquire without an answer is indeterminate 5 s after the wait it sent, and its silent
/// connection is given up.
async fn no_answer(stage: Stage, wait_ms: u64) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let mut call = broker.acquire("61", wait_ms, 30);
    let request = wire.request_of('A').await?;
    let due = Duration::from_millis(wait_ms) + ANSWER_GRACE;
    let outcome = call.expect_within(due + STEP_LIMIT, "error Indeterminate").await?;
    timing("answer grace", due, call.at, outcome.at)?;
    wire.closed(request.conn).await?;
    let closed = Moment { earliest: call.at + due, latest: clock::now() };
    wire.connected(2).await?;
    timing("reconnected", Duration::from_millis(BACK_OFF_MS[0]), closed, clock::now())?;
    wire.quiet().await?;
    broker.works(&mut wire).await
}
