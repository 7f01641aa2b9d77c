//! The example of each client, from the README that its own checks run.

use crate::root::repository;
use std::fs;

/// What stands before the first example of a README, with the command that tests run it by.
const MARKER: &str = "<!-- run:";

/// A section per client: how to install it, and its example.
pub(super) fn sections() -> String {
    let rust = read("README.md");
    let (_, rust) = rust.split_once("## In Rust\n").unwrap_or_default();
    let mut sections = vec![format!(
        "## Rust\n\nFrom a checkout, on tokio:\n\n{}\n",
        fences(rust).take(2).collect::<Vec<_>>().join("\n\n")
    )];
    sections.extend(languages().iter().filter_map(|language| section(language)));
    sections.join("\n")
}

fn languages() -> Vec<String> {
    let entries = fs::read_dir(repository().join("clients")).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// `None` for a client whose README marks no example.
fn section(language: &str) -> Option<String> {
    let readme = read(&format!("clients/{language}/README.md"));
    let (before, after) = readme.split_once(MARKER)?;
    let title = readme.lines().next()?.trim_start_matches("# ");
    let name = title.rsplit_once(" for ").map_or(title, |(_, name)| name);
    let install: String = fences(before).map(|fence| format!("{fence}\n\n")).collect();
    let example = fences(after).next()?;
    Some(format!("## {name}\n\n{install}{example}\n\nMore in `clients/{language}/README.md`.\n"))
}

fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap_or_default()
}

/// Fenced blocks, fences included.
fn fences(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let start = rest.find("\n```")? + 1;
        let end = start + rest[start + 3..].find("\n```")? + "```\n```".len();
        let fence = &rest[start..end];
        rest = &rest[end..];
        Some(fence)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_are_taken_whole() {
        let text = "a\n```go\nx\ny\n```\nb\n```\nz\n```\n";
        assert_eq!(fences(text).collect::<Vec<_>>(), ["```go\nx\ny\n```", "```\nz\n```"]);
        assert_eq!(fences("no fence, ```inline```\n").count(), 0);
    }

    #[test]
    fn the_page_has_an_example_of_rust_and_of_others() {
        let page = sections();
        assert!(page.contains("broker.acquire(\"order-1234\", options).await?"));
        assert!(page.matches("\n## ").count() > 1);
    }
}
