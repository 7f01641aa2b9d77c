//! Verdicts, tables and plots of a made-up report.

use super::*;
use crate::measure::lateness::Lateness;
use crate::measure::throughput::Percentiles;

fn sample(pairs_per_second: f64, cost: f64) -> Sample {
    Sample {
        pairs_per_second,
        ops_per_second: 2.0 * pairs_per_second,
        server_cpu_seconds_per_million_ops: cost,
        latency_micros: Percentiles { p50: 300.0, p99: 600.0, p999: 2_000.0 },
        server_core_share: 1.0,
        generator_core_share: 0.5,
        ..Sample::default()
    }
}

fn report() -> Report {
    let figures = vec![
        (System::Echo, Outcome::Measured(sample(1_200_000.0, 0.4))),
        (System::Ticketing, Outcome::Measured(sample(899_999.0, 0.5))),
        (System::Redis, Outcome::Failed("it ended".into())),
    ];
    let late = Lateness { count: 300, early: 0, p50_millis: 1.0, max_millis: 20.0 };
    let early = Lateness { early: 1, ..late };
    let held = Held {
        keys: 1_000_000,
        bytes_per_key: 120.4,
        full_bytes: 130_000_000,
        released_bytes: 130_000_000,
        refilled_bytes: 131_000_000,
        peak_bytes: 132_000_000,
    };
    Report {
        unix_seconds: 0,
        commit: "abc1234".into(),
        processor: "a processor".into(),
        scheduling: Scheduling::USUAL,
        runs: 3,
        seconds: 2.0,
        systems: [System::Echo, System::Ticketing, System::Redis]
            .map(|system| Measured { system, version: Some("1.2".into()) })
            .into(),
        missing: vec![System::Dflockd],
        cells: vec![CellResult { cell: Cell::Pipelined, goal: Cell::Pipelined.goal(), figures }],
        peaks: vec![(System::Ticketing, 9_999_999)],
        held: vec![(System::Ticketing, Outcome::Measured(held))],
        idle: Vec::new(),
        deadlines: Some(Outcome::Measured(Deadlines {
            expiry: late,
            timeout: early,
            pairs_per_second: 1.0,
        })),
        processors: Some(Outcome::Measured(Processors {
            one: 100.0,
            two: 96.0,
            two_threads: 90.0,
        })),
        join: Some(Outcome::Measured(Join {
            keys: 1_000_000,
            seconds: 4.3,
            pairs_per_second: 12_345.0,
            latency_micros: Percentiles { p50: 2_000.0, p99: 20_000.0, p999: 30_000.0 },
            leader_peak_bytes: 300_000_000,
        })),
    }
}

#[test]
fn goals_are_judged_at_their_edges() {
    let verdicts = report().verdicts();
    let met: Vec<bool> = verdicts.iter().map(|verdict| verdict.met).collect();
    // Pairs, cost, peak, bytes per key, reuse, expiry, early timeout, processors, join, its
    // latency.
    let goals = [false, true, true, true, true, true, false, false, true, false];
    assert_eq!(met, goals, "{verdicts:#?}");
    assert_eq!(verdicts[1].figure, "1.25 × echo");
}

#[test]
fn tables_show_misses_failures_and_absences() {
    let text = markdown::full(&report());
    for expected in [
        "| 64 connections × depth 16 | 1,200,000 · 0.40 | 899,999 · 0.50 (1.25 × echo) | failed |",
        "at least 900,000 pairs/s | 899,999 pairs/s (1,799,998 requests/s) | **missed** |",
        "| bytes per held 32-byte key | – | 120 (1,000,000 keys) | – |",
        "- 64 connections × depth 16, Redis: failed: it ended",
        "- dflockd: not found on this machine",
        "of 2 s, scheduling class SCHED_OTHER. Ticketing 1.2, Redis 1.2.",
    ] {
        assert!(text.contains(expected), "{expected}\nis not in\n{text}");
    }
}

#[test]
fn hand_offs_are_compared_with_bare_round_trips() {
    let result = |cell: Cell, system, pairs| CellResult {
        cell,
        goal: cell.goal(),
        figures: vec![(system, Outcome::Measured(sample(pairs, 1.0)))],
    };
    let mut report = report();
    report.cells = vec![result(Cell::HandOff, System::Ticketing, 9_000.0)];
    assert!(!markdown::full(&report).contains("round trip"));
    report.cells.push(result(Cell::Lone, System::Echo, 5_000.0));
    let text = markdown::full(&report);
    assert!(text.contains("Ticketing made 0.90 × as many as the bare echo"), "{text}");
}

#[test]
fn the_short_form_lists_what_was_missed_only() {
    let text = markdown::short(&report());
    assert!(text.contains("6 of 10 goals hold"), "{text}");
    let first = "**Missed:** 64 connections × depth 16: 899,999 pairs/s (1,799,998 requests/s), \
                 not at least 900,000 pairs/s; ";
    assert!(text.contains(first), "{text}");
    assert_eq!(text.matches(", not ").count(), 4, "{text}");
    assert!(!text.contains("| holds |"), "{text}");
}

#[test]
fn a_saturated_generator_and_a_busy_machine_are_told() {
    let mut report = report();
    let slow = Sample { server_core_share: 0.6, generator_core_share: 0.99, ..sample(1.0, 0.1) };
    let busy = Sample { server_lost_share: 0.3, ..sample(1.0, 0.1) };
    report.cells[0].figures =
        vec![(System::Echo, Outcome::Measured(slow)), (System::Ticketing, Outcome::Measured(busy))];
    let text = markdown::short(&report);
    assert!(text.contains("bare echo: the generator was the bottleneck (99 %"), "{text}");
    assert!(text.contains("- † Other programs took processor time away in 1 of 2"));
    assert!(text.contains("| 1 · 0.10 | 1 · 0.10† (1.00 × echo) |"), "{text}");
}

#[test]
fn a_cluster_is_judged_by_its_leader() {
    let mut report = report();
    let ours = Sample {
        server_peak_bytes: 30_000_000,
        followers_core_share: 0.7,
        ..sample(100_000.0, 2.0)
    };
    let (cell, etcd) = (Cell::ClusterPipelined, Outcome::Failed("no leader".into()));
    let figures = vec![(System::Ticketing, Outcome::Measured(ours)), (System::Etcd, etcd)];
    report.cells = vec![CellResult { cell, goal: cell.goal(), figures }];
    report.systems.retain(|measured| measured.system == System::Ticketing);
    report.systems.push(Measured { system: System::Etcd, version: None });
    let text = markdown::full(&report);
    for expected in [
        "for the generator (3 nodes share both with it in class SCHED_OTHER), medians",
        "| 3 nodes: 64 connections × depth 16 | 100,000 · 2.0 | failed |",
        "at least 100,000 pairs/s | 100,000 pairs/s (200,000 requests/s) | holds |",
        "leader's peak resident memory | under 30.0 MB | 30.0 MB | **missed** |",
        "| 3 nodes: 64 connections × depth 16: leader's peak | 30.0 MB | – |",
        "1,000,000 keys held: a replacement joins | under 10 s | 4.3 s | holds |",
        "finished 12,345 pairs/s, answered within 2.0 ms / 20 ms / 30 ms",
        "| 3 nodes: 64 connections × depth 16 | 100 % + 70 % · 50 % | – |",
        "- 3 nodes: 64 connections × depth 16, etcd: failed: no leader",
    ] {
        assert!(text.contains(expected), "{expected}\nis not in\n{text}");
    }
}

#[test]
fn plots_are_whole_and_bounded() {
    for svg in [plot::throughput(&report()), plot::latency(&report())] {
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("Ticketing") && !svg.contains("NaN"));
        for width in svg.split("width=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            let width = width.trim_end_matches('%').parse::<f64>().expect("a number");
            assert!((0.0..=760.0).contains(&width), "{width}");
        }
    }
}

#[test]
fn the_report_is_json() {
    let json = serde_json::to_value(report()).expect("json");
    assert_eq!(json["cells"][0]["cell"], "64x16");
    assert_eq!(json["scheduling"], "scheduling class SCHED_OTHER");
    assert_eq!(json["cells"][0]["figures"][2][0], "redis");
    assert_eq!(json["cells"][0]["figures"][2][1]["failed"], "it ended");
}
