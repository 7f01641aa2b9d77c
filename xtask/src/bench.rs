//! `cargo xtask bench`: builds the load tool in release form and runs it.

use crate::TaskResult;
use crate::process::run_cargo;

/// Arguments of `bench`: the load tool's own.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    /// Passed on; `--help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> TaskResult {
    let mut words = vec!["run", "--quiet", "--release", "--package", "ticketing-benches", "--"];
    words.extend(arguments.words.iter().map(String::as_str));
    run_cargo(&words)
}
