//! Development tasks: `cargo xtask <command>`. One file per command.

mod bench;
mod chaos;
mod ci;
mod conformance;
mod docs;
mod fuzz_smoke;
mod process;
mod root;
mod sim;
mod test;
mod tidy;
mod vectors;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Development tasks of Ticketing.
#[derive(Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measures the server beside a bare echo and the peers found on this machine.
    Bench(bench::Arguments),
    /// Real cluster processes killed, stopped, cut off and replaced under load.
    Chaos(chaos::Arguments),
    /// Everything that must hold before a change lands: format, lints, documents, tests.
    Ci,
    /// Judges the clients over real sockets: a matrix of languages and checks.
    Conformance(conformance::Arguments),
    /// Writes the generated parts of the handbook, and compares the protocol page with the code.
    Docs(docs::Arguments),
    /// Builds every fuzz target and runs each for some seconds.
    FuzzSmoke(fuzz_smoke::Arguments),
    /// Whole clusters in virtual time under seeded faults.
    Sim(sim::Arguments),
    /// Every test that a machine with only the Rust toolchain can run.
    Test,
    /// Rules of the repository that no other tool knows.
    Tidy,
    /// Writes the golden vectors, or checks that the files are what the plain encoder makes.
    Vectors(vectors::Arguments),
}

/// A failed task, in words for the person who started it.
type TaskResult = Result<(), String>;

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Chaos(arguments) => chaos::run(&arguments),
        Command::Ci => ci::run(),
        Command::Conformance(arguments) => conformance::run(&arguments),
        Command::Docs(arguments) => docs::run(&arguments),
        Command::FuzzSmoke(arguments) => fuzz_smoke::run(&arguments),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Test => test::run(),
        Command::Tidy => tidy::run(),
        Command::Vectors(arguments) => vectors::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
