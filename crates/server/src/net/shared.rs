//! The engine behind its lock, and the tasks that wait for it.

use super::engines::Engines;
use crate::clock::Clock;
use crate::cluster::replicated::Replicated;
use crate::engine::{Backlog, Counters, Durability, Engine, Outgoing, Persisted, Turn};
use crate::limits::{READ_SIZE_BYTES, STANDSTILL_TIME_MIN, TIMER_SLEEP_MAX};
use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;
use ticketing_lock_core::{Instant, SessionId};
use ticketing_raft_log::limits::SLOT_COUNT_MAX;

/// The engine as all tasks share it.
pub(crate) struct Shared {
    state: Mutex<State>,
    clock: Clock,
    /// Told when the engine wants more on disk.
    pub(crate) disk: tokio::sync::Notify,
    /// Told, by slot, when there are frames for a peer.
    pub(crate) peers: [tokio::sync::Notify; SLOT_COUNT_MAX],
    /// Told when the cluster wants something rare: a snapshot sent, or the process ended.
    pub(crate) cluster_news: tokio::sync::Notify,
}

struct State {
    engine: Engines,
    /// The connection task of each session, by session index.
    tasks: Vec<Option<Waker>>,
    /// Nothing is due before it.
    due_at: Instant,
    /// When what was due was done last, at least a part of it.
    advanced_at: Instant,
}

/// Buffers of an I/O thread, used within one poll of one task.
pub(crate) struct Scratch {
    /// What was read.
    pub(crate) input: Box<[u8]>,
    /// Replies to be written.
    pub(crate) out: Vec<u8>,
    /// Tasks to be woken after the lock is gone.
    wakers: Vec<Waker>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch {
        input: vec![0; READ_SIZE_BYTES].into_boxed_slice(),
        out: Vec::new(),
        wakers: Vec::new(),
    });
}

/// Lends this thread's buffers.
pub(crate) fn with_scratch<T>(use_them: impl FnOnce(&mut Scratch) -> T) -> T {
    SCRATCH.with_borrow_mut(use_them)
}

impl Shared {
    pub(crate) fn new(engine: Engines, clock: Clock) -> Self {
        let due_at = clock.now();
        let state = State { engine, tasks: Vec::new(), due_at, advanced_at: due_at };
        Self {
            state: Mutex::new(state),
            clock,
            disk: tokio::sync::Notify::new(),
            peers: Default::default(),
            cluster_news: tokio::sync::Notify::new(),
        }
    }

    /// The time now.
    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Opens a session; `None` when there are too many.
    pub(crate) fn open(&self) -> Option<SessionId> {
        let mut state = self.lock();
        let session = state.engine.open()?;
        let index = session.index() as usize;
        if state.tasks.len() <= index {
            state.tasks.resize(index + 1, None);
        }
        Some(session)
    }

    /// Names the task that the engine's calls for this session wake.
    pub(crate) fn attend(&self, session: SessionId, task: &Waker) {
        self.lock().tasks[session.index() as usize] = Some(task.clone());
    }

    /// One turn: the first `input_size` bytes of the scratch input go in, replies come out.
    pub(crate) fn turn(
        &self,
        session: SessionId,
        input_size: usize,
        scratch: &mut Scratch,
    ) -> Turn {
        let Scratch { input, out, wakers } = scratch;
        let mut state = self.lock();
        // Read inside the lock, so that time never runs backwards for the engine.
        let now = self.clock.now();
        // Under full load the timer's task may come late; whoever is here does its work.
        state.advance_due(now);
        let turn = state.engine.turn(session, &input[..input_size], now, out);
        state.collect(wakers);
        let wants_disk = turn == Turn::Stall || state.engine.wanted().is_some();
        self.call_peers(&mut state);
        drop(state);
        if wants_disk {
            self.disk.notify_one();
        }
        wakers.drain(..).for_each(Waker::wake);
        turn
    }

    /// Notes how writing goes.
    pub(crate) fn set_backlog(&self, session: SessionId, backlog: Backlog) {
        let mut state = self.lock();
        let now = self.clock.now();
        state.engine.set_backlog(session, backlog, now);
    }

    /// Closes the session.
    pub(crate) fn close(&self, session: SessionId, outgoing: &Outgoing) {
        self.change(|state, now| {
            state.tasks[session.index() as usize] = None;
            state.engine.close(session, outgoing, now);
        });
    }

    /// Does what is due and says how long to sleep; zero when there is more to do.
    pub(crate) fn advance(&self) -> Duration {
        self.change(|state, now| {
            state.advance_due(now);
            now.until(state.due_at)
        })
    }

    /// Tells every session to end.
    pub(crate) fn shut_down(&self) {
        self.change(|state, now| state.engine.shut_down(now));
    }

    pub(crate) fn wanted(&self) -> Option<Persisted> {
        self.lock().engine.wanted()
    }

    pub(crate) fn set_durability(&self, durability: Durability) {
        self.change(|state, _| state.engine.set_durability(durability));
    }

    /// What holds for whoever comes after this run, which grants nothing more.
    pub(crate) fn final_promise(&self) -> (Persisted, Duration) {
        let state = self.lock();
        state.engine.final_promise(self.clock.now())
    }

    pub(crate) fn counters(&self) -> Counters {
        self.lock().engine.counters()
    }

    /// How long a single server still waits for its predecessor's leases.
    pub(crate) fn time_to_active(&self) -> Duration {
        let state = self.lock();
        state.engine.time_to_active(self.clock.now())
    }

    /// Something that concerns the cluster. `None` in a single server.
    pub(crate) fn cluster<T>(
        &self,
        change: impl FnOnce(&mut Engine<Replicated>, Instant) -> T,
    ) -> Option<T> {
        self.change(|state, now| state.engine.cluster().map(|engine| change(engine, now)))
    }

    #[inline]
    fn call_peers(&self, state: &mut State) {
        if let Some(engine) = state.engine.cluster() {
            for (slot, peer) in (0_u8..).zip(&self.peers) {
                if engine.frames_size_bytes(slot) > 0 {
                    peer.notify_one();
                }
            }
            if engine.has_news() {
                self.cluster_news.notify_one();
            }
        }
    }

    /// Something other than a turn: wakes whom it concerns.
    fn change<T>(&self, change: impl FnOnce(&mut State, Instant) -> T) -> T {
        let mut wakers = Vec::new();
        let mut state = self.lock();
        let now = self.clock.now();
        let result = change(&mut state, now);
        state.collect(&mut wakers);
        self.call_peers(&mut state);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        result
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic ends the process (see `main`), so a poisoned lock is only met on the way out.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    #[inline]
    fn advance_due(&mut self, now: Instant) {
        if now >= self.due_at {
            // Every turn and the timer come here, so this late means that nothing ran.
            if self.due_at.max(self.advanced_at).until(now) >= STANDSTILL_TIME_MIN {
                self.engine.stood_still(now);
            }
            self.advanced_at = now;
            self.engine.advance(now);
            let sleep = Instant::from_nanos(now.as_nanos() + TIMER_SLEEP_MAX.as_nanos() as u64);
            self.due_at = self.engine.next_deadline().map_or(sleep, |next| next.min(sleep));
        }
    }

    fn collect(&mut self, wakers: &mut Vec<Waker>) {
        let Self { engine, tasks, .. } = self;
        for index in engine.drain_called() {
            // A session that is not attended yet takes a turn as soon as it is.
            wakers.extend(tasks[index as usize].clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineSettings;
    use crate::limits::{DUE_COUNT_PER_TURN_MAX, FRAME_TIME_MAX};
    use ticketing_lock_core::TableLimits;
    use ticketing_wire_codec::limits::REQUEST_SIZE_BYTES_MAX;
    use ticketing_wire_codec::{RequestId, encode_acquire};

    const START: Instant = Instant::from_nanos(1_000_000_000);

    fn after(milliseconds: u64) -> Instant {
        Instant::from_nanos(START.as_nanos() + milliseconds * 1_000_000)
    }

    fn acquire(number: u64) -> Vec<u8> {
        let id = RequestId::new(number).expect("not zero");
        let key = number.to_string();
        let mut buffer = [0; REQUEST_SIZE_BYTES_MAX];
        encode_acquire(&mut buffer, id, 0, 1, key.as_bytes()).expect("valid").to_vec()
    }

    /// A state in which, at the start, one session began a frame.
    fn begun() -> State {
        let engine = Engine::new(&EngineSettings {
            connection_count_max: 2,
            in_flight_count_max: 1,
            table: TableLimits { key_count_max: 10_000, waiters_per_key_max: 1 },
            hash_seed: [7; 16],
            token_floor: 1,
            persisted: Persisted::UNLIMITED,
            active_from: START,
        });
        let engine = Engines::Single(Box::new(engine));
        let mut state = State { engine, tasks: vec![], due_at: START, advanced_at: START };
        state.advance_due(START);
        turn(&mut state, &acquire(1)[..5]);
        state
    }

    fn turn(state: &mut State, input: &[u8]) {
        let session = state.engine.open().expect("room");
        let _ = state.engine.turn(session, input, START, &mut Vec::new());
    }

    fn is_called_at(state: &mut State, milliseconds: u64) -> bool {
        state.advance_due(after(milliseconds));
        state.engine.drain_called().len() > 0
    }

    #[test]
    fn a_timer_in_time_ends_a_frame_in_time() {
        let mut state = begun();
        let frame = FRAME_TIME_MAX.as_millis() as u64;
        // As late as a busy machine makes it.
        let is_late = |milliseconds| milliseconds % 1_000 == 400;
        for milliseconds in (0..frame).filter(|at| is_late(*at)) {
            assert!(!is_called_at(&mut state, milliseconds));
        }
        assert!(is_called_at(&mut state, frame));
    }

    #[test]
    fn a_timer_much_too_late_starts_the_frame_over() {
        let mut state = begun();
        let frame = FRAME_TIME_MAX.as_millis() as u64;
        assert!(!is_called_at(&mut state, 10 * frame));
        for milliseconds in (0..frame).step_by(1_000) {
            assert!(!is_called_at(&mut state, 10 * frame + milliseconds));
        }
        assert!(is_called_at(&mut state, 11 * frame));
    }

    #[test]
    fn much_that_is_due_at_once_is_no_standstill() {
        let mut state = begun();
        let frames: Vec<u8> = (2..20 * DUE_COUNT_PER_TURN_MAX as u64).flat_map(acquire).collect();
        turn(&mut state, &frames);
        state.engine.drain_called();
        for milliseconds in (1_000..3_000).step_by(400) {
            assert!(!is_called_at(&mut state, milliseconds));
        }
        assert!(state.due_at < after(1_001), "leases are still due");
        assert!(is_called_at(&mut state, 3_000));
    }
}
