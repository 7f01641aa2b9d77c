//! What a run counts.

use crate::histogram::Histogram;

/// Counts and durations since the last clearing.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Finished pairs: acquire and release, both answered.
    pub pairs: u64,
    /// Requests answered; a denied try counts.
    pub requests: u64,
    /// Tries answered "taken": polling.
    pub denied: u64,
    /// From request sent to answer: of an acquire, from its first try.
    pub latency: Histogram,
    /// From release sent to the next holder's grant, when somebody was waiting.
    pub hand_off: Histogram,
}

impl Tally {
    /// Back to nothing.
    pub fn clear(&mut self) {
        self.pairs = 0;
        self.requests = 0;
        self.denied = 0;
        self.latency.clear();
        self.hand_off.clear();
    }
}
