//! Other programs, started in the repository's root and shown before they run.

use crate::TaskResult;
use crate::root::repository;
use std::ffi::OsString;
use std::process::{Command, Stdio};

/// The cargo that started this program.
pub(crate) fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Runs `cargo` with those words.
pub(crate) fn run_cargo(arguments: &[&str]) -> TaskResult {
    run_cargo_with(arguments, &[])
}

/// Runs `cargo` with those words and variables.
pub(crate) fn run_cargo_with(arguments: &[&str], variables: &[(&str, &str)]) -> TaskResult {
    let settings: String =
        variables.iter().map(|(name, value)| format!("{name}={value:?} ")).collect();
    let shown = format!("{settings}cargo {}", arguments.join(" "));
    println!("$ {shown}");
    let mut command = Command::new(cargo());
    // What cargo tells a program of its own package. Build scripts of dependencies that look at it
    // would run again, and much be built again, whenever another package's program starts cargo.
    let of_package = ["CARGO_MANIFEST_", "CARGO_PKG_"];
    for (name, _) in std::env::vars_os() {
        if of_package.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    let status = command
        .args(arguments)
        .envs(variables.iter().copied())
        .current_dir(repository())
        .status()
        .map_err(|error| format!("{shown}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{shown}` failed ({status})")) }
}

/// What a program prints, or `None` when it cannot be started or fails.
pub(crate) fn output(program: &str, arguments: &[&str]) -> Option<Vec<u8>> {
    let result = Command::new(program)
        .args(arguments)
        .current_dir(repository())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    result.status.success().then_some(result.stdout)
}
