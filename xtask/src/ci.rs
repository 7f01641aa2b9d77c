//! `cargo xtask ci`: everything that must hold before a change lands, quick things first.

use crate::process::{output, run_cargo, run_cargo_with};
use crate::{TaskResult, chaos, conformance, docs, fuzz_smoke, sim, test, tidy, vectors};

/// Seconds for each fuzz target: enough to see that it starts and finds nothing at once.
const FUZZ_SECONDS: u32 = 10;

/// Runs the command.
pub(crate) fn run() -> TaskResult {
    run_cargo(&["fmt", "--all", "--check"])?;
    run_cargo(&["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"])?;
    tidy::run()?;
    vectors::run(&vectors::Arguments { check: true })?;
    docs::run(&docs::Arguments { check: true })?;
    deny()?;
    run_cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--quiet",
        "--",
        "-D",
        "warnings",
    ])?;
    run_cargo_with(
        &["doc", "--workspace", "--no-deps", "--locked", "--quiet"],
        &[("RUSTDOCFLAGS", "-D warnings")],
    )?;
    fuzz_smoke::run(&fuzz_smoke::Arguments { seconds: FUZZ_SECONDS })?;
    conformance::run_all()?;
    sim::run_all()?;
    chaos::run_short()?;
    // Last, so that its result closes the output.
    test::run_workspace()
}

/// Licences, bans and sources; advisories need the network and are checked before a release.
fn deny() -> TaskResult {
    if output("cargo-deny", &["--version"]).is_none() {
        return Err("cargo-deny is not installed; `.ci/run` shows how to get it".into());
    }
    // It reads the manifest of every dependency, of tests and of other platforms too.
    run_cargo(&["fetch", "--locked", "--quiet"])?;
    run_cargo(&["deny", "--offline", "check", "licenses", "bans", "sources"])
}
