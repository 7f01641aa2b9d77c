//! Pairs per second, latency, and what a request costs the server.

use std::io;

use serde::Serialize;

use crate::clock::{NANOS_PER_SECOND, now_nanos};
use crate::cluster::Cluster;
use crate::driver::{DflockdDriver, Driver, EtcdDriver, RedisDriver, TicketingDriver};
use crate::histogram::Histogram;
use crate::load::{Load, Shape, Tally};
use crate::measure::meter::{Cores, Parties, Reading};
use crate::process::Process;
use crate::system::System;

/// Before counting starts, so that caches, windows and tables are warm.
const WARM_UP_NANOS: u64 = 300_000_000;
/// A core is saturated from this share on.
const SATURATED: f64 = 0.95;
/// A server below this share of its core has room left.
const HAS_ROOM: f64 = 0.90;
/// More than this share lost to other programs spoils a figure. A real-time class alone loses 0.05
/// to the rest of the machine.
const DISTURBED: f64 = 0.06;

/// Percentiles of a duration, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// Half are not longer.
    pub p50: f64,
    /// 99 % are not longer.
    pub p99: f64,
    /// 99.9 % are not longer.
    pub p999: f64,
}

impl Percentiles {
    /// `None` when nothing was recorded.
    pub fn of(histogram: &Histogram) -> Option<Self> {
        let micros = |share| histogram.quantile(share).map(|nanos| nanos as f64 / 1e3);
        Some(Self { p50: micros(0.5)?, p99: micros(0.99)?, p999: micros(0.999)? })
    }
}

/// The figures of one run, or the medians of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Acquire and release, both answered.
    pub pairs_per_second: f64,
    /// Requests answered, denied tries included.
    pub ops_per_second: f64,
    /// Tries answered "taken": polling.
    pub denied_per_second: f64,
    /// From request to answer.
    pub latency_micros: Percentiles,
    /// From release sent to the next holder's grant; 0 where nobody waits.
    pub hand_off_micros: Percentiles,
    /// Server processor seconds per million requests; of a cluster, its leader's.
    pub server_cpu_seconds_per_million_ops: f64,
    /// Server processor time as a share of the run; of a cluster, its leader's.
    pub server_core_share: f64,
    /// Processor time of a cluster's other nodes together, as a share of the run.
    pub followers_core_share: f64,
    /// Generator processor time as a share of the run.
    pub generator_core_share: f64,
    /// Share of the run that the server lost to other programs on its core.
    pub server_lost_share: f64,
    /// Share of the run that the generator lost to other programs on its core.
    pub generator_lost_share: f64,
    /// Highest resident memory of the server so far, in bytes; of a cluster, its leader's.
    pub server_peak_bytes: u64,
}

impl Sample {
    fn of(tally: &Tally, spent: Reading, server_peak_bytes: u64) -> Self {
        let seconds = spent.nanos as f64 / NANOS_PER_SECOND as f64;
        let server_seconds = spent.server.cpu_nanos as f64 / NANOS_PER_SECOND as f64;
        let millions = tally.requests as f64 / 1e6;
        Self {
            pairs_per_second: tally.pairs as f64 / seconds,
            ops_per_second: tally.requests as f64 / seconds,
            denied_per_second: tally.denied as f64 / seconds,
            latency_micros: Percentiles::of(&tally.latency).unwrap_or_default(),
            hand_off_micros: Percentiles::of(&tally.hand_off).unwrap_or_default(),
            server_cpu_seconds_per_million_ops: server_seconds / millions,
            server_core_share: spent.used(spent.server),
            followers_core_share: spent.followers_cpu_nanos as f64 / spent.nanos as f64,
            generator_core_share: spent.used(spent.generator),
            server_lost_share: spent.lost(spent.server),
            generator_lost_share: spent.lost(spent.generator),
            server_peak_bytes,
        }
    }

    /// Whether the generator, not the server, set the pace.
    pub fn generator_is_bottleneck(&self) -> bool {
        // What others took is not room.
        let generator = self.generator_core_share + self.generator_lost_share;
        let server = self.server_core_share + self.server_lost_share;
        generator > SATURATED && server < HAS_ROOM
    }

    /// Whether other programs were using the cores.
    pub fn is_disturbed(&self) -> bool {
        self.lost_share() > DISTURBED
    }

    /// What the more disturbed party lost to other programs.
    pub fn lost_share(&self) -> f64 {
        self.server_lost_share.max(self.generator_lost_share)
    }

    /// The median of each figure by itself, but the highest peak.
    ///
    /// # Panics
    /// When there are no samples.
    pub fn median(samples: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> f64| median(samples.iter().map(figure).collect());
        Self {
            pairs_per_second: of(|s| s.pairs_per_second),
            ops_per_second: of(|s| s.ops_per_second),
            denied_per_second: of(|s| s.denied_per_second),
            latency_micros: Percentiles {
                p50: of(|s| s.latency_micros.p50),
                p99: of(|s| s.latency_micros.p99),
                p999: of(|s| s.latency_micros.p999),
            },
            hand_off_micros: Percentiles {
                p50: of(|s| s.hand_off_micros.p50),
                p99: of(|s| s.hand_off_micros.p99),
                p999: of(|s| s.hand_off_micros.p999),
            },
            server_cpu_seconds_per_million_ops: of(|s| s.server_cpu_seconds_per_million_ops),
            server_core_share: of(|s| s.server_core_share),
            followers_core_share: of(|s| s.followers_core_share),
            generator_core_share: of(|s| s.generator_core_share),
            server_lost_share: of(|s| s.server_lost_share),
            generator_lost_share: of(|s| s.generator_lost_share),
            server_peak_bytes: samples.iter().map(|s| s.server_peak_bytes).max().unwrap_or(0),
        }
    }
}

/// Runs `shape` against a single server for `nanos`, after a warm-up.
///
/// # Errors
/// When the server fails.
pub fn run(
    system: System,
    server: &Process,
    cores: Cores,
    shape: Shape,
    nanos: u64,
) -> io::Result<Sample> {
    let parties = Parties { server, followers: Vec::new(), cores };
    match system {
        System::Echo | System::Ticketing => {
            run_with(&TicketingDriver::new(), &parties, shape, nanos)
        }
        System::Redis => run_with(&RedisDriver::new(), &parties, shape, nanos),
        System::Dflockd => run_with(&DflockdDriver::new(), &parties, shape, nanos),
        System::Etcd => run_with(&EtcdDriver::new(), &parties, shape, nanos),
    }
}

/// Runs `shape` against a cluster's leader for `nanos`, after a warm-up.
///
/// # Errors
/// When the leader fails, or does not lead any more.
pub fn run_cluster(
    cluster: &Cluster,
    cores: Cores,
    shape: Shape,
    nanos: u64,
) -> io::Result<Sample> {
    let (server, followers) = cluster.split(cluster.leader()?);
    let parties = Parties { server, followers, cores };
    match cluster.system() {
        System::Etcd => run_with(&EtcdDriver::new(), &parties, shape, nanos),
        _ => run_with(&cluster.ticketing_driver()?, &parties, shape, nanos),
    }
}

fn run_with<D: Driver>(
    driver: &D,
    parties: &Parties<'_>,
    shape: Shape,
    nanos: u64,
) -> io::Result<Sample> {
    // A salt nobody used before, so that no run meets keys that another left behind.
    let mut load = Load::open(driver, parties.server.address(), shape, now_nanos())?;
    load.start()?;
    load.run(WARM_UP_NANOS, &mut None)?;
    load.reset();
    let before = Reading::take(parties)?;
    load.run(nanos, &mut None)?;
    let spent = Reading::take(parties)?.since(before);
    let sample = Sample::of(load.tally(), spent, parties.server.memory()?.peak_bytes);
    load.drain()?;
    Ok(sample)
}

/// # Panics
/// When `values` is empty.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        f64::midpoint(values[middle - 1], values[middle])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::meter::Party;

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        let sample = |pairs_per_second| Sample { pairs_per_second, ..Sample::default() };
        let samples = [sample(5.0), sample(1.0), sample(4.0)];
        assert_eq!(Sample::median(&samples).pairs_per_second, 4.0);
        let peaks = [1, 3, 2].map(|bytes| Sample { server_peak_bytes: bytes, ..Sample::default() });
        assert_eq!(Sample::median(&peaks).server_peak_bytes, 3);
    }

    #[test]
    fn figures_of_a_tally() {
        let mut tally = Tally { pairs: 1_000_000, requests: 2_000_000, ..Tally::default() };
        tally.latency.record(2_000);
        let party = |cpu_nanos| Party { cpu_nanos, queued_nanos: 0, core_nanos: cpu_nanos };
        let spent = Reading {
            nanos: 2_000_000_000,
            server: party(1_000_000_000),
            generator: party(1_990_000_000),
            followers_cpu_nanos: 500_000_000,
        };
        let sample = Sample::of(&tally, spent, 7);
        assert_eq!((sample.followers_core_share, sample.server_peak_bytes), (0.25, 7));
        assert_eq!(sample.pairs_per_second, 500_000.0);
        assert_eq!(sample.ops_per_second, 1_000_000.0);
        assert_eq!(sample.server_cpu_seconds_per_million_ops, 0.5);
        assert!(sample.latency_micros.p50 >= 2.0 && sample.latency_micros.p50 < 2.1);
        assert!(sample.generator_is_bottleneck() && !sample.is_disturbed());
        let (queued_nanos, core_nanos) = (900_000_000, 1_900_000_000);
        let server = Party { queued_nanos, core_nanos, ..spent.server };
        let spent = Reading { server, ..spent };
        let sample = Sample::of(&tally, spent, 7);
        assert!(!sample.generator_is_bottleneck() && sample.is_disturbed());
    }
}
