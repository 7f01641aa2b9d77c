//! A client: one connection to every slot, one lock at a time, and what it must never see.

use super::invariants::{Arrival, Held};
use super::net::Random;
use std::collections::BTreeMap;
use ticketing_wire_codec::limits::REQUEST_SIZE_BYTES_MAX;
use ticketing_wire_codec::{
    ErrorCode, Reply, ReplyRules, RequestId, Step, Token, decode_reply, encode_acquire,
    encode_acquire_set, encode_release, encode_release_set,
};

/// Keys that all clients want.
pub(super) const KEY_COUNT: u64 = 3;
/// Longest lease asked for, in seconds.
const LEASE_SECONDS_MAX: u64 = 3;
/// The lease asked for in calm, when all locks are released: what nobody holds and nobody has taken
/// back would be there for longer than the simulation.
const LEASE_SECONDS_IN_CALM: u64 = 60;
/// Longest wait asked for, in seconds.
const WAIT_SECONDS_MAX: u64 = 3;

/// How long an answer may take beyond the wait, in microseconds: while things break and mend, and
/// in calm.
const LATENESS_MAX: u64 = 15_000_000;
const LATENESS_IN_CALM_MAX: u64 = 500_000;

/// What a client is at.
#[derive(Clone, Debug)]
enum Activity {
    Idle,
    Acquiring(Acquiring),
    Holding {
        held: Held,
    },
    /// Its release was not done.
    Refused {
        held: Held,
    },
    Releasing {
        slot: u8,
        id: u64,
        sent: u64,
        held: Held,
    },
}

/// A request for locks.
#[derive(Clone, Debug)]
struct Acquiring {
    slot: u8,
    id: u64,
    keys: u8,
    sent: u64,
    lease: u64,
    wait: u64,
    arrival: Arrival,
}

/// What a client wants to do now.
pub(super) enum Wish {
    /// Send these bytes to that slot.
    Send(u8, Vec<u8>),
    /// Nothing.
    Wait,
}

/// One client.
pub(super) struct Client {
    activity: Activity,
    pub(super) leader: Option<u8>,
    slot_count: u8,
    next_slot: u8,
    /// Request ids, by slot; they count up on each connection.
    next_id: Vec<u64>,
    /// What was answered how on the present connections.
    answered: BTreeMap<(u8, u64), Reply>,
    buffers: Vec<Vec<u8>>,
    pub(super) granted_count: u64,
    pub(super) moved_count: u64,
    pub(super) indeterminate_count: u64,
    /// Grants that have just been told.
    pub(super) told: Vec<Held>,
    /// Grants that are just over.
    pub(super) ended: Vec<Held>,
}

impl Client {
    pub(super) fn new(slot_count: u8) -> Self {
        Self {
            activity: Activity::Idle,
            leader: None,
            slot_count,
            next_slot: 0,
            next_id: vec![1; usize::from(slot_count)],
            answered: BTreeMap::new(),
            buffers: vec![Vec::new(); usize::from(slot_count)],
            granted_count: 0,
            moved_count: 0,
            indeterminate_count: 0,
            told: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// What it does next; asked every now and then. Since `calm` nothing has broken.
    pub(super) fn act(&mut self, now: u64, calm: u64, random: &mut Random) -> Wish {
        let lateness_max = |sent| if sent >= calm { LATENESS_IN_CALM_MAX } else { LATENESS_MAX };
        match self.activity.clone() {
            Activity::Idle => self.acquire(now, now >= calm, random),
            Activity::Holding { held } if now >= held.until => {
                self.ended.push(held);
                self.activity = Activity::Idle;
                Wish::Wait
            }
            // Some locks are kept until their lease ends.
            Activity::Holding { held }
                if (now >= calm || held.token % 3 > 0) && random.one_in(3) =>
            {
                self.release(now, held)
            }
            Activity::Acquiring(Acquiring { sent, wait, .. }) => {
                // Clocks of nodes may run 10 % slow.
                let end = sent + wait * 1_000_000 * 10 / 9 + lateness_max(sent);
                assert!(now < end, "no answer to {:?} at {now}", self.activity);
                Wish::Wait
            }
            Activity::Releasing { sent, .. } => {
                let end = sent + lateness_max(sent);
                assert!(now < end, "no answer to {:?} at {now}", self.activity);
                Wish::Wait
            }
            Activity::Refused { held } => self.release(now, held),
            Activity::Holding { .. } => Wish::Wait,
        }
    }

    /// Whether it neither holds nor asks for anything.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.activity, Activity::Idle)
    }

    /// Whether it has asked for a release that is not confirmed yet.
    pub(super) fn is_releasing(&self) -> bool {
        matches!(self.activity, Activity::Releasing { .. })
    }

    /// Its request has come before that process.
    pub(super) fn arrived(&mut self, slot: u8, arrival: Arrival) {
        if let Activity::Acquiring(acquiring) = &mut self.activity
            && acquiring.slot == slot
        {
            acquiring.arrival = arrival;
        }
    }

    fn slot(&mut self) -> u8 {
        self.leader.unwrap_or_else(|| {
            self.next_slot = (self.next_slot + 1) % self.slot_count;
            self.next_slot
        })
    }

    fn id(&mut self, slot: u8) -> u64 {
        let id = &mut self.next_id[usize::from(slot)];
        *id += 1;
        *id - 1
    }

    fn acquire(&mut self, now: u64, is_calm: bool, random: &mut Random) -> Wish {
        let slot = self.slot();
        let id = self.id(slot);
        let mut keys = 1 << random.below(KEY_COUNT);
        if random.one_in(4) {
            keys |= 1 << random.below(KEY_COUNT);
        }
        let lease =
            if is_calm { LEASE_SECONDS_IN_CALM } else { 1 + random.below(LEASE_SECONDS_MAX) };
        let wait = random.below(WAIT_SECONDS_MAX + 1);
        let arrival = Arrival::default();
        self.activity =
            Activity::Acquiring(Acquiring { slot, id, keys, sent: now, lease, wait, arrival });
        let mut buffer = [0; REQUEST_SIZE_BYTES_MAX];
        let request_id = RequestId::new(id).expect("from 1");
        let (wait, lease) = (wait as u8, lease as u8);
        let names = names(keys);
        let frame = match &names[..] {
            [name] => encode_acquire(&mut buffer, request_id, wait, lease, name),
            _ => encode_acquire_set(
                &mut buffer,
                request_id,
                wait,
                lease,
                names.iter().map(Vec::as_slice),
            ),
        };
        Wish::Send(slot, frame.expect("valid").to_vec())
    }

    fn release(&mut self, now: u64, mut held: Held) -> Wish {
        let slot = self.slot();
        let id = self.id(slot);
        // From here on it does not rely on it.
        held.until = held.until.min(now);
        let mut buffer = [0; REQUEST_SIZE_BYTES_MAX];
        let request_id = RequestId::new(id).expect("from 1");
        let token = Token::new(held.token).expect("granted");
        let names = names(held.keys);
        let frame = match &names[..] {
            [name] => encode_release(&mut buffer, request_id, token, name),
            _ => {
                encode_release_set(&mut buffer, request_id, token, names.iter().map(Vec::as_slice))
            }
        };
        self.activity = Activity::Releasing { slot, id, sent: now, held };
        Wish::Send(slot, frame.expect("valid").to_vec())
    }

    /// A new connection to a slot begins, for the request that is about to be sent.
    pub(super) fn disconnected_before(&mut self, slot: u8) {
        self.buffers[usize::from(slot)].clear();
        self.answered.retain(|(of, _), _| *of != slot);
    }

    /// Its connection to a slot ended: what was sent there may have happened.
    pub(super) fn disconnected(&mut self, slot: u8) {
        self.buffers[usize::from(slot)].clear();
        self.next_id[usize::from(slot)] = 1;
        self.answered.retain(|(of, _), _| *of != slot);
        if self.leader == Some(slot) {
            self.leader = None;
        }
        match self.activity.clone() {
            Activity::Acquiring(Acquiring { slot: of, .. }) if of == slot => {
                self.indeterminate_count += 1;
                self.activity = Activity::Idle;
            }
            Activity::Releasing { slot: of, held, .. } if of == slot => {
                self.ended.push(held);
                self.activity = Activity::Idle;
            }
            _ => {}
        }
    }

    /// Takes reply bytes.
    pub(super) fn receive(&mut self, slot: u8, bytes: &[u8], now: u64) {
        let mut buffer = std::mem::take(&mut self.buffers[usize::from(slot)]);
        buffer.extend_from_slice(bytes);
        let mut at = 0;
        let rules = ReplyRules::Cluster { voter_count: self.slot_count };
        while let Step::Complete { value, size } =
            decode_reply(&buffer[at..], rules).expect("a server sends whole, valid frames")
        {
            at += size;
            self.reply(slot, value, now);
        }
        buffer.drain(..at);
        self.buffers[usize::from(slot)] = buffer;
    }

    fn reply(&mut self, slot: u8, reply: Reply, now: u64) {
        let Some(request_id) = reply.request_id() else {
            if let Reply::Leader { leader } = reply {
                self.leader = leader.map(|leader| leader.get());
            }
            return;
        };
        let before = self.answered.insert((slot, request_id.get()), reply);
        assert_eq!(before, None, "answered twice: {before:?}, then {reply:?}");
        match self.activity.clone() {
            Activity::Acquiring(acquiring)
                if acquiring.slot == slot && acquiring.id == request_id.get() =>
            {
                self.activity = Activity::Idle;
                self.acquired(reply, &acquiring, now);
            }
            Activity::Releasing { slot: of, id, held, .. }
                if of == slot && id == request_id.get() =>
            {
                self.activity = Activity::Idle;
                self.released(reply, held);
            }
            other => panic!("{reply:?} answers nothing of {other:?}"),
        }
    }

    fn released(&mut self, reply: Reply, held: Held) {
        match reply {
            Reply::Moved { leader, .. } => {
                self.leader = leader.map(|leader| leader.get());
                self.activity = Activity::Refused { held };
            }
            Reply::Refused { code: ErrorCode::NoLeader | ErrorCode::NotActive, .. } => {
                self.leader = None;
                self.activity = Activity::Refused { held };
            }
            Reply::Indeterminate { .. }
            | Reply::NotHeld { .. }
            | Reply::Released { .. }
            | Reply::ReleasedSet { .. } => self.ended.push(held),
            other => panic!("{other:?} does not answer a release"),
        }
    }

    fn acquired(&mut self, reply: Reply, request: &Acquiring, now: u64) {
        let Acquiring { keys, sent, lease, wait, arrival, .. } = *request;
        match reply {
            Reply::Granted { token, .. } | Reply::GrantedSet { token, .. } => {
                let is_set = matches!(reply, Reply::GrantedSet { .. });
                assert_eq!(is_set, keys.count_ones() > 1, "{reply:?} answers {request:?}");
                self.granted_count += 1;
                let until = (sent + lease * 1_000_000).max(now);
                let held = Held { keys, token: token.get(), arrival, sent, from: now, until };
                self.told.push(held.clone());
                if until > now {
                    self.activity = Activity::Holding { held };
                } else {
                    self.ended.push(held);
                }
            }
            Reply::TimedOut { .. } => {
                // Clocks of nodes may run 10 % fast.
                assert!(now + 1_000 >= sent + wait * 900_000, "timed out early");
            }
            Reply::Moved { leader, .. } => {
                self.moved_count += 1;
                self.leader = leader.map(|leader| leader.get());
            }
            Reply::Indeterminate { .. } => {
                self.indeterminate_count += 1;
                self.leader = None;
            }
            Reply::Refused { code: ErrorCode::NoLeader | ErrorCode::NotActive, .. } => {
                self.leader = None;
            }
            Reply::Busy { .. } => {}
            other => panic!("{other:?} does not answer an acquire"),
        }
    }

    /// Whether it waits for an answer, and from which slot.
    pub(super) fn waits_for(&self) -> Option<u8> {
        match self.activity {
            Activity::Acquiring(Acquiring { slot, .. }) | Activity::Releasing { slot, .. } => {
                Some(slot)
            }
            Activity::Idle | Activity::Holding { .. } | Activity::Refused { .. } => None,
        }
    }

    /// The lock it relies on now.
    pub(super) fn holding(&self) -> Option<&Held> {
        match &self.activity {
            Activity::Holding { held } => Some(held),
            _ => None,
        }
    }
}

/// Ascending, as sets have to be.
fn names(keys: u8) -> Vec<Vec<u8>> {
    let is_in = |key: &u64| keys & 1 << key != 0;
    (0..KEY_COUNT).filter(is_in).map(|key| format!("key-{key}").into_bytes()).collect()
}
