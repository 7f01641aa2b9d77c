//! `cluster new`, `cluster show`, `status`: what operators and their scripts read.

use super::rig::{Cluster, NODE_COUNT};
use crate::process::rig::run;
use crate::support::{acquire, eventually};

#[test]
fn one_fingerprint_is_in_the_new_environment_in_show_and_on_the_start_line() {
    let mut cluster = Cluster::new();
    let fingerprint = cluster.fingerprint.clone();
    let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    assert!(fingerprint.len() == 64 && fingerprint.chars().all(is_digit), "{fingerprint}");
    let shown = run(&["cluster", "show"], &cluster.environment(1));
    assert!(shown.status.success(), "{}", shown.errors);
    let lines: Vec<_> = shown.output.lines().collect();
    assert_eq!(lines[..2], [&format!("fingerprint={fingerprint}"), "slot=1"]);
    let window_end = lines[2].strip_prefix("begins_until_unix=").map(str::parse::<u64>);
    assert!(matches!(window_end, Some(Ok(1_700_000_000..))), "{lines:?}");
    assert_eq!(lines.len(), 3 + NODE_COUNT, "a line for each slot: {lines:?}");
    assert!(lines[3].starts_with("slot 0 clients=127.0.0.1:"), "{lines:?}");
    let mut fresh = cluster.environment(1);
    fresh.retain(|(name, _)| *name != "TICKETING_SLOT");
    let refused = run(&["cluster", "show"], &fresh);
    let remedy = "set this node's place in TICKETING_CLUSTER_SLOTS, from 0";
    assert!(!refused.status.success() && refused.errors.contains(remedy), "{}", refused.errors);
    let line = cluster.start(1, &[]);
    let words: Vec<_> = line.trim_end().split(' ').collect();
    for word in ["mode=cluster", "auth=on", &format!("fingerprint={fingerprint}")] {
        assert!(words.contains(&word), "{word} in {line:?}");
    }
}

#[test]
fn two_identities_differ_in_everything_secret() {
    let new = || run(&["cluster", "new", "--slots", "a:1,b:1,c:1"], &[]).output;
    let (one, two) = (new(), new());
    let names = ["# fingerprint=", "TICKETING_CLUSTER_ID=", "TICKETING_TOKEN="];
    for name in names.iter().chain(&["TICKETING_PEER_TOKEN="]) {
        let value =
            |text: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        assert!(value(&one).is_some_and(|value| value.len() >= 64), "{name} in {one}");
        assert_ne!(value(&one), value(&two), "{name}");
    }
}

#[test]
fn an_identity_that_cannot_be_is_refused_with_the_reason() {
    let refused = |arguments: &[&str], part: &str| {
        let ended = run(arguments, &[]);
        assert!(!ended.status.success() && ended.output.is_empty(), "{arguments:?}");
        assert!(ended.errors.contains(part), "{part:?} in {}", ended.errors);
    };
    refused(&["cluster", "new", "--slots", "a:1,b:1"], "lists 2 slots; a cluster has 3 or 5");
    refused(&["cluster", "new", "--slots", "a:1,b:1,c"], "c: not an address");
    refused(&["cluster", "new", "--slots", "a:1,b:1,c:1", "--window", "0"], "--window");
    refused(&["cluster", "show"], "TICKETING_CLUSTER_ID: not set");
}

#[test]
fn status_tells_every_nodes_standing() {
    let mut cluster = Cluster::new();
    cluster.start(0, &[]);
    // Alone it waits, says for what, and is not ready.
    let alone = run(&["status", "--wait-ready", "1"], &cluster.environment(0));
    assert!(!alone.status.success());
    for line in ["mode cluster", "ready false", "role none"] {
        assert!(alone.output.lines().any(|found| found == line), "{line}: {}", alone.output);
    }
    assert!(alone.output.contains("\nwaiting_for "), "{}", alone.output);
    for slot in 1..NODE_COUNT {
        cluster.start(slot, &[]);
    }
    let (leader, mut client) = cluster.leader();
    client.take(2, "held", 60);
    let mut waiting = cluster.leader().1;
    waiting.send(&acquire(2, 60, 60, "held"));
    for slot in 0..NODE_COUNT {
        eventually("it has heard of the waiter", || {
            cluster.ready(slot).iter().any(|line| line == "waiters 1")
        });
        check(slot, leader, &cluster.ready(slot));
    }
}

/// The lines of one node of a healthy cluster with a held key and a waiter.
fn check(slot: usize, leader: usize, lines: &[String]) {
    let value = |name: &str| {
        let value = lines.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("{name} in {lines:#?}"))
    };
    let number = |name: &str| value(name).parse::<u64>().expect("a number");
    assert_eq!((value("mode"), value("ready")), ("cluster", "true"));
    assert_eq!(value("role"), if slot == leader { "leader" } else { "follower" });
    assert_eq!((value("slot"), value("leader_slot")), (&*slot.to_string(), &*leader.to_string()));
    assert!(number("generation") >= 1 && number("term") >= 1, "{lines:#?}");
    assert!(number("committed") >= number("applied") && number("applied") > 0, "{lines:#?}");
    assert_eq!(value("replacing"), "false");
    assert!(number("locks") >= 1, "{lines:#?}");
    // Connections are a node's own business; the probes for the leader may not be over yet.
    assert!(number("sessions") >= number("in_flight"), "{lines:#?}");
    let members: Vec<_> = lines.iter().filter(|line| line.starts_with("member ")).collect();
    assert_eq!(members.len(), NODE_COUNT, "{lines:#?}");
    for (slot_of, member) in members.iter().enumerate() {
        assert!(member.starts_with(&format!("member slot={slot_of} generation=1 voter=true")));
        assert_eq!(member.contains(" lag="), slot == leader, "{member}");
        assert_eq!(member.contains(" heard="), slot == leader, "{member}");
    }
}
