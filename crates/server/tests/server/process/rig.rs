//! Starts the binary, never leaves it behind.

use crate::support::eventually;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use ticketing_test_ports::free_address;

/// No settings.
const NOTHING: &[(&str, &str)] = &[];

/// A running `ticketing-server`.
pub(crate) struct Server {
    child: Child,
    pub(crate) line: String,
    pub(crate) addresses: Vec<SocketAddr>,
}

/// A node of a cluster: like a server, but its log is kept.
pub(crate) struct Node {
    child: Child,
    pub(crate) line: String,
}

/// What a command that ends by itself has said.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) output: String,
    pub(crate) errors: String,
}

/// How a start that failed ended.
pub(crate) struct Failure {
    pub(crate) status: ExitStatus,
    pub(crate) message: String,
}

fn command(arguments: &[&str], environment: &[(&str, impl AsRef<OsStr>)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ticketing-server"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TICKETING_")) {
        command.env_remove(name);
    }
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    // Whatever the tests themselves were started by: `nohup` has it ignored.
    on_hangup(&mut command, libc::SIG_DFL);
    command
}

/// What the program is started to do about SIGHUP.
fn on_hangup(command: &mut Command, action: libc::sighandler_t) {
    let set = move || {
        // SAFETY: sets no handler, and may be called between fork and exec.
        unsafe { libc::signal(libc::SIGHUP, action) };
        Ok(())
    };
    // SAFETY: the closure makes one system call, which neither allocates nor locks.
    unsafe { command.pre_exec(set) };
}

impl Node {
    /// Appends its log to a file.
    pub(crate) fn start(environment: &[(&str, String)], log: &Path) -> Self {
        let log = File::options().create(true).append(true).open(log).expect("a log");
        let mut child = command(&[], environment).stderr(log).spawn().expect("the binary starts");
        let line = first_line(&mut child);
        assert!(line.starts_with("ticketing-server listening on "), "a start line: {line:?}");
        Self { child, line }
    }

    /// Waits for its end, which something else causes.
    pub(crate) fn wait(mut self) -> ExitStatus {
        self.child.wait().expect("its own child")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Both fail when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command to its end.
pub(crate) fn run(arguments: &[&str], environment: &[(&str, String)]) -> Ended {
    end(command(arguments, environment))
}

/// Runs a command that writes into these.
pub(crate) fn run_into(arguments: &[&str], stdout: Stdio, stderr: Stdio) -> Ended {
    let mut command = command(arguments, NOTHING);
    command.stdout(stdout).stderr(stderr);
    end(command)
}

fn end(mut command: Command) -> Ended {
    let ended = command.output().expect("the binary starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Ended { status: ended.status, output: text(ended.stdout), errors: text(ended.stderr) }
}

fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    let stdout = child.stdout.as_mut().expect("piped");
    BufReader::new(stdout).read_line(&mut line).expect("the start line");
    line
}

impl Server {
    /// On a free port, unless the arguments say otherwise.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_with(arguments, &[("TICKETING_LISTEN", "127.0.0.1:0")])
    }

    pub(crate) fn start_with(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::spawn(command(arguments, environment))
    }

    /// As `nohup` starts it.
    pub(crate) fn start_ignoring_hangups() -> Self {
        let mut command = command(&["--listen", "127.0.0.1:0"], NOTHING);
        on_hangup(&mut command, libc::SIG_IGN);
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::null()).spawn().expect("the binary starts");
        let line = first_line(&mut child);
        let addresses = line
            .strip_prefix("ticketing-server listening on ")
            .and_then(|rest| rest.split(' ').next())
            .unwrap_or_else(|| panic!("a start line: {line:?}"))
            .split(',')
            .map(|address| address.parse().expect("an address"))
            .collect();
        Self { child, line, addresses }
    }

    /// One that writes into these: where it listens is chosen before.
    pub(crate) fn start_into(arguments: &[&str], stdout: Stdio, stderr: Stdio) -> Self {
        let address = free_address(Ipv4Addr::LOCALHOST).expect("a free port");
        let child = command(arguments, &[("TICKETING_LISTEN", address.to_string())])
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .expect("the binary starts");
        eventually("it listens", || TcpStream::connect(address).is_ok());
        Self { child, line: String::new(), addresses: vec![address] }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Memory that the process has in RAM now.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("the process runs");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a figure");
        let kilobytes = line.split_whitespace().nth(1).expect("a figure");
        kilobytes.parse::<u64>().expect("a number") * 1024
    }

    /// How many of its threads have this name.
    pub(crate) fn thread_count(&self, name: &str) -> usize {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id()));
        let names = tasks.expect("the process runs").flatten().map(|task| {
            // A thread may end meanwhile.
            std::fs::read_to_string(task.path().join("comm")).unwrap_or_default()
        });
        names.filter(|other| other.trim_end() == name).count()
    }

    pub(crate) fn signal(&self, signal: &str) {
        let status = Command::new("kill")
            .args([&format!("-{signal}"), &self.child.id().to_string()])
            .status()
            .expect("kill exists");
        assert!(status.success());
    }

    /// Runs something while the whole process stands still.
    pub(crate) fn while_stopped<T>(&self, run: impl FnOnce() -> T) -> T {
        self.signal("STOP");
        let is_stopped = || {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id()));
            tasks.expect("the process exists").flatten().all(|task| {
                let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
                stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
            })
        };
        eventually("all threads stand still", is_stopped);
        let result = run();
        self.signal("CONT");
        result
    }

    /// Takes open files away from it, as an operator's limit would.
    pub(crate) fn limit_files(&self, count: u32) {
        let (pid, limit) = (self.child.id().to_string(), format!("--nofile={count}"));
        let status = Command::new("prlimit").args(["--pid", &pid, &limit]).status();
        assert!(status.expect("prlimit exists").success());
    }

    /// Waits for its end, which something else has caused.
    pub(crate) fn wait(mut self) -> ExitStatus {
        self.child.wait().expect("its own child")
    }

    /// Dies at once.
    pub(crate) fn kill(self) {
        self.signal("KILL");
        assert!(!self.wait().success());
    }

    /// Stops in order.
    pub(crate) fn stop(self) {
        self.signal("TERM");
        assert_eq!(self.wait().code(), Some(0));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a start that must fail.
pub(crate) fn fail(arguments: &[&str], environment: &[(&str, &str)]) -> Failure {
    let mut child = command(arguments, environment).spawn().expect("the binary starts");
    let mut message = String::new();
    let stderr = child.stderr.as_mut().expect("piped");
    stderr.read_to_string(&mut message).expect("text");
    let status = child.wait().expect("its own child");
    Failure { status, message }
}
