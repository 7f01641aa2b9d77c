//! The leader dies, is told to stop, or stands still.

use super::{CALM, GAP_MAX, REJOIN_TIME_MAX, finish, in_round, judge, rejoin, started};
use crate::chaos::Plan;
use crate::chaos::client::Answer;
use crate::chaos::clock::now;
use crate::chaos::cluster::Cluster;
use crate::chaos::probe::Probe;
use crate::chaos::workload::Workload;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// No longer without any grant after the leader's death, in the median.
const GAP_MEDIAN_MAX: Duration = Duration::from_millis(500);
/// No longer without any grant around a planned stop.
const PLANNED_GAP_MAX: Duration = Duration::from_millis(200);
/// Until the woken leader has answered what it was asked before; much longer than it takes, for
/// machines that stand still.
const AWAKE_TIME_MAX: Duration = Duration::from_secs(20);

pub(super) fn kill_leader(server: &Path, plan: Plan) -> Result<String, String> {
    let (mut cluster, workload) = started(server, 3)?;
    let mut gaps = Vec::new();
    for _ in 0..plan.rounds {
        let leader = cluster.leader(REJOIN_TIME_MAX)?;
        let from = now();
        cluster.kill(leader)?;
        sleep(CALM * 2);
        gaps.push(workload.longest_gap(from));
        rejoin(&mut cluster, leader)?;
        sleep(CALM);
    }
    let outcome = finish(&cluster, workload)?;
    let figures = judge(gaps, plan.allowed(GAP_MEDIAN_MAX), plan.allowed(GAP_MAX))?;
    Ok(format!("{figures}; {outcome}"))
}

pub(super) fn planned_stop(server: &Path, plan: Plan) -> Result<String, String> {
    let (mut cluster, workload) = started(server, 3)?;
    let mut gaps = Vec::new();
    for round in 0..plan.rounds {
        gaps.push(in_round(round, stop_leader(&mut cluster, &workload))?);
    }
    let outcome = finish(&cluster, workload)?;
    let max = plan.allowed(PLANNED_GAP_MAX);
    Ok(format!("{}; {outcome}", judge(gaps, max, max)?))
}

fn stop_leader(cluster: &mut Cluster, workload: &Workload) -> Result<Duration, String> {
    let leader = cluster.leader(REJOIN_TIME_MAX)?;
    let (from, doubt_count) = (now(), workload.doubts().len());
    let code = cluster.terminate(leader)?;
    sleep(CALM);
    if code != Some(0) {
        return Err(format!("exit code {code:?}"));
    }
    if let Some(doubt) = workload.doubts().get(doubt_count) {
        return Err(format!("a request failed in a planned stop of slot {leader}: {doubt}"));
    }
    let gap = workload.longest_gap(from);
    rejoin(cluster, leader)?;
    sleep(CALM);
    Ok(gap)
}

/// The leader stands still, others take over, and it wakes up.
pub(super) fn suspend_leader(server: &Path, plan: Plan) -> Result<String, String> {
    let (cluster, workload) = started(server, 3)?;
    for round in 0..plan.long_rounds {
        in_round(round, suspend(&cluster, &workload, plan.suspension))?;
    }
    finish(&cluster, workload).map(|outcome| outcome.to_string())
}

fn suspend(cluster: &Cluster, workload: &Workload, suspension: Duration) -> Result<(), String> {
    let leader = cluster.leader(REJOIN_TIME_MAX)?;
    let probe = Probe::start(&cluster.target, leader, "suspended");
    sleep(CALM);
    cluster.signal(leader, "STOP")?;
    let stopped = now();
    sleep(suspension);
    let before = workload.grant_count();
    sleep(CALM);
    let is_serving = workload.grant_count() > before;
    let woken = now();
    cluster.signal(leader, "CONT")?;
    if !is_serving {
        return Err("the others do not go on without a suspended leader".into());
    }
    let is_answered = |probe: &Probe| probe.asked().iter().any(|asked| asked.sent > woken);
    while !is_answered(&probe) && now() < woken + AWAKE_TIME_MAX {
        sleep(CALM / 50);
    }
    sleep(CALM);
    check_woken(&probe, stopped, woken)?;
    let status = cluster.status(leader)?;
    if status.role == "leader" {
        return Err("a suspended leader leads again although nobody else failed".into());
    }
    cluster.leader(REJOIN_TIME_MAX).map(drop)
}

/// What was asked while it stood still, and later, was granted by nobody: all it may say is that it
/// does not lead, or does not know what came of the request.
fn check_woken(probe: &Probe, stopped: Instant, woken: Instant) -> Result<(), String> {
    let asked = probe.asked();
    let after = asked.iter().filter(|asked| asked.answered > stopped && asked.answered > woken);
    let mut count = 0;
    for asked in after {
        count += 1;
        if asked.is_granted() && asked.sent < stopped {
            // It may have been recorded by a majority before.
            continue;
        }
        if !matches!(asked.answer, Some(Answer::Indeterminate | Answer::Moved(_))) {
            return Err(format!("the woken leader answers {:?}", asked.answer));
        }
    }
    if count == 0 { Err("the woken leader answers nothing".into()) } else { Ok(()) }
}
