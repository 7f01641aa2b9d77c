//! Group `routing`: how many connections, and which of them a request takes.

use super::warm_up::{ask, warm_up};
use crate::conn::Cut;
use crate::failure::{Check, fail, same};
use crate::frame::{answer, answer_byte, leader};
use crate::limits::QUIET_TIME;
use crate::scenario::{Broker, Group, Scenario, Stage};
use crate::wire::Wire;

/// The scenarios of this group.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new(Group::Routing, "two-connections-to-one-address", two_connections),
        Scenario::new(Group::Routing, "one-connection-to-each-slot", one_for_each_slot),
        Scenario::new(Group::Routing, "round-robin-single", round_robin_single),
        Scenario::new(Group::Routing, "round-robin-cluster", round_robin_cluster),
        Scenario::new(Group::Routing, "leader-from-M", leader_from_m),
        Scenario::new(Group::Routing, "leader-from-L", leader_from_l),
        Scenario::new(Group::Routing, "leader-forgotten-by-L-255", forgotten_by_l),
        Scenario::new(Group::Routing, "leader-forgotten-by-M-255", forgotten_by_m),
        Scenario::new(Group::Routing, "leader-forgotten-by-its-NoLeader", |stage| {
            forgotten_by_refusal(stage, 4)
        }),
        Scenario::new(Group::Routing, "leader-forgotten-by-its-NotActive", |stage| {
            forgotten_by_refusal(stage, 3)
        }),
        Scenario::new(Group::Routing, "leader-lost", leader_lost),
        Scenario::new(Group::Routing, "leader-not-connected", leader_not_connected),
        Scenario::new(Group::Routing, "one-socket-broken", one_socket_broken),
    ]
}

async fn two_connections(stage: Stage) -> Check {
    let (wire, _broker) = stage.single().await?;
    no_more(wire, 2).await
}

async fn one_for_each_slot(stage: Stage) -> Check {
    let (wire, _broker) = stage.cluster(5).await?;
    no_more(wire, 5).await
}

async fn no_more(mut wire: Wire, count: usize) -> Check {
    wire.quiet_for(QUIET_TIME * 2).await?;
    same("connections", count, wire.conns.len())?;
    same("open connections", count, wire.open_count())
}

/// One acquire, before whose `T` comes `L`: when the call has ended, the client knows the leader.
async fn announce(wire: &mut Wire, broker: &Broker, slot: u8) -> Check {
    let mut call = broker.acquire("61", 5_000, 30);
    let request = wire.request_of('A').await?;
    let bytes = [leader(slot), answer('T', request.id())].concat();
    wire.reply(request.conn, &bytes).await?;
    call.expect("error Timeout").await.map(drop)
}

/// Each of the open connections gets its turn, in each of three rounds.
async fn in_turn(wire: &mut Wire, broker: &Broker) -> Check {
    let count = wire.open_count();
    for _ in 0..3 {
        let mut used = Vec::new();
        for _ in 0..count {
            used.push(ask(wire, broker).await?.conn);
        }
        let mut different = used.clone();
        different.sort_unstable();
        different.dedup();
        if different.len() != count {
            return fail(
                format!("{count} requests in turn over {count} connections"),
                format!("connections {used:?}"),
            );
        }
    }
    Ok(())
}

async fn always(wire: &mut Wire, broker: &Broker, slot: usize) -> Check {
    for _ in 0..6 {
        same("slot of a request", slot, ask(wire, broker).await?.slot)?;
    }
    Ok(())
}

async fn round_robin_single(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    warm_up(&mut wire, &broker).await?;
    in_turn(&mut wire, &broker).await
}

async fn round_robin_cluster(stage: Stage) -> Check {
    let (mut wire, broker) = stage.cluster(3).await?;
    warm_up(&mut wire, &broker).await?;
    in_turn(&mut wire, &broker).await
}

async fn leader_from_m(stage: Stage) -> Check {
    let (mut wire, broker) = stage.cluster(3).await?;
    warm_up(&mut wire, &broker).await?;
    for _ in 0..3 {
        let mut call = broker.acquire("61", 9_000, 30);
        let request = wire.request_of('A').await?;
        let next = (request.slot + 1) % 3;
        wire.reply(request.conn, &answer_byte('M', request.id(), next as u8)).await?;
        let again = wire.request_of('A').await?;
        same("slot after M", next, again.slot)?;
        wire.favour(&again, 3).await?;
        call.granted(3).await?;
        let mut release = broker.release(&call);
        let request = wire.request_of('R').await?;
        same("slot of a release", next, request.slot)?;
        wire.favour(&request, 3).await?;
        release.expect("released").await?;
        always(&mut wire, &broker, next).await?;
    }
    Ok(())
}

async fn leader_from_l(stage: Stage) -> Check {
    let (mut wire, broker) = stage.cluster(5).await?;
    warm_up(&mut wire, &broker).await?;
    for slot in [4, 0, 2] {
        announce(&mut wire, &broker, slot).await?;
        always(&mut wire, &broker, slot.into()).await?;
    }
    Ok(())
}

async fn forgotten_by_l(stage: Stage) -> Check {
    let (mut wire, broker) = stage.cluster(3).await?;
    warm_up(&mut wire, &broker).await?;
    announce(&mut wire, &broker, 1).await?;
    always(&mut wire, &broker, 1).await?;
    announce(&mut wire, &broker, 255).await?;
    in_turn(&mut wire, &broker).await
}

async fn forgotten_by_m(stage: Stage) -> Check {
    let (mut wire, broker) = stage.cluster(3).await?;
    warm_up(&mut wire, &broker).await?;
    announce(&mut wire, &broker, 1).await?;
    let mut call = broker.acquire("61", 5_000, 30);
    let request = wire.request_of('A').await?;
    same("slot of a request", 1, request.slot)?;
    wire.reply(request.conn, &answer_byte('M', request.id(), 255)).await?;
    let request = wire.request_of('A').await?;
    wire.reply(request.conn, &answer('T', request.id())).await?;
    call.expect("error Timeout").await?;
    in_turn(&mut wire, &broker).await
}

/// A leader that says it is none is forgotten.
async fn forgotten_by_refusal(stage: Stage, code: u8) -> Check {
    let (mut wire, broker) = stage.cluster(3).await?;
    warm_up(&mut wire, &broker).await?;
    announce(&mut wire, &broker, 1).await?;
    let mut call = broker.acquire("61", 5_000, 30);
    let request = wire.request_of('A').await?;
    same("slot of a request", 1, request.slot)?;
    wire.reply(request.conn, &answer_byte('E', request.id(), code)).await?;
    let request = wire.request_of('A').await?;
    wire.reply(request.conn, &answer('T', request.id())).await?;
    call.expect("error Timeout").await?;
    in_turn(&mut wire, &broker).await
}

/// A lost connection to the leader forgets it: when it is back, it is one among others.
async fn leader_lost(stage: Stage) -> Check {
    let (mut wire, broker) = stage.cluster(3).await?;
    warm_up(&mut wire, &broker).await?;
    announce(&mut wire, &broker, 2).await?;
    let conn = ask(&mut wire, &broker).await?.conn;
    wire.cut(conn, Cut::Close);
    wire.connected(3).await?;
    warm_up(&mut wire, &broker).await?;
    in_turn(&mut wire, &broker).await
}

/// A leader that cannot be reached does not hold requests up: the others are asked.
async fn leader_not_connected(stage: Stage) -> Check {
    let mut wire = Wire::listen(crate::frame::Identity::cluster(3)).await?;
    wire.refuse(2);
    let broker = stage.open_on(&wire, "").await?;
    wire.connected(2).await?;
    broker.ready().await?;
    let mut call = broker.acquire("61", 9_000, 30);
    for _ in 0..3 {
        let request = wire.request_of('A').await?;
        wire.reply(request.conn, &answer_byte('M', request.id(), 2)).await?;
    }
    wire.listen_again(2).await?;
    loop {
        let request = wire.request_of('A').await?;
        if request.slot == 2 {
            wire.favour(&request, 4).await?;
            break;
        }
        wire.reply(request.conn, &answer_byte('M', request.id(), 2)).await?;
    }
    call.granted(4).await?;
    always(&mut wire, &broker, 2).await
}

/// One broken socket does not interrupt service in single mode.
async fn one_socket_broken(stage: Stage) -> Check {
    let (mut wire, broker) = stage.single().await?;
    warm_up(&mut wire, &broker).await?;
    wire.pause(0, true);
    wire.cut(0, Cut::Close);
    tokio::time::sleep(QUIET_TIME).await;
    for _ in 0..4 {
        same("connection", 1, ask(&mut wire, &broker).await?.conn)?;
    }
    wire.pause(0, false);
    wire.connected(2).await?;
    warm_up(&mut wire, &broker).await
}
