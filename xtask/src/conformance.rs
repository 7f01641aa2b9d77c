//! `cargo xtask conformance`: the judge of all clients, with its own options.

use crate::TaskResult;
use crate::process::run_cargo;

/// Options of the judge, handed on as they are.
#[derive(clap::Args, Default)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    /// `--language NAME`, `--group NAME`, `--require-all`, `--help` and more.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) options: Vec<String>,
}

/// Every language, and all of them at once against a real server; a missing toolchain is a failure.
pub(crate) fn run_all() -> TaskResult {
    for options in [&["--require-all"][..], &["--live", "--require-all"]] {
        run(&Arguments { options: options.iter().map(ToString::to_string).collect() })?;
    }
    Ok(())
}

/// Builds the judge and runs it.
pub(crate) fn run(arguments: &Arguments) -> TaskResult {
    let mut words = vec!["run", "--quiet", "--package", "ticketing-conformance", "--"];
    words.extend(arguments.options.iter().map(String::as_str));
    run_cargo(&words)
}
