//! Connections that come and go by the thousand.

use super::rig::Rig;
use crate::support::{Client, acquire, id, release};
use ticketing_wire_codec::Reply;

const ROUND_COUNT: usize = 20_000;
const THREAD_COUNT: usize = 4;

#[test]
fn churn_with_waiters_queued_changes_nothing_for_others_and_leaks_nothing() {
    let rig = Rig::start(&[]);
    let (mut holder, mut first) = (Client::open(rig.address), Client::open(rig.address));
    let token = holder.take(1, "k", 250);
    first.send(&acquire(1, 255, 250, "k"));
    first.expect_silence();
    std::thread::scope(|scope| {
        for thread in 0..THREAD_COUNT {
            let address = rig.address;
            scope.spawn(move || {
                for round in 0..ROUND_COUNT / THREAD_COUNT {
                    let mut client = Client::open(address);
                    let waiting = acquire(1, 255, 250, "k");
                    let own = acquire(2, 0, 1, &format!("own-{thread}-{round}"));
                    client.send(&[waiting, own].concat());
                    // With its answers in the socket or on their way, closed or reset.
                    if round % 2 == 0 {
                        client.reset();
                    }
                }
            });
        }
    });
    holder.send(&[acquire(2, 0, 30, "k"), release(3, token, "k")].concat());
    assert_eq!(holder.receive(), Reply::TimedOut { request_id: id(2) });
    assert_eq!(holder.receive(), Reply::Released { request_id: id(3) });
    let Reply::Granted { token, .. } = first.receive() else { panic!("a grant") };
    first.send(&release(2, token, "k"));
    assert_eq!(first.receive(), Reply::Released { request_id: id(2) });
    drop(first);
    // Nobody of the churn is left in the queue: the key is free at once, or soon, for one reset
    // may still be on its way.
    let token = holder.take(4, "k", 30);
    holder.send(&release(5, token, "k"));
    assert_eq!(holder.receive(), Reply::Released { request_id: id(5) });
    drop(holder);
    rig.expect_empty();
}
