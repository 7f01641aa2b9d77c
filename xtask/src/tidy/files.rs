//! First lines, line widths, line endings, and the size of files.

use super::{Source, at};

/// rustfmt keeps code to this; it leaves comments and texts alone.
const LINE_WIDTH_MAX: usize = 100;
/// A file above this holds more than one concept.
const FILE_LINE_COUNT_MAX: usize = 800;
/// Names that say nothing about the content.
const EMPTY_NAMES: &[&str] = &["common", "helpers", "misc", "util", "utils"];

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources {
        if source.path.ends_with(".rs") {
            complaints.extend(check_rust(source));
        }
        if !is_data(&source.path) {
            complaints.extend(check_text(source));
        }
    }
    complaints
}

fn is_data(path: &str) -> bool {
    [".json", ".lock", ".snap", ".svg", ".txt"].iter().any(|ending| path.ends_with(ending))
        || path.contains("/corpus/")
        || path.starts_with("LICENSE")
}

fn check_rust(source: &Source) -> Vec<String> {
    let mut complaints = Vec::new();
    if !source.text.starts_with("//! ") {
        complaints.push(at(source, 0, "the first line must be `//!` and say the file's job"));
    }
    let line_count = source.text.lines().count();
    if line_count > FILE_LINE_COUNT_MAX {
        let complaint =
            format!("{line_count} lines; split it by concept below {FILE_LINE_COUNT_MAX}");
        complaints.push(at(source, 0, &complaint));
    }
    for (index, line) in source.text.lines().enumerate() {
        if line.chars().count() > LINE_WIDTH_MAX {
            complaints.push(at(source, index, "longer than 100 columns; break the line"));
        }
    }
    let stem = source.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
    if EMPTY_NAMES.contains(&stem) {
        complaints.push(at(source, 0, "name the file after what it holds"));
    }
    complaints
}

fn check_text(source: &Source) -> Vec<String> {
    let mut complaints = Vec::new();
    if !source.text.is_empty() && !source.text.ends_with('\n') {
        complaints.push(format!("{}: end the file with a newline", source.path));
    }
    if source.text.contains('\r') {
        complaints.push(format!("{}: use LF line ends", source.path));
    }
    for (index, line) in source.text.lines().enumerate() {
        // Two spaces at the end are a line break in Markdown, which a paragraph does better.
        if line.ends_with([' ', '\t']) {
            complaints.push(at(source, index, "remove the blanks at the end of the line"));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> usize {
        check(&[Source { path: path.into(), text: text.into() }]).len()
    }

    #[test]
    fn each_rule_is_seen() {
        assert_eq!(complaints("a/b.rs", "//! Job.\n"), 0);
        assert_eq!(complaints("a/b.rs", "fn a() {}\n"), 1);
        assert_eq!(complaints("a/utils.rs", "//! Job.\n"), 1);
        assert_eq!(complaints("a/b.rs", &format!("//! {}\n", "x".repeat(97))), 1);
        assert_eq!(complaints("a/b.rs", &format!("//! Job.\n{}", "\n".repeat(800))), 1);
        assert_eq!(complaints("a.md", "text"), 1);
        assert_eq!(complaints("a.md", "text \n"), 1);
        assert_eq!(complaints("a.md", "text\r\n"), 2 - 1);
    }
}
