//! The load tool as a program, with the echo as the only server: no peer and no release build.

use std::process::{Command, Output};

fn tool(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ticketing-benches"));
    command.args(arguments).output().expect("the tool starts")
}

#[test]
fn it_measures_the_echo() {
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() < 2) {
        println!("not run: the tool needs two cores");
        return;
    }
    let folder = tempfile::tempdir().expect("a directory");
    let json = folder.path().join("report.json");
    let json_argument = json.to_str().expect("a UTF-8 path");
    let output = tool(&[
        "--systems=echo",
        "--cells=64x16,64on1",
        "--runs=1",
        "--seconds=0.1",
        "--json",
        json_argument,
    ]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("| 64 connections × depth 16 | "), "{text}");
    // An echo grants everything: nothing is said about it where workers contend.
    assert!(text.contains("| 64 workers on 1 key | – |"), "{text}");
    let report = std::fs::read_to_string(json).expect("the report");
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    let pairs = &report["cells"][0]["figures"][0][1]["measured"]["pairs_per_second"];
    assert!(pairs.as_f64().is_some_and(|pairs| pairs > 0.0), "{report:#}");
}

#[test]
fn a_missing_server_is_named() {
    let output = tool(&["--server", "/no/such/server"]);
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("/no/such/server"), "{text}");
}
