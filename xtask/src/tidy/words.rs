//! Words that may not stay: leftovers, names with a better one, paths of somebody's machine.

use super::{Source, at};

/// This file, which has to name them.
const SELF: &str = "xtask/src/tidy/words.rs";

/// What to write instead.
const BANNED: &[(&str, &str)] = &[
    ("blacklist", "deny list"),
    ("fence token", "fencing token"),
    ("whitelist", "allow list"),
    ("slave", "follower"),
];

/// Things meant to be gone before a change lands.
const LEFTOVERS: &[&str] = &["dbg!(", "todo!(", "unimplemented!(", "FIXME", "TODO", "XXX", "HACK"];

/// Beginnings of paths that exist on one machine only.
const MACHINE_PATHS: &[&str] = &["/root", "/home/", "/Users/"];

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources.iter().filter(|source| source.path != SELF && !is_foreign(&source.path)) {
        for (index, line) in source.text.lines().enumerate() {
            complaints.extend(check_line(line).iter().map(|text| at(source, index, text)));
        }
    }
    complaints
}

/// Texts that are not ours to word.
fn is_foreign(path: &str) -> bool {
    path.starts_with("LICENSE") || path.ends_with(".lock") || path.ends_with("package-lock.json")
}

fn check_line(line: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let lower = line.to_lowercase();
    for (word, replacement) in BANNED {
        if lower.contains(word) {
            complaints.push(format!("write \"{replacement}\" instead of \"{word}\""));
        }
    }
    for leftover in LEFTOVERS {
        if contains_word(line, leftover) {
            complaints.push(format!("leftover {leftover}: finish or remove it"));
        }
    }
    for path in MACHINE_PATHS {
        if contains_word(line, path) {
            complaints.push(format!("{path} is a path of one machine; make it relative"));
        }
    }
    if line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ") {
        complaints.push("a merge conflict; resolve it".into());
    }
    complaints
}

/// Whether `word` stands in `line` with nothing glued to its front, nor to a letter at its end.
fn contains_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let is_glue = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '}' | '~' | '$');
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let ends_in_letter = word.ends_with(char::is_alphanumeric);
        !(before.is_some_and(is_glue) || ends_in_letter && after.is_some_and(is_glue))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_seen_and_parts_of_words_are_not() {
        for line in ["// TODO: later", "a /home/x", "dbg!(a)", "a Whitelist", "<<<<<<< main"] {
            assert_eq!(check_line(line).len(), 1, "{line}");
        }
        for line in ["mktodo", "TODOS_COUNT", "./home/x", "from/home/", "/roots", "a < b"] {
            assert_eq!(check_line(line).len(), 0, "{line}");
        }
    }
}
