//! `cargo xtask sim`: whole clusters in virtual time under seeded faults.

use crate::TaskResult;
use crate::process::run_cargo_with;

/// Seeds that a change has to pass.
pub(crate) const SEED_COUNT: u64 = 500;

/// The simulations: the log over a toy machine, and the replicated engine over it.
const SIMULATIONS: [&[&str]; 2] = [
    &["test", "--package", "ticketing-raft-log", "--test", "simulation", "--locked", "--quiet"],
    &["test", "--package", "ticketing-server", "--lib", "--locked", "--quiet"],
];
const FILTERS: [&str; 2] = ["seeds_keep_every_invariant", "simulation::seeds_keep_every_invariant"];

/// Which seeds.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Replays this seed only.
    #[arg(long, conflicts_with = "count")]
    seed: Option<u64>,
    /// Runs the seeds from 0 to below this.
    #[arg(long, default_value_t = SEED_COUNT)]
    count: u64,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> TaskResult {
    let (name, value) = match arguments.seed {
        Some(seed) => ("SEED", seed.to_string()),
        None => ("COUNT", arguments.count.to_string()),
    };
    for (simulation, filter) in SIMULATIONS.iter().zip(FILTERS) {
        run_cargo_with(&[*simulation, &[filter]].concat(), &[(name, &value)])?;
    }
    Ok(())
}

/// What a change has to pass.
pub(crate) fn run_all() -> TaskResult {
    run(&Arguments { seed: None, count: SEED_COUNT })
}
