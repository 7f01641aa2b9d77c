//! The leader's host is cut off from the others. Clients still reach all of them.

use super::{CALM, GAP_MAX, REJOIN_TIME_MAX, finish, in_round, judge};
use crate::chaos::Plan;
use crate::chaos::clock::now;
use crate::chaos::cluster::Cluster;
use crate::chaos::probe::{Asked, Probe};
use crate::chaos::workload::Workload;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// No longer without a grant by the majority's side, in the median.
const GAP_MEDIAN_MAX: Duration = Duration::from_millis(700);
/// How long hosts stay cut off: longer than leases, waits and their kernels' patience.
const CUT_TIME: Duration = Duration::from_secs(6);
/// Until the cut off leader has said that it is none; much longer than it takes, for machines that
/// stand still.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(20);

pub(super) fn partition(server: &Path, plan: Plan) -> Result<String, String> {
    let mut cluster = Cluster::in_namespaces(server, 3)?;
    cluster.start_all()?;
    let workload = Workload::start(&cluster);
    sleep(CALM);
    let (mut gaps, mut client_gaps) = (Vec::new(), Vec::new());
    for round in 0..plan.long_rounds {
        let (gap, client_gap) = in_round(round, cut_leader(&cluster, &workload))?;
        gaps.push(gap);
        client_gaps.push(client_gap);
    }
    let outcome = finish(&cluster, workload)?;
    let figures = judge(gaps, plan.allowed(GAP_MEDIAN_MAX), plan.allowed(GAP_MAX))?;
    let clients = client_gaps.iter().max().copied().unwrap_or_default();
    Ok(format!(
        "the majority: {figures}; clients of the old leader without a grant for {clients:.0?} at \
         worst; {outcome}"
    ))
}

/// How long the majority's side granted nothing, and how long the clients had no grant, who have to
/// find out first.
fn cut_leader(cluster: &Cluster, workload: &Workload) -> Result<(Duration, Duration), String> {
    let leader = cluster.leader(REJOIN_TIME_MAX)?;
    let probes: Vec<_> = (0..cluster.slot_count())
        .map(|slot| Probe::start(&cluster.target, slot, "partition"))
        .collect();
    sleep(CALM);
    let from = now();
    cluster.set_connected(leader, false)?;
    let is_cut = now();
    sleep(CUT_TIME);
    let is_answered = || probes[leader].asked().iter().any(|asked| asked.sent > is_cut);
    while !is_answered() && now() < is_cut + ANSWER_TIME_MAX {
        sleep(CALM / 10);
    }
    let client_gap = workload.longest_gap(from);
    let asked: Vec<_> = probes.iter().map(Probe::asked).collect();
    drop(probes);
    cluster.set_connected(leader, true)?;
    check_minority(&asked[leader], is_cut)?;
    let others = (0..asked.len()).filter(|slot| *slot != leader).flat_map(|slot| &asked[slot]);
    let granted = others.filter(|asked| asked.is_granted() && asked.answered > from);
    let first = granted.map(|asked| asked.answered).min();
    for slot in 0..cluster.slot_count() {
        cluster.wait_ready(slot, REJOIN_TIME_MAX)?;
    }
    sleep(CALM);
    let first = first.ok_or("the majority's side grants nothing")?;
    Ok((first - from, client_gap))
}

/// What the cut off leader was asked, it did not grant, and it said so.
fn check_minority(asked: &[Asked], is_cut: Instant) -> Result<(), String> {
    let mut after = asked.iter().filter(|asked| asked.sent > is_cut).peekable();
    if after.peek().is_none() {
        return Err("the cut off leader answers nothing".into());
    }
    match after.find(|asked| asked.answer.is_none() || asked.is_granted()) {
        Some(wrong) => Err(format!("the cut off leader answers {:?}", wrong.answer)),
        None => Ok(()),
    }
}
