//! A host that vanishes without a word: its link is cut, so neither end nor reset ever comes.
//! Missions M5 and M9: its waiters leave their queues within 30 s and nobody else notices.

use super::Plan;
use super::clock::now;
use super::network::Network;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Until the server must have noticed.
const NOTICE_TIME_MAX: Duration = Duration::from_secs(30);
/// Sooner, it would be an end or a reset that told the server, not its own looking.
const NOTICE_TIME_MIN: Duration = Duration::from_secs(5);
/// For what takes milliseconds on an idle machine.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the server is asked.
const POLL: Duration = Duration::from_millis(50);
/// Connections of one client.
const CONNECTION_COUNT: u64 = 2;

/// The namespace of the host that vanishes, and of one that does not.
const VANISHING: usize = 0;
const STAYING: usize = 1;

const TOKEN: &str = "the-token-of-this-scenario";

/// The server, and where everybody is.
struct Scene {
    network: Network,
    client: PathBuf,
    server: PathBuf,
    process: Process,
    address: String,
    home: PathBuf,
}

/// A child that never outlives this; a client's command ends with its standard input.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail when it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Cuts a host off that waits for two keys. One of them comes to its turn after the cut, so that
/// one of its connections is idle and one has bytes that are never acknowledged.
pub(crate) fn run(server: &Path, _: Plan) -> Result<String, String> {
    let scene = Scene::start(server)?;
    let mut holder = scene.client(None, "idle")?;
    let mut other_holder = scene.client(None, "busy")?;
    read_line(&mut holder)?;
    read_line(&mut other_holder)?;
    let mut vanishing = Vec::new();
    for (index, key) in (1..).zip(["idle", "busy"]) {
        vanishing.push(scene.client(Some(VANISHING), key)?);
        scene.wait("in_flight", index, PATIENCE)?;
    }
    let mut next = scene.client(Some(STAYING), "idle")?;
    scene.wait("in_flight", 3, PATIENCE)?;
    scene.wait("sessions", 5 * CONNECTION_COUNT, PATIENCE)?;

    scene.network.set_connected(VANISHING, false)?;
    let cut = now();
    end(other_holder)?;
    scene.wait("in_flight", 2, PATIENCE)?;
    scene.wait("in_flight", 1, NOTICE_TIME_MAX)?;
    let waiter_left = cut.elapsed();
    scene.wait("sessions", 2 * CONNECTION_COUNT, left(cut))?;
    let all_left = cut.elapsed();
    if waiter_left < NOTICE_TIME_MIN {
        return Err(format!("noticed after {waiter_left:?}: the host was not cut off silently"));
    }
    if all_left > NOTICE_TIME_MAX {
        return Err(format!("a vanished host was noticed only after {all_left:?}"));
    }
    for client in &mut vanishing {
        if let Ok(Some(status)) = client.0.try_wait() {
            return Err(format!("the client that was cut off ended by itself: {status}"));
        }
    }

    end(holder)?;
    let released = now();
    read_line(&mut next)?;
    let handed_on = released.elapsed();
    end(next)?;
    if handed_on > PATIENCE {
        return Err(format!("the next in the queue had the lock only after {handed_on:?}"));
    }
    Ok(format!("the waiter left after {waiter_left:.1?}, all connections after {all_left:.1?}"))
}

impl Scene {
    fn start(server: &Path) -> Result<Self, String> {
        let network = Network::new(2)?;
        let home = std::env::temp_dir().join(format!("ticketing-vanish-{}", std::process::id()));
        std::fs::create_dir_all(&home).map_err(|error| format!("{}: {error}", home.display()))?;
        let mut process = spawn(
            Command::new(server)
                .env_clear()
                .env("TICKETING_LISTEN", format!("{}:0", network.host_address()))
                .env("TICKETING_TOKEN", TOKEN)
                .env("TICKETING_ADMIN_SOCKET", home.join("admin")),
        )?;
        let line = read_line(&mut process)?;
        let address = line.split(' ').nth(3).ok_or("a start line without an address")?.to_owned();
        let (server, client) = (server.to_owned(), server.with_file_name("ticketing"));
        Ok(Self { network, client, server, process, address, home })
    }

    /// Waits for the key on a host, or on this one; holding it, says so and waits for the end of
    /// its standard input.
    fn client(&self, host: Option<usize>, key: &str) -> Result<Process, String> {
        let mut command = match host {
            Some(host) => self.network.command(host, &self.client),
            None => Command::new(&self.client),
        };
        command
            .args(["lock", key, "--wait", "255s", "--lease", "250s", "--"])
            .args(["sh", "-c", "echo held; cat"])
            .env("TICKETING_ADDRESSES", &self.address)
            .env("TICKETING_TOKEN", TOKEN);
        spawn(&mut command)
    }

    /// Waits until a figure of the server's status has that value.
    fn wait(&self, name: &str, value: u64, time_max: Duration) -> Result<(), String> {
        let start = now();
        let line = format!("{name} {value}");
        loop {
            let text = self.status()?;
            if text.lines().any(|found| found == line) {
                return Ok(());
            }
            if start.elapsed() > time_max {
                return Err(format!("not {line:?} within {time_max:?}; the server says:\n{text}"));
            }
            sleep(POLL);
        }
    }

    fn status(&self) -> Result<String, String> {
        let output = Command::new(&self.server)
            .arg("status")
            .env_clear()
            .env("TICKETING_ADMIN_SOCKET", self.home.join("admin"))
            .output()
            .map_err(|error| error.to_string())?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.process.0.kill();
        let _ = std::fs::remove_dir_all(&self.home);
    }
}

fn spawn(command: &mut Command) -> Result<Process, String> {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().map(Process).map_err(|error| format!("{command:?}: {error}"))
}

/// Lets the client's command end, and so the lock be released.
fn end(mut client: Process) -> Result<(), String> {
    drop(client.0.stdin.take());
    let status = client.0.wait().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("a client that stayed ended: {status}")) }
}

/// The first line that it writes.
fn read_line(process: &mut Process) -> Result<String, String> {
    let stdout = process.0.stdout.as_mut().ok_or("its output is taken")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).map_err(|error| error.to_string())?;
    if line.is_empty() { Err("ended without a word".into()) } else { Ok(line) }
}

fn left(since: Instant) -> Duration {
    NOTICE_TIME_MAX.saturating_sub(since.elapsed())
}
