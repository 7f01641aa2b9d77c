//! Enough processes lose their memory to end the cluster, for good.

use super::{CALM, started};
use crate::chaos::Plan;
use crate::chaos::clock::now;
use crate::chaos::cluster::Cluster;
use crate::chaos::workload::Workload;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// Until grants that were on their way have arrived, and restarted processes have found each other.
const AFTERMATH: Duration = Duration::from_secs(3);
/// How long nothing may be granted then.
const SILENCE: Duration = Duration::from_secs(5);
/// A window that is soon over, and long enough to begin.
const WINDOW: Duration = Duration::from_secs(12);
/// How often those who lost their memory are restarted.
const RESTART_COUNT: usize = 2;

pub(super) fn lost_majority(server: &Path, _: Plan) -> Result<String, String> {
    let (mut cluster, workload) = started(server, 3)?;
    let lost = [1, 2];
    for _ in 0..RESTART_COUNT {
        restart(&mut cluster, &lost)?;
        check_silence(&workload)?;
    }
    for slot in lost {
        cluster.wait_for_words(slot, "this identity is over")?;
    }
    finish(&cluster, workload)
}

pub(super) fn lost_all_late(server: &Path, _: Plan) -> Result<String, String> {
    let mut cluster = Cluster::with_window(server, WINDOW)?;
    let made = now();
    cluster.start_all()?;
    let workload = Workload::start(&cluster);
    // Identities are made in whole seconds.
    sleep((WINDOW + Duration::from_secs(1)).saturating_sub(now() - made));
    lose_all(&mut cluster, workload, "time to begin is over")
}

pub(super) fn lost_all_marked(server: &Path, _: Plan) -> Result<String, String> {
    let mut cluster = Cluster::new(server, 3)?;
    cluster.keep_state();
    cluster.start_all()?;
    let workload = Workload::start(&cluster);
    sleep(CALM);
    lose_all(&mut cluster, workload, "TICKETING_STATE_DIR says that this slot was a member")
}

fn lose_all(cluster: &mut Cluster, workload: Workload, words: &str) -> Result<String, String> {
    restart(cluster, &[0, 1, 2])?;
    check_silence(&workload)?;
    for slot in 0..3 {
        cluster.wait_for_words(slot, "ERROR ticketing_server::net::peers: no process of")?;
        cluster.wait_for_words(slot, words)?;
        cluster.wait_for_words(slot, "`ticketing-server cluster new`")?;
    }
    finish(cluster, workload)
}

/// Kills all of them before the first one starts again.
fn restart(cluster: &mut Cluster, slots: &[usize]) -> Result<(), String> {
    slots.iter().try_for_each(|slot| cluster.kill(*slot))?;
    slots.iter().try_for_each(|slot| cluster.start(*slot))
}

fn check_silence(workload: &Workload) -> Result<(), String> {
    sleep(AFTERMATH);
    let before = workload.grant_count();
    if before == 0 {
        return Err("nothing was granted at all".into());
    }
    sleep(SILENCE);
    if workload.grant_count() > before {
        return Err("a lock was granted after a majority lost its memory".into());
    }
    Ok(())
}

/// Nobody is a member with others, so there is no state to compare.
fn finish(cluster: &Cluster, workload: Workload) -> Result<String, String> {
    if cluster.leader(SILENCE).is_ok() {
        return Err("a node leads after a majority lost its memory".into());
    }
    workload.finish().map(|outcome| outcome.to_string())
}
