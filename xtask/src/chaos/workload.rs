//! Clients that take and release locks all the time, and what they must never see.

use super::client::{Answer, Connection};
use super::clock::now;
use super::cluster::{Cluster, Target};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

/// How many clients there are.
const WORKER_COUNT: usize = 8;
/// Keys that half of them share. The others take a new key every time: a key whose holder was never
/// told stays taken until its lease ends, so only new keys show when a cluster serves again.
const KEY_COUNT: usize = 4;
/// Lease and wait of every request, in seconds.
const LEASE_SECONDS: u8 = 2;
const WAIT_SECONDS: u8 = 2;
/// How long a lock is held.
const HOLD: Duration = Duration::from_micros(500);
/// Pause after an answer that names no better slot.
const RETRY_PAUSE: Duration = Duration::from_millis(5);
/// A release is tried for this long; then its lease ends it.
const RELEASE_TIME_MAX: Duration = Duration::from_secs(5);

/// A lock that somebody relied on.
#[derive(Clone, Copy, Debug)]
struct Held {
    token: u64,
    from: Instant,
    until: Instant,
}

/// What all clients have seen.
#[derive(Default)]
struct Seen {
    held: BTreeMap<String, Vec<Held>>,
    grants: Vec<Instant>,
    indeterminate: usize,
    lost: usize,
    doubts: Vec<String>,
    broken: Option<String>,
}

/// What the workers need of the cluster, apart from its processes.
struct Shared {
    stop: AtomicBool,
    leader: AtomicU8,
    seen: Mutex<Seen>,
}

/// A running load.
pub(crate) struct Workload {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

/// What came of it.
#[derive(Clone, Copy)]
pub(crate) struct Outcome {
    grants: usize,
    /// Requests answered `I`.
    indeterminate: usize,
    /// Requests whose connection broke, or that had no answer in time.
    lost: usize,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { grants, indeterminate, lost } = self;
        write!(f, "{grants} grants, none doubled; {indeterminate} answered I, {lost} lost")
    }
}

impl Workload {
    /// Starts it.
    pub(crate) fn start(cluster: &Cluster) -> Self {
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            leader: AtomicU8::new(0),
            seen: Mutex::default(),
        });
        let workers = (0..WORKER_COUNT).map(|worker| {
            let target = cluster.target.clone();
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || work(&target, &shared, worker))
        });
        Self { workers: workers.collect(), shared }
    }

    /// Grants so far.
    pub(crate) fn grant_count(&self) -> usize {
        self.seen().grants.len()
    }

    /// What every request so far that has no definite answer got instead.
    pub(crate) fn doubts(&self) -> Vec<String> {
        self.seen().doubts.clone()
    }

    /// The longest time without any grant that began after `from`, up to now.
    pub(crate) fn longest_gap(&self, from: Instant) -> Duration {
        let seen = self.seen();
        let mut times: Vec<_> = seen.grants.iter().copied().filter(|at| *at >= from).collect();
        times.sort_unstable();
        let mut longest = Duration::ZERO;
        let mut last = from;
        for at in times {
            longest = longest.max(at - last);
            last = at;
        }
        longest.max(now() - last)
    }

    /// Ends the load and checks everything that was seen.
    pub(crate) fn finish(mut self) -> Result<Outcome, String> {
        self.shared.stop.store(true, Ordering::Relaxed);
        for worker in self.workers.drain(..) {
            worker.join().map_err(|_| "a client panicked")?;
        }
        let seen = self.seen();
        if let Some(broken) = &seen.broken {
            return Err(broken.clone());
        }
        for (key, held) in &seen.held {
            check(key, held)?;
        }
        let Seen { indeterminate, lost, .. } = *seen;
        Ok(Outcome { grants: seen.grants.len(), indeterminate, lost })
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}

/// No two rely on one key at once, and tokens grow with time.
fn check(key: &str, held: &[Held]) -> Result<(), String> {
    let mut held = held.to_vec();
    held.sort_unstable_by_key(|held| held.token);
    for pair in held.windows(2) {
        let [first, second] = pair else { continue };
        if first.token == second.token {
            return Err(format!("key {key}: token {} was granted twice", first.token));
        }
        if second.from < first.until {
            return Err(format!("key {key}: two holders: {first:?} and {second:?}"));
        }
    }
    Ok(())
}

fn work(cluster: &Target, shared: &Shared, worker: usize) {
    let mut connections: BTreeMap<usize, Connection> = BTreeMap::new();
    let mut slot = worker % cluster.slot_count();
    let mut turn = worker;
    while !shared.stop.load(Ordering::Relaxed) {
        turn += 1;
        let name = if worker.is_multiple_of(2) {
            format!("shared-{}", turn % KEY_COUNT)
        } else {
            format!("own-{worker}-{turn}")
        };
        let Some(connected) = connect(&mut connections, cluster, slot) else {
            slot = next_slot(cluster, shared, slot);
            continue;
        };
        slot = connected;
        let sent = now();
        let connection = connections.get_mut(&slot).expect("just made sure");
        match connection.acquire(&name, WAIT_SECONDS, LEASE_SECONDS) {
            Ok(Answer::Granted(token)) => {
                let from = now();
                let valid_before = sent + Duration::from_secs(LEASE_SECONDS.into());
                shared.leader.store(slot as u8, Ordering::Relaxed);
                note(shared, |seen| seen.grants.push(from));
                sleep(HOLD);
                let until = now().min(valid_before);
                if from < until {
                    let held = Held { token, from, until };
                    note(shared, |seen| seen.held.entry(name.clone()).or_default().push(held));
                }
                slot = release(&mut connections, cluster, shared, slot, &name, token);
            }
            Ok(Answer::Moved(Some(leader))) => {
                slot = usize::from(leader);
                sleep(RETRY_PAUSE / 5);
            }
            Ok(Answer::Moved(None)) => {
                slot = next_slot(cluster, shared, slot);
                sleep(RETRY_PAUSE);
            }
            Ok(Answer::TimedOut) => {}
            Ok(Answer::Indeterminate) => {
                note(shared, |seen| {
                    seen.indeterminate += 1;
                    seen.doubts.push(format!("slot {slot}: I after {:.0?}", now() - sent));
                });
                slot = next_slot(cluster, shared, slot);
            }
            Ok(other) => {
                note(shared, |seen| seen.broken = Some(format!("an acquire answered {other:?}")));
            }
            Err(error) => {
                connections.remove(&slot);
                note(shared, |seen| {
                    seen.lost += 1;
                    seen.doubts.push(format!("slot {slot}: {error} after {:.0?}", now() - sent));
                });
                slot = next_slot(cluster, shared, slot);
            }
        }
    }
}

/// Releases by the rules for clients; says where the leader seems to be.
fn release(
    connections: &mut BTreeMap<usize, Connection>,
    cluster: &Target,
    shared: &Shared,
    mut slot: usize,
    name: &str,
    token: u64,
) -> usize {
    let end = now() + RELEASE_TIME_MAX;
    while now() < end {
        let Some(connected) = connect(connections, cluster, slot) else {
            slot = next_slot(cluster, shared, slot);
            continue;
        };
        slot = connected;
        let connection = connections.get_mut(&slot).expect("just made sure");
        match connection.release(name, token) {
            Ok(Answer::Released | Answer::NotHeld) => return slot,
            Ok(Answer::Moved(Some(leader))) => slot = usize::from(leader),
            Ok(_) => slot = next_slot(cluster, shared, slot),
            Err(_) => {
                connections.remove(&slot);
                slot = next_slot(cluster, shared, slot);
            }
        }
        sleep(RETRY_PAUSE);
    }
    slot
}

/// The slot, or the one that it has named the leader meanwhile, with a connection that lives as far
/// as is known. As with every official client, nothing more is sent to a leader that has said who
/// follows it.
fn connect(
    connections: &mut BTreeMap<usize, Connection>,
    cluster: &Target,
    slot: usize,
) -> Option<usize> {
    let slot = match connections.get_mut(&slot).map(Connection::news) {
        Some(Ok(Some(leader))) => usize::from(leader),
        _ => slot,
    };
    if connections.get_mut(&slot).is_some_and(|connection| connection.news().is_err()) {
        connections.remove(&slot);
    }
    if let std::collections::btree_map::Entry::Vacant(place) = connections.entry(slot) {
        match Connection::open(cluster, slot) {
            Ok(connection) => {
                place.insert(connection);
            }
            Err(_) => {
                sleep(RETRY_PAUSE);
                return None;
            }
        }
    }
    Some(slot)
}

/// Where somebody last found the leader, or the next in turn.
fn next_slot(cluster: &Target, shared: &Shared, slot: usize) -> usize {
    let leader = usize::from(shared.leader.load(Ordering::Relaxed));
    if leader != slot && leader < cluster.slot_count() {
        leader
    } else {
        (slot + 1) % cluster.slot_count()
    }
}

fn note(shared: &Shared, change: impl FnOnce(&mut Seen)) {
    change(&mut shared.seen.lock().unwrap_or_else(PoisonError::into_inner));
}
