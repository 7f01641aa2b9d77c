//! The cells of the table and what must hold in each.

use clap::ValueEnum;
use serde::Serialize;

use crate::load::{Keys, Shape};

/// A throughput workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
pub enum Cell {
    /// One connection, one request in flight: what waking a server and being woken cost.
    #[value(name = "1x1")]
    #[serde(rename = "1x1")]
    Lone,
    /// 64 connections, one request in flight on each.
    #[value(name = "64x1")]
    #[serde(rename = "64x1")]
    Shallow,
    /// 64 connections, 16 requests in flight on each: the canonical workload.
    #[value(name = "64x16")]
    #[serde(rename = "64x16")]
    Pipelined,
    /// 16 connections, 64 requests in flight on each.
    #[value(name = "16x64")]
    #[serde(rename = "16x64")]
    Deep,
    /// 64 workers on 32 keys.
    #[value(name = "64on32")]
    #[serde(rename = "64on32")]
    Shared,
    /// 64 workers on one key: every grant is a hand-off.
    #[value(name = "64on1")]
    #[serde(rename = "64on1")]
    HandOff,
    /// 64 connections to a cluster's leader, one request in flight on each.
    #[value(name = "cluster-64x1")]
    #[serde(rename = "cluster-64x1")]
    ClusterShallow,
    /// 64 connections to a cluster's leader, 16 requests in flight on each.
    #[value(name = "cluster-64x16")]
    #[serde(rename = "cluster-64x16")]
    ClusterPipelined,
}

/// What must hold for our server in a cell, on two cores of the reference kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Goal {
    /// Pairs per second, at least.
    pub pairs_per_second: Option<f64>,
    /// Server processor time per request as a multiple of the echo's, at most.
    pub cpu_per_echo: Option<f64>,
    /// 99th percentile from release sent to the next grant, in microseconds, at most.
    pub hand_off_p99_micros: Option<f64>,
    /// Peak resident memory of a cluster's leader, in bytes, below.
    pub leader_peak_bytes: Option<u64>,
}

/// Memory that a cluster's leader stays below.
const LEADER_PEAK_BYTES: u64 = 30_000_000;

impl Goal {
    const NONE: Self = Self {
        pairs_per_second: None,
        cpu_per_echo: None,
        hand_off_p99_micros: None,
        leader_peak_bytes: None,
    };

    const fn of(pairs_per_second: f64) -> Self {
        Self { pairs_per_second: Some(pairs_per_second), ..Self::NONE }
    }
}

impl Cell {
    /// Every cell, in the order of the tables.
    pub const ALL: [Self; 8] = [
        Self::Lone,
        Self::Shallow,
        Self::Pipelined,
        Self::Deep,
        Self::Shared,
        Self::HandOff,
        Self::ClusterShallow,
        Self::ClusterPipelined,
    ];
    /// Those of a cluster.
    pub const CLUSTER: [Self; 2] = [Self::ClusterShallow, Self::ClusterPipelined];

    /// Name in tables.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Lone => "1 connection × depth 1",
            Self::Shallow => "64 connections × depth 1",
            Self::Pipelined => "64 connections × depth 16",
            Self::Deep => "16 connections × depth 64",
            Self::Shared => "64 workers on 32 shared keys",
            Self::HandOff => "64 workers on 1 key",
            Self::ClusterShallow => "3 nodes: 64 connections × depth 1",
            Self::ClusterPipelined => "3 nodes: 64 connections × depth 16",
        }
    }

    /// Connections, depth and keys.
    pub const fn shape(self) -> Shape {
        let (connections, depth, keys) = match self {
            Self::Lone => (1, 1, Keys::Private),
            Self::Shallow | Self::ClusterShallow => (64, 1, Keys::Private),
            Self::Pipelined | Self::ClusterPipelined => (64, 16, Keys::Private),
            Self::Deep => (16, 64, Keys::Private),
            Self::Shared => (64, 1, Keys::Shared(32)),
            Self::HandOff => (64, 1, Keys::Shared(1)),
        };
        Shape { connections, depth, keys }
    }

    /// What must hold.
    pub const fn goal(self) -> Goal {
        let leader_peak_bytes = Some(LEADER_PEAK_BYTES);
        match self {
            Self::Lone => Goal::NONE,
            Self::Shallow => Goal { cpu_per_echo: Some(1.15), ..Goal::of(65_000.0) },
            Self::Pipelined => Goal { cpu_per_echo: Some(1.5), ..Goal::of(900_000.0) },
            Self::Deep => Goal { cpu_per_echo: Some(2.5), ..Goal::of(1_500_000.0) },
            Self::Shared => Goal::of(60_000.0),
            Self::HandOff => Goal { hand_off_p99_micros: Some(1_000.0), ..Goal::of(12_000.0) },
            Self::ClusterShallow => Goal { leader_peak_bytes, ..Goal::of(15_000.0) },
            Self::ClusterPipelined => Goal { leader_peak_bytes, ..Goal::of(100_000.0) },
        }
    }

    /// Whether workers contend: then an echo, which grants everything, says nothing.
    pub const fn is_contended(self) -> bool {
        matches!(self, Self::Shared | Self::HandOff)
    }

    /// Whether it is a cluster's.
    pub const fn is_clustered(self) -> bool {
        matches!(self, Self::ClusterShallow | Self::ClusterPipelined)
    }
}
