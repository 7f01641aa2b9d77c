//! Connections that the client is known to use: a verdict that was sent may not have been read.

use crate::failure::{Check, fail};
use crate::frame::{Request, answer};
use crate::scenario::Broker;
use crate::wire::Wire;

/// Requests after which every usable connection must have had one.
const WARM_UP_COUNT_MAX: usize = 50;

/// One acquire that ends in `T`; gives its request.
pub(super) async fn ask(wire: &mut Wire, broker: &Broker) -> Check<Request> {
    let mut call = broker.acquire("61", 5_000, 30);
    let request = wire.request_of('A').await?;
    wire.reply(request.conn, &answer('T', request.id())).await?;
    call.expect("error Timeout").await?;
    Ok(request)
}

/// Asks until every open connection has had a request: the client then uses them all.
pub(super) async fn warm_up(wire: &mut Wire, broker: &Broker) -> Check {
    let mut unused: Vec<usize> =
        (0..wire.conns.len()).filter(|index| wire.conns[*index].is_open()).collect();
    for _ in 0..WARM_UP_COUNT_MAX {
        let request = ask(wire, broker).await?;
        unused.retain(|index| *index != request.conn);
        if unused.is_empty() {
            return Ok(());
        }
    }
    fail(
        format!("every connection used within {WARM_UP_COUNT_MAX} requests"),
        format!("connections {unused:?} never were"),
    )
}
