//! Clients that go away. Mission M9.

use super::rig::Rig;
use crate::support::{Client, WAYS_TO_GO, acquire, eventually, id, release};
use ticketing_wire_codec::Reply;

#[test]
fn waiters_leave_at_once_and_the_next_is_granted() {
    let rig = Rig::start(&[]);
    for (request, go) in (1..).zip(WAYS_TO_GO) {
        let (mut holder, mut next) = (Client::open(rig.address), Client::open(rig.address));
        let mut gone = Client::open(rig.address);
        let token = holder.take(request, "k", 60);
        gone.send(&[acquire(1, 60, 60, "k"), acquire(2, 60, 60, "k")].concat());
        eventually("the first two wait", || rig.counters().in_flight == 2);
        next.send(&acquire(1, 60, 60, "k"));
        eventually("all wait", || rig.counters().in_flight == 3);
        let _half = go(gone);
        eventually("the waiters left", || rig.counters().in_flight == 1);
        holder.send(&release(9, token, "k"));
        assert_eq!(holder.receive(), Reply::Released { request_id: id(9) });
        let Reply::Granted { token, .. } = next.receive() else { panic!("a grant") };
        next.send(&release(2, token, "k"));
        assert_eq!(next.receive(), Reply::Released { request_id: id(2) });
    }
    rig.expect_empty();
}

#[test]
fn a_delivered_lock_survives_its_connection() {
    let rig = Rig::start(&[]);
    for (number, go) in (1..).zip(WAYS_TO_GO) {
        let key = format!("key-{number}");
        let mut holder = Client::open(rig.address);
        let token = holder.take(1, &key, 60);
        let _half = go(holder);
        eventually("the session closed", || rig.counters().sessions == 0);
        let mut other = Client::open(rig.address);
        other.send(&acquire(1, 0, 60, &key));
        assert_eq!(other.receive(), Reply::TimedOut { request_id: id(1) });
        // Whoever knows the token may release, from any connection.
        other.send(&release(2, token, &key));
        assert_eq!(other.receive(), Reply::Released { request_id: id(2) });
    }
    assert_eq!(rig.counters().reclaimed, 0);
}

#[test]
fn a_grant_never_stays_with_a_client_that_left_before_it() {
    let rig = Rig::start(&[]);
    for round in 0..50 {
        let (mut holder, mut next) = (Client::open(rig.address), Client::open(rig.address));
        let token = holder.take(1, "k", 250);
        let mut gone = Client::open(rig.address);
        gone.send(&acquire(1, 250, 250, "k"));
        eventually("it waits", || rig.counters().in_flight == 1);
        next.send(&acquire(1, 250, 250, "k"));
        eventually("both wait", || rig.counters().in_flight == 2);
        // It leaves, and the key is released in the same instant: its end is in the server's
        // socket before the release is.
        WAYS_TO_GO[round % 2](gone);
        holder.send(&release(2, token, "k"));
        let Reply::Granted { token, .. } = next.receive() else { panic!("a grant") };
        next.send(&release(2, token, "k"));
        assert_eq!(next.receive(), Reply::Released { request_id: id(2) });
    }
}
