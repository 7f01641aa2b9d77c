//! Group `release`: the window of 5 s, attempts of 2 s, and every way a release ends.

use super::{lateness_max, timing};
use crate::clock;
use crate::failure::{Check, fail, same, same_bytes};
use crate::frame::{Request, answer, answer_byte, favourable, leader};
use crate::limits::{QUIET_TIME, RELEASE_ATTEMPT, RELEASE_WINDOW};
use crate::scenario::{Group, Scenario, Stage, one_of};
use crate::wire::Wire;
use std::time::Duration;

const TOKEN: u64 = 0xabcd;

/// The scenarios of this group.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new(Group::Release, "never-answered", |stage| unanswered(stage, 30)),
        Scenario::new(Group::Release, "window-is-not-the-lease", |stage| unanswered(stage, 1)),
        Scenario::new(Group::Release, "set-never-answered", set_unanswered),
        Scenario::new(Group::Release, "silent-leader", silent_leader),
        Scenario::new(Group::Release, "late-answer-counts", late_answer),
        Scenario::new(Group::Release, "refused-until-over", refused_until_over),
        Scenario::new(Group::Release, "no-connection", no_connection),
        Scenario::new(Group::Release, "connection-comes-back", comes_back),
        Scenario::new(Group::Release, "not-held-after-lost-attempt", after_lost_attempt),
        Scenario::new(Group::Release, "rejected-is-final", rejected),
        Scenario::new(Group::Release, "twice", twice),
        Scenario::new(Group::Release, "many-at-once", many),
    ]
}

async fn unanswered(stage: Stage, lease: u32) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let mut call = broker.acquire("61", 5_000, lease);
    let request = wire.request_of('A').await?;
    wire.favour(&request, TOKEN).await?;
    call.granted(TOKEN).await?;
    three_attempts(&mut wire, broker.release(&call), 'R').await
}

async fn set_unanswered(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let held = broker.hold_set(&mut wire, "61,62", TOKEN).await?;
    three_attempts(&mut wire, broker.release(&held), 'G').await
}

/// Sent at once, after 2 s and after 4 s, each time on the other connection; given up after 5 s.
async fn three_attempts(wire: &mut Wire, mut release: crate::driver::Pending, op: char) -> Check {
    let mut attempts: Vec<Request> = Vec::new();
    let outcome = loop {
        tokio::select! {
            outcome = release.outcome() => break outcome?,
            request = wire.request_of(op) => attempts.push(request?),
        }
    };
    if outcome.text != "error ReleaseUnconfirmed" {
        return fail("error ReleaseUnconfirmed", outcome.text);
    }
    timing("release window", RELEASE_WINDOW, release.at, outcome.at)?;
    let third_is_due = |second: &Request| second.at + RELEASE_ATTEMPT + lateness_max(release.at);
    let is_complete = match attempts.len() {
        3 => true,
        // A busy machine may have no time left for it.
        2 => third_is_due(&attempts[1]) >= release.at + RELEASE_WINDOW,
        _ => false,
    };
    if !is_complete {
        return fail("3 attempts in 5 s", attempts.len().to_string());
    }
    for (due, attempt) in [0, 2, 4].map(Duration::from_secs).iter().zip(&attempts) {
        timing("release attempt", *due, release.at, attempt.at)?;
    }
    for pair in attempts.windows(2) {
        same_bytes("release sent again", &pair[0].without_id(), &pair[1].without_id())?;
        if pair[0].conn == pair[1].conn {
            return fail("the next attempt on the other connection", pair[1].describe());
        }
    }
    wire.quiet().await
}

/// A leader that does not answer is no reason to ask it again: each attempt goes to another node.
async fn silent_leader(stage: Stage) -> Check {
    let (mut wire, broker) = stage.cluster(3).await?;
    let mut call = broker.acquire("61", 5_000, 30);
    let request = wire.request_of('A').await?;
    let grant = favourable(&request, TOKEN);
    wire.reply(request.conn, &[leader(request.slot as u8), grant].concat()).await?;
    call.granted(TOKEN).await?;
    let mut release = broker.release(&call);
    let first = wire.request_of('R').await?;
    same("slot of the first attempt", request.slot, first.slot)?;
    let second = wire.request_of('R').await?;
    let third = wire.request_of('R').await?;
    timing("release attempt", RELEASE_ATTEMPT, release.at, second.at)?;
    if second.slot == first.slot || third.slot == first.slot || third.slot == second.slot {
        return fail(
            "an attempt on each of three connections",
            format!("slots {}, {}, {}", first.slot, second.slot, third.slot),
        );
    }
    wire.favour(&third, TOKEN).await?;
    release.expect("released").await.map(drop)
}

/// The answer to the first attempt is still valid when the second is under way.
async fn late_answer(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let held = broker.hold(&mut wire, "61", TOKEN).await?;
    let mut release = broker.release(&held);
    let first = wire.request_of('R').await?;
    let second = wire.request_of('R').await?;
    timing("release attempt", RELEASE_ATTEMPT, release.at, second.at)?;
    wire.favour(&first, TOKEN).await?;
    release.expect("released").await?;
    // The other answer is no fault either.
    wire.reply(second.conn, &answer('N', second.id())).await?;
    wire.quiet_for(QUIET_TIME).await?;
    same("open connections", 2, wire.open_count())?;
    broker.works(&mut wire).await
}

async fn refused_until_over(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let held = broker.hold(&mut wire, "61", TOKEN).await?;
    let mut release = broker.release(&held);
    let outcome = loop {
        tokio::select! {
            outcome = release.outcome() => break outcome?,
            request = wire.request_of('R') => {
                let request = request?;
                wire.reply(request.conn, &answer_byte('E', request.id(), 4)).await?;
            }
        }
    };
    same("outcome", "error ReleaseUnconfirmed", &outcome.text)?;
    timing("release window", RELEASE_WINDOW, release.at, outcome.at)
}

async fn no_connection(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let held = broker.hold(&mut wire, "61", TOKEN).await?;
    wire.refuse(0);
    wire.cut_all();
    tokio::time::sleep(QUIET_TIME).await;
    let mut release = broker.release(&held);
    let outcome = release.expect("error ReleaseUnconfirmed").await?;
    timing("release window", RELEASE_WINDOW, release.at, outcome.at)
}

async fn comes_back(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let held = broker.hold(&mut wire, "61", TOKEN).await?;
    wire.refuse(0);
    wire.cut_all();
    tokio::time::sleep(QUIET_TIME).await;
    let mut release = broker.release(&held);
    tokio::time::sleep(Duration::from_millis(500)).await;
    release.still_open()?;
    wire.listen_again(0).await?;
    let request = wire.request_of('R').await?;
    wire.favour(&request, TOKEN).await?;
    release.expect("released").await.map(drop)
}

async fn after_lost_attempt(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let held = broker.hold(&mut wire, "61", TOKEN).await?;
    let mut release = broker.release(&held);
    let first = wire.request_of('R').await?;
    wire.reply(first.conn, &answer('I', first.id())).await?;
    let second = wire.request_of('R').await?;
    wire.reply(second.conn, &answer('N', second.id())).await?;
    release.expect("not-held").await.map(drop)
}

async fn rejected(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let held = broker.hold(&mut wire, "61", TOKEN).await?;
    let mut release = broker.release(&held);
    let request = wire.request_of('R').await?;
    wire.reply(request.conn, &answer_byte('E', request.id(), 6)).await?;
    release.expect("error Rejected 6").await?;
    wire.quiet().await
}

/// A ticket is released once; a second call says the same or that nothing is held, or is one that
/// the language's types do not allow.
async fn twice(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let held = broker.hold(&mut wire, "61", TOKEN).await?;
    let mut release = broker.release(&held);
    let request = wire.request_of('R').await?;
    wire.favour(&request, TOKEN).await?;
    release.expect("released").await?;
    let mut second = broker.release(&held);
    let outcome = loop {
        tokio::select! {
            outcome = second.outcome() => break outcome?,
            request = wire.request_of('R') => {
                let request = request?;
                wire.reply(request.conn, &answer('N', request.id())).await?;
            }
        }
    };
    one_of("second release", &["released", "not-held", "error BadCommand"], &outcome.text)
}

/// Releases pipeline like everything else.
async fn many(stage: Stage) -> Check {
    const COUNT: u64 = 40;
    let (mut wire, broker) = stage.single().await?;
    let mut held = Vec::new();
    for index in 0..COUNT {
        held.push(broker.hold(&mut wire, &format!("61{:02x}", 0x30 + index), TOKEN + index).await?);
    }
    let start = clock::now();
    let mut releases: Vec<_> = held.iter().map(|call| broker.release(call)).collect();
    let mut requests = Vec::new();
    for _ in 0..COUNT {
        requests.push(wire.request_of('R').await?);
    }
    if clock::now() - start > RELEASE_ATTEMPT {
        return fail("all releases under way at once", format!("{:?}", clock::now() - start));
    }
    for request in requests.iter().rev() {
        wire.favour(request, 0).await?;
    }
    for release in &mut releases {
        release.expect("released").await?;
    }
    Ok(())
}
