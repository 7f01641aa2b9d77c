//! A measured server as a child process: pinned, watched, paused between turns, and stopped.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Error};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};
use tempfile::TempDir;

use crate::clock::{NANOS_PER_SECOND, now_nanos};
use crate::proc::{self, Memory, Usage};

/// A server that does not listen after so long has failed to start.
const START_NANOS_MAX: u64 = 20 * NANOS_PER_SECOND;
const START_POLL: Duration = Duration::from_millis(10);
/// How much of a failed server's own words is shown.
const LOG_SHOWN_BYTES: usize = 2_000;

/// How to start a server.
#[derive(Debug)]
pub struct Spec {
    /// The executable.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its whole environment but for `PATH`.
    pub variables: Vec<(&'static str, String)>,
    /// Where it will listen.
    pub address: SocketAddr,
    /// The cores it may use.
    pub cores: Vec<usize>,
    /// Its working directory, removed at the end.
    pub home: TempDir,
}

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    address: SocketAddr,
    home: TempDir,
}

impl Process {
    /// Starts the server and waits until it listens.
    ///
    /// # Errors
    /// When it cannot be started, ends, or does not listen in time; its last words are included.
    pub fn start(spec: Spec) -> io::Result<Self> {
        let mut process = Self::spawn(spec)?;
        process.wait_until_it_listens()?;
        Ok(process)
    }

    /// Starts the server and does not wait for it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(spec: Spec) -> io::Result<Self> {
        let log = File::create(spec.home.path().join("log"))?;
        let cores = cpu_set(&spec.cores);
        let mut command = Command::new(&spec.program);
        command.args(&spec.arguments).env_clear().envs(spec.variables);
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command.current_dir(spec.home.path()).stdin(Stdio::null());
        command.stdout(log.try_clone()?).stderr(log);
        // SAFETY: between fork and exec the closure makes two system calls on values that exist
        // already; it takes no lock and allocates nothing.
        unsafe {
            command.pre_exec(move || {
                sched_setaffinity(None, &cores)?;
                // No server outlives the load tool, however that ends.
                set_parent_process_death_signal(Some(Signal::KILL))?;
                Ok(())
            });
        }
        let child = command.spawn().map_err(|error| {
            Error::new(error.kind(), format!("cannot start {}: {error}", spec.program.display()))
        })?;
        Ok(Self { child, address: spec.address, home: spec.home })
    }

    /// Waits until clients can connect.
    ///
    /// # Errors
    /// When it ends, or does not listen in time; its last words are included.
    pub fn wait_until_it_listens(&mut self) -> io::Result<()> {
        let end = now_nanos() + START_NANOS_MAX;
        loop {
            if TcpStream::connect(self.address).is_ok() {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                let words = self.last_words();
                return Err(Error::other(format!("the server ended at start, {status}: {words}")));
            }
            if now_nanos() > end {
                let (address, words) = (self.address, self.last_words());
                return Err(Error::other(format!("nothing listens on {address}: {words}")));
            }
            thread::sleep(START_POLL);
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its working directory.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The end of what it has printed.
    pub fn last_words(&self) -> String {
        let log = std::fs::read(self.home.path().join("log")).unwrap_or_default();
        let start = log.len().saturating_sub(LOG_SHOWN_BYTES);
        String::from_utf8_lossy(&log[start..]).into_owned()
    }

    /// Processor time so far.
    ///
    /// # Errors
    /// When it has ended.
    pub fn usage(&self) -> io::Result<Usage> {
        proc::usage(self.child.id())
    }

    /// Memory now and at its peak.
    ///
    /// # Errors
    /// When it has ended.
    pub fn memory(&self) -> io::Result<Memory> {
        proc::memory(self.child.id())
    }

    /// Stops it from running until [`Process::resume`], so that it costs its competitors nothing.
    ///
    /// # Errors
    /// When it has ended.
    pub fn pause(&self) -> io::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets a paused server run again.
    ///
    /// # Errors
    /// When it has ended.
    pub fn resume(&self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Ends it at once. Whatever is asked of it afterwards is an error.
    pub fn kill(&mut self) {
        // It is a measured server on a temporary directory: nothing has to be saved. Both fail
        // only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Lets the calling thread run on these cores only.
///
/// # Errors
/// When it may not use one of them.
pub fn run_on(cores: &[usize]) -> io::Result<()> {
    sched_setaffinity(None, &cpu_set(cores))
        .map_err(|error| Error::other(format!("cannot use the cores {cores:?}: {error}")))
}

fn cpu_set(cores: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    set
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use ticketing_test_ports::free_address;

    fn spec(program: &str) -> Spec {
        Spec {
            program: program.into(),
            arguments: vec!["-c".into(), "echo no such luck; exit 3".into()],
            variables: Vec::new(),
            address: free_address(Ipv4Addr::LOCALHOST).expect("a free port"),
            cores: vec![0],
            home: TempDir::new().expect("a directory"),
        }
    }

    #[test]
    fn a_server_that_ends_is_quoted() {
        let error = Process::start(spec("/bin/sh")).expect_err("it ended").to_string();
        assert!(error.contains("no such luck") && error.contains("exit status: 3"), "{error}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = Process::start(spec("/no/such/server")).expect_err("missing").to_string();
        assert!(error.contains("/no/such/server"), "{error}");
    }
}
