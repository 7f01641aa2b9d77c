//! One client that asks one slot for new locks all the time, and notes every answer.

use super::client::{Answer, Connection};
use super::clock::now;
use super::cluster::Target;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

/// Between an answer and the next request.
const PAUSE: Duration = Duration::from_millis(5);
/// A process that stands still answers late, and the answer matters.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(20);
/// Shortest lease: nothing is released.
const LEASE_SECONDS: u8 = 1;

/// A request and what came of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) sent: Instant,
    pub(crate) answered: Instant,
    /// `None` when the connection ended instead.
    pub(crate) answer: Option<Answer>,
}

impl Asked {
    pub(crate) fn is_granted(&self) -> bool {
        matches!(self.answer, Some(Answer::Granted(_)))
    }
}

/// A running probe.
pub(crate) struct Probe {
    stop: Arc<AtomicBool>,
    asked: Arc<Mutex<Vec<Asked>>>,
    thread: Option<JoinHandle<()>>,
}

impl Probe {
    /// Begins to ask a slot. `name` tells its keys from those of other probes.
    pub(crate) fn start(target: &Target, slot: usize, name: &str) -> Self {
        let (stop, asked) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Vec<Asked>>>::default());
        let thread = std::thread::spawn({
            let (target, stop, asked) = (target.clone(), Arc::clone(&stop), Arc::clone(&asked));
            let name = format!("probe-{name}-{slot}");
            move || ask(&target, slot, &name, &stop, &asked)
        });
        Self { stop, asked, thread: Some(thread) }
    }

    /// Everything so far, in order.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn ask(target: &Target, slot: usize, name: &str, stop: &AtomicBool, asked: &Mutex<Vec<Asked>>) {
    let mut connection = None;
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        sleep(PAUSE);
        let Some(open) = &mut connection else {
            connection = Connection::open(target, slot)
                .ok()
                .filter(|connection| connection.set_answer_time_max(ANSWER_TIME_MAX).is_ok());
            continue;
        };
        count += 1;
        let sent = now();
        let answer = open.acquire(&format!("{name}-{count}"), 0, LEASE_SECONDS).ok();
        if answer.is_none() {
            connection = None;
        }
        let entry = Asked { sent, answered: now(), answer };
        asked.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
    }
}
