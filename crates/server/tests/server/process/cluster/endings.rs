//! A broken frame ends its connection after the replies before it, which a majority decides.

use super::rig::{Cluster, NODE_COUNT};
use crate::support::{acquire, id, release};
use ticketing_wire_codec::Reply;

#[test]
fn a_broken_frame_ends_its_connection_after_the_replies_before_it() {
    let mut cluster = Cluster::new();
    for slot in 0..NODE_COUNT {
        cluster.start(slot, &[]);
    }
    for slot in 0..NODE_COUNT {
        cluster.ready(slot);
    }
    let (leader, mut holder) = cluster.leader();
    let held = holder.take(2, "held", 250);
    let mut client = cluster.client(leader);
    assert!(matches!(client.receive(), Reply::Leader { leader: Some(_) }));
    let token = client.take(1, "first", 30);
    let frames = [
        release(2, token, "first"),
        acquire(3, 0, 30, "held"),
        acquire(4, 0, 30, "second"),
        acquire(5, 60, 30, "held"),
        b"X\0\x01z".to_vec(),
        acquire(6, 0, 30, "third"),
    ];
    client.send(&frames.concat());
    assert_eq!(client.receive(), Reply::Released { request_id: id(2) });
    assert_eq!(client.receive(), Reply::TimedOut { request_id: id(3) });
    match client.receive() {
        Reply::Granted { request_id, .. } => assert_eq!(request_id, id(4)),
        other => panic!("a grant of a free key expected: {other:?}"),
    }
    client.expect_end();
    // The waiter has left, what was granted stays so, and what came after was not looked at.
    holder.send(&release(3, held, "held"));
    assert_eq!(holder.receive(), Reply::Released { request_id: id(3) });
    holder.take(4, "held", 30);
    holder.take(5, "third", 30);
    holder.send(&acquire(6, 0, 30, "second"));
    assert_eq!(holder.receive(), Reply::TimedOut { request_id: id(6) });
}
