//! The systems compared: how each is found on this machine and started.

use std::env;
use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;
use serde::Serialize;
use tempfile::TempDir;
use ticketing_test_ports::free_address;

use crate::process::{Process, Spec};

/// Argument that turns this executable into the echo reference.
pub const ECHO_ARGUMENT: &str = "__echo";

/// A measured system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum System {
    /// Bare echo of equal frames: the floor.
    Echo,
    /// This project's server.
    Ticketing,
    /// Redis with `SET NX PX` and a compare-and-delete script.
    Redis,
    /// dflockd.
    Dflockd,
    /// etcd with its lock service.
    Etcd,
}

/// Limits a cell needs beyond a server's defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Keys that exist at once.
    pub keys: Option<usize>,
    /// Connections at once.
    pub connections: Option<usize>,
    /// Threads that serve connections; only our server has the setting.
    pub io_threads: Option<usize>,
    /// Client token; only our server is started with one.
    pub token: Option<&'static str>,
}

impl System {
    /// Every system, in the order of the tables.
    pub const ALL: [Self; 5] =
        [Self::Echo, Self::Ticketing, Self::Redis, Self::Dflockd, Self::Etcd];

    /// Name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Echo => "bare echo",
            Self::Ticketing => "Ticketing",
            Self::Redis => "Redis",
            Self::Dflockd => "dflockd",
            Self::Etcd => "etcd",
        }
    }

    /// Its executable; `None` when the machine does not have it. `server` is our own.
    pub fn find(self, server: &Path) -> Option<PathBuf> {
        match self {
            Self::Echo => env::current_exe().ok(),
            Self::Ticketing => server.is_file().then(|| server.to_owned()),
            Self::Redis => on_path("redis-server"),
            Self::Dflockd => on_path("dflockd"),
            Self::Etcd => on_path("etcd"),
        }
    }

    /// The version its executable names, if it does.
    pub fn version(self, program: &Path) -> Option<String> {
        if self == Self::Echo {
            return None;
        }
        let output = Command::new(program).arg("--version").output().ok()?;
        version_in(&String::from_utf8_lossy(&output.stdout))
    }

    /// Whether it knows locks at all; echo grants everything.
    pub const fn has_locks(self) -> bool {
        !matches!(self, Self::Echo)
    }

    /// Whether the load tool measures clusters of it.
    pub const fn has_clusters(self) -> bool {
        matches!(self, Self::Ticketing | Self::Etcd)
    }

    /// Starts it, one node, on a free loopback port and in a temporary directory.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start(self, program: &Path, cores: &[usize], tuning: Tuning) -> io::Result<Process> {
        let address = free_address(Ipv4Addr::LOCALHOST)?;
        let mut spec = Spec {
            program: program.to_owned(),
            arguments: Vec::new(),
            variables: Vec::new(),
            address,
            cores: cores.to_owned(),
            home: TempDir::new()?,
        };
        match self {
            Self::Echo => spec.arguments = words(&[ECHO_ARGUMENT, &address.to_string()]),
            Self::Ticketing => spec.variables = ticketing_variables(address, tuning),
            Self::Redis => spec.arguments = redis_arguments(address, tuning),
            Self::Dflockd => spec.arguments = dflockd_arguments(address, tuning),
            Self::Etcd => {
                let peers = free_address(Ipv4Addr::LOCALHOST)?;
                let member = EtcdMember { clients: address, peers };
                spec.arguments = etcd_arguments(0, &[member]);
            }
        }
        Process::start(spec)
    }
}

fn ticketing_variables(address: SocketAddr, tuning: Tuning) -> Vec<(&'static str, String)> {
    let mut variables = vec![("TICKETING_LISTEN", address.to_string())];
    let limits = [
        ("TICKETING_MAX_KEYS", tuning.keys),
        ("TICKETING_MAX_CONNECTIONS", tuning.connections),
        ("TICKETING_THREADS", tuning.io_threads),
    ];
    let set = limits.into_iter().filter_map(|(name, limit)| Some((name, limit?.to_string())));
    variables.extend(set);
    variables.extend(tuning.token.map(|token| ("TICKETING_TOKEN", token.to_owned())));
    variables
}

/// Without persistence, as for locks that live in memory elsewhere.
fn redis_arguments(address: SocketAddr, tuning: Tuning) -> Vec<OsString> {
    let port = address.port().to_string();
    let mut arguments = words(&["--bind", "127.0.0.1", "--port", &port]);
    arguments.extend(words(&["--save", "", "--appendonly", "no"]));
    if let Some(connections) = tuning.connections {
        arguments.extend(words(&["--maxclients", &connections.to_string()]));
    }
    arguments
}

fn dflockd_arguments(address: SocketAddr, tuning: Tuning) -> Vec<OsString> {
    let keys = tuning.keys.unwrap_or(DFLOCKD_KEYS).to_string();
    let port = address.port().to_string();
    words(&["--host", "127.0.0.1", "--port", &port, "--max-locks", &keys])
}

/// Where one node of etcd listens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EtcdMember {
    pub(crate) clients: SocketAddr,
    pub(crate) peers: SocketAddr,
}

/// One node of `members`. It writes its log to its directory, as it cannot do without.
pub(crate) fn etcd_arguments(slot: usize, members: &[EtcdMember]) -> Vec<OsString> {
    let EtcdMember { clients, peers } = members[slot];
    let (name, clients, peers) =
        (format!("bench{slot}"), format!("http://{clients}"), format!("http://{peers}"));
    let member =
        |(slot, member): (usize, &EtcdMember)| format!("bench{slot}=http://{}", member.peers);
    let cluster = members.iter().enumerate().map(member).collect::<Vec<_>>().join(",");
    let arguments = [
        ["--name", &name],
        ["--data-dir", "data"],
        ["--listen-client-urls", &clients],
        ["--advertise-client-urls", &clients],
        ["--listen-peer-urls", &peers],
        ["--initial-advertise-peer-urls", &peers],
        ["--initial-cluster", &cluster],
        ["--logger", "zap"],
        ["--log-level", "error"],
    ];
    words(arguments.as_flattened())
}

/// dflockd's own default, 1,024 locks, is less than the workers of one cell need together with
/// what it has not yet collected of the cell before.
const DFLOCKD_KEYS: usize = 100_000;

fn words(texts: &[&str]) -> Vec<OsString> {
    texts.iter().map(OsString::from).collect()
}

fn on_path(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(name)).find(|p| p.is_file())
}

/// The first dotted number in what a program prints about its version.
fn version_in(text: &str) -> Option<String> {
    let words = text.split(|letter: char| letter.is_whitespace() || letter == '=');
    let mut numbers = words.map(|word| word.trim_start_matches('v').trim_end_matches(','));
    let number = numbers.find(|word| {
        word.contains('.') && word.starts_with(|letter: char| letter.is_ascii_digit())
    });
    number.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let redis = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64";
        assert_eq!(version_in(redis).as_deref(), Some("7.0.15"));
        assert_eq!(version_in("etcd Version: 3.4.23\nGit SHA: x").as_deref(), Some("3.4.23"));
        assert_eq!(version_in("ticketing-server 0.1.0\n").as_deref(), Some("0.1.0"));
        assert_eq!(version_in("no version at all."), None);
    }

    #[test]
    fn every_node_of_etcd_knows_all() {
        let member = |port: u16| EtcdMember {
            clients: ([127, 0, 0, 1], port).into(),
            peers: ([127, 0, 0, 1], port + 1).into(),
        };
        let arguments = etcd_arguments(1, &[member(10), member(20)]);
        for expected in ["bench1", "http://127.0.0.1:20", "http://127.0.0.1:21"] {
            assert!(arguments.contains(&expected.into()), "{arguments:?}");
        }
        let all = "bench0=http://127.0.0.1:11,bench1=http://127.0.0.1:21";
        assert!(arguments.contains(&all.into()), "{arguments:?}");
    }
}
