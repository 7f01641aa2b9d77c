//! Group `reply`: every good reply, whole and split at every byte; many coalesced.

use super::warm_up::warm_up;
use crate::driver::Pending;
use crate::failure::{Check, fail, same};
use crate::frame::{NO_SLOT, Request, answer, favourable, leader, with_id};
use crate::scenario::{Broker, Group, Scenario, Stage};
use crate::vectors::{Case, Vectors};
use crate::wire::Wire;
use std::time::Duration;

const TOKEN: u64 = 0x8000_0000_0000_0001;
/// Codes after which a request goes on: `NotActive`, `NoLeader`.
const CODES_RETRIED: [u8; 2] = [3, 4];

/// How a reply's bytes reach the client.
#[derive(Clone, Copy, Debug)]
enum Form {
    Whole,
    /// In two pieces.
    At(usize),
    ByteByByte,
}

/// What comes of a reply.
enum Effect {
    Granted(u64),
    Outcome(String),
    /// The request is sent again: to that slot, if any.
    Again(Option<usize>),
}

/// The scenarios of this group.
pub(super) fn scenarios(vectors: &Vectors) -> Vec<Scenario> {
    let mut all = Vec::new();
    for topic in ["reply-single", "reply-cluster"] {
        for case in vectors.of(topic) {
            for kind in kinds(case) {
                let name = format!("{}-to-{kind}", case.id);
                let case = case.clone();
                all.push(Scenario::new(Group::Reply, name, move |stage| {
                    replay(stage, case.clone(), *kind)
                }));
            }
        }
    }
    all.push(Scenario::new(Group::Reply, "coalesced", coalesced));
    all.push(Scenario::new(Group::Reply, "valid-before-counts-from-sending", valid_before));
    all
}

/// Opcodes of the requests that a reply may answer; `L` comes beside an acquire.
fn kinds(case: &Case) -> &'static [char] {
    match (case.op(), case.code()) {
        ('A' | 'L', _) => &['A'],
        ('S', _) => &['S'],
        ('R', _) => &['R'],
        ('G', _) => &['G'],
        ('T' | 'B', _) | ('E', 2) => &['A', 'S'],
        ('N', _) | ('E', 6 | 7) => &['R', 'G'],
        ('E', 5) => &['S', 'G'],
        _ => &['A', 'R', 'S', 'G'],
    }
}

fn effect(case: &Case) -> Effect {
    match (case.op(), case.code()) {
        ('A' | 'S', _) => Effect::Granted(case.token()),
        ('R' | 'G', _) => Effect::Outcome("released".into()),
        ('N', _) => Effect::Outcome("not-held".into()),
        ('T', _) => Effect::Outcome("error Timeout".into()),
        ('B', _) => Effect::Outcome("error Busy".into()),
        ('E', code) if !CODES_RETRIED.contains(&code) => {
            Effect::Outcome(format!("error Rejected {code}"))
        }
        ('M', _) if case.slot() != NO_SLOT => Effect::Again(Some(case.slot().into())),
        _ => Effect::Again(None),
    }
}

/// Every form for a reply of that size.
fn forms(size: usize) -> Vec<Form> {
    let mut forms = vec![Form::Whole, Form::ByteByByte];
    forms.extend((1..size).map(Form::At));
    forms
}

async fn deliver(wire: &mut Wire, conn: usize, bytes: &[u8], form: Form) -> Check {
    let places: Vec<usize> = match form {
        Form::Whole => Vec::new(),
        Form::At(place) => vec![place],
        Form::ByteByByte => (1..bytes.len()).collect(),
    };
    wire.conns[conn].write_split(bytes, &places).await
}

async fn replay(stage: Stage, case: Case, kind: char) -> Check {
    let (mut wire, broker) = match case.cluster_size() {
        Some(voter_count) => stage.cluster(voter_count).await?,
        None => stage.single().await?,
    };
    // The leader that a reply names must be one that the client can go to.
    warm_up(&mut wire, &broker).await?;
    let bytes = case.bytes();
    for form in forms(bytes.len()) {
        if case.op() == 'L' {
            announce(&mut wire, &broker, &bytes, case.slot(), form).await?;
        } else if matches!(kind, 'A' | 'S') {
            to_acquire(&mut wire, &broker, &case, kind, form).await?;
        } else {
            to_release(&mut wire, &broker, &case, kind, form).await?;
        }
    }
    Ok(())
}

async fn to_acquire(wire: &mut Wire, broker: &Broker, case: &Case, op: char, form: Form) -> Check {
    let mut call = match op {
        'S' => broker.acquire_set("61,62", 5_000, 30),
        _ => broker.acquire("61", 5_000, 30),
    };
    let request = wire.request_of(op).await?;
    deliver(wire, request.conn, &with_id(&case.bytes(), request.id()), form).await?;
    match effect(case) {
        Effect::Granted(token) => call.granted(token).await.map(drop),
        Effect::Outcome(text) => call.expect(&text).await.map(drop),
        // The one reply that leaves an acquire unknown.
        Effect::Again(_) if case.op() == 'I' => call.expect("error Indeterminate").await.map(drop),
        Effect::Again(slot) => {
            again(wire, &request, slot, 'T').await?;
            call.expect("error Timeout").await.map(drop)
        }
    }
}

async fn to_release(wire: &mut Wire, broker: &Broker, case: &Case, op: char, form: Form) -> Check {
    let call: Pending = match op {
        'G' => broker.hold_set(wire, "61,62", TOKEN).await?,
        _ => broker.hold(wire, "61", TOKEN).await?,
    };
    let mut release = broker.release(&call);
    let request = wire.request_of(op).await?;
    deliver(wire, request.conn, &with_id(&case.bytes(), request.id()), form).await?;
    match effect(case) {
        Effect::Outcome(text) => release.expect(&text).await.map(drop),
        Effect::Again(slot) => {
            again(wire, &request, slot, op).await?;
            release.expect("released").await.map(drop)
        }
        Effect::Granted(_) => fail("a reply that answers releases", &case.id),
    }
}

/// The same request once more, which is then answered with `op`. A leader named is forgotten
/// again, so that the next first attempt may go anywhere; one that named itself is none.
async fn again(wire: &mut Wire, first: &Request, slot: Option<usize>, op: char) -> Check {
    let second = wire.request_of(first.op()).await?;
    if let Some(slot) = slot.filter(|slot| *slot != first.slot) {
        same("slot of the next attempt", slot, second.slot)?;
    }
    let forget = if wire.identity.cluster.is_some() { leader(NO_SLOT) } else { Vec::new() };
    wire.reply(second.conn, &[forget, answer(op, second.id())].concat()).await
}

/// `L`, then a reply on the same connection, so that the client has read both; the next request
/// goes to the leader.
async fn announce(wire: &mut Wire, broker: &Broker, bytes: &[u8], slot: u8, form: Form) -> Check {
    let mut call = broker.acquire("61", 5_000, 30);
    let request = wire.request_of('A').await?;
    deliver(wire, request.conn, bytes, form).await?;
    wire.favour(&request, TOKEN).await?;
    call.granted(TOKEN).await?;
    let mut call = broker.acquire("62", 5_000, 30);
    let request = wire.request_of('A').await?;
    if slot != NO_SLOT {
        same("slot of the next request", usize::from(slot), request.slot)?;
    }
    wire.favour(&request, TOKEN).await?;
    call.granted(TOKEN).await.map(drop)
}

/// Many replies in one segment, in another order than the requests, cut at an odd place.
async fn coalesced(stage: Stage) -> Check {
    const COUNT: usize = 12;
    let (mut wire, broker) = stage.single().await?;
    for round in 0..8 {
        let mut calls = Vec::new();
        let mut requests: Vec<Request> = Vec::new();
        for index in 0..COUNT {
            calls.push(broker.acquire(&format!("{:02x}", 0x61 + index), 5_000, 30));
            requests.push(wire.request_of('A').await?);
        }
        let mut streams: Vec<Vec<u8>> = vec![Vec::new(); wire.conns.len()];
        for (index, request) in requests.iter().enumerate().rev() {
            let reply = match index % 3 {
                0 => favourable(request, 100 + index as u64),
                1 => answer('T', request.id()),
                _ => answer('B', request.id()),
            };
            streams[request.conn].extend(reply);
        }
        for (conn, stream) in streams.iter().enumerate().filter(|(_, bytes)| !bytes.is_empty()) {
            let places = if round == 0 { vec![] } else { vec![5 + 3 * round] };
            let places: Vec<usize> =
                places.into_iter().filter(|place| *place < stream.len()).collect();
            wire.conns[conn].write_split(stream, &places).await?;
        }
        for (index, call) in calls.iter_mut().enumerate() {
            match index % 3 {
                0 => drop(call.granted(100 + index as u64).await?),
                1 => drop(call.expect("error Timeout").await?),
                _ => drop(call.expect("error Busy").await?),
            }
        }
    }
    Ok(())
}

/// `valid_before` counts from before the request was sent, not from the grant.
async fn valid_before(stage: Stage) -> Check {
    const LEASE: Duration = Duration::from_secs(30);
    const HELD_BACK: Duration = Duration::from_millis(1_200);
    let (mut wire, broker) = stage.single().await?;
    let mut call = broker.acquire("61", 5_000, 30);
    let request = wire.request_of('A').await?;
    tokio::time::sleep(HELD_BACK).await;
    wire.favour(&request, TOKEN).await?;
    let remaining = call.granted(TOKEN).await?;
    let elapsed = crate::clock::now() - call.at;
    // One millisecond for rounding; one second for the way between driver and judge.
    let most = LEASE - HELD_BACK + Duration::from_millis(1);
    let least = LEASE.saturating_sub(elapsed + Duration::from_secs(1));
    if remaining > most || remaining < least {
        return fail(
            format!("remaining_ms from {} to {}", least.as_millis(), most.as_millis()),
            remaining.as_millis().to_string(),
        );
    }
    Ok(())
}
