//! `cargo xtask tidy`: rules of the repository that no other tool knows. Each is also a test.

pub(crate) mod documents;
mod edges;
mod files;
mod functions;
mod manifests;
mod modules;
mod words;

use crate::TaskResult;
use crate::process::output;
use crate::root::repository;
use std::fs;

/// A text file of the repository.
pub(crate) struct Source {
    /// Path from the root, with `/`.
    pub(crate) path: String,
    /// Content.
    pub(crate) text: String,
}

/// One rule: looks at the files and says what breaks it.
type Rule = fn(&[Source]) -> Vec<String>;

const RULES: &[(&str, Rule)] = &[
    ("crate edges are the designed ones", edges::check),
    ("documents have one title and links that lead somewhere", documents::check),
    ("files begin with their job and keep to their size", files::check),
    ("functions fit a screen", functions::check),
    ("every Rust file is part of a crate", modules::check),
    ("manifests and documents agree", manifests::check),
    ("no leftovers, banned names or machine paths", words::check),
];

/// Runs the command.
pub(crate) fn run() -> TaskResult {
    let sources = sources()?;
    let mut complaints = Vec::new();
    for (name, rule) in RULES {
        for complaint in rule(&sources) {
            complaints.push(format!("{complaint} [{name}]"));
        }
    }
    if complaints.is_empty() {
        println!("tidy: {} rules hold in {} files", RULES.len(), sources.len());
        return Ok(());
    }
    Err(format!("tidy:\n{}", complaints.join("\n")))
}

/// Every text file that git knows or would add.
fn sources() -> Result<Vec<Source>, String> {
    let listing = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let listing = output("git", &listing).ok_or("tidy needs git and a git work tree")?;
    let listing = String::from_utf8(listing).map_err(|error| format!("git ls-files: {error}"))?;
    let mut sources = Vec::new();
    for path in listing.split_terminator('\0') {
        // Deleted but not yet committed, or not text: not for these rules.
        let Ok(text) = fs::read_to_string(repository().join(path)) else { continue };
        sources.push(Source { path: path.to_owned(), text });
    }
    Ok(sources)
}

/// A complaint about a line, which an editor can jump to.
fn at(source: &Source, index: usize, complaint: &str) -> String {
    format!("{}:{}: {complaint}", source.path, index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Funnels each rule into a test of its own.
    fn check(rule: Rule) {
        let complaints = rule(&sources().expect("a git work tree"));
        assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
    }

    #[test]
    fn crate_edges_are_the_designed_ones() {
        check(edges::check);
    }

    #[test]
    fn documents_have_one_title_and_links_that_lead_somewhere() {
        check(documents::check);
    }

    #[test]
    fn files_begin_with_their_job_and_keep_to_their_size() {
        check(files::check);
    }

    #[test]
    fn functions_fit_a_screen() {
        check(functions::check);
    }

    #[test]
    fn every_rust_file_is_part_of_a_crate() {
        check(modules::check);
    }

    #[test]
    fn manifests_and_documents_agree() {
        check(manifests::check);
    }

    #[test]
    fn no_leftovers_banned_names_or_machine_paths() {
        check(words::check);
    }
}
