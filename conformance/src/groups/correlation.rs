//! Group `correlation`: replies that end the session, and the client's recovery from them.

use crate::driver::Pending;
use crate::failure::{Check, fail, same, same_bytes};
use crate::frame::{HEAD_SIZE_BYTES, Request, answer, granted, with_id};
use crate::scenario::{Broker, Group, Scenario, Stage};
use crate::vectors::{Case, Vectors, id_of};
use crate::wire::Wire;

/// Token of the tickets whose releases are answered.
const TOKEN: u64 = 9;

/// The scenarios of this group.
pub(super) fn scenarios(vectors: &Vectors) -> Vec<Scenario> {
    let mut all = Vec::new();
    for topic in ["invalid-frame-reply", "invalid-value-reply"] {
        for case in vectors.of(topic) {
            let given = case.clone();
            all.push(Scenario::new(Group::Correlation, &case.id, move |stage| {
                no_reply(stage, given.clone())
            }));
        }
    }
    for case in vectors.of("invalid-correlation") {
        let given = case.clone();
        all.push(Scenario::new(Group::Correlation, &case.id, move |stage| {
            misfit(stage, given.clone())
        }));
    }
    all.push(Scenario::new(Group::Correlation, "one-bad-reply-loses-all-sent", loses_all_sent));
    all
}

async fn open(stage: &Stage, case: &Case) -> Check<(Wire, Broker)> {
    match case.cluster_size() {
        Some(voter_count) => stage.cluster(voter_count).await,
        None => stage.single().await,
    }
}

/// The client as before: all its connections, and a whole acquire and release.
async fn recovers(wire: &mut Wire, broker: &Broker) -> Check {
    let count = wire.identity.cluster.map_or(2, |cluster| usize::from(cluster.voter_count));
    wire.connected(count).await?;
    broker.works(wire).await
}

/// What is no reply at all ends the session; the acquire is indeterminate and not sent again.
async fn no_reply(stage: Stage, case: Case) -> Check {
    let (mut wire, broker) = open(&stage, &case).await?;
    // A set's grant has to fail for what is wrong with it, not for answering a single key.
    let mut call = match case.bytes().first() {
        Some(b'S') => broker.acquire_set("61,62", 5_000, 30),
        _ => broker.acquire("61", 5_000, 30),
    };
    let request = wire.request().await?;
    wire.reply(request.conn, &case.bytes()).await?;
    wire.closed(request.conn).await?;
    call.expect("error Indeterminate").await?;
    wire.quiet().await?;
    recovers(&mut wire, &broker).await
}

/// A reply that fits no waiting request ends the session.
async fn misfit(stage: Stage, case: Case) -> Check {
    let (mut wire, broker) = open(&stage, &case).await?;
    let Some(sent) = case.requests().first().cloned() else {
        wire.reply(0, &case.bytes()).await?;
        wire.closed(0).await?;
        return recovers(&mut wire, &broker).await;
    };
    let (mut call, request) = ask(&mut wire, &broker, &sent).await?;
    let replies = frames(&case.bytes());
    // The ids of the vector, moved to where this connection is.
    let moved = |reply: &Vec<u8>| {
        with_id(reply, id_of(reply).wrapping_sub(id_of(&sent)).wrapping_add(request.id()))
    };
    let bytes: Vec<u8> = replies.iter().flat_map(moved).collect();
    wire.reply(request.conn, &bytes).await?;
    let is_acquire = matches!(request.op(), 'A' | 'S');
    let is_retried = replies.len() > 1 && replies[0][0] == b'M';
    if is_retried || (replies.len() == 1 && !is_acquire) {
        sent_again(&mut wire, &request).await?;
    }
    // A good reply ahead of the bad one decides; otherwise nothing is known.
    let outcome = call.outcome().await?;
    if replies.len() == 1 && is_acquire {
        same("outcome", "error Indeterminate", &outcome.text)?;
    }
    gone(&mut wire, request.conn).await?;
    recovers(&mut wire, &broker).await
}

/// Has the client send that request.
async fn ask(wire: &mut Wire, broker: &Broker, sent: &[u8]) -> Check<(Pending, Request)> {
    let call = match sent[0] {
        b'A' => broker.acquire("61", 10_000, 30),
        b'S' => broker.acquire_set("61,62", 10_000, 30),
        b'R' => {
            let held = broker.hold(wire, "61", TOKEN).await?;
            broker.release(&held)
        }
        _ => {
            let held = broker.hold_set(wire, "61,62", TOKEN).await?;
            broker.release(&held)
        }
    };
    let request = wire.request().await?;
    same_bytes("request of the vector", &with_id(sent, 0), &request.without_id())?;
    Ok((call, request))
}

async fn sent_again(wire: &mut Wire, first: &Request) -> Check {
    let second = wire.request_of(first.op()).await?;
    same_bytes("sent again", &first.without_id(), &second.without_id())?;
    if first.conn == second.conn {
        return fail("sent again on another connection", second.describe());
    }
    wire.favour(&second, TOKEN).await
}

async fn gone(wire: &mut Wire, conn: usize) -> Check {
    if wire.conns[conn].is_open() { wire.closed(conn).await } else { Ok(()) }
}

/// The frames of a stream, the last perhaps cut short.
fn frames(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = bytes;
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let size = rest.get(1..HEAD_SIZE_BYTES).map_or(rest.len(), |size| {
            HEAD_SIZE_BYTES + usize::from(u16::from_be_bytes([size[0], size[1]]))
        });
        let (frame, after) = rest.split_at(size.min(rest.len()));
        frames.push(frame.to_vec());
        rest = after;
    }
    frames
}

/// Good replies before the bad one count; requests behind it are lost, those elsewhere go on.
async fn loses_all_sent(stage: Stage) -> Check {
    const COUNT: u8 = 6;
    let (mut wire, broker) = stage.single().await?;
    let mut calls = Vec::new();
    for index in 0..COUNT {
        let call = broker.acquire(&format!("{:02x}", 0x61 + index), 5_000, 30);
        calls.push((call, wire.request_of('A').await?));
    }
    let bad_conn = calls[0].1.conn;
    let first = calls[0].1.id();
    let replies = [answer('T', first), granted('A', first + 1_000, 5), answer('B', first)].concat();
    wire.reply(bad_conn, &replies).await?;
    calls[0].0.expect("error Timeout").await?;
    for (call, request) in calls.iter_mut().skip(1) {
        if request.conn == bad_conn {
            call.expect("error Indeterminate").await?;
        } else {
            call.still_open()?;
            wire.reply(request.conn, &answer('B', request.id())).await?;
            call.expect("error Busy").await?;
        }
    }
    recovers(&mut wire, &broker).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_falls_into_its_frames() {
        let stream = [answer('T', 1), granted('A', 2, 3)].concat();
        assert_eq!(frames(&stream), [answer('T', 1), granted('A', 2, 3)]);
        assert_eq!(frames(b"A\xff\xff"), [b"A\xff\xff".to_vec()]);
    }
}
