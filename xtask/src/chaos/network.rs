//! Hosts that can be cut off from each other: a network namespace for each slot, on one bridge for
//! the nodes and on another one for their clients, who can still ask a node that is cut off.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::{Command, Stdio};

/// The networks, by the second number of their addresses.
const NETS: [Net; 2] = [Net { letter: 'p', number: 225 }, Net { letter: 'c', number: 226 }];

/// The last number of this host's own addresses; those of the slots count from 1.
const HOST: u8 = 254;

/// One of the two.
#[derive(Clone, Copy)]
struct Net {
    letter: char,
    number: u8,
}

/// Namespaces and their wires; gone when dropped.
pub(crate) struct Network {
    name: String,
    slot_count: usize,
    subnet: u8,
}

/// Whether this machine and user can have them.
pub(crate) fn is_available() -> bool {
    ip(&["netns", "add", "ticketing-try"]).is_ok() && ip(&["netns", "del", "ticketing-try"]).is_ok()
}

impl Network {
    pub(crate) fn new(slot_count: usize) -> Result<Self, String> {
        let id = std::process::id() as u8;
        let network = Self { name: format!("tkc{id}"), slot_count, subnet: id };
        for net in NETS {
            let (bridge, address) = (network.bridge(net), network.at(net, HOST));
            ip(&["link", "add", &bridge, "type", "bridge"])?;
            ip(&["addr", "add", &format!("{address}/24"), "dev", &bridge])?;
            ip(&["link", "set", &bridge, "up"])?;
        }
        for slot in 0..slot_count {
            let space = network.space(slot);
            ip(&["netns", "add", &space])?;
            ip(&["-n", &space, "link", "set", "lo", "up"])?;
            NETS.iter().try_for_each(|net| network.wire_up(slot, *net))?;
        }
        Ok(network)
    }

    fn wire_up(&self, slot: usize, net: Net) -> Result<(), String> {
        let (space, outer) = (self.space(slot), self.wire(slot, net));
        let inner = format!("eth-{}", net.letter);
        ip(&["link", "add", &outer, "type", "veth", "peer", "name", &inner, "netns", &space])?;
        ip(&["link", "set", &outer, "master", &self.bridge(net), "up"])?;
        let address = format!("{}/24", self.at(net, slot as u8 + 1));
        ip(&["-n", &space, "addr", "add", &address, "dev", &inner])?;
        ip(&["-n", &space, "link", "set", &inner, "up"])
    }

    /// This host's own address, outside all namespaces, in the net that slots are cut off from.
    pub(crate) fn host_address(&self) -> IpAddr {
        self.at(NETS[0], HOST)
    }

    /// Where other nodes reach a slot.
    pub(crate) fn peer_address(&self, slot: usize) -> IpAddr {
        self.at(NETS[0], slot as u8 + 1)
    }

    /// Where clients reach it.
    pub(crate) fn client_address(&self, slot: usize) -> IpAddr {
        self.at(NETS[1], slot as u8 + 1)
    }

    fn at(&self, net: Net, number: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, net.number, self.subnet, number))
    }

    pub(crate) fn command(&self, slot: usize, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.space(slot)]).arg(program);
        command
    }

    /// Frames between the slot and the others vanish, or pass again. Nobody is told.
    pub(crate) fn set_connected(&self, slot: usize, is_connected: bool) -> Result<(), String> {
        let wire = self.wire(slot, NETS[0]);
        if is_connected {
            ip(&["link", "set", &wire, "master", &self.bridge(NETS[0])])
        } else {
            ip(&["link", "set", &wire, "nomaster"])
        }
    }

    fn space(&self, slot: usize) -> String {
        format!("{}-{slot}", self.name)
    }

    fn bridge(&self, net: Net) -> String {
        format!("{}{}", self.name, net.letter)
    }

    fn wire(&self, slot: usize, net: Net) -> String {
        format!("{}{}{slot}", self.name, net.letter)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for slot in 0..self.slot_count {
            // First the wires: a namespace lives on for as long as a process in it does.
            for net in NETS {
                let _ = ip(&["link", "del", &self.wire(slot, net)]);
            }
            let _ = ip(&["netns", "del", &self.space(slot)]);
        }
        for net in NETS {
            let _ = ip(&["link", "del", &self.bridge(net)]);
        }
    }
}

fn ip(words: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(words).stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!(
            "ip {}: {}",
            words.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        )),
        Err(error) => Err(format!("ip: {error}")),
    }
}
