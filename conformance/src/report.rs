//! The matrix of languages and groups, and a line for each failure.

use crate::runner::Verdict;
use crate::scenario::Group;
use std::fmt::Write as _;

/// Lines of a failed scenario's conversation with the driver that are shown.
const TRANSCRIPT_LINE_COUNT_MAX: usize = 8;
/// Characters of such a line that are shown.
const TRANSCRIPT_LINE_SIZE_MAX: usize = 160;

/// What became of one language.
pub enum Row {
    /// Its driver could not be built or started: why.
    Broken(String),
    /// Judged.
    Judged(Vec<Verdict>),
    /// Its toolchain is missing: what the build said.
    Skipped(String),
}

/// All rows, in the order of `drivers.txt`.
pub struct Report {
    /// Language and what became of it.
    pub rows: Vec<(String, Row)>,
    /// The groups that were judged.
    pub groups: Vec<Group>,
    /// Whether a skipped language is a failure.
    pub require_all: bool,
}

impl Report {
    /// Whether everything judged is as it must be.
    pub fn is_good(&self) -> bool {
        self.rows.iter().all(|(_, row)| match row {
            Row::Broken(_) => false,
            Row::Judged(verdicts) => verdicts.iter().all(|verdict| verdict.check.is_ok()),
            Row::Skipped(_) => !self.require_all,
        })
    }

    /// The whole report.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (language, row) in &self.rows {
            text += &failures(language, row);
        }
        text += &self.matrix();
        text
    }

    fn matrix(&self) -> String {
        let width = self.rows.iter().map(|(language, _)| language.len()).max().unwrap_or(0);
        let width = width.max("language".len());
        let mut text = format!("{:width$}", "language");
        for group in &self.groups {
            let _ = write!(text, "  {group:>9}");
        }
        text.push('\n');
        for (language, row) in &self.rows {
            let _ = write!(text, "{language:width$}");
            match row {
                Row::Broken(_) => text += "  BROKEN: the driver could not be built or started",
                Row::Skipped(_) => text += "  SKIP: toolchain missing",
                Row::Judged(verdicts) => {
                    for group in &self.groups {
                        let _ = write!(text, "  {:>9}", cell(verdicts, *group));
                    }
                }
            }
            text.push('\n');
        }
        text
    }
}

/// `passed/run`, or `-` when nothing was run.
fn cell(verdicts: &[Verdict], group: Group) -> String {
    let run: Vec<_> = verdicts.iter().filter(|verdict| verdict.group == group).collect();
    let passed = run.iter().filter(|verdict| verdict.check.is_ok()).count();
    match run.len() {
        0 => "-".to_owned(),
        count if count == passed => format!("ok {count}"),
        count => format!("{passed}/{count}"),
    }
}

fn failures(language: &str, row: &Row) -> String {
    match row {
        Row::Broken(why) => format!("{language}: BROKEN {why}\n"),
        Row::Skipped(why) => format!("{language}: SKIP toolchain missing: {why}\n"),
        Row::Judged(verdicts) => {
            let mut text = String::new();
            for verdict in verdicts {
                if let Err(failure) = &verdict.check {
                    let _ = writeln!(text, "{language}: FAIL {}: {failure}", verdict.id);
                    let lines = &verdict.transcript;
                    for line in &lines[lines.len().saturating_sub(TRANSCRIPT_LINE_COUNT_MAX)..] {
                        let _ = writeln!(text, "    {}", shortened(line));
                    }
                }
            }
            text
        }
    }
}

fn shortened(line: &str) -> String {
    if line.chars().count() <= TRANSCRIPT_LINE_SIZE_MAX {
        return line.to_owned();
    }
    line.chars().take(TRANSCRIPT_LINE_SIZE_MAX).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::fail;
    use std::time::Duration;

    fn report(row: Row, require_all: bool) -> Report {
        let groups = vec![Group::Cut, Group::Tls];
        Report { rows: vec![("go".into(), row)], groups, require_all }
    }

    fn verdict(check: crate::failure::Check) -> Verdict {
        Verdict {
            id: "cut/a".into(),
            group: Group::Cut,
            check,
            transcript: vec!["> close t".into()],
            time: Duration::ZERO,
        }
    }

    #[test]
    fn a_failure_is_counted_and_told() {
        let report = report(Row::Judged(vec![verdict(Ok(())), verdict(fail("a", "b"))]), false);
        assert!(!report.is_good());
        assert_eq!(
            report.text(),
            "go: FAIL cut/a: expected a; seen b\n    > close t\n\
             language        cut        tls\n\
             go              1/2          -\n"
        );
    }

    #[test]
    fn a_missing_toolchain_fails_only_when_all_are_required() {
        assert!(report(Row::Skipped("no go".into()), false).is_good());
        assert!(!report(Row::Skipped("no go".into()), true).is_good());
        assert!(!report(Row::Broken("x".into()), false).is_good());
    }
}
