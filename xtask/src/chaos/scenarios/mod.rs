//! What is done to a cluster, and what has to hold.

mod endings;
mod leader;
mod partition;
mod refusals;
mod rolling;

use super::Plan;
use super::cluster::Cluster;
use super::vanished_host;
use super::workload::{Outcome, Workload};
use std::fmt::Display;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// One of them.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) needs_network: bool,
    pub(crate) run: fn(&Path, Plan) -> Result<String, String>,
}

/// All, quick ones first.
pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario { name: "refusals", needs_network: false, run: refusals::refusals },
    Scenario { name: "planned-stop", needs_network: false, run: leader::planned_stop },
    Scenario { name: "kill-leader", needs_network: false, run: leader::kill_leader },
    Scenario { name: "rolling-3", needs_network: false, run: rolling::three },
    Scenario { name: "rolling-5", needs_network: false, run: rolling::five },
    Scenario { name: "suspend-leader", needs_network: false, run: leader::suspend_leader },
    Scenario { name: "lost-majority", needs_network: false, run: endings::lost_majority },
    Scenario { name: "lost-all-late", needs_network: false, run: endings::lost_all_late },
    Scenario { name: "lost-all-marked", needs_network: false, run: endings::lost_all_marked },
    Scenario { name: "vanished-host", needs_network: true, run: vanished_host::run },
    Scenario { name: "partition", needs_network: true, run: partition::partition },
];

/// No longer without any grant after a fault, at worst.
const GAP_MAX: Duration = Duration::from_millis(1_000);
/// Until a restarted process votes again.
const REJOIN_TIME_MAX: Duration = Duration::from_secs(15);
/// Load before and between faults.
const CALM: Duration = Duration::from_millis(700);

fn started(server: &Path, slot_count: usize) -> Result<(Cluster, Workload), String> {
    let mut cluster = Cluster::new(server, slot_count)?;
    cluster.start_all()?;
    let workload = Workload::start(&cluster);
    sleep(CALM);
    Ok((cluster, workload))
}

/// Restarts a slot empty and waits until its process votes.
fn rejoin(cluster: &mut Cluster, slot: usize) -> Result<(), String> {
    cluster.start(slot)?;
    cluster.wait_ready(slot, REJOIN_TIME_MAX)
}

/// Ends the load, checks what it saw, and that all nodes came to one state.
fn finish(cluster: &Cluster, workload: Workload) -> Result<Outcome, String> {
    let outcome = workload.finish()?;
    cluster.agree()?;
    Ok(outcome)
}

/// The figures of some gaps, none of which may be too long.
fn judge(mut gaps: Vec<Duration>, median_max: Duration, max: Duration) -> Result<String, String> {
    gaps.sort_unstable();
    let (median, worst) = (gaps[gaps.len() / 2], gaps[gaps.len() - 1]);
    let figures = format!("gap {median:.0?} in the median, {worst:.0?} at worst of {}", gaps.len());
    if median > median_max || worst > max {
        let bounds = format!("at most {median_max:?} and {max:?} are allowed");
        return Err(format!("{figures}; {bounds}"));
    }
    Ok(figures)
}

/// Says in which round something failed.
fn in_round<T>(round: usize, result: Result<T, impl Display>) -> Result<T, String> {
    result.map_err(|error| format!("round {}: {error}", round + 1))
}
