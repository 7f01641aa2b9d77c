//! Speed and memory of each client against a real server, measured through its driver.

use crate::driver::Driver;
use crate::failure::{Check, Failure, fail};
use crate::registry::Language;
use crate::scenario::Stage;
use crate::server_process::ServerProcess;
use crate::tls::Authority;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

/// Callers at the same time, each on a key of its own.
const CALLER_COUNT: u32 = 64;
/// Parts of a run; memory is read after each, while no call is under way.
const PART_COUNT: usize = 4;
/// Pairs of acquire and release per second that every client has to reach.
const PAIRS_PER_SECOND_MIN: f64 = 20_000.0;
/// The same for languages that are interpreted.
const PAIRS_PER_SECOND_MIN_INTERPRETED: f64 = 5_000.0;
const INTERPRETED: [&str; 2] = ["python", "ruby"];
/// Memory is steady when the second half of a run adds at most this part of it …
const GROWTH_RATIO_MAX: f64 = 0.10;
/// … or this much, whichever is more: an allocator's and a collector's leeway.
const GROWTH_BYTES_MAX: f64 = 2e6;
/// Longest time for one pair, of all callers together: a client this slow is a hanging one.
const PAIR_LIMIT: Duration = Duration::from_millis(2);
/// And for getting going.
const PART_LIMIT_MIN: Duration = Duration::from_secs(60);

/// What one run showed.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Pairs of acquire and release per second over the whole run.
    pub pairs_per_second: f64,
    /// The driver's resident memory after each part.
    pub resident_bytes: [u64; PART_COUNT],
}

/// A language and what came of it.
pub struct Line {
    language: String,
    outcome: Result<Figures, String>,
}

/// Runs `pair_count` pairs of acquire and release with the client of `language`, whose driver is
/// built, and tells the progress.
///
/// # Errors
/// When server or driver fail, or a single pair does.
pub async fn measure(language: &Language, pair_count: u64) -> Check<Figures> {
    let trouble = |seen| Failure { expected: "a running server".into(), seen };
    let server = ServerProcess::start_for_measuring().await.map_err(trouble)?;
    let driver = Arc::new(Driver::start(&language.run, &language.directory)?);
    let stage = Stage::new(Arc::clone(&driver), Arc::new(Authority::new()?), "bench");
    let broker = stage.open(&format!("addrs={} mode=single", server.address)).await?;
    broker.ready().await?;
    let part = pair_count.div_ceil(PART_COUNT as u64);
    let limit = PART_LIMIT_MIN + PAIR_LIMIT * u32::try_from(part).unwrap_or(u32::MAX);
    let mut time = Duration::ZERO;
    let mut resident_bytes = [0; PART_COUNT];
    for (index, resident) in resident_bytes.iter_mut().enumerate() {
        let options = format!("key=62656e6368 callers={CALLER_COUNT} count={part}");
        let outcome = broker.send("pairs", &options).outcome_within(limit).await?;
        let part_time = finished(&outcome.text, part)?;
        time += part_time;
        *resident = driver.resident_bytes()?;
        eprintln!(
            "{}: {} %: {} pairs/s, {}",
            language.name,
            100 * (index + 1) / PART_COUNT,
            grouped(part as f64 / part_time.as_secs_f64()),
            megabytes(*resident),
        );
    }
    broker.close().expect("ok").await?;
    server.stop().await.map_err(trouble)?;
    let pairs_per_second = (part * PART_COUNT as u64) as f64 / time.as_secs_f64();
    Ok(Figures { pairs_per_second, resident_bytes })
}

/// The time that the driver reports for `count` pairs, none of which may have failed.
fn finished(outcome: &str, count: u64) -> Check<Duration> {
    let head = format!("pairs count={count} failed=0 nanoseconds=");
    let nanoseconds = outcome.strip_prefix(&head).and_then(|text| text.parse().ok());
    nanoseconds.map_or_else(|| fail(head, outcome), |number| Ok(Duration::from_nanos(number)))
}

/// The speed that a language has to reach.
fn goal(language: &str) -> f64 {
    let place = language.split_once('-').map_or(language, |(place, _)| place);
    if INTERPRETED.contains(&place) {
        PAIRS_PER_SECOND_MIN_INTERPRETED
    } else {
        PAIRS_PER_SECOND_MIN
    }
}

impl Figures {
    /// Whether memory had levelled off in the first half.
    fn is_steady(&self) -> bool {
        let [_, half, .., end] = self.resident_bytes.map(|bytes| bytes as f64);
        end - half <= (half * GROWTH_RATIO_MAX).max(GROWTH_BYTES_MAX)
    }

    fn verdict(&self, goal: f64) -> &'static str {
        match (self.pairs_per_second >= goal, self.is_steady()) {
            (true, true) => "holds",
            (false, true) => "**too slow**",
            (true, false) => "**memory grows**",
            (false, false) => "**too slow, memory grows**",
        }
    }
}

impl Line {
    /// The line of a language that was measured, or could not be: why.
    pub fn new(language: &str, outcome: Result<Figures, String>) -> Self {
        Self { language: language.to_owned(), outcome }
    }

    /// Whether the goals are reached.
    pub fn is_good(&self) -> bool {
        let goal = goal(&self.language);
        let holds = |figures: &Figures| figures.pairs_per_second >= goal && figures.is_steady();
        self.outcome.as_ref().is_ok_and(holds)
    }
}

/// All lines as a table, in Markdown.
pub fn table(lines: &[Line]) -> String {
    let mut text = String::from(
        "| client | pairs/s | goal | resident at 25 / 50 / 75 / 100 % | |\n|---|---|---|---|---|\n",
    );
    for Line { language, outcome } in lines {
        let goal_pairs = goal(language);
        let (speed, memory, verdict) = match outcome {
            Ok(figures) => (
                grouped(figures.pairs_per_second),
                figures.resident_bytes.map(megabytes).join(" / "),
                figures.verdict(goal_pairs).to_owned(),
            ),
            Err(why) => ("–".to_owned(), "–".to_owned(), format!("**failed**: {why}")),
        };
        let goal = grouped(goal_pairs);
        let _ = writeln!(text, "| {language} | {speed} | {goal} | {memory} | {verdict} |");
    }
    text
}

/// A whole number with commas between thousands.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(pairs_per_second: f64, megabytes: [u64; PART_COUNT]) -> Figures {
        let resident_bytes = megabytes.map(|megabytes| megabytes * 1_000_000);
        Figures { pairs_per_second, resident_bytes }
    }

    #[test]
    fn both_goals_are_judged() {
        let is_good = |language, figures| Line::new(language, Ok(figures)).is_good();
        assert!(is_good("go", figures(20_000.0, [5, 30, 31, 33])));
        assert!(!is_good("go", figures(19_999.0, [5, 30, 31, 33])));
        assert!(is_good("python-blocking", figures(5_000.0, [5, 30, 31, 33])));
        assert!(!is_good("ruby", figures(90_000.0, [30, 30, 32, 34])));
        // Little is little, however small the whole.
        assert!(is_good("c", figures(90_000.0, [3, 3, 4, 5])));
        assert!(!is_good("c", figures(90_000.0, [3, 3, 4, 6])));
        assert!(!Line::new("c", Err("no gcc".into())).is_good());
    }

    #[test]
    fn the_table_tells_all() {
        let lines = [
            Line::new("go", Ok(figures(123_456.0, [5, 30, 31, 40]))),
            Line::new("c", Err("no gcc".into())),
        ];
        let text = table(&lines);
        assert!(text.ends_with(
            "| go | 123,456 | 20,000 | 5.0 MB / 30.0 MB / 31.0 MB / 40.0 MB | **memory grows** |\n\
             | c | – | 20,000 | – | **failed**: no gcc |\n"
        ));
    }

    #[test]
    fn a_failed_pair_is_a_failure() {
        let second = Duration::from_secs(1);
        assert_eq!(finished("pairs count=5 failed=0 nanoseconds=1000000000", 5), Ok(second));
        assert!(finished("pairs count=5 failed=1 nanoseconds=1", 5).is_err());
        assert!(finished("pairs count=4 failed=0 nanoseconds=1", 5).is_err());
    }
}
