//! `cargo xtask test`: the README's test command, for a machine with only the Rust toolchain.

use crate::process::run_cargo;
use crate::{TaskResult, conformance};

/// Runs the command. The workspace's tests come last, so that their result closes the output.
pub(crate) fn run() -> TaskResult {
    conformance::run(&conformance::Arguments::default())?;
    run_workspace()
}

/// The Rust tests alone.
pub(crate) fn run_workspace() -> TaskResult {
    run_cargo(&["test", "--workspace", "--locked"])
}
