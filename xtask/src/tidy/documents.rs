//! Markdown: one title, and relative links that lead somewhere, anchors included.

use super::{Source, at};
use crate::root::repository;
use std::path::{Component, Path, PathBuf};

/// Whoever reads only this much knows what it is and whether it fits.
const README_LINE_COUNT_MAX: usize = 150;

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    if let Some(readme) = sources.iter().find(|source| source.path == "README.md") {
        let line_count = readme.text.lines().count();
        if line_count > README_LINE_COUNT_MAX {
            let complaint = format!("{line_count} lines, more than {README_LINE_COUNT_MAX}");
            complaints.push(at(readme, line_count - 1, &complaint));
        }
    }
    for source in sources.iter().filter(|source| is_document(&source.path)) {
        complaints.extend(check_title(source));
        for (index, line) in prose(&source.text) {
            for target in link_targets(line) {
                if let Err(complaint) = check_link(source, target, sources) {
                    complaints.push(at(source, index, &complaint));
                }
            }
        }
    }
    complaints
}

/// The table of contents has no title of its own kind.
fn is_document(path: &str) -> bool {
    path.ends_with(".md") && !path.ends_with("/SUMMARY.md")
}

fn check_title(source: &Source) -> Vec<String> {
    let mut titles = prose(&source.text).filter(|(_, line)| line.starts_with("# "));
    match (titles.next(), titles.next()) {
        (None, _) => vec![at(source, 0, "give the document a title (`# ...`)")],
        (Some(_), Some((index, _))) => {
            vec![at(source, index, "a second title; use `##` below the first")]
        }
        (Some((index, _)), None) => {
            let before = source.text.lines().take(index);
            let is_first = before.into_iter().all(|line| line.trim().is_empty());
            let complaint = at(source, index, "the title must come first");
            if is_first { Vec::new() } else { vec![complaint] }
        }
    }
}

/// Lines with their indices, without fenced code.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter(move |(_, line)| {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            return false;
        }
        !is_code
    })
}

/// What stands in the parentheses of `[text](target)`.
fn link_targets(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("](").filter_map(|(at, _)| {
        let target = &line[at + 2..];
        target.find(')').map(|end| &target[..end])
    })
}

fn check_link(source: &Source, target: &str, sources: &[Source]) -> Result<(), String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(());
    }
    let (file, anchor) = match target.split_once('#') {
        Some((file, anchor)) => (file, Some(anchor)),
        None => (target, None),
    };
    let path = if file.is_empty() { source.path.clone() } else { resolve(&source.path, file)? };
    if !repository().join(&path).exists() {
        return Err(format!("link to {target}: there is no {path}"));
    }
    let (Some(anchor), Some(document)) = (anchor, sources.iter().find(|s| s.path == path)) else {
        return Ok(());
    };
    if path.ends_with(".md") && !anchors(&document.text).any(|name| name == anchor) {
        return Err(format!("link to {target}: {path} has no heading #{anchor}"));
    }
    Ok(())
}

/// `link` seen from the directory of `from`, both relative to the root.
pub(super) fn resolve(from: &str, link: &str) -> Result<String, String> {
    let directory = Path::new(from).parent().unwrap_or(Path::new(""));
    let mut path = PathBuf::new();
    for part in directory.join(link).components() {
        match part {
            Component::ParentDir if path.pop() => {}
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            _ => return Err(format!("link to {link} leaves the repository")),
        }
    }
    Ok(path.to_string_lossy().into_owned())
}

/// The anchors of a document: its headings in the form that mdBook and code hosts make of them.
pub(crate) fn anchors(text: &str) -> impl Iterator<Item = String> {
    prose(text).filter(|(_, line)| line.starts_with('#')).map(|(_, line)| {
        let title = line.trim_start_matches('#').trim();
        let title = title.to_lowercase();
        title
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(path: &str, text: &str) -> Source {
        Source { path: path.into(), text: text.into() }
    }

    #[test]
    fn titles_are_counted_outside_code() {
        let good = document("a.md", "# A\n```\n# comment\n```\n## B\n");
        assert!(check_title(&good).is_empty());
        assert_eq!(check_title(&document("a.md", "# A\n# B\n")).len(), 1);
        assert_eq!(check_title(&document("a.md", "text\n# A\n")).len(), 1);
        assert_eq!(check_title(&document("a.md", "## A\n")).len(), 1);
    }

    #[test]
    fn links_are_followed_to_file_and_heading() {
        let sources = [document("README.md", "# Title\n## What is *new*?\n")];
        let from = document("docs/a.md", "");
        assert_eq!(check_link(&from, "../README.md#what-is-new", &sources), Ok(()));
        assert!(check_link(&from, "../README.md#what-is-old", &sources).is_err());
        assert!(check_link(&from, "../NO-SUCH-FILE.md", &sources).is_err());
        assert!(check_link(&from, "../../README.md", &sources).is_err());
        assert_eq!(check_link(&from, "https://example.org/#x", &sources), Ok(()));
    }
}
