//! `cargo xtask chaos`: real processes killed, stopped, cut off and replaced under load.
//!
//! Every scenario but one runs a cluster on loopback (or, to cut hosts off, in network namespaces),
//! with clients that take and release locks all the time, and fails on the first promise broken.
//! `vanished-host` runs a single server.
//!
//! The full form runs the server as released and holds it to the promised times. The short form is
//! for changes: a few rounds of a server built for development, on a machine that may be busy with
//! other things, so it allows twice the times. What must never happen it asserts all the same.

mod client;
mod clock;
mod cluster;
mod network;
mod probe;
mod scenarios;
mod status;
mod vanished_host;
mod workload;

use crate::TaskResult;
use crate::process::run_cargo;
use scenarios::{SCENARIOS, Scenario};
use std::path::PathBuf;
use std::time::Duration;

/// How much of it.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A few rounds of each scenario with a development build; twice the times are allowed.
    #[arg(long)]
    short: bool,
    /// Only the scenarios whose names contain this.
    #[arg(default_value = "")]
    filter: String,
}

/// What a scenario needs to know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// How often the faults of a scenario are repeated.
    rounds: usize,
    /// Repetitions of slow rounds.
    slow_rounds: usize,
    /// Repetitions of rounds that take ten seconds or more.
    long_rounds: usize,
    /// How long a process stands still.
    suspension: Duration,
    /// How much longer than promised something may take.
    time_factor: u32,
}

const FULL: Plan = Plan {
    rounds: 30,
    slow_rounds: 20,
    long_rounds: 10,
    suspension: Duration::from_secs(10),
    time_factor: 1,
};
const SHORT: Plan = Plan {
    rounds: 4,
    slow_rounds: 1,
    long_rounds: 1,
    suspension: Duration::from_secs(5),
    time_factor: 2,
};

impl Plan {
    /// What is allowed where that was promised.
    fn allowed(&self, promised: Duration) -> Duration {
        promised * self.time_factor
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> TaskResult {
    let server = build_programs(!arguments.short)?;
    let plan = if arguments.short { SHORT } else { FULL };
    let mut failed = Vec::new();
    for Scenario { name, run, needs_network } in SCENARIOS {
        if !name.contains(&arguments.filter) {
            continue;
        }
        if *needs_network && !network::is_available() {
            println!("{name}: not run (needs root, `ip` and network namespaces)");
            continue;
        }
        match run(&server, plan) {
            Ok(figures) => println!("{name}: {figures}"),
            Err(error) => {
                println!("{name}: FAILED: {error}");
                failed.push(*name);
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("chaos: failed: {}", failed.join(", "))) }
}

/// The short form, for CI.
pub(crate) fn run_short() -> TaskResult {
    run(&Arguments { short: true, filter: String::new() })
}

/// Builds server and command line beside this program and says where the server is.
fn build_programs(is_release: bool) -> Result<PathBuf, String> {
    let mut words =
        vec!["build", "--quiet", "--package", "ticketing-server", "--package", "ticketing-client"];
    if is_release {
        words.push("--release");
    }
    run_cargo(&words)?;
    let own = std::env::current_exe().map_err(|error| format!("own path: {error}"))?;
    let profiles = own.parent().and_then(|profile| profile.parent());
    let profiles = profiles.ok_or("this program is in no target directory")?;
    Ok(profiles.join(if is_release { "release" } else { "debug" }).join("ticketing-server"))
}
