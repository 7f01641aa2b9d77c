//! What a stretch of time cost: processor time of server and generator, and of anybody else.

use std::io;

use crate::clock::now_nanos;
use crate::proc::{Usage, core_busy_nanos, usage};
use crate::process::Process;

/// Which core a single server has to itself, and which the generator. The nodes of a cluster and
/// the generator share both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// The server's.
    pub server: usize,
    /// The generator's.
    pub generator: usize,
}

/// Counters of one party and its core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Party {
    /// Its processor time.
    pub cpu_nanos: u64,
    /// Time in which it was ready but had no processor.
    pub queued_nanos: u64,
    /// Time in which its core was not idle, whoever used it; in a cluster, in which one of the
    /// cores was not idle for the other parties.
    pub core_nanos: u64,
}

/// The processes that are measured, and where they run.
#[derive(Clone, Debug)]
pub struct Parties<'a> {
    /// The server that clients talk to: of a cluster, its leader.
    pub server: &'a Process,
    /// The other nodes of the cluster.
    pub followers: Vec<&'a Process>,
    /// Where they run.
    pub cores: Cores,
}

/// Counters at one moment, or how far they came between two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Time passed.
    pub nanos: u64,
    /// The server.
    pub server: Party,
    /// The generator.
    pub generator: Party,
    /// Processor time of the other nodes of a cluster together.
    pub followers_cpu_nanos: u64,
}

impl Party {
    fn new(usage: Usage, core_nanos: u64) -> Self {
        Self { cpu_nanos: usage.cpu_nanos, queued_nanos: usage.queued_nanos, core_nanos }
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            cpu_nanos: self.cpu_nanos.saturating_sub(earlier.cpu_nanos),
            queued_nanos: self.queued_nanos.saturating_sub(earlier.queued_nanos),
            core_nanos: self.core_nanos.saturating_sub(earlier.core_nanos),
        }
    }

    /// Time it lost to others: they used its core while it was ready. A core that others use
    /// while it sleeps costs it nothing, and its own threads may queue behind each other.
    fn lost_nanos(self) -> u64 {
        self.core_nanos.saturating_sub(self.cpu_nanos).min(self.queued_nanos)
    }
}

impl Reading {
    /// Reads all counters.
    ///
    /// # Errors
    /// When the server has ended.
    pub fn take(parties: &Parties<'_>) -> io::Result<Self> {
        let nanos = now_nanos();
        let (server, generator) = (parties.server.usage()?, usage(std::process::id())?);
        let mut cores = [parties.cores.server, parties.cores.generator]
            .map(core_busy_nanos)
            .into_iter()
            .collect::<io::Result<Vec<_>>>()?;
        let followers = parties.followers.iter().map(|node| Ok(node.usage()?.cpu_nanos));
        let followers_cpu_nanos = followers.sum::<io::Result<u64>>()?;
        if !parties.followers.is_empty() {
            let both: u64 = cores.iter().sum();
            let besides = |other: Usage| {
                both.saturating_sub(followers_cpu_nanos).saturating_sub(other.cpu_nanos)
            };
            cores = vec![besides(generator), besides(server)];
        }
        let (server, generator) = (Party::new(server, cores[0]), Party::new(generator, cores[1]));
        Ok(Self { nanos, server, generator, followers_cpu_nanos })
    }

    /// How far the counters came since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            nanos: self.nanos - earlier.nanos,
            server: self.server.since(earlier.server),
            generator: self.generator.since(earlier.generator),
            followers_cpu_nanos: self.followers_cpu_nanos - earlier.followers_cpu_nanos,
        }
    }

    /// Share of the time that a party ran.
    pub fn used(self, party: Party) -> f64 {
        party.cpu_nanos as f64 / self.nanos as f64
    }

    /// Share of the time that a party lost to other programs.
    pub fn lost(self, party: Party) -> f64 {
        party.lost_nanos() as f64 / self.nanos as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_is_what_others_used_while_the_party_was_ready() {
        let start = Reading { nanos: 1_000, ..Reading::default() };
        let end = Reading {
            nanos: 2_000,
            server: Party { cpu_nanos: 500, queued_nanos: 200, core_nanos: 750 },
            // Ticks are coarser than the exact clock: never below nothing.
            generator: Party { cpu_nanos: 800, queued_nanos: 100, core_nanos: 790 },
            followers_cpu_nanos: 0,
        };
        let spent = end.since(start);
        assert_eq!((spent.used(spent.server), spent.lost(spent.server)), (0.5, 0.2));
        assert_eq!((spent.used(spent.generator), spent.lost(spent.generator)), (0.8, 0.0));
        let siblings = Party { cpu_nanos: 500, queued_nanos: 5_000, core_nanos: 500 };
        assert_eq!(spent.lost(siblings), 0.0);
    }
}
