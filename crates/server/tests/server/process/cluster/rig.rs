//! A cluster on loopback. Every node has a log and an admin socket in its own directory.

use crate::process::rig::{Node, run};
use crate::support::{Client, PATIENCE, acquire, connect, eventually, id, now, read_hello};
use std::fs;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitStatus;
use tempfile::TempDir;
use ticketing_auth::ClientToken;
use ticketing_test_ports::free_address;
use ticketing_wire_codec::{Reply, ReplyRules, VERDICT_ACCEPTED, proof_message};

/// Nodes of the cluster.
pub(super) const NODE_COUNT: usize = 3;

/// Settings beside those that make a cluster.
pub(super) type More<'a> = &'a [(&'a str, &'a str)];

/// A cluster's identity, and its nodes as far as they have been started.
pub(super) struct Cluster {
    variables: Vec<(String, String)>,
    pub(super) fingerprint: String,
    clients: Vec<String>,
    nodes: Vec<Option<Node>>,
    home: TempDir,
}

impl Cluster {
    /// An identity for free ports; nothing is started yet.
    pub(super) fn new() -> Self {
        let free = || free_address(Ipv4Addr::LOCALHOST).expect("a free port").to_string();
        let addresses: Vec<String> = (0..2 * NODE_COUNT).map(|_| free()).collect();
        let (clients, peers) = addresses.split_at(NODE_COUNT);
        let slots = clients.iter().zip(peers).map(|(client, peer)| format!("{client}/{peer}"));
        let slots = slots.collect::<Vec<_>>().join(",");
        let made = run(&["cluster", "new", "--slots", &slots], &[]);
        assert!(made.status.success(), "{}", made.errors);
        let value = |name: &str| {
            let line = made.output.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("{name} in {}", made.output)).to_owned()
        };
        let names = ["CLUSTER_ID", "CLUSTER_SLOTS", "TOKEN", "PEER_TOKEN"];
        let names = names.map(|name| format!("TICKETING_{name}"));
        let variables = names.map(|name| (name.clone(), value(&format!("{name}="))));
        Self {
            variables: variables.into(),
            fingerprint: value("# fingerprint="),
            clients: clients.to_vec(),
            nodes: (0..NODE_COUNT).map(|_| None).collect(),
            home: tempfile::tempdir().expect("a directory"),
        }
    }

    /// The settings of a slot.
    pub(super) fn environment(&self, slot: usize) -> Vec<(&str, String)> {
        let variables = self.variables.iter().map(|(name, value)| (name.as_str(), value.clone()));
        let mut variables: Vec<_> = variables.collect();
        variables.push(("TICKETING_SLOT", slot.to_string()));
        variables.push(("TICKETING_LISTEN", self.clients[slot].clone()));
        // Nodes of one thread and of several, whatever this machine has.
        variables.push(("TICKETING_THREADS", (1 + slot % 2).to_string()));
        let socket = self.path(slot, "admin").to_str().expect("text").to_owned();
        variables.push(("TICKETING_ADMIN_SOCKET", socket));
        variables
    }

    /// A path in the cluster's own directory.
    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Starts a slot's process and returns its start line. One that runs already dies first.
    pub(super) fn start(&mut self, slot: usize, more: More<'_>) -> String {
        self.nodes[slot] = None;
        let mut environment = self.environment(slot);
        if more.iter().any(|(name, _)| *name == "TICKETING_PEER_TOKEN_FILE") {
            environment.retain(|(name, _)| *name != "TICKETING_PEER_TOKEN");
        }
        environment.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
        let node = Node::start(&environment, &self.path(slot, "log"));
        let line = node.line.clone();
        self.nodes[slot] = Some(node);
        line
    }

    /// How a slot's process ends, which something else causes.
    pub(super) fn end_of(&mut self, slot: usize) -> ExitStatus {
        self.nodes[slot].take().expect("started").wait()
    }

    fn path(&self, slot: usize, what: &str) -> PathBuf {
        self.home.path().join(format!("{slot}.{what}"))
    }

    /// What a slot's process has logged.
    pub(super) fn log(&self, slot: usize) -> String {
        fs::read_to_string(self.path(slot, "log")).unwrap_or_default()
    }

    /// Waits until a slot's process has logged each of the words in one line.
    pub(super) fn wait_for_log(&self, slot: usize, words: &[&str]) {
        eventually(&format!("slot {slot} says {words:?}"), || {
            self.log(slot).lines().any(|line| words.iter().all(|word| line.contains(word)))
        });
    }

    /// `status` of a slot, once it is ready.
    pub(super) fn ready(&self, slot: usize) -> Vec<String> {
        let seconds = PATIENCE.as_secs().to_string();
        let environment = self.environment(slot);
        let status = run(&["status", "--wait-ready", &seconds], &environment);
        assert!(status.status.success(), "slot {slot} is not ready: {}", self.report());
        status.output.lines().map(str::to_owned).collect()
    }

    /// What every process says of itself, for a test that failed.
    fn report(&self) -> String {
        let slots = (0..NODE_COUNT).filter(|slot| self.nodes[*slot].is_some());
        let of = |slot| {
            let status = run(&["status"], &self.environment(slot));
            format!("slot {slot}:\n{}{}", status.output, self.log(slot))
        };
        slots.map(of).collect()
    }

    /// The slot of a leader that grants locks, and a client of it.
    pub(super) fn leader(&self) -> (usize, Client) {
        let start = now();
        while start.elapsed() < PATIENCE {
            for slot in (0..NODE_COUNT).filter(|slot| self.nodes[*slot].is_some()) {
                let mut client = self.client(slot);
                client.send(&acquire(1, 0, 1, "who-leads"));
                if matches!(client.answer(1), Reply::Granted { .. } | Reply::TimedOut { .. }) {
                    return (slot, client);
                }
            }
        }
        panic!("no leader within {PATIENCE:?}");
    }

    /// An authenticated connection to a slot.
    pub(super) fn client(&self, slot: usize) -> Client {
        let mut stream = connect(self.clients[slot].parse().expect("an address"));
        let hello = read_hello(&mut stream).expect("a hello");
        let token = &self.variables.iter().find(|(name, _)| name == "TICKETING_TOKEN");
        let token = ClientToken::new(token.expect("made").1.as_bytes()).expect("a valid token");
        let message = proof_message(&hello, &self.fingerprint_bytes());
        stream.write_all(&token.prove(&message)).expect("the server reads");
        let mut verdict = [0];
        stream.read_exact(&mut verdict).expect("a verdict");
        assert_eq!(verdict[0], VERDICT_ACCEPTED);
        Client::shaken(stream, ReplyRules::Cluster { voter_count: NODE_COUNT as u8 })
    }

    fn fingerprint_bytes(&self) -> [u8; 32] {
        let digits = self.fingerprint.as_bytes();
        std::array::from_fn(|at| {
            let pair = std::str::from_utf8(&digits[2 * at..2 * at + 2]).expect("hex digits");
            u8::from_str_radix(pair, 16).expect("hex digits")
        })
    }
}

impl Client {
    /// The answer to a request; news of who leads are passed over.
    fn answer(&mut self, request: u64) -> Reply {
        loop {
            let reply = self.receive();
            if reply.request_id() == Some(id(request)) {
                return reply;
            }
        }
    }
}
