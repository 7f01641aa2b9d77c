//! Every node killed and restarted empty, one after another.

use super::{CALM, GAP_MAX, finish, in_round, judge, rejoin, started};
use crate::chaos::Plan;
use crate::chaos::clock::now;
use crate::chaos::cluster::Cluster;
use crate::chaos::status::Status;
use crate::chaos::workload::Workload;
use std::collections::BTreeMap;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

pub(super) fn three(server: &Path, plan: Plan) -> Result<String, String> {
    rolling(server, 3, plan)
}

pub(super) fn five(server: &Path, plan: Plan) -> Result<String, String> {
    rolling(server, 5, plan)
}

fn rolling(server: &Path, slot_count: usize, plan: Plan) -> Result<String, String> {
    let (mut cluster, workload) = started(server, slot_count)?;
    let mut gaps = Vec::new();
    let mut generations = voters(&cluster)?;
    for round in 0..plan.slow_rounds {
        let replaced = replace_all(&mut cluster, &workload, &mut gaps);
        let after = in_round(round, replaced.and_then(|()| voters(&cluster)))?;
        if after.iter().any(|(slot, generation)| generations.get(slot) >= Some(generation)) {
            return Err(format!("voters {generations:?} became {after:?}"));
        }
        generations = after;
    }
    let outcome = finish(&cluster, workload)?;
    let max = plan.allowed(GAP_MAX);
    Ok(format!("{}; {outcome}", judge(gaps, max, max)?))
}

/// The only thing an operator does is to start a process.
fn replace_all(
    cluster: &mut Cluster,
    workload: &Workload,
    gaps: &mut Vec<Duration>,
) -> Result<(), String> {
    for slot in 0..cluster.slot_count() {
        let from = now();
        cluster.kill(slot)?;
        rejoin(cluster, slot)?;
        sleep(CALM);
        gaps.push(workload.longest_gap(from));
    }
    Ok(())
}

/// The generation of each slot's voter, of which there is exactly one.
fn voters(cluster: &Cluster) -> Result<BTreeMap<usize, u32>, String> {
    let slots = 0..cluster.slot_count();
    let leader = slots.map(|slot| cluster.status(slot)).find(|status| match status {
        Ok(Status { role, .. }) => role == "leader",
        Err(_) => true,
    });
    let status = leader.ok_or("nobody leads")??;
    let is_whole = status.voters.len() == cluster.slot_count();
    if !is_whole || status.other_member_count > 0 || status.is_replacing {
        return Err(format!("not every slot has exactly one voter: {status:?}"));
    }
    Ok(status.voters)
}
