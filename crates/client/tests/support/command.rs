//! The `ticketing` command line as a process.

#![allow(dead_code, reason = "not every test program uses all of it")]

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use tokio::task::spawn_blocking;

/// Far more than anything here takes, on a machine that does much else.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The command line with a clean environment, for that server.
pub(crate) fn ticketing(address: impl ToString, arguments: &[&str]) -> Command {
    program(env!("CARGO_BIN_EXE_ticketing"), address, arguments)
}

/// A program in that environment. It ignores no signal, whatever the tests themselves were started
/// by: a shell's background job has INT ignored, and `nohup` HUP.
pub(crate) fn program(program: &str, address: impl ToString, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin");
    command.env("TICKETING_ADDRESSES", address.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let ignore_none = || {
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
            // SAFETY: sets no handler, and may be called between fork and exec.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls that neither allocate nor lock.
    unsafe { command.pre_exec(ignore_none) };
    command
}

pub(crate) async fn output(mut command: Command) -> Output {
    spawn_blocking(move || command.output().expect("it runs")).await.expect("no panic")
}

pub(crate) async fn end(child: Child) -> Output {
    spawn_blocking(move || child.wait_with_output().expect("it ends")).await.expect("no panic")
}

/// Starts it and returns once the command has written its first line.
pub(crate) async fn started(mut command: Command) -> Child {
    spawn_blocking(move || {
        let mut child = command.spawn().expect("it runs");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("piped");
        // Byte by byte, so that nothing after the line is lost.
        BufReader::with_capacity(1, stdout).read_line(&mut line).expect("a line");
        child
    })
    .await
    .expect("no panic")
}

pub(crate) fn signal(child: &Child, signal: &str) {
    let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

pub(crate) fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("{output:?}"))
}

pub(crate) fn stdout(output: &Output) -> &str {
    str::from_utf8(&output.stdout).expect("text")
}

pub(crate) fn stderr(output: &Output) -> &str {
    str::from_utf8(&output.stderr).expect("text")
}
