//! What was measured, and how it is shown.

pub mod document;
pub mod markdown;
pub mod plot;
pub mod progress;
mod text;

use serde::Serialize;

use crate::cell::{Cell, Goal};
use crate::measure::hold::Held;
use crate::measure::idle::Idle;
use crate::measure::join::Join;
use crate::measure::lateness::Deadlines;
use crate::measure::throughput::Sample;
use crate::scheduling::Scheduling;
use crate::system::System;

/// Resident memory our server may reach through all throughput cells (M11).
pub const PEAK_BYTES_GOAL: u64 = 10_000_000;
/// Bytes per held key, at most.
pub const BYTES_PER_KEY_GOAL: f64 = 150.0;
/// Resident memory with 10,000 idle connections, at most.
pub const IDLE_BYTES_GOAL: u64 = 40_000_000;
/// Lateness of expiry and timeouts under load, at most.
pub const LATE_MILLIS_GOAL: f64 = 20.0;
/// From the start of a replacement node to its vote, below.
pub const JOIN_SECONDS_GOAL: f64 = 10.0;
/// 99th percentile of the leader's answers while a replacement node joins, below.
pub const JOIN_P99_MICROS_GOAL: f64 = 20_000.0;
/// Two processors may be slower than one by so much before it counts as a loss: the spread of
/// repeated runs on a quiet machine.
pub const PROCESSORS_LOSS_TOLERATED: f64 = 0.03;

/// Everything a run of the tool found out.
#[derive(Debug, Serialize)]
pub struct Report {
    /// When, in seconds since 1970.
    pub unix_seconds: u64,
    /// What was measured: the repository's commit, with `+` when files differ from it.
    pub commit: String,
    /// Where.
    pub processor: String,
    /// How the kernel scheduled the load tool and every single server; clusters have
    /// [`Scheduling::USUAL`].
    pub scheduling: Scheduling,
    /// Runs per cell and system; figures are their medians.
    pub runs: usize,
    /// Length of one run.
    pub seconds: f64,
    /// The systems measured.
    pub systems: Vec<Measured>,
    /// The systems not found on this machine.
    pub missing: Vec<System>,
    /// Throughput cells.
    pub cells: Vec<CellResult>,
    /// Highest resident memory through all throughput cells, in bytes.
    pub peaks: Vec<(System, u64)>,
    /// Held keys.
    pub held: Vec<(System, Outcome<Held>)>,
    /// Idle connections.
    pub idle: Vec<(System, Outcome<Idle>)>,
    /// Our server's deadlines under load.
    pub deadlines: Option<Outcome<Deadlines>>,
    /// Our server on one and on two processors.
    pub processors: Option<Outcome<Processors>>,
    /// The replacement of a node of our cluster.
    pub join: Option<Outcome<Join>>,
}

/// A system that was found.
#[derive(Debug, Serialize)]
pub struct Measured {
    /// Which.
    pub system: System,
    /// As its executable says.
    pub version: Option<String>,
}

/// A cell's goal and every system's figures.
#[derive(Debug, Serialize)]
pub struct CellResult {
    /// Which.
    pub cell: Cell,
    /// What must hold for our server.
    pub goal: Goal,
    /// The medians.
    pub figures: Vec<(System, Outcome<Sample>)>,
}

/// A figure, or why there is none: a failure stays visible.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome<T> {
    /// It was measured.
    Measured(T),
    /// The measurement failed.
    Failed(String),
}

impl<T> Outcome<T> {
    /// From a measurement.
    pub fn of(result: std::io::Result<T>) -> Self {
        match result {
            Ok(value) => Self::Measured(value),
            Err(error) => Self::Failed(error.to_string()),
        }
    }

    /// The figure, if there is one.
    pub fn measured(&self) -> Option<&T> {
        match self {
            Self::Measured(value) => Some(value),
            Self::Failed(_) => None,
        }
    }
}

/// Median pairs per second, by what the server may use.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Processors {
    /// One processor.
    pub one: f64,
    /// Two, one of them the generator's own, with as many threads as the server finds good.
    pub two: f64,
    /// The same two, with a thread for each.
    pub two_threads: f64,
}

impl CellResult {
    /// A system's figures in this cell.
    pub fn sample(&self, system: System) -> Option<&Sample> {
        let found = self.figures.iter().find(|(of, _)| *of == system);
        found.and_then(|(_, outcome)| outcome.measured())
    }

    /// Our processor time per request as a multiple of the echo's.
    pub fn cpu_per_echo(&self) -> Option<f64> {
        let cost = |system| Some(self.sample(system)?.server_cpu_seconds_per_million_ops);
        Some(cost(System::Ticketing)? / cost(System::Echo)?)
    }
}

/// Whether one thing that must hold does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// What must hold.
    pub what: String,
    /// The bound.
    pub goal: String,
    /// What was measured.
    pub figure: String,
    /// Whether it holds.
    pub met: bool,
}

impl Report {
    /// Hand-offs of one key as a multiple of the bare echo's round trips on one connection: each
    /// hand-off is one, from the grant to the release and back.
    pub fn hand_offs_per_round_trip(&self) -> Option<f64> {
        let sample = |cell, system| {
            let result = self.cells.iter().find(|result| result.cell == cell)?;
            result.sample(system)
        };
        let hand_offs = sample(Cell::HandOff, System::Ticketing)?.pairs_per_second;
        Some(hand_offs / sample(Cell::Lone, System::Echo)?.ops_per_second)
    }

    /// Every goal that something was measured for, met or not.
    pub fn verdicts(&self) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for result in &self.cells {
            cell_verdicts(result, &mut verdicts);
        }
        let ours = |system: System| system == System::Ticketing;
        if let Some((_, peak)) = self.peaks.iter().find(|(system, _)| ours(*system)) {
            let what = "single server: peak resident memory through all its cells above";
            let (goal, figure) = (text::megabytes(PEAK_BYTES_GOAL), text::megabytes(*peak));
            verdicts.push(Verdict::new(what, "under", goal, figure, *peak < PEAK_BYTES_GOAL));
        }
        let held = self.held.iter().find(|(system, _)| ours(*system));
        if let Some(held) = held.and_then(|(_, held)| held.measured()) {
            held_verdicts(held, &mut verdicts);
        }
        let idle = self.idle.iter().find(|(system, _)| ours(*system));
        if let Some(idle) = idle.and_then(|(_, idle)| idle.measured()) {
            let what = format!("{} idle authenticated connections", text::count(idle.connections));
            let (goal, figure) =
                (text::megabytes(IDLE_BYTES_GOAL), text::megabytes(idle.resident_bytes));
            let met = idle.resident_bytes < IDLE_BYTES_GOAL;
            verdicts.push(Verdict::new(&what, "under", goal, figure, met));
        }
        if let Some(Outcome::Measured(deadlines)) = &self.deadlines {
            deadline_verdicts(deadlines, &mut verdicts);
        }
        if let Some(Outcome::Measured(processors)) = &self.processors {
            let Processors { one, two, two_threads } = *processors;
            let met = two >= one * (1.0 - PROCESSORS_LOSS_TOLERATED);
            let goal = format!(
                "{} pairs/s (1 processor) less {:.0} % for noise",
                text::count(one as usize),
                PROCESSORS_LOSS_TOLERATED * 100.0
            );
            let figure = format!(
                "{} pairs/s ({} with `TICKETING_THREADS=2`)",
                text::count(two as usize),
                text::count(two_threads as usize)
            );
            let what = "2 processors, one of them shared with the generator";
            verdicts.push(Verdict::new(what, "at least", goal, figure, met));
        }
        if let Some(Outcome::Measured(join)) = &self.join {
            join_verdicts(join, &mut verdicts);
        }
        verdicts
    }
}

impl Verdict {
    fn new(what: &str, bound: &str, goal: String, figure: String, met: bool) -> Self {
        Self { what: what.to_owned(), goal: format!("{bound} {goal}"), figure, met }
    }
}

fn cell_verdicts(result: &CellResult, verdicts: &mut Vec<Verdict>) {
    let Some(ours) = result.sample(System::Ticketing) else { return };
    let (goal, title) = (result.goal, result.cell.title());
    let pairs = |value: f64| format!("{} pairs/s", text::count(value as usize));
    if let Some(least) = goal.pairs_per_second {
        let met = ours.pairs_per_second >= least;
        let requests = text::count(ours.ops_per_second as usize);
        let figure = format!("{} ({requests} requests/s)", pairs(ours.pairs_per_second));
        verdicts.push(Verdict::new(title, "at least", pairs(least), figure, met));
    }
    if let (Some(most), Some(ratio)) = (goal.cpu_per_echo, result.cpu_per_echo()) {
        let what = format!("{title}: processor time per request");
        let (bound, figure) = (format!("{most:.2} × echo"), format!("{ratio:.2} × echo"));
        verdicts.push(Verdict::new(&what, "at most", bound, figure, ratio <= most));
    }
    if let Some(most) = goal.hand_off_p99_micros {
        let p99 = ours.hand_off_micros.p99;
        let what = format!("{title}: hand-off, 99th percentile");
        let (bound, figure) = (text::micros(most), text::micros(p99));
        verdicts.push(Verdict::new(&what, "under", bound, figure, p99 < most));
    }
    if let Some(most) = goal.leader_peak_bytes {
        let peak = ours.server_peak_bytes;
        let what = format!("{title}: leader's peak resident memory");
        let (bound, figure) = (text::megabytes(most), text::megabytes(peak));
        verdicts.push(Verdict::new(&what, "under", bound, figure, peak < most));
    }
}

fn held_verdicts(held: &Held, verdicts: &mut Vec<Verdict>) {
    let what = format!("bytes per held 32-byte key, {} held", text::count(held.keys));
    let (bound, figure) =
        (format!("{BYTES_PER_KEY_GOAL:.0}"), format!("{:.0}", held.bytes_per_key));
    let met = held.bytes_per_key <= BYTES_PER_KEY_GOAL;
    verdicts.push(Verdict::new(&what, "at most", bound, figure, met));
    let what = "memory of released keys is used again";
    let bound = format!("{} + 1 %", text::megabytes(held.full_bytes));
    let figure = text::megabytes(held.refilled_bytes);
    verdicts.push(Verdict::new(what, "at most", bound, figure, held.is_reused()));
}

fn deadline_verdicts(deadlines: &Deadlines, verdicts: &mut Vec<Verdict>) {
    for (name, found) in [("leases", deadlines.expiry), ("waits", deadlines.timeout)] {
        let what = format!("{} {name} ending under full load", text::count(found.count as usize));
        let bound = format!("{LATE_MILLIS_GOAL:.0} ms late, none early");
        let figure = format!("{:.1} ms late, {} early", found.max_millis, found.early);
        let met = found.max_millis <= LATE_MILLIS_GOAL && found.early == 0;
        verdicts.push(Verdict::new(&what, "at most", bound, figure, met));
    }
}

fn join_verdicts(join: &Join, verdicts: &mut Vec<Verdict>) {
    let what = format!("3 nodes, {} keys held: a replacement joins", text::count(join.keys));
    let (bound, figure) = (format!("{JOIN_SECONDS_GOAL:.0} s"), format!("{:.1} s", join.seconds));
    let met = join.seconds < JOIN_SECONDS_GOAL;
    verdicts.push(Verdict::new(&what, "under", bound, figure, met));
    let what = "while it joins: the leader's answers, 99th percentile";
    let p99 = join.latency_micros.p99;
    let (bound, figure) = (text::micros(JOIN_P99_MICROS_GOAL), text::micros(p99));
    verdicts.push(Verdict::new(what, "under", bound, figure, p99 < JOIN_P99_MICROS_GOAL));
}

#[cfg(test)]
mod tests;
