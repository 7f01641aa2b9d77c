//! `cargo xtask fuzz-smoke`: builds every fuzz target and runs each for some seconds.
//!
//! It starts libFuzzer itself, with the flags that `cargo fuzz` would give, so that the nightly
//! toolchain is all it needs. For longer runs use `cargo +nightly fuzz run TARGET` in `fuzz/`.

use crate::process::output;
use crate::root::repository;
use crate::{TaskResult, vectors};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Arguments of `fuzz-smoke`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Seconds per target.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) seconds: u32,
}

/// Largest input, in bytes: a few of the largest frames.
const INPUT_SIZE_BYTES_MAX: u32 = 8_192;
/// Most memory a target may use.
const MEMORY_MEBIBYTES_MAX: u32 = 2_048;

const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Zsanitizer=address -Ccodegen-units=1 --cfg fuzzing";

/// Runs the command. Without nightly it says so and passes: stable machines can do the rest.
pub(crate) fn run(arguments: &Arguments) -> TaskResult {
    let Some(host) = nightly_host() else {
        println!("fuzz-smoke: NOT RUN, because the nightly toolchain is missing");
        return Ok(());
    };
    for target in targets()? {
        let binary = build(&target, &host)?;
        fuzz(&target, &binary, arguments.seconds)?;
    }
    Ok(())
}

/// The host triple of the nightly toolchain, if there is one.
fn nightly_host() -> Option<String> {
    let text = String::from_utf8(output("rustc", &["+nightly", "-vV"])?).ok()?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "))?;
    Some(host.to_owned())
}

/// Every file of `fuzz/fuzz_targets` is a target of that name.
fn targets() -> Result<Vec<String>, String> {
    let directory = repository().join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".rs").map(str::to_owned))
        .collect();
    names.sort();
    Ok(names)
}

fn build(target: &str, host: &str) -> Result<PathBuf, String> {
    let directory = fuzz_target_directory();
    println!("$ cargo +nightly build --release --manifest-path fuzz/Cargo.toml --bin {target}");
    let status = Command::new("cargo")
        .args(["+nightly", "build", "--quiet", "--release", "--locked"])
        // With a target named, build scripts and macros are built without the sanitizer.
        .args(["--manifest-path", "fuzz/Cargo.toml", "--bin", target, "--target", host])
        .arg("--target-dir")
        .arg(&directory)
        .env("RUSTFLAGS", FLAGS)
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("CARGO")
        .current_dir(repository())
        .status()
        .map_err(|error| format!("cargo +nightly build: {error}"))?;
    if status.success() {
        Ok(directory.join(host).join("release").join(target))
    } else {
        Err(format!("fuzz target {target} does not build ({status})"))
    }
}

/// Beside the other build output, so that `cargo clean` finds it.
fn fuzz_target_directory() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| repository().join("target")).join("fuzz")
}

fn fuzz(target: &str, binary: &Path, seconds: u32) -> TaskResult {
    let corpus = fuzz_target_directory().join("corpus").join(target);
    let artifacts = repository().join("fuzz/artifacts").join(target);
    for directory in [&corpus, &artifacts] {
        fs::create_dir_all(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    }
    for (name, bytes) in seeds(target) {
        let path = corpus.join(name);
        fs::write(&path, bytes).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    println!("$ {target} for {seconds} s");
    let result = Command::new(binary)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-max_len={INPUT_SIZE_BYTES_MAX}"))
        .arg(format!("-rss_limit_mb={MEMORY_MEBIBYTES_MAX}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg(&corpus)
        .output()
        .map_err(|error| format!("{}: {error}", binary.display()))?;
    let log = String::from_utf8_lossy(&result.stderr);
    if !result.status.success() {
        return Err(format!("fuzz target {target} found a fault ({}):\n{log}", result.status));
    }
    println!("{target}: {}", log.lines().last().unwrap_or("no output"));
    Ok(())
}

/// What a target starts from: the golden vectors, as it takes them.
fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    match target {
        "decode" => vectors::all_bytes(),
        "peer_message" => peer_seeds(),
        _ => Vec::new(),
    }
}

/// Every vector to a node of each standing, and all of them in a row. The byte before a frame says
/// that it comes from slot 1, as the vectors have it, after some milliseconds.
fn peer_seeds() -> Vec<(String, Vec<u8>)> {
    const HOW: u8 = 3;
    let cases = vectors::all_peer_bytes();
    let mut seeds = Vec::new();
    for standing in 0..3 {
        let mut all = vec![standing];
        for (id, bytes) in &cases {
            seeds.push((format!("{id}-{standing}"), [&[standing, HOW], &bytes[..]].concat()));
            // Two hellos open the list; they are no frames.
            if !id.ends_with("-hello") {
                all.push(HOW);
                all.extend_from_slice(bytes);
            }
        }
        seeds.push((format!("all-{standing}"), all));
    }
    seeds
}
