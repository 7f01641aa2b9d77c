//! Settings of a cluster node.

use super::Settings;
use crate::state::create_directory;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use ticketing_auth::{ClusterId, PeerTokens, TokenError};

/// Peer port, unless a slot names one: the client port and this.
const PEER_PORT_OFFSET: u16 = 1_000;

/// A node of a cluster as configured.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// Which cluster.
    pub id: ClusterId,
    /// This node's place.
    pub slot: u8,
    /// Every node's addresses, in slot order.
    pub slots: Vec<SlotAddress>,
    /// What nodes prove to each other.
    pub tokens: PeerTokens,
    /// Where this node listens for others.
    pub peer_listen: SocketAddr,
}

/// Where a node is, as `host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotAddress {
    /// For clients.
    pub client: String,
    /// For other nodes.
    pub peer: String,
}

/// Cluster settings that do not fit together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClusterError {
    /// Some of the settings are there, and this one is missing.
    Missing(&'static str),
    /// The slot's peer address cannot be listened on as it is.
    PeerListen,
    /// A setting whose port the system would choose, so that nobody could know it.
    PortZero(&'static str, SocketAddr),
    /// An address that is none.
    Slot(String),
    /// The slot is not one of the cluster's.
    SlotNumber {
        /// The slot.
        slot: u8,
        /// How many there are.
        slot_count: usize,
    },
    /// Neither 3 nor 5 slots.
    SlotCount(usize),
    /// Two slots with one address.
    SlotTwice(String),
    /// The peer token or its file.
    Token(TokenError),
}

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing("TICKETING_SLOT") => f.write_str(
                "TICKETING_SLOT: not set, but other cluster settings are; set this node's place in \
                 TICKETING_CLUSTER_SLOTS, from 0: it is what `ticketing-server cluster new` leaves \
                 to each node",
            ),
            Self::Missing(name) => write!(
                f,
                "{name}: not set, but other cluster settings are; `ticketing-server cluster new` \
                 prints a complete environment"
            ),
            Self::PeerListen => f.write_str(
                "TICKETING_PEER_LISTEN: not set, and the slot's peer address has no port to \
                 listen on; set it",
            ),
            Self::PortZero(name, address) => write!(
                f,
                "{name}: {address}: in a cluster the port has to be the one that leads here from \
                 this slot's address in TICKETING_CLUSTER_SLOTS, and port 0 takes any that is \
                 free; give a port"
            ),
            Self::Slot(text) => write!(
                f,
                "TICKETING_CLUSTER_SLOTS: {text}: not an address; write HOST:PORT, or \
                 HOST:PORT/HOST:PORT with the peer address second"
            ),
            Self::SlotNumber { slot, slot_count } => write!(
                f,
                "TICKETING_SLOT: {slot}: TICKETING_CLUSTER_SLOTS lists {slot_count} slots, which \
                 are counted from 0"
            ),
            Self::SlotCount(count) => write!(
                f,
                "TICKETING_CLUSTER_SLOTS: lists {count} slots; a cluster has 3 or 5, so that a \
                 majority survives the loss of 1 or 2"
            ),
            Self::SlotTwice(address) => write!(
                f,
                "TICKETING_CLUSTER_SLOTS: {address} is there twice; give every slot its own address"
            ),
            Self::Token(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ClusterError {}

impl ClusterConfig {
    /// How many slots there are.
    pub fn slot_count(&self) -> u8 {
        self.slots.len() as u8
    }

    /// What clients are configured with and prove against.
    pub fn fingerprint(&self) -> [u8; 32] {
        self.id.fingerprint(self.slot_count())
    }

    /// Where a slot's node listens for others.
    pub fn peer_address(&self, slot: u8) -> &str {
        &self.slots[usize::from(slot)].peer
    }
}

impl Settings {
    /// The cluster this node belongs to; `None` for a single server.
    ///
    /// # Errors
    /// Settings that are missing, or do not fit together.
    pub fn cluster(&self) -> Result<Option<ClusterConfig>, ClusterError> {
        let is_named = self.cluster_id.is_some()
            || self.slot.is_some()
            || !self.cluster_slots.is_empty()
            || self.peer_token.is_some()
            || self.peer_token_file.is_some()
            || self.peer_tls_cert.is_some()
            || self.peer_listen.is_some();
        if !is_named {
            return Ok(None);
        }
        let id = self.cluster_id.ok_or(ClusterError::Missing("TICKETING_CLUSTER_ID"))?;
        if self.cluster_slots.is_empty() {
            return Err(ClusterError::Missing("TICKETING_CLUSTER_SLOTS"));
        }
        let slots = parse_slots(&self.cluster_slots)?;
        let slot = self.slot.ok_or(ClusterError::Missing("TICKETING_SLOT"))?;
        if usize::from(slot) >= slots.len() {
            return Err(ClusterError::SlotNumber { slot, slot_count: slots.len() });
        }
        let tokens = match (&self.peer_token, &self.peer_token_file) {
            (Some(token), _) => PeerTokens::from_value("TICKETING_PEER_TOKEN", token.reveal()),
            (None, Some(path)) => PeerTokens::from_file(path),
            (None, None) => return Err(ClusterError::Missing("TICKETING_PEER_TOKEN_FILE")),
        }
        .map_err(ClusterError::Token)?;
        let peer_listen = match self.peer_listen {
            Some(address) => address,
            None => listen_address(&slots[usize::from(slot)].peer)?,
        };
        let listen = self.listen.iter().map(|address| ("TICKETING_LISTEN", *address));
        let mut all = listen.chain([("TICKETING_PEER_LISTEN", peer_listen)]);
        if let Some((name, address)) = all.find(|(_, address)| address.port() == 0) {
            return Err(ClusterError::PortZero(name, address));
        }
        Ok(Some(ClusterConfig { id, slot, slots, tokens, peer_listen }))
    }
}

/// Reads a comma list in slot order.
///
/// # Errors
/// An address that is none, a wrong number of slots, or an address twice.
pub fn parse_slots(slots: &[String]) -> Result<Vec<SlotAddress>, ClusterError> {
    let slots = slots.iter().map(|text| parse_slot(text.trim())).collect::<Result<Vec<_>, _>>()?;
    if !matches!(slots.len(), 3 | 5) {
        return Err(ClusterError::SlotCount(slots.len()));
    }
    let mut addresses: Vec<_> =
        slots.iter().flat_map(|slot| [slot.client.as_str(), slot.peer.as_str()]).collect();
    addresses.sort_unstable();
    match addresses.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(ClusterError::SlotTwice(pair[0].to_owned())),
        None => Ok(slots),
    }
}

fn parse_slot(text: &str) -> Result<SlotAddress, ClusterError> {
    let bad = || ClusterError::Slot(text.to_owned());
    let (client, peer) = match text.split_once('/') {
        Some((client, peer)) => (client, Some(peer)),
        None => (text, None),
    };
    let (host, port) = split(client).ok_or_else(bad)?;
    let peer = match peer {
        Some(peer) => {
            split(peer).ok_or_else(bad)?;
            peer.to_owned()
        }
        None => format!("{host}:{}", port.checked_add(PEER_PORT_OFFSET).ok_or_else(bad)?),
    };
    Ok(SlotAddress { client: client.to_owned(), peer })
}

fn split(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port > 0)?;
    let is_bracketed = host.starts_with('[') && host.ends_with(']');
    let is_host = !host.is_empty() && (is_bracketed || !host.contains(':'));
    is_host.then_some((host, port))
}

/// A loopback address stays on loopback; for any other host the node listens everywhere, by the
/// address's version of IP.
fn listen_address(peer: &str) -> Result<SocketAddr, ClusterError> {
    let (host, port) = split(peer).ok_or(ClusterError::PeerListen)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let address = match host.parse::<IpAddr>() {
        Ok(address) if address.is_loopback() => address,
        Ok(IpAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.into(),
        Err(_) if host == "localhost" => Ipv4Addr::LOCALHOST.into(),
        Ok(IpAddr::V4(_)) | Err(_) => Ipv4Addr::UNSPECIFIED.into(),
    };
    Ok(SocketAddr::new(address, port))
}

/// The mark in a state directory that this slot was a member of an identity: with it the node never
/// begins that identity again, even within its window.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    directory: PathBuf,
    file: PathBuf,
}

impl Mark {
    /// Of one identity in one directory, which is created if need be and has to be writable: a
    /// node that finds out only when it has been let in is lost to the others.
    pub(crate) fn open(directory: &Path, fingerprint: &[u8; 32]) -> io::Result<Self> {
        create_directory(directory)?;
        let name = format!("member-{}", hex(fingerprint));
        let probe = directory.join(format!("{name}.probe"));
        File::create(&probe)?.sync_all()?;
        let _ = fs::remove_file(&probe);
        Ok(Self { directory: directory.to_owned(), file: directory.join(name) })
    }

    /// Whether it is there.
    pub(crate) fn is_set(&self) -> io::Result<bool> {
        self.file.try_exists()
    }

    /// Sets it. On return it is on the disk.
    pub(crate) fn set(&self) -> io::Result<()> {
        File::create(&self.file)?.sync_all()?;
        File::open(&self.directory)?.sync_all()
    }
}

/// Lowercase hex digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn slots(texts: &[&str]) -> Result<Vec<SlotAddress>, ClusterError> {
        parse_slots(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_slot_without_a_peer_address_has_one_a_thousand_ports_up() {
        let parsed = slots(&["a:5225", "b:5225/10.0.0.2:7000", "[::1]:5225"]).expect("three");
        assert_eq!(parsed[0].peer, "a:6225");
        assert_eq!(parsed[1].peer, "10.0.0.2:7000");
        assert_eq!(parsed[2].peer, "[::1]:6225");
    }

    #[test]
    fn other_counts_than_three_and_five_are_refused() {
        for count in [1, 2, 4, 6] {
            let texts: Vec<_> = (0..count).map(|slot| format!("h{slot}:1")).collect();
            assert_eq!(parse_slots(&texts), Err(ClusterError::SlotCount(count)));
        }
        assert!(slots(&["a:1", "b:1", "c:1", "d:1", "e:1"]).is_ok());
    }

    #[test]
    fn a_node_listens_where_its_peers_look_for_it() {
        let cases = [
            ("a:6225", "0.0.0.0:6225"),
            ("10.0.0.2:6225", "0.0.0.0:6225"),
            ("127.0.0.2:6225", "127.0.0.2:6225"),
            ("localhost:6225", "127.0.0.1:6225"),
            ("[2001:db8::2]:6225", "[::]:6225"),
            ("[::1]:6225", "[::1]:6225"),
        ];
        for (peer, listen) in cases {
            assert_eq!(listen_address(peer), Ok(listen.parse().expect("an address")), "{peer}");
        }
    }

    #[test]
    fn a_port_that_nobody_could_know_is_refused() {
        let id = ClusterId::new([7; 16], 1_700_000_000, 60).to_string();
        let cluster = |listen: &str, peer_listen: &str| {
            let name = "ticketing-server";
            let slots = ["--cluster-slots", "a:1,b:1,c:1", "--slot", "0"];
            let tokens = ["--token", "0123456789abcdef", "--peer-token", "fedcba9876543210"];
            let listen = ["--listen", listen, "--peer-listen", peer_listen];
            let arguments = [&[name, "--cluster-id", &id][..], &slots, &tokens, &listen].concat();
            let settings = Settings::try_parse_from(arguments).expect("settings");
            settings.cluster().map(|cluster| cluster.is_some())
        };
        assert_eq!(cluster("127.0.0.1:1", "127.0.0.1:2"), Ok(true));
        for (name, address, refused) in [
            ("TICKETING_PEER_LISTEN", "127.0.0.1:0", cluster("127.0.0.1:1", "127.0.0.1:0")),
            ("TICKETING_LISTEN", "[::1]:0", cluster("127.0.0.1:1,[::1]:0", "127.0.0.1:2")),
        ] {
            let error = refused.expect_err("port 0");
            assert_eq!(error, ClusterError::PortZero(name, address.parse().expect("an address")));
            let message = error.to_string();
            assert!(message.starts_with(name) && message.contains("give a port"), "{message}");
        }
    }

    #[test]
    fn bad_addresses_are_named() {
        for bad in ["a", "a:", ":1", "a:0", "a:65536", "::1:1", "a:65000", "a:1/b"] {
            assert_eq!(slots(&[bad, "b:1", "c:1"]), Err(ClusterError::Slot(bad.into())), "{bad}");
        }
        let twice = slots(&["a:1", "a:1", "c:1"]);
        assert_eq!(twice, Err(ClusterError::SlotTwice("a:1".into())));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_directory_that_cannot_be_written_is_refused_at_once() {
        assert!(Mark::open(Path::new("/proc"), &[7; 32]).is_err());
    }

    #[test]
    fn a_mark_stays() {
        let root = tempfile::tempdir().expect("a directory");
        let mark = Mark::open(&root.path().join("state"), &[7; 32]).expect("made");
        assert!(!mark.is_set().expect("readable"));
        mark.set().expect("written");
        assert!(mark.is_set().expect("readable"));
        let other = Mark::open(&root.path().join("state"), &[8; 32]).expect("made");
        assert!(!other.is_set().expect("readable"));
    }
}
