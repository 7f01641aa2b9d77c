//! Whole clusters in virtual time: engines, logs, lock tables and clients, without sockets, under
//! seeded faults. `SEED=n` replays one seed, `COUNT=n` runs many; `cargo xtask sim` does both.

mod admission;
mod client;
mod crowd;
mod faults;
mod invariants;
#[path = "../../../../raft-log/tests/simulation/net.rs"]
mod net;
mod requests;
#[path = "../../../../raft-log/tests/simulation/seeds.rs"]
mod seeds;
mod world;

use world::Simulation;

/// Faults last this long, in microseconds.
const FAULTY_MICROSECONDS: u64 = 10_000_000;

fn run(seed: u64) {
    let slot_count = if seed.is_multiple_of(4) { 5 } else { 3 };
    let mut simulation = Simulation::new(seed, slot_count);
    let first = if seed.is_multiple_of(2) { 2_500_000 } else { 30_000 + seed * 7_919 % 700_000 };
    simulation.run_with_faults(first, FAULTY_MICROSECONDS);
    simulation.heal_and_check();
}

#[test]
fn seeds_keep_every_invariant() {
    seeds::run(10, run);
}

#[test]
fn a_seed_replays_exactly() {
    let trace = |seed| {
        let mut simulation = Simulation::new(seed, 3);
        simulation.run_with_faults(2_500_000, 4_000_000);
        simulation.trace
    };
    assert_eq!(trace(3), trace(3));
    assert_ne!(trace(3), trace(4));
}

#[test]
fn a_planned_stop_answers_moved_and_leaves_no_gap() {
    for seed in 0..10 {
        Simulation::new(seed, 3).stop_leader_and(0);
    }
}

#[test]
fn a_leader_that_stops_does_not_leave_leadership_to_one_that_stops_too() {
    for seed in 0..20 {
        Simulation::new(seed, 5).stop_leader_and(1);
    }
}

#[test]
fn those_who_all_stop_do_not_hand_leadership_over_in_a_circle() {
    for seed in 0..10 {
        Simulation::new(seed, 3).stop_all();
    }
}

#[test]
fn leadership_goes_to_another_node_when_the_chosen_one_dies_or_stands_still() {
    for seed in 0..3 {
        for distance in 1..5 {
            let died = Simulation::new(seed, 5).hand_over_time(distance, Simulation::crash);
            assert!(died < 100_000, "seed {seed}, {distance} further: {died} µs");
            let stand_still = |simulation: &mut Simulation, slot| {
                simulation.pause_for(slot, 3_000_000);
            };
            let stood_still = Simulation::new(seed, 5).hand_over_time(distance, stand_still);
            assert!(stood_still < 900_000, "seed {seed}, {distance} further: {stood_still} µs");
        }
    }
}

#[test]
fn an_identity_whose_majority_lost_its_memory_never_grants_again() {
    for seed in 0..4 {
        Simulation::new(seed, 3).lose_majority();
    }
}

#[test]
fn after_the_window_nothing_begins() {
    Simulation::with_window(1, 3, 3_000_000).restart_all_late();
}

#[test]
fn whoever_promised_does_not_begin_again_after_those_who_may_have_begun() {
    for seed in 0..4 {
        Simulation::new(seed, 3).lose_who_began();
        Simulation::new(seed, 5).lose_who_began();
    }
}
