//! Command line of the load tool.

use std::fs;
use std::io::{self, Error};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Parser;
use rustix::thread::{CpuSet, sched_getaffinity};

use crate::cell::Cell;
use crate::clock::NANOS_PER_SECOND;
use crate::echo::Echo;
use crate::measure::meter::Cores;
use crate::plan::Plan;
use crate::process::run_on;
use crate::report::{Report, document, markdown, plot};
use crate::system::{ECHO_ARGUMENT, System};

/// Keys held for the bytes-per-key figure, and while a cluster's node is replaced.
const HELD_KEYS: usize = 1_000_000;
const HELD_KEYS_QUICK: usize = 50_000;
/// Idle connections.
const IDLE_CONNECTIONS: usize = 10_000;
const IDLE_CONNECTIONS_QUICK: usize = 500;
const SECONDS: f64 = 2.0;
const SECONDS_QUICK: f64 = 0.5;
const RUNS: usize = 3;

/// Measures the server on this machine, beside a bare echo and the peers found here.
///
/// Without options: our server, 64 connections × depth 16, and two numbers.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench")]
struct Arguments {
    /// The whole table: every cell, every system found, memory and deadlines.
    #[arg(long)]
    all: bool,
    /// The whole table in short: one run, few keys and connections. For CI; figures are rough.
    #[arg(long)]
    quick: bool,
    /// Only clusters: their throughput cells, and how a replacement node joins.
    #[arg(long, conflicts_with_all = ["all", "cells"])]
    cluster: bool,
    /// Only these systems.
    #[arg(long, value_delimiter = ',', value_name = "SYSTEMS")]
    systems: Vec<System>,
    /// Only these throughput cells, without memory and deadlines unless --all.
    #[arg(long, value_delimiter = ',', value_name = "CELLS")]
    cells: Vec<Cell>,
    /// Runs per cell and system; figures are medians [default: 3, --quick 1].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    runs: Option<u16>,
    /// Length of a run in seconds [default: 2, --quick 0.5].
    #[arg(long, value_parser = seconds)]
    seconds: Option<f64>,
    /// Our server's executable, instead of building it.
    #[arg(long)]
    server: Option<PathBuf>,
    /// Core of every server [default: the first this process may use].
    #[arg(long)]
    server_core: Option<usize>,
    /// Core of the generator [default: the second].
    #[arg(long)]
    generator_core: Option<usize>,
    /// Also writes everything measured to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also writes the tables into the README and the handbook, and the plots beside it.
    #[arg(long, requires = "all", conflicts_with_all = ["quick", "cells", "systems"])]
    update_docs: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.1..=600.0).contains(&value) => Ok(value),
        _ => Err("a number of seconds from 0.1 to 600 is needed".into()),
    }
}

/// Runs the tool.
pub fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let result = if arguments.next().as_deref() == Some(ECHO_ARGUMENT) {
        echo(&arguments.next().unwrap_or_default())
    } else {
        bench(&Arguments::parse())
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn echo(address: &str) -> io::Result<()> {
    let mut echo = Echo::new(TcpListener::bind(address)?)?;
    loop {
        echo.turn(None)?;
    }
}

fn bench(arguments: &Arguments) -> io::Result<()> {
    let root = repository()?;
    let plan = plan(arguments, &root)?;
    run_on(&[plan.cores.generator])?;
    let report = plan.run()?;
    if let Some(path) = &arguments.json {
        fs::write(path, serde_json::to_string_pretty(&report)? + "\n")?;
    }
    if arguments.update_docs {
        write_documents(&report, &root)?;
    }
    let table = arguments.all || arguments.quick || arguments.cluster;
    if table || !arguments.cells.is_empty() {
        print!("{}", markdown::full(&report));
        return Ok(());
    }
    two_numbers(&report)
}

/// What is printed without options.
fn two_numbers(report: &Report) -> io::Result<()> {
    let result = &report.cells[0];
    let Some(sample) = result.sample(System::Ticketing) else {
        return Err(Error::other(markdown::full(report)));
    };
    println!("{:.0} pairs/s", sample.pairs_per_second);
    println!(
        "{:.2} server CPU-seconds per million requests",
        sample.server_cpu_seconds_per_million_ops
    );
    eprint!("{}", markdown::remarks(report));
    Ok(())
}

fn plan(arguments: &Arguments, root: &Path) -> io::Result<Plan> {
    let cluster = arguments.cluster;
    let table = (arguments.all || arguments.quick) && !cluster;
    let canonical = !table && !cluster && arguments.cells.is_empty();
    let cells = match arguments.cells.as_slice() {
        [] if canonical => vec![Cell::Pipelined],
        [] if cluster => Cell::CLUSTER.to_vec(),
        [] => Cell::ALL.to_vec(),
        cells => cells.to_vec(),
    };
    let wanted = match arguments.systems.as_slice() {
        [] if canonical => vec![System::Ticketing],
        [] if cluster => System::ALL.into_iter().filter(|system| system.has_clusters()).collect(),
        [] => System::ALL.to_vec(),
        systems => systems.to_vec(),
    };
    let server = match &arguments.server {
        Some(path) => path.canonicalize().map_err(|error| {
            Error::new(error.kind(), format!("--server {}: {error}", path.display()))
        })?,
        None if wanted.contains(&System::Ticketing) => build_server(root)?,
        None => PathBuf::new(),
    };
    let (mut systems, mut missing) = (Vec::new(), Vec::new());
    for system in wanted {
        match system.find(&server) {
            Some(program) => systems.push((system, program)),
            None => missing.push(system),
        }
    }
    let quick = arguments.quick;
    let runs = arguments.runs.map_or(if quick { 1 } else { RUNS }, usize::from);
    let seconds = arguments.seconds.unwrap_or(if quick { SECONDS_QUICK } else { SECONDS });
    let size = |is_wanted, full, short| match (is_wanted, quick) {
        (false, _) => 0,
        (true, false) => full,
        (true, true) => short,
    };
    Ok(Plan {
        systems,
        missing,
        cells,
        runs,
        nanos: (seconds * NANOS_PER_SECOND as f64) as u64,
        held_keys: size(table, HELD_KEYS, HELD_KEYS_QUICK),
        idle_connections: size(table, IDLE_CONNECTIONS, IDLE_CONNECTIONS_QUICK),
        join_keys: size(table || cluster, HELD_KEYS, HELD_KEYS_QUICK),
        own_checks: table,
        cores: cores(arguments)?,
        commit: commit(root),
    })
}

/// The first two cores this process may use, unless others are asked for.
fn cores(arguments: &Arguments) -> io::Result<Cores> {
    let allowed = sched_getaffinity(None)?;
    let mut free = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
    let first = arguments.server_core.or_else(|| free.next());
    let second = arguments.generator_core.or_else(|| free.find(|core| Some(*core) != first));
    match (first, second) {
        (Some(server), Some(generator)) if server != generator => Ok(Cores { server, generator }),
        _ => Err(Error::other(
            "two different cores are needed, one for the server and one for the generator",
        )),
    }
}

fn repository() -> io::Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.parent().ok_or_else(|| Error::other("the load tool lies in the workspace"))?;
    Ok(root.to_owned())
}

/// Builds our server in release form and returns where it is.
fn build_server(root: &Path) -> io::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root).args(["build", "--release", "--package", "ticketing-server"]);
    if !command.status()?.success() {
        return Err(Error::other("the server does not build: see above, or use --server PATH"));
    }
    // Beside this very executable, whatever the target directory is called.
    let own = std::env::current_exe()?;
    let target = own.parent().and_then(Path::parent);
    let target =
        target.ok_or_else(|| Error::other("the load tool runs outside a target folder"))?;
    Ok(target.join("release").join("ticketing-server"))
}

fn commit(root: &Path) -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").current_dir(root).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else { return "unknown".into() };
    match git(&["status", "--porcelain"]) {
        Some(changes) if changes.is_empty() => commit,
        _ => commit + "+",
    }
}

fn write_documents(report: &Report, root: &Path) -> io::Result<()> {
    let handbook = root.join("docs/src");
    document::update(&root.join("README.md"), &markdown::short(report))?;
    document::update(&handbook.join("performance.md"), &markdown::full(report))?;
    let images = handbook.join("images");
    fs::create_dir_all(&images)?;
    fs::write(images.join("throughput.svg"), plot::throughput(report))?;
    fs::write(images.join("latency.svg"), plot::latency(report))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn options() {
        Arguments::command().debug_assert();
        let parse = |line: &str| Arguments::try_parse_from(line.split(' '));
        let arguments =
            parse("bench --systems echo,redis --cells 64x1,cluster-64x16").expect("valid");
        assert_eq!(arguments.systems, [System::Echo, System::Redis]);
        assert_eq!(arguments.cells, [Cell::Shallow, Cell::ClusterPipelined]);
        let arguments = parse("bench --cluster --quick --systems ticketing").expect("valid");
        assert!(arguments.cluster && arguments.quick);
        for wrong in ["--runs 0", "--seconds 0", "--update-docs", "--cluster --all", "x"] {
            assert!(parse(&format!("bench {wrong}")).is_err(), "{wrong}");
        }
    }
}
