//! What is measured in which order: systems take turns, one runs while the others are paused.

use std::io::{self, Error};
use std::path::{Path, PathBuf};

use crate::cell::Cell;
use crate::clock::{NANOS_PER_SECOND, unix_seconds};
use crate::cluster::Cluster;
use crate::measure::meter::Cores;
use crate::measure::throughput::{self, Sample};
use crate::measure::{hold, idle, join, lateness};
use crate::proc::processor_name;
use crate::process::{Process, run_on};
use crate::report::progress::Progress;
use crate::report::{CellResult, Measured, Outcome, Processors, Report};
use crate::scheduling::Scheduling;
use crate::system::{System, Tuning};

/// Room for the connections' own limits beside those that are counted.
const SPARE: usize = 64;
/// The client token of the idle connections: they are to be authenticated.
const TOKEN: &str = "the load tool's client token";
/// A turn for deadlines is at least so long: each probe needs more than a second per round.
const DEADLINE_NANOS_MIN: u64 = 5 * NANOS_PER_SECOND;

/// Highest resident memory of each system, in bytes.
type Peaks = Vec<(System, u64)>;

/// What to measure.
#[derive(Debug)]
pub struct Plan {
    /// The systems found, and where.
    pub systems: Vec<(System, PathBuf)>,
    /// Asked for but not found.
    pub missing: Vec<System>,
    /// Throughput cells.
    pub cells: Vec<Cell>,
    /// Runs per cell and system.
    pub runs: usize,
    /// Length of one run.
    pub nanos: u64,
    /// Keys to hold, idle connections to open: 0 leaves the measurement out.
    pub held_keys: usize,
    /// See `held_keys`.
    pub idle_connections: usize,
    /// Keys a cluster holds while one of its nodes is replaced; see `held_keys`.
    pub join_keys: usize,
    /// Whether to watch deadlines and compare numbers of processors.
    pub own_checks: bool,
    /// Which cores to use.
    pub cores: Cores,
    /// The repository's state.
    pub commit: String,
}

impl Plan {
    /// Measures everything.
    ///
    /// # Errors
    /// When a server cannot be started. A measurement that fails is part of the report.
    pub fn run(&self) -> io::Result<Report> {
        let mut progress = Progress::new(self.step_count());
        let (cells, peaks) = self.throughput(&mut progress)?;
        let held = self.held(&mut progress);
        let idle = self.idle(&mut progress);
        let ours = self.ours().filter(|_| self.own_checks);
        let deadlines = ours.map(|program| {
            progress.step("deadlines under full load");
            Outcome::of(self.deadlines(program))
        });
        let processors = ours.map(|program| {
            progress.step("two processors");
            Outcome::of(self.processors(program))
        });
        let ours = self.ours().filter(|_| self.join_keys > 0);
        let join = ours.map(|program| {
            progress.step("a replacement node joins");
            Outcome::of(self.join(program))
        });
        progress.finish();
        Ok(Report {
            unix_seconds: unix_seconds(),
            commit: self.commit.clone(),
            processor: processor_name(),
            scheduling: Scheduling::current()?,
            runs: self.runs,
            seconds: self.nanos as f64 / NANOS_PER_SECOND as f64,
            systems: self
                .systems
                .iter()
                .map(|(system, program)| Measured {
                    system: *system,
                    version: system.version(program),
                })
                .collect(),
            missing: self.missing.clone(),
            cells,
            peaks,
            held,
            idle,
            deadlines,
            processors,
            join,
        })
    }

    /// Our own server, when it takes part.
    fn ours(&self) -> Option<&Path> {
        let ours = self.systems.iter().find(|(system, _)| *system == System::Ticketing);
        ours.map(|(_, program)| program.as_path())
    }

    fn step_count(&self) -> usize {
        let turns = |cell: &Cell| self.contenders(*cell).count() * self.runs;
        let locks = self.systems.iter().filter(|(system, _)| system.has_locks()).count();
        let ours = self.ours().is_some();
        self.cells.iter().map(turns).sum::<usize>()
            + locks * usize::from(self.held_keys > 0)
            + locks * usize::from(self.idle_connections > 0)
            + 2 * usize::from(self.own_checks && ours)
            + usize::from(self.join_keys > 0 && ours)
    }

    /// The systems a cell says something about, by their place in `systems`.
    fn contenders(&self, cell: Cell) -> impl Iterator<Item = usize> {
        let fits = move |system: System| {
            if cell.is_clustered() {
                system.has_clusters()
            } else {
                system.has_locks() || !cell.is_contended()
            }
        };
        let systems = self.systems.iter().enumerate();
        systems.filter(move |(_, (system, _))| fits(*system)).map(|(place, _)| place)
    }

    fn throughput(&self, progress: &mut Progress) -> io::Result<(Vec<CellResult>, Peaks)> {
        let mut servers = Vec::new();
        if self.cells.iter().any(|cell| !cell.is_clustered()) {
            for (system, program) in &self.systems {
                servers.push(self.start_paused(*system, program)?);
            }
        }
        let mut results = Vec::new();
        for cell in &self.cells {
            let mut turns = Turns::new(self.contenders(*cell).collect());
            for run in 1..=self.runs {
                for turn in 0..turns.places.len() {
                    let place = turns.places[turn];
                    let (system, program) = &self.systems[place];
                    let (title, name) = (cell.title(), system.name());
                    progress.step(&format!("{title} · {name} · run {run}"));
                    let sample = if cell.is_clustered() {
                        self.cluster_turn(*system, program, *cell)
                    } else {
                        self.turn(*system, &servers[place], *cell)
                    };
                    if sample.is_err() && !cell.is_clustered() {
                        // What is left of it must not disturb the next cell.
                        servers[place] = self.start_paused(*system, program)?;
                    }
                    turns.record(turn, sample);
                }
            }
            results.push(CellResult {
                cell: *cell,
                goal: cell.goal(),
                figures: turns.medians(|place| self.systems[place].0),
            });
        }
        let systems = self.systems.iter().map(|(system, _)| *system);
        let peak = |(system, server): (System, &Process)| Ok((system, server.memory()?.peak_bytes));
        let peaks = systems.zip(&servers).map(peak).collect::<io::Result<_>>()?;
        Ok((results, peaks))
    }

    fn start_paused(&self, system: System, program: &Path) -> io::Result<Process> {
        let server = system.start(program, &[self.cores.server], Tuning::default())?;
        server.pause()?;
        Ok(server)
    }

    fn turn(&self, system: System, server: &Process, cell: Cell) -> io::Result<Sample> {
        server.resume()?;
        let sample = throughput::run(system, server, self.cores, cell.shape(), self.nanos);
        server.pause()?;
        sample
    }

    /// A fresh cluster each time: one that stood still would first have to agree who leads.
    fn cluster_turn(&self, system: System, program: &Path, cell: Cell) -> io::Result<Sample> {
        self.sharing_cores(|cores| {
            let cluster = Cluster::start(system, program, cores)?;
            throughput::run_cluster(&cluster, self.cores, cell.shape(), self.nanos)
        })
    }

    fn join(&self, program: &Path) -> io::Result<join::Join> {
        self.sharing_cores(|cores| {
            let mut cluster = Cluster::start(System::Ticketing, program, cores)?;
            join::run(&mut cluster, Cell::ClusterShallow.shape(), self.join_keys)
        })
    }

    /// Lets the generator use both cores meanwhile, in the usual class like what it starts: on
    /// shared cores a real-time process that spins keeps the others out for good, as etcd's do.
    fn sharing_cores<T>(&self, run: impl FnOnce(&[usize]) -> io::Result<T>) -> io::Result<T> {
        let both = [self.cores.server, self.cores.generator];
        let scheduling = Scheduling::current()?;
        Scheduling::USUAL.apply()?;
        run_on(&both)?;
        let result = run(&both);
        run_on(&[self.cores.generator])?;
        scheduling.apply()?;
        result
    }

    fn held(&self, progress: &mut Progress) -> Vec<(System, Outcome<hold::Held>)> {
        if self.held_keys == 0 {
            return Vec::new();
        }
        let tuning = Tuning { keys: Some(2 * self.held_keys + SPARE), ..Tuning::default() };
        self.each_lock_system(|system, program| {
            progress.step(&format!("held keys · {}", system.name()));
            let server = system.start(program, &[self.cores.server], tuning)?;
            hold::run(system, &server, self.held_keys)
        })
    }

    fn idle(&self, progress: &mut Progress) -> Vec<(System, Outcome<idle::Idle>)> {
        let count = self.idle_connections;
        if count == 0 {
            return Vec::new();
        }
        let tuning =
            Tuning { connections: Some(count + SPARE), token: Some(TOKEN), ..Tuning::default() };
        self.each_lock_system(|system, program| {
            progress.step(&format!("idle connections · {}", system.name()));
            // Before the start: the server inherits the limit.
            idle::raise_open_files(count)?;
            let server = system.start(program, &[self.cores.server], tuning)?;
            idle::run(system, &server, tuning.token, count)
        })
    }

    fn each_lock_system<T>(
        &self,
        mut measure: impl FnMut(System, &Path) -> io::Result<T>,
    ) -> Vec<(System, Outcome<T>)> {
        let locks = self.systems.iter().filter(|(system, _)| system.has_locks());
        locks.map(|(system, program)| (*system, Outcome::of(measure(*system, program)))).collect()
    }

    fn deadlines(&self, program: &Path) -> io::Result<lateness::Deadlines> {
        let ours = System::Ticketing;
        let server = ours.start(program, &[self.cores.server], Tuning::default())?;
        lateness::run(&server, Cell::Deep.shape(), self.nanos.max(DEADLINE_NANOS_MIN))
    }

    /// One core for the server, then both, as it starts by itself and with a thread for each; the
    /// generator keeps its own as well.
    fn processors(&self, program: &Path) -> io::Result<Processors> {
        let cores = [self.cores.server, self.cores.generator];
        let start = |cores: &[usize], io_threads| {
            let tuning = Tuning { io_threads, ..Tuning::default() };
            let server = System::Ticketing.start(program, cores, tuning)?;
            server.pause()?;
            io::Result::Ok(server)
        };
        let servers = [start(&cores[..1], None)?, start(&cores, None)?, start(&cores, Some(2))?];
        let mut samples = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..self.runs {
            for (server, samples) in servers.iter().zip(&mut samples) {
                samples.push(self.turn(System::Ticketing, server, Cell::Pipelined)?);
            }
        }
        let [one, two, two_threads] =
            samples.map(|samples| Sample::median(&samples).pairs_per_second);
        Ok(Processors { one, two, two_threads })
    }
}

/// The samples of one cell, by contender.
struct Turns {
    places: Vec<usize>,
    samples: Vec<Result<Vec<Sample>, String>>,
}

impl Turns {
    fn new(places: Vec<usize>) -> Self {
        let samples = places.iter().map(|_| Ok(Vec::new())).collect();
        Self { places, samples }
    }

    /// One failed run fails the cell: medians of the runs that happened to work would flatter.
    fn record(&mut self, turn: usize, sample: io::Result<Sample>) {
        match (&mut self.samples[turn], sample) {
            (Ok(samples), Ok(sample)) => samples.push(sample),
            (all @ Ok(_), Err(error)) => *all = Err(error.to_string()),
            (Err(_), _) => {}
        }
    }

    fn medians(self, system: impl Fn(usize) -> System) -> Vec<(System, Outcome<Sample>)> {
        let figures = self.places.iter().zip(self.samples);
        figures
            .map(|(place, samples)| {
                let median = samples.map(|samples| Sample::median(&samples));
                (system(*place), Outcome::of(median.map_err(Error::other)))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_run_fails_its_cell_only() {
        let mut turns = Turns::new(vec![0, 1]);
        turns.record(0, Ok(Sample { pairs_per_second: 1.0, ..Sample::default() }));
        turns.record(1, Ok(Sample::default()));
        turns.record(1, Err(Error::other("gone")));
        turns.record(1, Ok(Sample::default()));
        let figures = turns.medians(|place| System::ALL[place]);
        assert_eq!(figures[0].1.measured().map(|sample| sample.pairs_per_second), Some(1.0));
        assert_eq!(figures[1], (System::ALL[1], Outcome::Failed("gone".into())));
    }

    #[test]
    fn steps_are_counted() {
        let systems = System::ALL.map(|system| (system, PathBuf::new())).into();
        let plan = Plan {
            systems,
            missing: Vec::new(),
            cells: vec![Cell::Shallow, Cell::HandOff, Cell::ClusterShallow],
            runs: 3,
            nanos: 1,
            held_keys: 1,
            idle_connections: 0,
            join_keys: 1,
            own_checks: true,
            cores: Cores { server: 0, generator: 1 },
            commit: String::new(),
        };
        let locks = System::ALL.len() - 1;
        // The echo has no part in a contended cell, and two systems have clusters.
        let cells = 3 * System::ALL.len() + 3 * locks + 3 * 2;
        assert_eq!(plan.step_count(), cells + locks + 2 + 1);
    }
}
