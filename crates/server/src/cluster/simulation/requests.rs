//! What single requests are answered when the leader is in trouble.

use super::net::LinkState;
use super::world::Simulation;
use crate::cluster::replicated::HandOver;
use crate::engine::{Outgoing, Turn};
use ticketing_lock_core::SessionId;
use ticketing_wire_codec::limits::REQUEST_SIZE_BYTES_MAX;
use ticketing_wire_codec::{
    ErrorCode, Reply, ReplyRules, RequestId, Step, Token, decode_reply, encode_acquire,
    encode_release,
};

/// From the start to a leader that all know.
const START_MICROSECONDS: u64 = 4_000_000;
/// Far more than a request takes, or an election.
const PATIENCE_MICROSECONDS: u64 = 2_000_000;

/// A cluster, its leader, and a session there that no client of the simulation uses.
struct Scene {
    simulation: Simulation,
    leader: u8,
    session: SessionId,
}

impl Scene {
    fn new(seed: u64) -> Self {
        let mut simulation = Simulation::new(seed, 3);
        simulation.run(START_MICROSECONDS);
        let leader = simulation.leader().expect("a leader");
        let process = simulation.slots[usize::from(leader)].as_mut().expect("leads");
        let session = process.engine.open().expect("there is room");
        let mut scene = Self { simulation, leader, session };
        assert!(matches!(scene.ask(&[])[..], [Reply::Leader { .. }]));
        scene
    }

    /// One turn of the session; what it is answered at once.
    fn ask(&mut self, input: &[u8]) -> Vec<Reply> {
        let (session, mut out) = (self.session, Vec::new());
        let process = self.simulation.slots[usize::from(self.leader)].as_ref().expect("lives");
        let incarnation = process.incarnation;
        self.simulation.with(self.leader, incarnation, |process, now| {
            let turn = process.engine.turn(session, input, now, &mut out);
            assert!(!matches!(turn, Turn::Stall), "nothing waits before it is taken in");
        });
        let mut replies = Vec::new();
        let mut rest = &out[..];
        let rules = ReplyRules::Cluster { voter_count: 3 };
        while let Step::Complete { value, size } = decode_reply(rest, rules).expect("frames") {
            replies.push(value);
            rest = &rest[size..];
        }
        replies
    }

    /// What comes for the session after some time.
    fn wait(&mut self) -> Vec<Reply> {
        self.simulation.run(PATIENCE_MICROSECONDS);
        self.ask(&[])
    }

    fn cut_off(&mut self) {
        for peer in (0..3).filter(|peer| *peer != self.leader) {
            self.simulation.world.set_link(self.leader, peer, LinkState::Silent);
            self.simulation.world.set_link(peer, self.leader, LinkState::Silent);
        }
    }
}

fn id(number: u64) -> RequestId {
    RequestId::new(number).expect("not 0")
}

fn acquire(number: u64, key: &str, wait: u8) -> Vec<u8> {
    let mut buffer = [0; REQUEST_SIZE_BYTES_MAX];
    encode_acquire(&mut buffer, id(number), wait, 30, key.as_bytes()).expect("valid").to_vec()
}

fn release(number: u64, key: &str, token: Token) -> Vec<u8> {
    let mut buffer = [0; REQUEST_SIZE_BYTES_MAX];
    encode_release(&mut buffer, id(number), token, key.as_bytes()).expect("valid").to_vec()
}

#[test]
fn an_id_that_is_used_again_before_its_answer_is_answered_as_often() {
    let mut scene = Scene::new(1);
    let no_token = Token::new(1).expect("not 0");
    let requests = [acquire(7, "a", 0), acquire(7, "b", 0), release(7, "c", no_token)].concat();
    assert_eq!(scene.ask(&requests), []);
    let replies = scene.wait();
    let is_granted = |reply: &&Reply| matches!(reply, Reply::Granted { .. });
    assert_eq!(replies.iter().filter(is_granted).count(), 2, "{replies:?}");
    assert!(replies.contains(&Reply::NotHeld { request_id: id(7) }), "{replies:?}");
    assert_eq!(replies.len(), 3);
}

#[test]
fn a_leader_without_a_majority_leaves_in_doubt_only_what_it_has_proposed() {
    let mut scene = Scene::new(2);
    scene.cut_off();
    // Those of the simulation's clients come first; entries wait for each other from then on.
    for number in 1..=20 {
        assert_eq!(scene.ask(&acquire(number, &format!("key-of-{number}"), 1)), []);
    }
    let replies = scene.wait();
    let in_doubt = replies.iter().filter(|reply| matches!(reply, Reply::Indeterminate { .. }));
    assert!(in_doubt.count() <= 2, "one request in each entry under way: {replies:?}");
    let moved = replies.iter().filter_map(|reply| match reply {
        Reply::Moved { leader, .. } => Some(*leader),
        _ => None,
    });
    // It does not know who leads now, and it is not itself.
    let leaders: Vec<_> = moved.collect();
    assert!(leaders.len() >= 18 && leaders.iter().all(Option::is_none), "{replies:?}");
    let refused = Reply::Refused { request_id: id(21), code: ErrorCode::NoLeader };
    assert_eq!(scene.ask(&acquire(21, "late", 1)), [refused]);
}

#[test]
fn a_stop_that_nobody_takes_over_from_refuses_and_does_not_stall() {
    let mut scene = Scene::new(3);
    let process = scene.simulation.slots[usize::from(scene.leader)].as_mut().expect("leads");
    process.engine.locks.hand_over = HandOver::Done;
    let refused = Reply::Refused { request_id: id(1), code: ErrorCode::NotActive };
    assert_eq!(scene.ask(&acquire(1, "a", 1)), [refused]);
}

#[test]
fn a_waiter_whose_removal_is_recorded_hears_so_before_its_connection_ends() {
    let mut scene = Scene::new(4);
    let process = scene.simulation.slots[usize::from(scene.leader)].as_mut().expect("leads");
    let now = process.local(scene.simulation.world.now);
    process.engine.locks.handed.insert(scene.session, vec![id(9)]);
    process.engine.shut_down(now);
    let replies = scene.ask(&[]);
    // This process still leads, and it is no place to go on.
    assert_eq!(replies, [Reply::Moved { request_id: id(9), leader: None }]);
}

#[test]
fn the_waiters_of_a_closed_connection_leave_at_once_and_what_it_holds_stays() {
    let mut scene = Scene::new(5);
    scene.simulation.is_closing = true;
    // Until the simulation's own clients have finished.
    (0..4).for_each(|_| scene.simulation.run(PATIENCE_MICROSECONDS));
    assert_eq!(scene.ask(&[acquire(1, "a", 0), acquire(2, "a", 60)].concat()), []);
    assert!(matches!(scene.wait()[..], [Reply::Granted { .. }]));
    let counts = |scene: &Scene| -> Vec<_> {
        let processes = scene.simulation.slots.iter().flatten();
        let tables = processes.map(|process| &process.engine.locks.replica.table);
        tables.map(|table| (table.grant_count(), table.waiter_count())).collect()
    };
    assert_eq!(counts(&scene), [(1, 1); 3]);
    let (leader, session) = (scene.leader, scene.session);
    let process = scene.simulation.slots[usize::from(leader)].as_ref().expect("lives");
    let incarnation = process.incarnation;
    scene.simulation.with(leader, incarnation, |process, now| {
        process.engine.close(session, &Outgoing::default(), now);
    });
    scene.simulation.run(PATIENCE_MICROSECONDS / 4);
    assert_eq!(counts(&scene), [(1, 0); 3]);
}

#[test]
fn connections_that_come_and_go_do_not_hold_up_a_planned_stop() {
    for seed in 0..5 {
        let Scene { mut simulation, leader, .. } = Scene::new(seed);
        let process = simulation.slots[usize::from(leader)].as_ref().expect("leads");
        let incarnation = process.incarnation;
        simulation.with(leader, incarnation, |process, now| process.engine.begin_hand_over(now));
        let is_done = |simulation: &Simulation| {
            let process = simulation.slots[usize::from(leader)].as_ref().expect("lives");
            process.engine.is_handed_over(process.local(simulation.world.now))
        };
        let began = simulation.world.now;
        while !is_done(&simulation) {
            assert!(simulation.world.now < began + 500_000, "seed {seed}: it takes too long");
            // Far more often than entries are recorded.
            simulation.with(leader, incarnation, |process, now| {
                let session = process.engine.open().expect("there is room");
                process.engine.close(session, &Outgoing::default(), now);
            });
            simulation.run(50);
        }
        assert_ne!(simulation.leader(), Some(leader), "seed {seed}");
    }
}
