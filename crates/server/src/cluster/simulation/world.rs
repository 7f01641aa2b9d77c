//! Processes, their links, their clients, and what must hold of them together.

use super::client::{Client, Wish};
use super::invariants::{Arrival, Records};
use super::net::{LinkState, World};
use crate::cluster::life::Birth;
use crate::cluster::replicated::{NodeSettings, Replicated};
use crate::engine::{Backlog, Engine, Outgoing, Turn};
use crate::peer::convert::{decode, decode_head};
use crate::peer::limits::FRAME_HEAD_SIZE_BYTES;
use crate::peer::message::PeerMessage;
use std::collections::BTreeMap;
use ticketing_lock_core::{Instant, Owner, SessionId, TableLimits};
use ticketing_raft_log::{Message, NodeId, RaftLog, Role, SnapshotOutcome};
use ticketing_wire_codec::{Reply, ReplyRules, Step, decode_reply};

/// How many clients there are.
const CLIENT_COUNT: usize = 6;
/// How often a client looks what to do, in microseconds.
const CLIENT_PAUSE: u64 = 20_000;
/// The bootstrap window of the simulated identity.
const WINDOW_MICROSECONDS: u64 = 900_000_000;
/// Unix time at the start.
const UNIX_MILLISECONDS: u64 = 1_900_000_000_000;

/// One process in a slot.
pub(super) struct Process {
    pub(super) incarnation: u64,
    pub(super) engine: Engine<Replicated>,
    pub(super) born: u64,
    /// Its clock's rate in percent.
    pub(super) rate: u64,
    pub(super) paused_until: u64,
    pub(super) backlog: Vec<Event>,
    /// The session of each client that is connected.
    pub(super) sessions: BTreeMap<usize, SessionId>,
}

impl Process {
    /// What its clock shows.
    pub(super) fn local(&self, now: u64) -> Instant {
        Instant::from_nanos((now - self.born) * 10 * self.rate)
    }
}

/// What happens.
#[derive(Clone)]
pub(super) enum Event {
    Advance {
        slot: u8,
        incarnation: u64,
    },
    Client {
        client: usize,
    },
    /// Client bytes for a process, on one connection.
    Request {
        slot: u8,
        incarnation: u64,
        client: usize,
        session: SessionId,
        bytes: Vec<u8>,
    },
    /// Reply bytes for a client, on one connection.
    Replies {
        slot: u8,
        incarnation: u64,
        client: usize,
        session: SessionId,
        bytes: Vec<u8>,
    },
    Frames {
        epoch: u64,
        from: u8,
        incarnation: u64,
        to: u8,
        bytes: Vec<u8>,
    },
    Snapshot {
        epoch: u64,
        from: u8,
        incarnation: u64,
        group: u64,
        message: Box<Message>,
    },
    SnapshotEnd {
        slot: u8,
        incarnation: u64,
        to: NodeId,
        outcome: SnapshotOutcome,
    },
    PeerClosed {
        slot: u8,
        incarnation: u64,
        peer: u8,
        peer_incarnation: u64,
    },
    Connect {
        slot: u8,
    },
    Dial {
        from: u8,
        to: u8,
    },
    Fault,
    Resume {
        slot: u8,
        incarnation: u64,
    },
    Heal {
        from: u8,
        to: u8,
    },
    /// A process that was told to stop looks whether it may.
    Stop {
        slot: u8,
        incarnation: u64,
    },
}

/// A cluster and its clients.
pub(super) struct Simulation {
    pub(super) world: World<Event>,
    pub(super) slots: Vec<Option<Process>>,
    pub(super) clients: Vec<Client>,
    pub(super) trace: u64,
    pub(super) is_faulting: bool,
    /// Whose process was told to stop and has not yet.
    pub(super) stopping: Option<u8>,
    /// Since when nothing has broken.
    pub(super) calm: u64,
    /// Clients finish what they are at and ask for nothing more.
    pub(super) is_closing: bool,
    incarnations: u64,
    arrivals: u64,
    /// Replies on their way, by client.
    flying: Vec<u32>,
    /// Until when the cluster may begin.
    window: u64,
    pub(super) seed: u64,
    /// By applied index, the first checksum seen there.
    histories: BTreeMap<u64, u64>,
    records: Records,
}

impl Simulation {
    pub(super) fn new(seed: u64, slot_count: u8) -> Self {
        Self::with_window(seed, slot_count, WINDOW_MICROSECONDS)
    }

    pub(super) fn with_window(seed: u64, slot_count: u8, window: u64) -> Self {
        let mut simulation = Self {
            world: World::new(seed ^ 0x5117, usize::from(slot_count)),
            slots: (0..slot_count).map(|_| None).collect(),
            clients: (0..CLIENT_COUNT).map(|_| Client::new(slot_count)).collect(),
            trace: 0,
            is_faulting: false,
            stopping: None,
            calm: u64::MAX,
            is_closing: false,
            incarnations: 0,
            arrivals: 0,
            flying: vec![0; CLIENT_COUNT],
            window,
            seed,
            histories: BTreeMap::new(),
            records: Records::default(),
        };
        for slot in 0..slot_count {
            simulation.start(slot);
        }
        for client in 0..CLIENT_COUNT {
            simulation.world.after(1_000 * client as u64, Event::Client { client });
        }
        simulation
    }

    pub(super) fn start(&mut self, slot: u8) {
        self.incarnations += 1;
        let incarnation = self.incarnations;
        let born = self.world.now;
        let window_left = self.window.saturating_sub(born);
        let birth = Birth {
            slot,
            slot_count: self.slots.len() as u8,
            incarnation,
            bootstrap_until: Instant::from_nanos(window_left * 1_000),
            was_member: false,
        };
        let settings = NodeSettings {
            birth,
            table: TableLimits { key_count_max: 1_000, waiters_per_key_max: 100 },
            hash_seed: [7; 16],
            seed: self.seed ^ incarnation << 8,
            unix_milliseconds_at_zero: UNIX_MILLISECONDS + born / 1_000,
        };
        let locks = Replicated::new(settings, Instant::from_nanos(0));
        let engine = Engine::over(locks, 100, 100);
        let rate = 90 + self.world.random.below(21);
        self.slots[usize::from(slot)] = Some(Process {
            incarnation,
            engine,
            born,
            rate,
            paused_until: 0,
            backlog: Vec::new(),
            sessions: BTreeMap::new(),
        });
        self.world.after(1, Event::Advance { slot, incarnation });
        self.world.after(20_000, Event::Connect { slot });
    }

    pub(super) fn run(&mut self, duration: u64) {
        let end = self.world.now + duration;
        while let Some(event) = self.world.next(end) {
            self.trace = self.trace.rotate_left(5) ^ self.world.now.wrapping_mul(0x9E37_79B9);
            self.happen(event);
        }
    }

    /// The process in a slot if it is that one and lives.
    pub(super) fn process(&mut self, slot: u8, incarnation: u64) -> Option<&mut Process> {
        self.slots[usize::from(slot)].as_mut().filter(|process| process.incarnation == incarnation)
    }

    /// Runs a call on a live process's engine at its own time, then carries out what came of it.
    pub(super) fn with(
        &mut self,
        slot: u8,
        incarnation: u64,
        call: impl FnOnce(&mut Process, Instant),
    ) {
        let now = self.world.now;
        if let Some(process) = self.process(slot, incarnation) {
            let local = process.local(now);
            call(process, local);
            self.carry_out(slot);
        }
    }

    fn happen(&mut self, event: Event) {
        if let Some((slot, incarnation)) = self.concerned(&event) {
            let now = self.world.now;
            let Some(process) = self.process(slot, incarnation) else { return };
            if process.paused_until > now && !matches!(event, Event::Resume { .. }) {
                process.backlog.push(event);
                return;
            }
        }
        match event {
            Event::Advance { slot, incarnation } => self.advance(slot, incarnation),
            Event::Client { client } => self.client(client),
            Event::Request { slot, incarnation, client, session, bytes } => {
                if self.is_connected(slot, incarnation, client, session) {
                    self.request(slot, incarnation, client, session, &bytes);
                }
            }
            Event::Replies { slot, incarnation, client, session, bytes } => {
                self.flying[client] -= 1;
                let now = self.world.now;
                if self.is_connected(slot, incarnation, client, session) {
                    self.clients[client].receive(slot, &bytes, now);
                    self.record(client);
                    self.check_holders();
                }
            }
            Event::Frames { epoch, from, incarnation, to, bytes } => {
                self.frames(epoch, from, incarnation, to, &bytes);
            }
            Event::Snapshot { epoch, from, incarnation, group, message } => {
                self.snapshot(epoch, from, incarnation, group, *message);
            }
            Event::SnapshotEnd { slot, incarnation, to, outcome } => {
                self.with(slot, incarnation, |process, now| {
                    process.engine.snapshot_sent(to, outcome, now);
                });
            }
            Event::PeerClosed { slot, incarnation, peer, peer_incarnation } => {
                self.with(slot, incarnation, |process, now| {
                    process.engine.peer_closed(peer, peer_incarnation, now);
                });
            }
            Event::Connect { slot } => self.connect_all(slot),
            Event::Dial { from, to } => self.connect(from, to),
            Event::Fault => self.fault(),
            Event::Resume { slot, incarnation } => {
                let backlog = self.process(slot, incarnation).map(|process| {
                    process.paused_until = 0;
                    std::mem::take(&mut process.backlog)
                });
                for event in backlog.unwrap_or_default() {
                    self.happen(event);
                }
            }
            Event::Heal { from, to } => self.heal_link(from, to),
            Event::Stop { slot, incarnation } => self.go_on_stopping(slot, incarnation),
        }
    }

    /// The process that has to run for an event. What peers sent waits in its kernel until then.
    fn concerned(&self, event: &Event) -> Option<(u8, u64)> {
        let to = match event {
            Event::Frames { to, .. } => *to,
            Event::Snapshot { message, .. } => message.to.slot(),
            _ => return event.concerns(),
        };
        self.slots[usize::from(to)].as_ref().map(|process| (to, process.incarnation))
    }

    fn is_paused(&self, slot: u8) -> bool {
        let process = self.slots[usize::from(slot)].as_ref();
        process.is_some_and(|process| process.paused_until > self.world.now)
    }

    fn advance(&mut self, slot: u8, incarnation: u64) {
        self.with(slot, incarnation, |process, now| process.engine.advance(now));
        let now = self.world.now;
        if let Some(process) = self.process(slot, incarnation) {
            let local = (now - process.born) * 10 * process.rate;
            let next = process.engine.next_deadline().map_or(local, |next| next.as_nanos());
            let wait = next.saturating_sub(local) / (10 * process.rate) + 1;
            let wait = wait.min(10_000);
            self.world.after(wait, Event::Advance { slot, incarnation });
        }
    }

    /// Opens the links from and to a slot, where the network lets it.
    fn connect_all(&mut self, slot: u8) {
        for other in 0..self.slots.len() as u8 {
            if other != slot {
                self.connect(slot, other);
                self.connect(other, slot);
            }
        }
    }

    fn connect(&mut self, from: u8, to: u8) {
        // Nobody shakes hands there, so it is tried again.
        if self.is_paused(from) || self.is_paused(to) {
            return self.world.after(100_000, Event::Dial { from, to });
        }
        let is_up = self.world.is_up(from, to) && self.world.is_up(to, from);
        let dialer = self.slots[usize::from(from)].as_ref().map(|process| process.incarnation);
        let acceptor = self.slots[usize::from(to)].as_ref().map(|process| process.incarnation);
        if let (true, Some(dialer), Some(acceptor)) = (is_up, dialer, acceptor) {
            self.with(from, dialer, |process, _| process.engine.set_link(to, Some(acceptor)));
            self.with(to, acceptor, |process, _| process.engine.peer_connected(from, dialer));
        }
    }

    fn frames(&mut self, epoch: u64, from: u8, incarnation: u64, to: u8, bytes: &[u8]) {
        if !self.world.arrives(from, to, epoch) {
            return;
        }
        let Some(target) = self.slots[usize::from(to)].as_ref().map(|p| p.incarnation) else {
            return;
        };
        let mut rest = bytes;
        while let Some((head, after)) = rest.split_first_chunk::<FRAME_HEAD_SIZE_BYTES>() {
            let (kind, size) = decode_head(*head).expect("a node sends whole frames");
            let (payload, after) = after.split_at(size);
            rest = after;
            let payload = bytes::Bytes::copy_from_slice(payload);
            let message = decode(kind, payload).expect("a node sends valid messages");
            self.with(to, target, |process, now| {
                let taken = process.engine.peer_message(from, incarnation, message, now);
                taken.expect("an honest peer sends nothing bad");
            });
        }
    }

    fn snapshot(&mut self, epoch: u64, from: u8, incarnation: u64, group: u64, message: Message) {
        let to = message.to;
        let target = self.slots[usize::from(to.slot())].as_ref().map(|p| p.incarnation);
        let arrives = self.world.arrives(from, to.slot(), epoch);
        let outcome = match target {
            Some(target) if arrives => {
                let message = PeerMessage::Raft { group, message };
                self.with(to.slot(), target, |process, now| {
                    let taken = process.engine.peer_message(from, incarnation, message, now);
                    taken.expect("an honest peer sends nothing bad");
                });
                SnapshotOutcome::Sent
            }
            _ => SnapshotOutcome::Failed,
        };
        let slot = from;
        self.world.after(1_000, Event::SnapshotEnd { slot, incarnation, to, outcome });
    }

    /// Whether that connection of a client is still there. What was sent on another one is lost.
    fn is_connected(
        &mut self,
        slot: u8,
        incarnation: u64,
        client: usize,
        session: SessionId,
    ) -> bool {
        let process = self.process(slot, incarnation);
        process.is_some_and(|process| process.sessions.get(&client) == Some(&session))
    }

    fn client(&mut self, client: usize) {
        let pause = CLIENT_PAUSE / 2 + self.world.random.below(CLIENT_PAUSE);
        self.world.after(pause, Event::Client { client });
        let now = self.world.now;
        if self.is_closing && self.clients[client].is_idle() {
            return;
        }
        let may_hang_up =
            self.may_hang_up(client) && (self.is_faulting || self.flying[client] == 0);
        if may_hang_up && self.world.random.one_in(100) {
            self.hang_up(client);
        }
        let wish = self.clients[client].act(now, self.calm, &mut self.world.random);
        self.record(client);
        let Wish::Send(slot, bytes) = wish else { return };
        let Some(session) = self.ensure_session(slot, client) else {
            self.clients[client].disconnected(slot);
            return;
        };
        let process = self.slots[usize::from(slot)].as_ref().expect("has a session");
        let incarnation = process.incarnation;
        let delay = 50 + self.world.random.below(500);
        self.world.after(delay, Event::Request { slot, incarnation, client, session, bytes });
    }

    fn ensure_session(&mut self, slot: u8, client: usize) -> Option<SessionId> {
        let process = self.slots[usize::from(slot)].as_mut()?;
        if let Some(session) = process.sessions.get(&client) {
            return Some(*session);
        }
        let session = process.engine.open()?;
        process.sessions.insert(client, session);
        self.clients[client].disconnected_before(slot);
        Some(session)
    }

    fn request(
        &mut self,
        slot: u8,
        incarnation: u64,
        client: usize,
        session: SessionId,
        bytes: &[u8],
    ) {
        let mut out = Vec::new();
        if !bytes.is_empty() {
            self.arrivals += 1;
            let arrival = Arrival { incarnation, number: self.arrivals };
            self.clients[client].arrived(slot, arrival);
        }
        self.with(slot, incarnation, |process, now| {
            let turn = process.engine.turn(session, bytes, now, &mut out);
            assert!(!matches!(turn, Turn::End(_)), "clients keep to the protocol");
        });
        self.note_refusals(incarnation, session, &out);
        self.reply(slot, incarnation, client, session, out);
    }

    pub(super) fn note_refusals(&mut self, incarnation: u64, session: SessionId, replies: &[u8]) {
        let rules = ReplyRules::Cluster { voter_count: self.slots.len() as u8 };
        let mut rest = replies;
        while let Ok(Step::Complete { value, size }) = decode_reply(rest, rules) {
            rest = &rest[size..];
            let request_id = match value {
                Reply::Busy { request_id }
                | Reply::Moved { request_id, .. }
                | Reply::Refused { request_id, .. }
                | Reply::TimedOut { request_id } => request_id.get(),
                _ => continue,
            };
            self.records.refused(incarnation, Owner { session, request_id });
        }
    }

    /// Whether a client's connections may end. What its socket has taken, or a release that nobody
    /// has read, may then be lost for a lease; in calm nothing shall be.
    fn may_hang_up(&self, client: usize) -> bool {
        let in_calm = self.calm <= self.world.now && !self.clients[client].is_releasing();
        self.is_faulting || in_calm
    }

    /// A client's connections end, whatever it waits for.
    fn hang_up(&mut self, client: usize) {
        for slot in 0..self.slots.len() as u8 {
            let Some(process) = &self.slots[usize::from(slot)] else { continue };
            if process.paused_until <= self.world.now {
                self.close(slot, process.incarnation, client, &Outgoing::default());
            }
        }
    }

    /// A client's connection ends before the socket has taken those replies.
    fn close(&mut self, slot: u8, incarnation: u64, client: usize, outgoing: &Outgoing) {
        let mut was_open = false;
        self.with(slot, incarnation, |process, now| {
            if let Some(session) = process.sessions.remove(&client) {
                was_open = true;
                process.engine.set_backlog(session, Backlog::Moving, now);
                process.engine.close(session, outgoing, now);
            }
        });
        if was_open {
            self.clients[client].disconnected(slot);
            self.record(client);
        }
    }

    fn reply(
        &mut self,
        slot: u8,
        incarnation: u64,
        client: usize,
        session: SessionId,
        bytes: Vec<u8>,
    ) {
        if bytes.is_empty() {
            return;
        }
        // Now and then the client is gone before its replies are taken.
        if self.may_hang_up(client) && self.world.random.one_in(100) {
            let mut outgoing = Outgoing::default();
            outgoing.push(&bytes);
            return self.close(slot, incarnation, client, &outgoing);
        }
        let delay = 50 + self.world.random.below(500);
        self.flying[client] += 1;
        self.world.after(delay, Event::Replies { slot, incarnation, client, session, bytes });
    }

    /// Delivers what an engine has for peers and clients, and checks it.
    fn carry_out(&mut self, slot: u8) {
        let slot_count = self.slots.len() as u8;
        let Some(process) = self.slots[usize::from(slot)].as_mut() else { return };
        let incarnation = process.incarnation;
        let frames: Vec<_> =
            (0..slot_count).map(|to| (to, process.engine.take_frames(to))).collect();
        let snapshots = process.engine.take_snapshots();
        let called: Vec<u32> = process.engine.drain_called().collect();
        let called: Vec<_> = process
            .sessions
            .iter()
            .filter(|(_, session)| called.contains(&session.index()))
            .map(|(client, session)| (*client, *session))
            .collect();
        let is_over = process.engine.exit().is_some();
        self.note_grants(slot);
        self.check_history(slot);
        for (to, bytes) in frames.into_iter().filter(|(_, bytes)| !bytes.is_empty()) {
            self.world.send(slot, to, |epoch| Event::Frames {
                epoch,
                from: slot,
                incarnation,
                to,
                bytes,
            });
        }
        for (group, message) in snapshots {
            let to = message.to;
            let up = self.world.is_up(slot, to.slot());
            let message = Box::new(message);
            if up {
                self.world.send(slot, to.slot(), |epoch| Event::Snapshot {
                    epoch,
                    from: slot,
                    incarnation,
                    group,
                    message,
                });
            } else {
                let outcome = SnapshotOutcome::Failed;
                self.world.after(500_000, Event::SnapshotEnd { slot, incarnation, to, outcome });
            }
        }
        for (client, session) in called {
            let delay = 1 + self.world.random.below(50);
            let bytes = Vec::new();
            self.world.after(delay, Event::Request { slot, incarnation, client, session, bytes });
        }
        if is_over {
            // Told that its slot is taken, it exits and is started again.
            self.crash(slot);
        }
    }

    fn note_grants(&mut self, slot: u8) {
        let Some(process) = self.slots[usize::from(slot)].as_mut() else { return };
        let locks = &mut process.engine.locks;
        if let Some(log) = locks.log.as_ref().filter(|log| log.role() == Role::Leader) {
            self.records.leads(log.term(), process.incarnation);
        }
        for (term, owner) in locks.replica.granted.drain(..) {
            self.records.granted(term, owner);
        }
    }

    fn check_history(&mut self, slot: u8) {
        let Some(process) = self.slots[usize::from(slot)].as_ref() else { return };
        let Some(log) = process.engine.locks.log.as_ref() else { return };
        let index = log.applied();
        let history = process.engine.locks.replica.table.history();
        assert_eq!(process.engine.locks.replica.diverged_at, None);
        if index > 0 {
            let first = *self.histories.entry(index).or_insert(history);
            assert_eq!(first, history, "{} differs at index {index}", log.id());
        }
    }

    /// Notes what a client was told and what it no longer relies on.
    pub(super) fn record(&mut self, client: usize) {
        let client = &mut self.clients[client];
        for held in client.told.drain(..) {
            self.records.told(&held);
        }
        for held in client.ended.drain(..) {
            self.records.ended(held);
        }
    }

    /// Checks everything that all clients were told.
    pub(super) fn check_records(&self) {
        self.records.check(self.clients.iter().filter_map(Client::holding));
    }

    fn check_holders(&self) {
        let now = self.world.now;
        let holding: Vec<_> = self
            .clients
            .iter()
            .filter_map(Client::holding)
            .filter(|held| held.until > now)
            .collect();
        for (at, held) in holding.iter().enumerate() {
            for other in &holding[..at] {
                assert_eq!(held.keys & other.keys, 0, "two holders now: {held:?} and {other:?}");
            }
        }
    }

    pub(super) fn leader(&self) -> Option<u8> {
        let logs =
            self.slots.iter().flatten().filter_map(|process| process.engine.locks.log.as_ref());
        logs.filter(|log| log.role() == Role::Leader)
            .max_by_key(|log| log.term())
            .map(|log| log.id().slot())
    }

    /// The latest that anybody knows.
    pub(super) fn term(&self) -> u64 {
        let logs =
            self.slots.iter().flatten().filter_map(|process| process.engine.locks.log.as_ref());
        logs.map(RaftLog::term).max().unwrap_or(0)
    }

    pub(super) fn granted_count(&self) -> u64 {
        self.clients.iter().map(|client| client.granted_count).sum()
    }

    /// Both directions of a cut link work again; whoever was connected over it connects anew.
    pub(super) fn heal_link(&mut self, from: u8, to: u8) {
        self.world.set_link(from, to, LinkState::Up);
        self.break_link(from, to);
        self.connect(from, to);
        self.connect(to, from);
    }

    /// The connections of a pair end, and both sides notice.
    pub(super) fn break_link(&mut self, one: u8, two: u8) {
        for (slot, peer) in [(one, two), (two, one)] {
            let own = self.slots[usize::from(slot)].as_ref().map(|process| process.incarnation);
            let theirs = self.slots[usize::from(peer)].as_ref().map(|process| process.incarnation);
            let state =
                if self.world.is_up(slot, peer) { LinkState::Up } else { LinkState::Silent };
            self.world.set_link(slot, peer, state);
            if let (Some(incarnation), Some(peer_incarnation)) = (own, theirs) {
                self.with(slot, incarnation, |process, now| {
                    process.engine.set_link(peer, None);
                    process.engine.peer_closed(peer, peer_incarnation, now);
                });
            }
        }
    }
}

impl Event {
    /// The process that has to run for it.
    fn concerns(&self) -> Option<(u8, u64)> {
        match self {
            Self::Advance { slot, incarnation }
            | Self::Request { slot, incarnation, .. }
            | Self::SnapshotEnd { slot, incarnation, .. }
            | Self::PeerClosed { slot, incarnation, .. }
            | Self::Resume { slot, incarnation }
            | Self::Stop { slot, incarnation } => Some((*slot, *incarnation)),
            _ => None,
        }
    }
}
