//! Connections that pipeline whatever comes to their mind, with ids used again and more than is
//! taken at once: each request is answered once, and none is granted that was refused.

use super::world::{Event, Simulation};
use crate::engine::{Outgoing, Turn};
use std::collections::BTreeMap;
use ticketing_lock_core::SessionId;
use ticketing_wire_codec::limits::REQUEST_SIZE_BYTES_MAX;
use ticketing_wire_codec::{
    Reply, ReplyRules, RequestId, Step, Token, decode_reply, encode_acquire_set, encode_release_set,
};

const TALKER_COUNT: usize = 12;
/// From the start to a leader that all know.
const START_MICROSECONDS: u64 = 3_000_000;
/// Between two turns of a connection, while it talks and while it only listens.
const TALKING_MICROSECONDS: u64 = 5_000;
const LISTENING_MICROSECONDS: u64 = 50_000;
/// What one turn takes in.
const READ_SIZE_BYTES: usize = 16_384;

type Names = Vec<Vec<u8>>;

/// One connection.
struct Talker {
    slot: u8,
    incarnation: u64,
    session: SessionId,
    is_stalled: bool,
    reuses_ids: bool,
    /// Its keys are long and many, so that little is needed to fill what waits to be proposed.
    is_verbose: bool,
    last_id: u64,
    unread: Vec<u8>,
    /// Requests without an answer, by their id.
    open: BTreeMap<u64, u32>,
    asked: BTreeMap<u64, Names>,
    held: Vec<(Token, Names)>,
}

struct Crowd {
    simulation: Simulation,
    talkers: Vec<Option<Talker>>,
    indeterminate_count: u64,
}

impl Crowd {
    fn new(seed: u64) -> Self {
        let mut simulation = Simulation::new(seed, 3);
        simulation.run(START_MICROSECONDS);
        let talkers = (0..TALKER_COUNT).map(|_| None).collect();
        Self { simulation, talkers, indeterminate_count: 0 }
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.simulation.world.random.one_in(count)
    }

    /// Where most of them go.
    fn leader(&self) -> Option<(u8, u64)> {
        let slot = self.simulation.leader()?;
        let process = self.simulation.slots[usize::from(slot)].as_ref()?;
        Some((slot, process.incarnation))
    }

    fn open(&mut self) -> Option<Talker> {
        let (slot, _) = self.leader()?;
        let slot = if self.one_in(4) { (slot + 1) % 3 } else { slot };
        let process = self.simulation.slots[usize::from(slot)].as_mut()?;
        Some(Talker {
            slot,
            incarnation: process.incarnation,
            session: process.engine.open()?,
            is_stalled: false,
            reuses_ids: self.one_in(4),
            is_verbose: self.one_in(6),
            last_id: 0,
            unread: Vec::new(),
            open: BTreeMap::new(),
            asked: BTreeMap::new(),
            held: Vec::new(),
        })
    }

    fn names(&mut self, is_verbose: bool) -> Names {
        let random = &mut self.simulation.world.random;
        let (count, width) = if is_verbose { (15, 128) } else { (2, 8) };
        let mut names: Names = (0..count)
            .map(|at| format!("{at:02}-{:0>width$}", random.below(2)).into_bytes())
            .collect();
        names.iter_mut().for_each(|name| name.truncate(128));
        names.sort();
        names
    }

    fn ask(&mut self, talker: &mut Talker) {
        let id = if talker.reuses_ids {
            1 + self.simulation.world.random.below(5)
        } else {
            talker.last_id + 1
        };
        talker.last_id = id;
        *talker.open.entry(id).or_default() += 1;
        let request_id = RequestId::new(id).expect("not 0");
        let mut buffer = [0; REQUEST_SIZE_BYTES_MAX];
        let frame = if let Some((token, names)) = talker.held.pop() {
            let names = names.iter().map(Vec::as_slice);
            encode_release_set(&mut buffer, request_id, token, names)
        } else {
            let names = self.names(talker.is_verbose);
            let wait = self.simulation.world.random.below(3) as u8;
            talker.asked.insert(id, names.clone());
            encode_acquire_set(&mut buffer, request_id, wait, 1, names.iter().map(Vec::as_slice))
        };
        talker.unread.extend_from_slice(frame.expect("valid"));
    }

    /// One turn; `None` when the connection ended with it.
    fn turn(&mut self, mut talker: Talker, may_hang_up: bool) -> Option<Talker> {
        let Talker { slot, incarnation, session, .. } = talker;
        let now = self.simulation.world.now;
        if self.simulation.process(slot, incarnation)?.paused_until > now {
            return Some(talker);
        }
        let size = if talker.is_stalled { 0 } else { talker.unread.len().min(READ_SIZE_BYTES) };
        let input: Vec<u8> = talker.unread.drain(..size).collect();
        let (mut turn, mut out) = (Turn::Serve, Vec::new());
        self.simulation.with(slot, incarnation, |process, now| {
            turn = process.engine.turn(session, &input, now, &mut out);
        });
        if !talker.reuses_ids {
            self.simulation.note_refusals(incarnation, session, &out);
        }
        let mut rest = &out[..];
        let rules = ReplyRules::Cluster { voter_count: 3 };
        while let Step::Complete { value, size } = decode_reply(rest, rules).expect("frames") {
            rest = &rest[size..];
            self.hear(&mut talker, value);
        }
        talker.is_stalled = turn == Turn::Stall;
        let hangs_up = may_hang_up && self.one_in(1_000);
        if hangs_up || matches!(turn, Turn::End(_)) {
            let mut outgoing = Outgoing::default();
            outgoing.push(&out);
            let taken = if hangs_up { out.len() / 2 } else { out.len() };
            outgoing.advance(taken);
            self.simulation.with(slot, incarnation, |process, now| {
                process.engine.close(session, &outgoing, now);
            });
            return None;
        }
        Some(talker)
    }

    fn hear(&mut self, talker: &mut Talker, reply: Reply) {
        let Some(id) = reply.request_id().map(RequestId::get) else { return };
        let open = talker.open.get_mut(&id).filter(|open| **open > 0);
        *open.unwrap_or_else(|| panic!("{reply:?} answers nothing")) -= 1;
        match reply {
            Reply::GrantedSet { token, .. } => {
                talker.held.push((token, talker.asked[&id].clone()));
            }
            Reply::Indeterminate { .. } => self.indeterminate_count += 1,
            _ => {}
        }
    }

    /// Everybody has a turn.
    fn step(&mut self, is_talking: bool) {
        for at in 0..TALKER_COUNT {
            let talker = self.talkers[at].take();
            let talker = if is_talking { talker.or_else(|| self.open()) } else { talker };
            let Some(mut talker) = talker else { continue };
            if is_talking && talker.unread.is_empty() && self.one_in(3) {
                let count = if talker.is_verbose { 60 } else { 8 };
                (0..count).for_each(|_| self.ask(&mut talker));
                if self.one_in(200) {
                    talker.unread.push(u8::MAX);
                }
            }
            self.talkers[at] = self.turn(talker, is_talking);
        }
        let pause = if is_talking { TALKING_MICROSECONDS } else { LISTENING_MICROSECONDS };
        self.simulation.run(pause);
    }

    /// Those who wait for an answer of that process.
    fn unanswered(&self, incarnation: u64) -> Vec<&BTreeMap<u64, u32>> {
        let of_process = |talker: &&Talker| talker.incarnation == incarnation;
        let talkers = self.talkers.iter().flatten().filter(of_process);
        let waits = |open: &&BTreeMap<u64, u32>| open.values().any(|count| *count > 0);
        talkers.map(|talker| &talker.open).filter(waits).collect()
    }
}

fn run(seed: u64) {
    let mut crowd = Crowd::new(seed);
    crowd.simulation.is_faulting = true;
    crowd.simulation.world.after(1, Event::Fault);
    (0..500).for_each(|_| crowd.step(true));
    crowd.simulation.is_faulting = false;
    // Until all has mended, and until what they still had to say is answered.
    (0..300).for_each(|_| crowd.step(false));
    for process in crowd.simulation.slots.iter().flatten() {
        assert_eq!(crowd.unanswered(process.incarnation), [] as [&BTreeMap<u64, u32>; 0]);
    }
    crowd.simulation.is_closing = true;
    crowd.simulation.run(8_000_000);
    for process in crowd.simulation.slots.iter().flatten() {
        let locks = &process.engine.locks;
        assert!(locks.unanswered.is_empty(), "{:?}", locks.unanswered);
        assert_eq!((process.engine.sessions.in_flight_count(), locks.pending_size_bytes), (0, 0));
        let table = &locks.replica.table;
        table.check_invariants();
        assert_eq!((table.grant_count(), table.waiter_count()), (0, 0), "left behind");
    }
    crowd.simulation.check_records();
}

#[test]
fn every_request_is_answered_once_whatever_breaks() {
    super::seeds::run(3, run);
}

#[test]
fn a_planned_stop_leaves_nothing_that_was_pipelined_in_doubt() {
    for seed in 0..3 {
        let mut crowd = Crowd::new(seed);
        (0..100).for_each(|_| crowd.step(true));
        let (leader, incarnation) = crowd.leader().expect("nothing breaks");
        assert!(!crowd.unanswered(incarnation).is_empty(), "seed {seed}: nobody waits");
        crowd.simulation.with(leader, incarnation, |process, now| {
            process.engine.begin_hand_over(now);
        });
        // They talk on for a while, and then they hear what became of it.
        (0..50).for_each(|_| crowd.step(true));
        (0..50).for_each(|_| crowd.step(false));
        assert_ne!(crowd.simulation.leader(), Some(leader), "seed {seed}");
        assert_eq!(crowd.unanswered(incarnation), [] as [&BTreeMap<u64, u32>; 0], "seed {seed}");
        assert_eq!(crowd.indeterminate_count, 0, "seed {seed}");
    }
}
