//! Group `cut`: connections that end around a request. An acquire is `Indeterminate` exactly when
//! a byte of it may have left; a release is sent again.

use crate::conn::Cut;
use crate::driver::Pending;
use crate::failure::{Check, fail, hex, same, same_bytes};
use crate::frame::{self, Identity, granted};
use crate::limits::{QUIET_TIME, SCENARIO_LIMIT};
use crate::scenario::{Broker, Group, Scenario, Stage};
use crate::wire::Wire;
use std::collections::HashSet;
use std::net::Ipv4Addr;

const TOKEN: u64 = 0x1122_3344_5566_7788;

/// The scenarios of this group.
pub(super) fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for set in [false, true] {
        let what = if set { "set" } else { "key" };
        let acquire_size = if set {
            frame::acquire_set(1, 5, 30, &[b"a", b"b"]).len()
        } else {
            frame::acquire(1, 5, 30, b"a").len()
        };
        for count in 0..=acquire_size {
            let name = format!("acquire-{what}-after-byte-{count:02}");
            all.push(Scenario::new(Group::Cut, name, move |stage| {
                acquire(stage, set, count, Cut::Close)
            }));
        }
        all.push(Scenario::new(Group::Cut, format!("acquire-{what}-reset"), move |stage| {
            acquire(stage, set, acquire_size, Cut::Reset)
        }));
        let release_size = if set {
            frame::release_set(1, TOKEN, &[b"a", b"b"]).len()
        } else {
            frame::release(1, TOKEN, b"a").len()
        };
        for count in 0..=release_size {
            let name = format!("release-{what}-after-byte-{count:02}");
            all.push(Scenario::new(Group::Cut, name, move |stage| {
                release(stage, set, count, Cut::Close)
            }));
        }
        all.push(Scenario::new(Group::Cut, format!("release-{what}-reset"), move |stage| {
            release(stage, set, release_size, Cut::Reset)
        }));
    }
    for count in 0..19 {
        all.push(Scenario::new(Group::Cut, format!("grant-after-byte-{count:02}"), move |stage| {
            half_grant(stage, count)
        }));
    }
    all.push(Scenario::new(Group::Cut, "half-close", half_close));
    all.push(Scenario::new(Group::Cut, "before-any-byte", before_any_byte));
    all.push(Scenario::new(Group::Cut, "before-any-byte-set", before_any_byte_set));
    all.push(Scenario::new(Group::Cut, "all-in-flight", all_in_flight));
    all.push(Scenario::new(Group::Cut, "grant-then-cut", grant_then_cut));
    all.push(Scenario::new(Group::Cut, "socket-full", socket_full));
    all
}

fn call(broker: &Broker, set: bool) -> Pending {
    if set { broker.acquire_set("61,62", 5_000, 30) } else { broker.acquire("61", 5_000, 30) }
}

async fn acquire(stage: Stage, set: bool, count: usize, how: Cut) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let mut call = call(&broker, set);
    let conn = wire.readable().await?;
    wire.conns[conn].take("the request", count).await?;
    wire.cut(conn, how);
    call.expect("error Indeterminate").await?;
    // Neither the other connection nor the next one may carry it again.
    wire.quiet().await?;
    broker.works(&mut wire).await
}

async fn release(stage: Stage, set: bool, count: usize, how: Cut) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let held = if set {
        broker.hold_set(&mut wire, "61,62", TOKEN).await?
    } else {
        broker.hold(&mut wire, "61", TOKEN).await?
    };
    let mut release = broker.release(&held);
    let conn = wire.readable().await?;
    wire.conns[conn].take("the request", count).await?;
    wire.cut(conn, how);
    let again = wire.request().await?;
    let expected = if set {
        frame::release_set(again.id(), TOKEN, &[b"a", b"b"])
    } else {
        frame::release(again.id(), TOKEN, b"a")
    };
    same_bytes("release sent again", &expected, &again.bytes)?;
    // What an effective first attempt looks like.
    wire.reply(again.conn, &frame::answer('N', again.id())).await?;
    release.expect("not-held").await?;
    broker.works(&mut wire).await
}

/// A grant of which a part arrived is none.
async fn half_grant(stage: Stage, count: usize) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let mut call = call(&broker, false);
    let request = wire.request_of('A').await?;
    wire.reply(request.conn, &granted('A', request.id(), TOKEN)[..count]).await?;
    wire.cut(request.conn, Cut::Close);
    call.expect("error Indeterminate").await?;
    wire.quiet().await?;
    broker.works(&mut wire).await
}

/// A server that will say no more is gone, even if it could still read.
async fn half_close(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let mut call = call(&broker, false);
    let request = wire.request_of('A').await?;
    wire.conns[request.conn].half_close().await?;
    call.expect("error Indeterminate").await?;
    wire.closed(request.conn).await?;
    broker.works(&mut wire).await
}

/// While no connection is usable the request stays queued; the next connection carries it, once.
async fn before_any_byte(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let call = broker.acquire("61", 10_000, 30);
    queued_then_sent(&mut wire, &broker, call, false).await
}

async fn before_any_byte_set(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let call = broker.acquire_set("61,62", 10_000, 30);
    queued_then_sent(&mut wire, &broker, call, true).await
}

/// The first call proves that the broker was up; the second finds every connection gone.
async fn queued_then_sent(wire: &mut Wire, broker: &Broker, first: Pending, set: bool) -> Check {
    let mut first = first;
    let request = wire.request().await?;
    wire.favour(&request, TOKEN).await?;
    first.granted(TOKEN).await?;
    wire.pause(0, true);
    wire.cut_all();
    // Long enough for the client to see both ends.
    tokio::time::sleep(QUIET_TIME).await;
    let mut second = if set {
        broker.acquire_set("63,64", 10_000, 30)
    } else {
        broker.acquire("63", 10_000, 30)
    };
    // Each of these ends before its handshake: no request can have left.
    for _ in 0..2 {
        let mut conn = wire.accept(0).await?;
        conn.write(&wire.identity.hello(0, &[7; 16])[..5]).await?;
        conn.cut(Cut::Close);
    }
    second.still_open()?;
    wire.pause(0, false);
    let request = wire.request().await?;
    wire.favour(&request, TOKEN + 1).await?;
    second.granted(TOKEN + 1).await?;
    wire.quiet().await
}

/// Everything sent on the cut connection is indeterminate, everything on the other goes on.
async fn all_in_flight(stage: Stage) -> Check {
    const COUNT: u8 = 20;
    let (mut wire, broker) = stage.single().await?;
    let mut calls = Vec::new();
    for index in 0..COUNT {
        let call = broker.acquire(&format!("{:02x}", 0x61 + index), 5_000, 30);
        calls.push((call, wire.request_of('A').await?));
    }
    let gone = calls[0].1.conn;
    wire.cut(gone, Cut::Close);
    let mut lost = 0;
    for (call, request) in &mut calls {
        if request.conn == gone {
            call.expect("error Indeterminate").await?;
            lost += 1;
        } else {
            wire.favour(request, TOKEN).await?;
            call.granted(TOKEN).await?;
        }
    }
    same("requests on one of two connections", usize::from(COUNT) / 2, lost)?;
    wire.quiet().await
}

/// A delivered grant survives its connection, and is released over another one.
async fn grant_then_cut(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    let held = broker.hold(&mut wire, "61", TOKEN).await?;
    wire.cut_all();
    let mut release = broker.release(&held);
    let request = wire.request_of('R').await?;
    same_bytes("release", &frame::release(request.id(), TOKEN, b"a"), &request.bytes)?;
    wire.favour(&request, TOKEN).await?;
    release.expect("released").await.map(drop)
}

/// More than the sockets take, so that some requests wait inside the client when the connections
/// end. Each is either indeterminate or comes over another connection: never both, never twice.
async fn socket_full(stage: Stage) -> Check {
    const COUNT: usize = 300;
    const ROOM_SIZE_BYTES: u32 = 4_096;
    let host = Ipv4Addr::LOCALHOST.into();
    let mut wire = Wire::listen_on(Identity::single(), host, Some(ROOM_SIZE_BYTES))?;
    let broker = stage.open_on(&wire, "").await?;
    wire.connected(2).await?;
    broker.ready().await?;
    let mut calls: Vec<Pending> = (0..COUNT)
        .map(|number| {
            // The longest frames there are.
            let keys: Vec<String> = (0..16).map(|key| hex(&long_key(number, key))).collect();
            broker.acquire_set(&keys.join(","), 60_000, 30)
        })
        .collect();
    let first = wire.readable().await?;
    // Until nothing moves any more; nobody reads.
    tokio::time::sleep(QUIET_TIME * 4).await;
    wire.cut(first, Cut::Close);
    let mut came = HashSet::new();
    let mut indeterminate = 0;
    for (number, call) in calls.iter_mut().enumerate() {
        let outcome = loop {
            tokio::select! {
                outcome = call.outcome() => break outcome?,
                request = wire.request_within(SCENARIO_LIMIT) => {
                    let request = request?;
                    if !came.insert(request.bytes[15..15 + 128].to_vec()) {
                        return fail("each request at most once", request.describe());
                    }
                    wire.reply(request.conn, &frame::answer('B', request.id())).await?;
                }
            }
        };
        let has_come = came.contains(&long_key(number, 0));
        match outcome.text.as_str() {
            "error Busy" if has_come => {}
            "error Indeterminate" if !has_come => indeterminate += 1,
            other => {
                let expected = if has_come { "error Busy" } else { "error Indeterminate" };
                return fail(format!("request {number}, seen {has_come}: {expected}"), other);
            }
        }
    }
    wire.quiet().await?;
    if indeterminate == 0 {
        return fail("requests lost with the connection", "none");
    }
    // Half of them took the connection that stayed.
    if came.len() <= COUNT / 2 {
        return fail("requests that had not left, over another connection", "none");
    }
    Ok(())
}

/// The first of a set begins with its number.
fn long_key(number: usize, key: usize) -> Vec<u8> {
    let mut bytes = format!("{key:02}-{number:04}-").into_bytes();
    bytes.resize(128, b'k');
    bytes
}
