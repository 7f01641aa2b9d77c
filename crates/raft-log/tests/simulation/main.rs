//! Whole clusters of toy machines under seeded faults: delay, cut, half-open links, crashes,
//! restarts as new nodes, pauses, skewed clocks. `SEED=n` replays one seed, `COUNT=n` runs many.

mod cluster;
mod net;
mod seeds;

use cluster::Cluster;

fn run(seed: u64) {
    let slot_count = if seed.is_multiple_of(3) { 5 } else { 3 };
    let mut cluster = Cluster::new(seed, slot_count);
    cluster.run_with_faults(12_000_000);
    cluster.heal_and_check();
}

#[test]
fn seeds_keep_every_invariant() {
    seeds::run(20, run);
}

#[test]
fn a_seed_replays_exactly() {
    let trace = |seed| {
        let mut cluster = Cluster::new(seed, 3);
        cluster.run_with_faults(6_000_000);
        cluster.trace()
    };
    assert_eq!(trace(7), trace(7));
    assert_ne!(trace(7), trace(8));
}

#[test]
fn a_dead_leader_is_replaced_early_when_its_links_close() {
    let mut gaps: Vec<u64> = (0..40).map(|seed| Cluster::new(seed, 3).leader_gap(true)).collect();
    gaps.sort_unstable();
    assert!(gaps[20] < 250_000, "median {} us", gaps[20]);
    assert!(gaps[39] < 1_000_000, "worst {} us", gaps[39]);
}

#[test]
fn a_silent_leader_is_replaced_after_its_election_timeout() {
    for slot_count in [3, 5] {
        let gap = |seed| Cluster::new(seed, slot_count).leader_gap(false);
        let mut gaps: Vec<u64> = (0..100).map(gap).collect();
        gaps.sort_unstable();
        assert!(gaps[50] < 650_000, "median {} us of {slot_count}", gaps[50]);
        assert!(gaps[99] < 800_000, "worst {} us of {slot_count}", gaps[99]);
    }
}

#[test]
fn a_hand_over_takes_a_few_round_trips() {
    for seed in 0..20 {
        let gap = Cluster::new(seed, 3).hand_over_gap();
        assert!(gap < 100_000, "seed {seed}: {gap} us");
    }
}

#[test]
fn a_process_is_replaced_while_nothing_is_proposed() {
    for seed in 0..40 {
        Cluster::new(seed, 3).replace_in_silence();
    }
}

#[test]
fn without_a_majority_nothing_is_committed() {
    for seed in 0..10 {
        Cluster::new(seed, 3).lose_majority();
    }
}

#[test]
fn a_long_log_is_compacted_and_a_new_node_gets_a_snapshot() {
    Cluster::new(1, 3).fill_and_replace();
}
