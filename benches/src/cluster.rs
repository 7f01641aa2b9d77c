//! A cluster of one system: three processes on the same cores, and the client's way to its leader.

use std::io::{self, Error};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use ticketing_test_ports::free_address;

use crate::clock::{NANOS_PER_SECOND, now_nanos};
use crate::driver::{EtcdDriver, TicketingDriver};
use crate::process::{Process, Spec};
use crate::system::{EtcdMember, System, etcd_arguments};

/// Nodes of every measured cluster.
pub const NODE_COUNT: usize = 3;
/// A cluster without a leader after so long has failed to start.
const LEADER_NANOS_MAX: u64 = 20 * NANOS_PER_SECOND;
const LEADER_POLL: Duration = Duration::from_millis(20);
/// In each of our nodes' home: where it says how it stands.
const ADMIN_SOCKET: &str = "admin";

/// A running cluster. Dropping it ends every node.
#[derive(Debug)]
pub struct Cluster {
    plan: ClusterPlan,
    nodes: Vec<Process>,
}

/// All that is needed to start any of the nodes, again too.
#[derive(Debug)]
struct ClusterPlan {
    system: System,
    program: PathBuf,
    cores: Vec<usize>,
    /// By slot: for clients, for other nodes.
    addresses: Vec<(SocketAddr, SocketAddr)>,
    /// Of our own clusters.
    identity: Option<Identity>,
}

impl Cluster {
    /// Starts every node on free loopback ports, all allowed on all of `cores`.
    ///
    /// # Errors
    /// When the system has no clusters, or a node does not come up.
    pub fn start(system: System, program: &Path, cores: &[usize]) -> io::Result<Self> {
        let addresses = free_addresses()?;
        let identity = match system {
            System::Ticketing => Some(Identity::make(program, &addresses)?),
            System::Etcd => None,
            other => return Err(Error::other(format!("{} has no clusters here", other.name()))),
        };
        let (program, cores) = (program.to_owned(), cores.to_owned());
        let plan = ClusterPlan { system, program, cores, addresses, identity };
        let slots = 0..NODE_COUNT;
        // All before the first is waited for: etcd does not listen before a majority is there.
        let mut nodes = slots.map(|slot| plan.spawn(slot)).collect::<io::Result<Vec<_>>>()?;
        nodes.iter_mut().try_for_each(Process::wait_until_it_listens)?;
        Ok(Self { plan, nodes })
    }

    /// Which system it is a cluster of.
    pub fn system(&self) -> System {
        self.plan.system
    }

    /// The slot that leads now, waiting for one if need be.
    ///
    /// # Errors
    /// When there is none in time.
    pub fn leader(&self) -> io::Result<usize> {
        let end = now_nanos() + LEADER_NANOS_MAX;
        while now_nanos() < end {
            if let Some(leader) = (0..NODE_COUNT).find(|slot| self.leads(*slot)) {
                return Ok(leader);
            }
            thread::sleep(LEADER_POLL);
        }
        let words: Vec<_> = self.nodes.iter().map(Process::last_words).collect();
        Err(Error::other(format!("no node leads within 20 s: {}", words.join("\n"))))
    }

    /// A node that does not answer does not lead.
    fn leads(&self, slot: usize) -> bool {
        let address = self.nodes[slot].address();
        let leads = match &self.plan.identity {
            Some(identity) => identity.driver().and_then(|driver| driver.leads(address)),
            None => EtcdDriver::leads(address),
        };
        leads.unwrap_or(false)
    }

    /// The leader and the others.
    pub fn split(&self, leader: usize) -> (&Process, Vec<&Process>) {
        let others = self.nodes.iter().enumerate().filter(|(slot, _)| *slot != leader);
        (&self.nodes[leader], others.map(|(_, node)| node).collect())
    }

    /// A driver for one of our own clusters.
    ///
    /// # Errors
    /// For any other system's.
    pub fn ticketing_driver(&self) -> io::Result<TicketingDriver> {
        let identity = self.plan.identity.as_ref();
        identity.ok_or_else(|| Error::other("not a cluster of Ticketing"))?.driver()
    }

    /// Kills a node.
    pub fn kill(&mut self, slot: usize) {
        self.nodes[slot].kill();
    }

    /// Starts a killed node's successor, empty and without waiting for it. Returns where the
    /// successor says how it stands.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_successor(&mut self, slot: usize) -> io::Result<PathBuf> {
        self.nodes[slot] = self.plan.spawn(slot)?;
        Ok(self.nodes[slot].home().join(ADMIN_SOCKET))
    }
}

impl ClusterPlan {
    fn spawn(&self, slot: usize) -> io::Result<Process> {
        let home = TempDir::new()?;
        let mut spec = Spec {
            program: self.program.clone(),
            arguments: Vec::new(),
            variables: Vec::new(),
            address: self.addresses[slot].0,
            cores: self.cores.clone(),
            home,
        };
        match &self.identity {
            Some(identity) => {
                let socket = spec.home.path().join(ADMIN_SOCKET);
                spec.variables.clone_from(&identity.variables);
                spec.variables.extend([
                    ("TICKETING_SLOT", slot.to_string()),
                    ("TICKETING_LISTEN", spec.address.to_string()),
                    ("TICKETING_ADMIN_SOCKET", socket.display().to_string()),
                ]);
            }
            None => {
                let member = |(clients, peers): &_| EtcdMember { clients: *clients, peers: *peers };
                let members: Vec<_> = self.addresses.iter().map(member).collect();
                spec.arguments = etcd_arguments(slot, &members);
            }
        }
        Process::spawn(spec)
    }
}

/// What `ticketing-server cluster new` makes: the environment of all nodes, and what their clients
/// are configured with.
#[derive(Debug)]
struct Identity {
    variables: Vec<(&'static str, String)>,
    token: String,
    fingerprint: [u8; 32],
}

impl Identity {
    fn make(program: &Path, addresses: &[(SocketAddr, SocketAddr)]) -> io::Result<Self> {
        let slot = |(clients, peers): &_| format!("{clients}/{peers}");
        let slots: Vec<String> = addresses.iter().map(slot).collect();
        let arguments = ["cluster", "new", "--slots", &slots.join(",")];
        let made = Command::new(program).env_clear().args(arguments).output()?;
        if !made.status.success() {
            let words = String::from_utf8_lossy(&made.stderr);
            return Err(Error::other(format!("`cluster new` failed: {words}")));
        }
        Self::parse(&String::from_utf8_lossy(&made.stdout)).map_err(|missing| {
            Error::other(format!("`cluster new` prints no {missing} that can be read"))
        })
    }

    fn parse(text: &str) -> Result<Self, &'static str> {
        let value = |name: &'static str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            line.map(str::to_owned).ok_or(name)
        };
        let names = [
            "TICKETING_CLUSTER_ID",
            "TICKETING_CLUSTER_SLOTS",
            "TICKETING_TOKEN",
            "TICKETING_PEER_TOKEN",
        ];
        let variables = names.into_iter().map(|name| Ok((name, value(name)?)));
        Ok(Self {
            variables: variables.collect::<Result<_, _>>()?,
            token: value("TICKETING_TOKEN")?,
            fingerprint: unhex(&value("# fingerprint")?).ok_or("fingerprint")?,
        })
    }

    fn driver(&self) -> io::Result<TicketingDriver> {
        let driver = TicketingDriver::new().with_token(Some(&self.token))?;
        Ok(driver.in_cluster(self.fingerprint, NODE_COUNT as u8))
    }
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 2 * bytes.len() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

/// For clients and for other nodes, by slot.
fn free_addresses() -> io::Result<Vec<(SocketAddr, SocketAddr)>> {
    let host = Ipv4Addr::LOCALHOST;
    (0..NODE_COUNT).map(|_| Ok((free_address(host)?, free_address(host)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_of_a_new_cluster_is_read() {
        let fingerprint = "0a".repeat(32);
        let text = format!(
            "# Start all.\n# fingerprint={fingerprint}\nTICKETING_CLUSTER_ID=i\n\
             TICKETING_CLUSTER_SLOTS=a,b,c\nTICKETING_TOKEN=token\nTICKETING_PEER_TOKEN=p\n"
        );
        let identity = Identity::parse(&text).expect("complete");
        assert_eq!(identity.fingerprint, [10; 32]);
        assert_eq!(identity.variables[1], ("TICKETING_CLUSTER_SLOTS", "a,b,c".into()));
        let short = text.replacen("0a", "", 1);
        assert_eq!(Identity::parse(&short).expect_err("short"), "fingerprint");
        let without = text.replace("TICKETING_PEER_TOKEN", "");
        assert_eq!(Identity::parse(&without).expect_err("incomplete"), "TICKETING_PEER_TOKEN");
    }

    #[test]
    fn a_system_without_clusters_is_named() {
        let error = Cluster::start(System::Redis, Path::new("redis"), &[0]).expect_err("none");
        assert!(error.to_string().contains("Redis"), "{error}");
    }
}
