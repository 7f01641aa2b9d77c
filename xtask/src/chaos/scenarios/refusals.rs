//! Starts that have to be refused, each with a message that says why.

use super::REJOIN_TIME_MAX;
use crate::chaos::Plan;
use crate::chaos::cluster::Cluster;
use std::path::Path;
use std::time::Duration;

pub(super) fn refusals(server: &Path, _: Plan) -> Result<String, String> {
    let mut cluster = Cluster::new(server, 3)?;
    let four = "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3,127.0.0.1:4";
    refuse(&cluster, ("TICKETING_CLUSTER_SLOTS", "127.0.0.1:1,127.0.0.1:2"), "lists 2 slots")?;
    refuse(&cluster, ("TICKETING_CLUSTER_SLOTS", four), "lists 4 slots")?;
    refuse(&cluster, ("TICKETING_SLOT", "3"), "TICKETING_SLOT: 3")?;
    refuse(&cluster, ("TICKETING_CLUSTER_ID", "00"), "not a cluster id")?;
    refuse(&cluster, ("TICKETING_PEER_TOKEN", "short"), "TICKETING_PEER_TOKEN")?;
    cluster.start(0)?;
    cluster.start(1)?;
    let other = Cluster::new(server, 3)?;
    let (id, token) =
        (other.variable("TICKETING_CLUSTER_ID")?, other.variable("TICKETING_PEER_TOKEN")?);
    reject(&cluster, ("TICKETING_CLUSTER_ID", &id), "another cluster identity")?;
    reject(&cluster, ("TICKETING_PEER_TOKEN", &token), "wrong peer token")?;
    // Where slot 2 is expected, somebody says to be slot 1.
    reject(&cluster, ("TICKETING_SLOT", "1"), "another slot")?;
    if cluster.leader(Duration::from_secs(1)).is_ok() {
        return Err("a cluster began without all of its slots".into());
    }
    cluster.start(2)?;
    cluster.leader(REJOIN_TIME_MAX)?;
    Ok("every wrong start is refused and says why".into())
}

/// A setting with which a process does not start.
fn refuse(cluster: &Cluster, setting: (&str, &str), words: &str) -> Result<(), String> {
    let mut child = cluster.spawn(0, &[setting])?;
    let status = child.wait().map_err(|error| error.to_string())?;
    if status.success() {
        return Err(format!("{setting:?} was not refused"));
    }
    cluster.wait_for_words(0, words)
}

/// A setting with which a process starts in slot 2's place and the others do not talk to it.
fn reject(cluster: &Cluster, setting: (&str, &str), words: &str) -> Result<(), String> {
    let mut child = cluster.spawn(2, &[setting])?;
    let heard = cluster.wait_for_words(2, words);
    let _ = child.kill().and_then(|()| child.wait());
    heard
}
