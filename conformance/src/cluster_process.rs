//! A real cluster of three nodes on free loopback ports.

use crate::failure::{Check, Failure, unhex};
use crate::frame::{Cluster, HEAD_SIZE_BYTES, HELLO_SIZE_BYTES, Identity, acquire};
use crate::limits::STEP_LIMIT;
use crate::server_process::{Profile, server_binary};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::time::Duration;
use ticketing_test_ports::free_address;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// Number of nodes.
const NODE_COUNT: usize = 3;
/// From the start of all nodes, or the death of a leader, to the first grant.
const LEADER_LIMIT: Duration = Duration::from_secs(30);
/// Pause between two questions for the leader.
const ASK_PAUSE: Duration = Duration::from_millis(100);
/// Longest answer of a node to such a question.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);
/// Key of the questions.
const ASK_KEY: &[u8] = b"who-leads";

/// The running nodes; killed when dropped.
pub struct ClusterProcess {
    /// Whom clients have to expect.
    pub identity: Identity,
    addresses: Vec<SocketAddr>,
    nodes: Vec<Option<Child>>,
}

impl ClusterProcess {
    /// Makes an identity, starts every node and waits until one leads.
    ///
    /// # Errors
    /// When the server cannot be built or started, or nobody leads in time.
    pub async fn start() -> Result<Self, String> {
        let server = server_binary(Profile::Debug).await?;
        let some = || (0..NODE_COUNT).map(|_| free_address(Ipv4Addr::LOCALHOST));
        let addresses = some().collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
        let peers = some().collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
        let slots: Vec<String> = addresses
            .iter()
            .zip(&peers)
            .map(|(address, peer)| format!("{address}/{peer}"))
            .collect();
        // Whatever settings the judge's own environment has are not for this server.
        let made = Command::new(&server)
            .env_clear()
            .args(["cluster", "new", "--slots", &slots.join(",")])
            .output()
            .await
            .map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&made.stdout).into_owned();
        let environment = Environment::parse(&text)?;
        let mut nodes = Vec::new();
        for (slot, address) in addresses.iter().enumerate() {
            let node = Command::new(&server)
                .env_clear()
                .envs(environment.variables.iter().map(|(name, value)| (name, value)))
                .env("TICKETING_SLOT", slot.to_string())
                .env("TICKETING_LISTEN", address.to_string())
                .env("TICKETING_LOG", "error")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .kill_on_drop(true)
                .spawn()
                .map_err(|error| format!("node {slot}: {error}"))?;
            nodes.push(Some(node));
        }
        let cluster = Self { identity: environment.identity, addresses, nodes };
        cluster.leader().await?;
        Ok(cluster)
    }

    /// Addresses in slot order, as a driver takes them.
    pub fn addresses(&self) -> String {
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        addresses.join(",")
    }

    /// The slot that grants locks.
    ///
    /// # Errors
    /// When there is none in time.
    pub async fn leader(&self) -> Result<usize, String> {
        let asked = async {
            loop {
                for slot in (0..NODE_COUNT).filter(|slot| self.nodes[*slot].is_some()) {
                    if self.leads(slot).await.unwrap_or(false) {
                        return slot;
                    }
                }
                tokio::time::sleep(ASK_PAUSE).await;
            }
        };
        tokio::time::timeout(LEADER_LIMIT, asked)
            .await
            .map_err(|_| format!("no node leads within {LEADER_LIMIT:?}"))
    }

    /// Kills the leader without any notice to it, and waits for another one.
    ///
    /// # Errors
    /// When there is no other in time.
    pub async fn kill_leader(&mut self) -> Result<(), String> {
        let slot = self.leader().await?;
        if let Some(mut node) = self.nodes[slot].take() {
            node.kill().await.map_err(|error| error.to_string())?;
        }
        self.leader().await.map(drop)
    }

    /// Stops the leader in order, by SIGTERM, and waits for another one.
    ///
    /// # Errors
    /// When it does not exit, or there is no other in time.
    pub async fn stop_leader(&mut self) -> Result<(), String> {
        let slot = self.leader().await?;
        let mut node = self.nodes[slot].take().ok_or("the leader had been ended")?;
        let pid = node.id().ok_or("the leader had ended by itself")?.to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().await;
        sent.map_err(|error| error.to_string())?;
        let ended = tokio::time::timeout(LEADER_LIMIT, node.wait()).await;
        ended.map_err(|_| "the leader does not stop")?.map_err(|error| error.to_string())?;
        self.leader().await.map(drop)
    }

    /// Whether that node decides on requests itself.
    async fn leads(&self, slot: usize) -> Check<bool> {
        let asked = async {
            let mut stream = TcpStream::connect(self.addresses[slot]).await?;
            let mut hello = [0; HELLO_SIZE_BYTES];
            stream.read_exact(&mut hello).await?;
            let nonce = std::array::from_fn(|at| hello[HELLO_SIZE_BYTES - 16 + at]);
            stream.write_all(&self.identity.proof(slot, &nonce)).await?;
            stream.read_exact(&mut [0]).await?;
            stream.write_all(&acquire(1, 0, 1, ASK_KEY)).await?;
            loop {
                let mut head = [0; HEAD_SIZE_BYTES];
                stream.read_exact(&mut head).await?;
                let mut body = vec![0; u16::from_be_bytes([head[1], head[2]]).into()];
                stream.read_exact(&mut body).await?;
                // News of the leader come unasked.
                if head[0] != b'L' {
                    return Ok(matches!(head[0], b'A' | b'T'));
                }
            }
        };
        let silent = Failure { expected: "an answer".into(), seen: "silence".into() };
        tokio::time::timeout(ANSWER_LIMIT.min(STEP_LIMIT), asked).await.unwrap_or(Err(silent))
    }
}

/// What `cluster new` prints.
struct Environment {
    variables: Vec<(String, String)>,
    identity: Identity,
}

impl Environment {
    fn parse(text: &str) -> Result<Self, String> {
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            line.map(str::to_owned).ok_or_else(|| format!("`cluster new` prints no {name}"))
        };
        let names = [
            "TICKETING_CLUSTER_ID",
            "TICKETING_CLUSTER_SLOTS",
            "TICKETING_TOKEN",
            "TICKETING_PEER_TOKEN",
        ];
        let mut variables = Vec::new();
        for name in names {
            variables.push((name.to_owned(), value(name)?));
        }
        let fingerprint = unhex(&value("# fingerprint")?).and_then(|bytes| bytes.try_into().ok());
        let cluster = Cluster {
            fingerprint: fingerprint.ok_or("`cluster new` prints a short fingerprint")?,
            voter_count: NODE_COUNT as u8,
        };
        let token = value("TICKETING_TOKEN")?.into_bytes();
        Ok(Self { variables, identity: Identity { token, cluster: Some(cluster) } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_of_a_new_cluster_is_read() {
        let fingerprint = "ab".repeat(32);
        let text = format!(
            "# Start all.\n# fingerprint={fingerprint}\nTICKETING_CLUSTER_ID=i\n\
             TICKETING_CLUSTER_SLOTS=a,b,c\nTICKETING_TOKEN=token\nTICKETING_PEER_TOKEN=p\n"
        );
        let environment = Environment::parse(&text).expect("complete");
        assert_eq!(environment.variables.len(), 4);
        assert_eq!(environment.identity.token, b"token");
        assert_eq!(environment.identity.cluster.map(|cluster| cluster.fingerprint[0]), Some(0xab));
        assert!(Environment::parse("").is_err());
    }
}
