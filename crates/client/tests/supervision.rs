//! `ticketing lock` keeps its promise where that is hard: nothing of the command outlives the lock,
//! and the exit code is the command's.
#![cfg(all(unix, feature = "cli"))]

#[path = "support/command.rs"]
mod command;
mod support;

use command::{PATIENCE, code, end, output, signal, stderr, stdout, ticketing};
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write, pipe};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use support::Request;
use support::process::{Act, Server};
use tokio::task::spawn_blocking;

/// Scripts that write the number of a process which only KILL ends, and their exit codes.
const UNRULY: [(&str, i32); 2] = [
    // The process is left behind.
    ("(trap '' TERM; exec sleep 300) & echo $!; exit 7", 7),
    // The command itself has to be killed, too.
    ("trap '' TERM; sleep 300 & echo $!; while :; do sleep 0.05; done", 128 + 9),
];

fn grant(_: &Request) -> Act {
    Act::Grant(41)
}

/// Runs a script under a lease that ends soon.
fn short(server: &Server, script: &str) -> Command {
    let mut command = ticketing(server.address, &["lock", "k", "--lease", "2s"]);
    command.args(["--grace", "200ms", "--", "sh", "-c", script]);
    command
}

/// Whether the process is gone whose number the command wrote.
fn is_gone(output: &Output) -> bool {
    let left = Command::new("kill").args(["-0", stdout(output).trim()]).output();
    !left.expect("kill runs").status.success()
}

/// Standard errors that take no message. A pipe lives as long as its reader.
fn broken_outputs() -> Vec<(&'static str, Stdio, Option<PipeReader>)> {
    let mut outputs = Vec::new();
    let (reader, writer) = pipe().expect("a pipe");
    drop(reader);
    outputs.push(("nobody reads", writer.into(), None));
    let (reader, writer) = pipe().expect("a pipe");
    fill(&writer);
    outputs.push(("full", writer.into(), Some(reader)));
    #[cfg(target_os = "linux")]
    {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("it is there");
        outputs.push(("no space", full.into(), None));
    }
    outputs
}

/// Writes to the pipe until it takes no more.
fn fill(mut writer: &PipeWriter) {
    let descriptor = writer.as_raw_fd();
    let set_flags = |flags: i32| {
        // SAFETY: plain numbers, for a descriptor that is open.
        assert_eq!(unsafe { libc::fcntl(descriptor, libc::F_SETFL, flags) }, 0);
    };
    set_flags(libc::O_NONBLOCK);
    while writer.write(b".").is_ok() {}
    set_flags(0);
}

/// Runs a script under a short lease: it ends with that code, and nothing of it outlives the lock.
async fn is_ended_in_time(
    script: &str,
    expected: i32,
    name: &str,
    prepare: impl FnOnce(&mut Command),
) {
    let server = Server::start(grant).await;
    let mut command = short(&server, script);
    prepare(&mut command);
    let output = output(command).await;
    assert_eq!(code(&output), expected, "{name}: {output:?}");
    assert!(is_gone(&output), "{name}: {output:?}");
    assert_eq!(server.opcodes(), "AR", "{name}");
}

#[tokio::test]
async fn a_broken_standard_error_changes_nothing() {
    for (script, expected) in UNRULY {
        for (name, error, _reader) in broken_outputs() {
            is_ended_in_time(script, expected, name, |command| {
                command.stderr(error);
            })
            .await;
        }
    }
}

#[tokio::test]
async fn bad_usage_keeps_its_code_where_it_cannot_be_told() {
    for (name, error, _reader) in broken_outputs() {
        let mut command = ticketing("127.0.0.1:1", &["lock", "k"]);
        command.stderr(error);
        assert_eq!(code(&output(command).await), 64, "{name}");
    }
}

/// As the parent of this process may have left it.
#[derive(Clone, Copy, Debug)]
enum ChildSignal {
    Blocked,
    Ignored,
}

#[tokio::test]
async fn the_parents_ways_with_the_signal_of_ended_children_do_not_matter() {
    for (script, expected) in UNRULY {
        for state in [ChildSignal::Ignored, ChildSignal::Blocked] {
            let set = move || {
                // SAFETY: system calls that may be made between fork and exec, on a live set.
                unsafe {
                    match state {
                        ChildSignal::Ignored => {
                            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
                        }
                        ChildSignal::Blocked => {
                            let mut set = std::mem::zeroed();
                            libc::sigemptyset(&raw mut set);
                            libc::sigaddset(&raw mut set, libc::SIGCHLD);
                            libc::sigprocmask(
                                libc::SIG_BLOCK,
                                &raw const set,
                                std::ptr::null_mut(),
                            );
                        }
                    }
                }
                Ok(())
            };
            is_ended_in_time(script, expected, &format!("{state:?}"), |command| {
                // SAFETY: the closure makes system calls that neither allocate nor lock.
                unsafe { command.pre_exec(set) };
            })
            .await;
        }
    }
}

#[tokio::test]
async fn a_stopped_command_is_ended_too() {
    for (trap, expected) in [("trap 'exit 9' TERM", 9), ("trap '' TERM", 128 + 9)] {
        let server = Server::start(grant).await;
        let script = format!("{trap}; kill -s STOP $$; while :; do sleep 0.05; done");
        let output = output(short(&server, &script)).await;
        assert_eq!(code(&output), expected, "{output:?}");
        assert_eq!(server.opcodes(), "AR");
    }
}

#[tokio::test]
async fn signals_reach_what_the_command_left_behind() {
    let server = Server::start(grant).await;
    let directory = tempfile::tempdir().expect("a directory");
    // Far longer than the test may take: only the signal ends it in time.
    let arguments = ["lock", "k", "--lease", "250s", "--grace", "200s", "--", "sh", "-c"];
    let script = "(trap '' TERM; trap 'echo told; exit' USR1; : > is-set; \
                  while :; do sleep 0.05; done) & \
                  until [ -e is-set ]; do sleep 0.05; done; exit 3";
    let mut command = ticketing(server.address, &arguments);
    command.arg(script).current_dir(directory.path());
    let child = spawn_blocking(move || {
        let mut child = command.spawn().expect("it runs");
        let mut line = String::new();
        let stderr = child.stderr.as_mut().expect("piped");
        BufReader::with_capacity(1, stderr).read_line(&mut line).expect("a line");
        assert!(line.contains("left processes behind"), "{line}");
        child
    });
    let child = child.await.expect("no panic");
    signal(&child, "USR1");
    let output = tokio::time::timeout(PATIENCE, end(child)).await.expect("told");
    assert_eq!((code(&output), stdout(&output)), (3, "told\n"), "{output:?}");
    assert_eq!(server.opcodes(), "AR");
}

#[tokio::test]
async fn ping_ends_quietly_when_nobody_reads_any_more() {
    let server = Server::start(grant).await;
    let (reader, writer) = pipe().expect("a pipe");
    drop(reader);
    let mut command = ticketing(server.address, &["ping", "--count", "3", "--interval", "1ms"]);
    command.stdout(writer);
    let output = output(command).await;
    assert_eq!((code(&output), stderr(&output)), (0, ""));
    assert_eq!(server.opcodes(), "AR");
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn ping_reports_output_that_is_lost() {
    let server = Server::start(grant).await;
    let mut command = ticketing(server.address, &["ping", "--count", "3", "--interval", "1ms"]);
    command.stdout(std::fs::OpenOptions::new().write(true).open("/dev/full").expect("there"));
    let output = output(command).await;
    assert_eq!(code(&output), 70, "{output:?}");
    assert!(stderr(&output).starts_with("ticketing: standard output: "), "{output:?}");
}
