//! The processes of a cluster, and what can be done to them.

use super::client::{Answer, Connection};
use super::clock::now;
use super::network::Network;
use super::status::Status;
use std::fs::File;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;
use ticketing_test_ports::free_address;

/// From the start of all processes to the first lock.
const START_TIME_MAX: Duration = Duration::from_secs(20);
/// From the last request and lease until every node has applied the same entries.
const AGREEMENT_TIME_MAX: Duration = Duration::from_secs(15);
/// How often something that is waited for is looked at.
const POLL: Duration = Duration::from_millis(10);

/// What clients are configured with.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) clients: Vec<SocketAddr>,
    pub(crate) fingerprint: [u8; 32],
    pub(crate) token: Vec<u8>,
}

impl Target {
    pub(crate) fn slot_count(&self) -> usize {
        self.clients.len()
    }
}

/// A cluster.
pub(crate) struct Cluster {
    server: PathBuf,
    variables: Vec<(String, String)>,
    pub(crate) target: Target,
    peers: Vec<SocketAddr>,
    processes: Vec<Option<Child>>,
    network: Option<Network>,
    home: PathBuf,
    /// Whether every slot has a directory that outlives its processes.
    has_state: bool,
}

impl Cluster {
    /// A new identity for that many slots on loopback; nothing is started yet.
    pub(crate) fn new(server: &Path, slot_count: usize) -> Result<Self, String> {
        Self::on_loopback(server, slot_count, &[])
    }

    /// The same with less time to begin.
    pub(crate) fn with_window(server: &Path, window: Duration) -> Result<Self, String> {
        Self::on_loopback(server, 3, &["--window", &window.as_secs().to_string()])
    }

    fn on_loopback(server: &Path, slot_count: usize, other: &[&str]) -> Result<Self, String> {
        let addresses = || {
            let some = (0..slot_count).map(|_| free_address(Ipv4Addr::LOCALHOST));
            some.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())
        };
        Self::make(server, other, addresses()?, addresses()?, None)
    }

    /// A new identity with every slot in a network namespace of its own.
    pub(crate) fn in_namespaces(server: &Path, slot_count: usize) -> Result<Self, String> {
        let network = Network::new(slot_count)?;
        let client = |slot| SocketAddr::new(network.client_address(slot), 5225);
        let peer = |slot| SocketAddr::new(network.peer_address(slot), 6225);
        let (clients, peers) =
            ((0..slot_count).map(client).collect(), (0..slot_count).map(peer).collect());
        Self::make(server, &[], clients, peers, Some(network))
    }

    fn make(
        server: &Path,
        other: &[&str],
        clients: Vec<SocketAddr>,
        peers: Vec<SocketAddr>,
        network: Option<Network>,
    ) -> Result<Self, String> {
        let slots: Vec<_> =
            clients.iter().zip(&peers).map(|(client, peer)| format!("{client}/{peer}")).collect();
        let made = Command::new(server)
            .args(["cluster", "new", "--slots", &slots.join(",")])
            .args(other)
            .output()
            .map_err(|error| format!("{}: {error}", server.display()))?;
        let text = String::from_utf8_lossy(&made.stdout).into_owned();
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.map(str::to_owned).ok_or_else(|| format!("cluster new prints no {name}"))
        };
        let fingerprint = value("# fingerprint=")?;
        let home = std::env::temp_dir().join(format!("ticketing-chaos-{}", &fingerprint[..16]));
        std::fs::create_dir_all(&home).map_err(|error| format!("{}: {error}", home.display()))?;
        let names = ["TICKETING_CLUSTER_ID", "TICKETING_CLUSTER_SLOTS", "TICKETING_TOKEN"];
        let mut variables = Vec::new();
        for name in names.iter().chain(&["TICKETING_PEER_TOKEN"]) {
            variables.push(((*name).to_owned(), value(&format!("{name}="))?));
        }
        Ok(Self {
            server: server.to_owned(),
            variables,
            target: Target {
                clients,
                fingerprint: parse_hex(&fingerprint)?,
                token: value("TICKETING_TOKEN=")?.into_bytes(),
            },
            processes: peers.iter().map(|_| None).collect(),
            peers,
            network,
            home,
            has_state: false,
        })
    }

    /// Gives every slot a directory that outlives its processes.
    pub(crate) fn keep_state(&mut self) {
        self.has_state = true;
    }

    pub(crate) fn slot_count(&self) -> usize {
        self.processes.len()
    }

    /// A setting that all of its processes share.
    pub(crate) fn variable(&self, name: &str) -> Result<String, String> {
        let found = self.variables.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone()).ok_or_else(|| format!("no {name}"))
    }

    /// Starts every slot and waits for a leader.
    pub(crate) fn start_all(&mut self) -> Result<usize, String> {
        for slot in 0..self.slot_count() {
            self.start(slot)?;
        }
        self.leader(START_TIME_MAX)
    }

    /// Starts a slot's process.
    pub(crate) fn start(&mut self, slot: usize) -> Result<(), String> {
        let child = self.spawn(slot, &[])?;
        self.processes[slot] = Some(child);
        Ok(())
    }

    /// Starts a process of a slot with other settings; its end is the caller's business.
    pub(crate) fn spawn(&self, slot: usize, other: &[(&str, &str)]) -> Result<Child, String> {
        let log = self.log(slot);
        let open = File::options().create(true).append(true).open(&log);
        let log = open.map_err(|error| format!("{}: {error}", log.display()))?;
        let mut command = match &self.network {
            Some(network) => network.command(slot, &self.server),
            None => Command::new(&self.server),
        };
        command
            .env_clear()
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .env("TICKETING_SLOT", slot.to_string())
            .env("TICKETING_LISTEN", self.target.clients[slot].to_string())
            .env("TICKETING_PEER_LISTEN", self.peers[slot].to_string())
            // Nodes of one thread and of several, whatever this machine has.
            .env("TICKETING_THREADS", (1 + slot % 2).to_string())
            .env("TICKETING_ADMIN_SOCKET", self.admin_socket(slot))
            .envs(self.has_state.then(|| ("TICKETING_STATE_DIR", self.state_directory(slot))))
            .envs(other.iter().copied())
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(|error| error.to_string())?)
            .stderr(log)
            .spawn()
            .map_err(|error| format!("slot {slot}: {error}"))
    }

    fn state_directory(&self, slot: usize) -> PathBuf {
        self.home.join(format!("slot-{slot}.state"))
    }

    fn admin_socket(&self, slot: usize) -> PathBuf {
        self.home.join(format!("slot-{slot}.admin"))
    }

    /// Waits until a slot's process is a voter that has caught up.
    pub(crate) fn wait_ready(&self, slot: usize, time_max: Duration) -> Result<(), String> {
        let seconds = time_max.as_secs().to_string();
        let status = Command::new(&self.server)
            .args(["status", "--wait-ready", &seconds])
            .env("TICKETING_ADMIN_SOCKET", self.admin_socket(slot))
            .output()
            .map_err(|error| error.to_string())?;
        if status.status.success() {
            return Ok(());
        }
        Err(format!("slot {slot} does not become ready; it says:\n{}", self.words(slot)))
    }

    /// Where a slot's process stands, by its own account.
    pub(crate) fn status(&self, slot: usize) -> Result<Status, String> {
        let mut text = String::new();
        let read = UnixStream::connect(self.admin_socket(slot))
            .and_then(|mut stream| stream.read_to_string(&mut text));
        read.map_err(|error| format!("slot {slot}: no status: {error}"))?;
        Status::parse(&text).ok_or_else(|| format!("slot {slot} is no member:\n{text}"))
    }

    /// Waits until every node has applied the same entries, and compares what came of them. Nobody
    /// may ask for anything meanwhile.
    pub(crate) fn agree(&self) -> Result<(), String> {
        let mut last = Vec::new();
        let same = wait(AGREEMENT_TIME_MAX, || {
            last = (0..self.slot_count()).map(|slot| self.status(slot)).collect();
            let seen: Vec<_> = last.iter().flatten().map(|status| status.state).collect();
            seen.len() == self.slot_count() && seen.iter().all(|state| *state == seen[0])
        });
        same.ok_or_else(|| format!("the nodes do not come to one state: {last:?}"))
    }

    fn log(&self, slot: usize) -> PathBuf {
        self.home.join(format!("slot-{slot}.log"))
    }

    /// What a slot's processes have logged.
    pub(crate) fn words(&self, slot: usize) -> String {
        std::fs::read_to_string(self.log(slot)).unwrap_or_default()
    }

    /// Waits until a slot's log contains those words.
    pub(crate) fn wait_for_words(&self, slot: usize, words: &str) -> Result<(), String> {
        wait(START_TIME_MAX, || self.words(slot).contains(words)).ok_or_else(|| {
            format!("slot {slot} does not say {words:?}; it says:\n{}", self.words(slot))
        })
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, slot: usize, name: &str) -> Result<(), String> {
        let child = self.processes[slot].as_ref().ok_or("no process")?;
        let status =
            Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            other => Err(format!("kill -{name}: {other:?}")),
        }
    }

    /// Kills a process without any notice to it.
    pub(crate) fn kill(&mut self, slot: usize) -> Result<(), String> {
        let mut child = self.processes[slot].take().ok_or("no process")?;
        child.kill().and_then(|()| child.wait()).map_err(|error| error.to_string())?;
        Ok(())
    }

    /// Asks a process to stop, and returns its exit code.
    pub(crate) fn terminate(&mut self, slot: usize) -> Result<Option<i32>, String> {
        self.signal(slot, "TERM")?;
        let mut child = self.processes[slot].take().ok_or("no process")?;
        child.wait().map(|status| status.code()).map_err(|error| error.to_string())
    }

    /// The slot that grants locks.
    pub(crate) fn leader(&self, time_max: Duration) -> Result<usize, String> {
        let end = now() + time_max;
        while now() < end {
            for slot in (0..self.slot_count()).filter(|slot| self.processes[*slot].is_some()) {
                let Ok(mut connection) = Connection::open(&self.target, slot) else { continue };
                let answer = connection.acquire("leader?", 0, 1);
                if matches!(answer, Ok(Answer::Granted(_) | Answer::TimedOut)) {
                    return Ok(slot);
                }
            }
            sleep(POLL);
        }
        let words =
            (0..self.slot_count()).map(|slot| format!("\nslot {slot}:\n{}", self.words(slot)));
        Err(format!("no leader within {time_max:?}; they say:{}", words.collect::<String>()))
    }

    /// Cuts a slot's host off, silently, or connects it again.
    pub(crate) fn set_connected(&self, slot: usize, is_connected: bool) -> Result<(), String> {
        self.network.as_ref().ok_or("not in namespaces")?.set_connected(slot, is_connected)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for mut child in self.processes.drain(..).flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.home);
    }
}

/// Polls until it holds; `None` when the time is over.
fn wait(time_max: Duration, mut holds: impl FnMut() -> bool) -> Option<()> {
    let end = now() + time_max;
    while now() < end {
        if holds() {
            return Some(());
        }
        sleep(POLL);
    }
    None
}

fn parse_hex(text: &str) -> Result<[u8; 32], String> {
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        let digits = text.get(2 * at..2 * at + 2).ok_or("a short fingerprint")?;
        *byte = u8::from_str_radix(digits, 16).map_err(|error| error.to_string())?;
    }
    Ok(bytes)
}
