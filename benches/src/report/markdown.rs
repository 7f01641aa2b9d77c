//! The tables, in Markdown.

use std::fmt::Write;

use super::text::{count, megabytes, micros, significant};
use super::{CellResult, Outcome, Report, Verdict};
use crate::cell::Cell;
use crate::measure::throughput::{Percentiles, Sample};
use crate::system::System;

/// Marks a figure that other programs on the machine have spoilt.
const DISTURBED: &str = "†";

/// Every table and remark.
pub fn full(report: &Report) -> String {
    let parts = [
        head(report),
        throughput(report),
        goals(&report.verdicts()),
        latency(report),
        memory(report),
        join(report),
        effort(report),
        remarks(report),
    ];
    joined(&parts)
}

/// What the README shows: throughput against the peers, and the goals that were missed.
pub fn short(report: &Report) -> String {
    let verdicts = report.verdicts();
    let missed: Vec<String> = verdicts
        .iter()
        .filter(|verdict| !verdict.met)
        .map(|Verdict { what, goal, figure, .. }| format!("{what}: {figure}, not {goal}"))
        .collect();
    let held = verdicts.len() - missed.len();
    let mut summary =
        format!("{held} of {} goals hold; the handbook lists them all.", verdicts.len());
    if !missed.is_empty() {
        let _ = write!(summary, " **Missed:** {}.", missed.join("; "));
    }
    summary.push('\n');
    joined(&[head(report), throughput(report), summary, remarks(report)])
}

fn joined(parts: &[String]) -> String {
    let parts = parts.iter().filter(|part| !part.is_empty()).map(String::as_str);
    parts.collect::<Vec<_>>().join("\n")
}

/// What, where and how.
fn head(report: &Report) -> String {
    let versions: Vec<String> = report
        .systems
        .iter()
        .filter(|measured| measured.system != System::Echo)
        .map(|measured| match &measured.version {
            Some(version) => format!("{} {version}", measured.system.name()),
            None => measured.system.name().to_owned(),
        })
        .collect();
    let runs = match report.runs {
        1 => "a single run".to_owned(),
        runs => format!("medians of {runs} runs, systems taking turns"),
    };
    format!(
        "Commit {}, {}, one core for the server and one for the generator{}, {runs} of {} s, \
         {}. {}.\n",
        report.commit,
        report.processor,
        if has_clusters(report) {
            " (3 nodes share both with it in class SCHED_OTHER)"
        } else {
            ""
        },
        report.seconds,
        report.scheduling,
        versions.join(", ")
    )
}

fn throughput(report: &Report) -> String {
    if report.cells.is_empty() {
        return String::new();
    }
    let has_etcd = report.systems.iter().any(|measured| measured.system == System::Etcd);
    let clusters = match (has_clusters(report), has_etcd) {
        (false, _) => "",
        (true, false) => " (of 3 nodes: the leader's)",
        (true, true) => " (of 3 nodes: the leader's; etcd syncs every change to disk)",
    };
    let mut text = format!(
        "Pairs of acquire and release per second · server processor seconds per million \
         requests{clusters}:\n\n",
    );
    header(&mut text, "", report);
    for result in &report.cells {
        row(&mut text, result.cell.title(), report, |system| figure(result, system));
    }
    let bytes = |system| {
        let (_, held) = report.held.iter().find(|(of, _)| *of == system)?;
        Some(match held {
            Outcome::Measured(held) => {
                format!(
                    "{} ({} keys)",
                    count(held.bytes_per_key.round() as usize),
                    count(held.keys)
                )
            }
            Outcome::Failed(_) => "failed".into(),
        })
    };
    if !report.held.is_empty() {
        row(&mut text, "bytes per held 32-byte key", report, bytes);
    }
    text
}

fn has_clusters(report: &Report) -> bool {
    report.cells.iter().any(|result| result.cell.is_clustered())
}

fn figure(result: &CellResult, system: System) -> Option<String> {
    let (_, outcome) = result.figures.iter().find(|(of, _)| *of == system)?;
    let Outcome::Measured(sample) = outcome else { return Some("failed".into()) };
    let mut text = format!(
        "{} · {}",
        count(sample.pairs_per_second as usize),
        significant(sample.server_cpu_seconds_per_million_ops)
    );
    if sample.is_disturbed() {
        text.push_str(DISTURBED);
    }
    if sample.denied_per_second > 0.0 {
        text.push_str(" (polling)");
    }
    if system == System::Ticketing
        && let Some(ratio) = result.cpu_per_echo()
    {
        let _ = write!(text, " ({ratio:.2} × echo)");
    }
    Some(text)
}

fn goals(verdicts: &[Verdict]) -> String {
    if verdicts.is_empty() {
        return String::new();
    }
    let mut text = String::from("| what must hold | goal | measured | |\n|---|---|---|---|\n");
    for verdict in verdicts {
        let met = if verdict.met { "holds" } else { "**missed**" };
        let _ =
            writeln!(text, "| {} | {} | {} | {met} |", verdict.what, verdict.goal, verdict.figure);
    }
    text
}

fn latency(report: &Report) -> String {
    if report.cells.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "Time from request to answer, 50 / 99 / 99.9 % (of a contended acquire: the whole wait, \
         all tries):\n\n",
    );
    header(&mut text, "", report);
    for result in &report.cells {
        row(&mut text, result.cell.title(), report, |system| {
            Some(percentiles(result.sample(system)?.latency_micros))
        });
    }
    for result in report.cells.iter().filter(|result| result.cell.is_contended()) {
        let name = format!("{}: release sent to next grant", result.cell.title());
        row(&mut text, &name, report, |system| {
            Some(percentiles(result.sample(system)?.hand_off_micros))
        });
    }
    text
}

fn percentiles(value: Percentiles) -> String {
    format!("{} / {} / {}", micros(value.p50), micros(value.p99), micros(value.p999))
}

fn memory(report: &Report) -> String {
    let is_empty = report.held.is_empty() && report.idle.is_empty() && report.peaks.is_empty();
    if is_empty && !has_clusters(report) {
        return String::new();
    }
    let mut text = String::from("Resident memory:\n\n");
    header(&mut text, "", report);
    let peak = |system| {
        let (_, peak) = report.peaks.iter().find(|(of, _)| *of == system)?;
        Some(megabytes(*peak))
    };
    if !report.peaks.is_empty() {
        row(&mut text, "peak through all cells of one server", report, peak);
    }
    for result in report.cells.iter().filter(|result| result.cell.is_clustered()) {
        let title = format!("{}: leader's peak", result.cell.title());
        row(&mut text, &title, report, |system| {
            Some(megabytes(result.sample(system)?.server_peak_bytes))
        });
    }
    if !report.held.is_empty() {
        let held = |system| {
            let (_, outcome) = report.held.iter().find(|(of, _)| *of == system)?;
            let Outcome::Measured(held) = outcome else { return Some("failed".into()) };
            Some(format!(
                "{} keys: {} → released {} → other keys {}",
                count(held.keys),
                megabytes(held.full_bytes),
                megabytes(held.released_bytes),
                megabytes(held.refilled_bytes)
            ))
        };
        row(&mut text, "held keys", report, held);
    }
    if !report.idle.is_empty() {
        let idle = |system| {
            let (_, outcome) = report.idle.iter().find(|(of, _)| *of == system)?;
            let Outcome::Measured(idle) = outcome else { return Some("failed".into()) };
            Some(format!("{}: {}", count(idle.connections), megabytes(idle.resident_bytes)))
        };
        row(&mut text, "idle connections", report, idle);
    }
    text
}

fn join(report: &Report) -> String {
    let Some(Outcome::Measured(join)) = &report.join else { return String::new() };
    format!(
        "A node of three was killed and replaced while {} keys were held: {:.1} s from the start \
         of the new process to its vote. Meanwhile 64 connections × depth 1 finished {} pairs/s, \
         answered within {} (50 / 99 / 99.9 %); the leader's memory peaked at {}.\n",
        count(join.keys),
        join.seconds,
        count(join.pairs_per_second as usize),
        percentiles(join.latency_micros),
        megabytes(join.leader_peak_bytes)
    )
}

fn effort(report: &Report) -> String {
    if report.cells.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "Share of a core that the server used (of 3 nodes: the leader + the others together) · \
         that the generator used:\n\n",
    );
    header(&mut text, "", report);
    for result in &report.cells {
        row(&mut text, result.cell.title(), report, |system| {
            let sample = result.sample(system)?;
            let mark = if sample.generator_is_bottleneck() { " (generator-bound)" } else { "" };
            let percent = |share: f64| format!("{:.0} %", share * 100.0);
            let mut server = percent(sample.server_core_share);
            if result.cell.is_clustered() {
                let _ = write!(server, " + {}", percent(sample.followers_core_share));
            }
            Some(format!("{server} · {}{mark}", percent(sample.generator_core_share)))
        });
    }
    text
}

/// What a reader has to know before believing the figures.
pub fn remarks(report: &Report) -> String {
    let mut remarks = Vec::new();
    for result in &report.cells {
        for (system, outcome) in &result.figures {
            let place = format!("{}, {}", result.cell.title(), system.name());
            match outcome {
                Outcome::Failed(why) => remarks.push(format!("{place}: failed: {why}")),
                Outcome::Measured(sample) if sample.generator_is_bottleneck() => {
                    remarks.push(generator_bound(sample, &place));
                }
                Outcome::Measured(_) => {}
            }
        }
    }
    remarks.extend(report.hand_offs_per_round_trip().map(|ratio| {
        format!(
            "{}: a hand-off takes a round trip, from the grant to the release and back; Ticketing \
             made {ratio:.2} × as many as the bare echo made round trips on 1 connection",
            Cell::HandOff.title()
        )
    }));
    remarks.extend(disturbed(report));
    remarks.extend(report.held.iter().filter_map(|(s, held)| failed("held keys", *s, held)));
    remarks.extend(report.idle.iter().filter_map(|(s, idle)| failed("idle connections", *s, idle)));
    let ours = System::Ticketing;
    remarks.extend(report.deadlines.iter().filter_map(|d| failed("deadlines", ours, d)));
    remarks.extend(report.processors.iter().filter_map(|p| failed("two processors", ours, p)));
    remarks.extend(report.join.iter().filter_map(|j| failed("a replacement node", ours, j)));
    let missing = |system: &System| format!("{}: not found on this machine", system.name());
    remarks.extend(report.missing.iter().map(missing));
    remarks.iter().map(|remark| format!("- {remark}\n")).collect()
}

fn failed<T>(what: &str, system: System, outcome: &Outcome<T>) -> Option<String> {
    match outcome {
        Outcome::Failed(why) => Some(format!("{what}, {}: failed: {why}", system.name())),
        Outcome::Measured(_) => None,
    }
}

fn generator_bound(sample: &Sample, place: &str) -> String {
    format!(
        "{place}: the generator was the bottleneck ({:.0} % of its core, the server {:.0} %); the \
         server can do more",
        sample.generator_core_share * 100.0,
        sample.server_core_share * 100.0
    )
}

/// One line for all disturbed measurements: on a busy machine it is nearly all of them.
fn disturbed(report: &Report) -> Option<String> {
    let figures = report.cells.iter().flat_map(|result| &result.figures);
    let samples: Vec<&Sample> = figures.filter_map(|(_, outcome)| outcome.measured()).collect();
    let disturbed = samples.iter().filter(|sample| sample.is_disturbed());
    let most = disturbed.clone().map(|sample| sample.lost_share()).reduce(f64::max)?;
    Some(format!(
        "{DISTURBED} Other programs took processor time away in {} of {} measurements, up to \
         {:.0} %: fewer pairs per second and longer times there, processor seconds nearly right",
        disturbed.count(),
        samples.len(),
        most * 100.0
    ))
}

fn header(text: &mut String, first: &str, report: &Report) {
    let _ = write!(text, "| {first} |");
    for measured in &report.systems {
        let _ = write!(text, " {} |", measured.system.name());
    }
    text.push_str("\n|---|");
    text.push_str(&"---|".repeat(report.systems.len()));
    text.push('\n');
}

fn row(text: &mut String, title: &str, report: &Report, figure: impl Fn(System) -> Option<String>) {
    let _ = write!(text, "| {title} |");
    for measured in &report.systems {
        let _ = write!(text, " {} |", figure(measured.system).unwrap_or_else(|| "–".into()));
    }
    text.push('\n');
}
