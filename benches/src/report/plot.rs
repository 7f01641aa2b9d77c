//! The plots, as SVG: one panel per cell, one row per system.

use std::fmt::Write;

use super::text::{count, micros};
use super::{CellResult, Report};
use crate::system::System;

const WIDTH: f64 = 760.0;
const LABEL_WIDTH: f64 = 90.0;
const VALUE_WIDTH: f64 = 190.0;
const BAR_WIDTH: f64 = WIDTH - LABEL_WIDTH - VALUE_WIDTH;
const ROW_HEIGHT: f64 = 20.0;
const TITLE_HEIGHT: f64 = 30.0;
const PANEL_GAP: f64 = 10.0;
/// The latency axis: 1 µs to 10 s, in powers of ten.
const LATENCY_DECADES: f64 = 7.0;
/// Where the axis has its lines, in microseconds.
const LATENCY_MARKS: [f64; 6] = [1e1, 1e2, 1e3, 1e4, 1e5, 1e6];

/// Pairs per second: a bar per system and a line at our goal where there is one; every panel has
/// its own scale.
pub fn throughput(report: &Report) -> String {
    let mut svg = Svg::new();
    for result in &report.cells {
        let rows = rows(result);
        let goal = result.goal.pairs_per_second;
        let figures = rows.iter().map(|(_, sample)| sample.pairs_per_second);
        let most = figures.fold(goal.unwrap_or(0.0), f64::max);
        svg.title(&format!("{}: pairs per second", result.cell.title()));
        let top = svg.y;
        for (system, sample) in &rows {
            let width = BAR_WIDTH * sample.pairs_per_second / most;
            let value = format!(
                "{} · {:.2} s CPU / M req",
                count(sample.pairs_per_second as usize),
                sample.server_cpu_seconds_per_million_ops
            );
            svg.row(*system, &value);
            svg.bar(*system, 0.0, width, 14.0);
            svg.next_row();
        }
        if let Some(goal) = goal {
            svg.mark(BAR_WIDTH * goal / most, top);
        }
        svg.next_panel();
    }
    svg.finish("dashed: our goal")
}

/// Latency: a bar from the median to 99.9 % and a mark at 99 %, all on one logarithmic axis.
pub fn latency(report: &Report) -> String {
    let mut svg = Svg::new();
    for result in &report.cells {
        svg.title(&format!("{}: request to answer", result.cell.title()));
        let top = svg.y;
        for (system, sample) in rows(result) {
            let latency = sample.latency_micros;
            let [p50, p99, p999] = [latency.p50, latency.p99, latency.p999].map(on_latency_axis);
            let value = format!(
                "{} / {} / {}",
                micros(latency.p50),
                micros(latency.p99),
                micros(latency.p999)
            );
            svg.row(system, &value);
            svg.bar(system, p50, (p999 - p50).max(2.0), 6.0);
            svg.bar(system, p99 - 1.5, 3.0, 14.0);
            svg.next_row();
        }
        for micros in LATENCY_MARKS {
            svg.mark(on_latency_axis(micros), top);
        }
        svg.next_panel();
    }
    svg.finish("logarithmic, lines at 10 µs, 100 µs, 1 ms, … 1 s; bar: 50 % to 99.9 %, mark: 99 %")
}

fn on_latency_axis(micros: f64) -> f64 {
    BAR_WIDTH * (micros.max(1.0).log10() / LATENCY_DECADES).min(1.0)
}

fn rows(result: &CellResult) -> Vec<(System, &crate::measure::throughput::Sample)> {
    let rows = result.figures.iter();
    rows.filter_map(|(system, outcome)| Some((*system, outcome.measured()?))).collect()
}

/// A picture that grows downwards.
struct Svg {
    body: String,
    y: f64,
}

impl Svg {
    fn new() -> Self {
        Self { body: String::new(), y: 0.0 }
    }

    fn title(&mut self, title: &str) {
        let y = self.y + TITLE_HEIGHT - 10.0;
        let _ = writeln!(self.body, "<text x=\"0\" y=\"{y}\" font-weight=\"bold\">{title}</text>");
        self.y += TITLE_HEIGHT;
    }

    fn row(&mut self, system: System, value: &str) {
        let (y, x) = (self.y + 14.0, LABEL_WIDTH + BAR_WIDTH + 8.0);
        let _ = writeln!(self.body, "<text x=\"0\" y=\"{y}\">{}</text>", system.name());
        let _ = writeln!(self.body, "<text x=\"{x}\" y=\"{y}\">{value}</text>");
    }

    fn bar(&mut self, system: System, from: f64, width: f64, height: f64) {
        let (x, y) = (LABEL_WIDTH + from, self.y + (ROW_HEIGHT - height) / 2.0);
        let _ = writeln!(
            self.body,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height}\" \
             fill=\"{}\"/>",
            colour(system)
        );
    }

    /// A dashed line through the rows since `top`.
    fn mark(&mut self, at: f64, top: f64) {
        let (x, bottom) = (LABEL_WIDTH + at, self.y);
        let _ = writeln!(
            self.body,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{bottom}\" stroke=\"#888\" \
             stroke-dasharray=\"4 3\"/>"
        );
    }

    fn next_row(&mut self) {
        self.y += ROW_HEIGHT;
    }

    fn next_panel(&mut self) {
        self.y += PANEL_GAP;
    }

    fn finish(mut self, legend: &str) -> String {
        let y = self.y + 14.0;
        let _ = writeln!(self.body, "<text x=\"0\" y=\"{y}\" fill=\"#555\">{legend}</text>");
        let height = self.y + ROW_HEIGHT;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-10 0 {} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect x=\"-10\" width=\"100%\" height=\"100%\" fill=\"white\"/>\n{}</svg>\n",
            WIDTH + 20.0,
            self.body
        )
    }
}

const fn colour(system: System) -> &'static str {
    match system {
        System::Echo => "#b0b0b0",
        System::Ticketing => "#1f6feb",
        System::Redis => "#d1495b",
        System::Dflockd => "#66a182",
        System::Etcd => "#edae49",
    }
}
