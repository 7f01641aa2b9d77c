//! Puts generated text between markers of a file that people wrote.

use std::fs;
use std::io::{self, Error};
use std::path::Path;

/// The marker lines of the benchmark's text.
const BEGIN: &str = "<!-- bench:begin (written by `cargo xtask bench --all --update-docs`) -->";
const END: &str = "<!-- bench:end -->";

/// Replaces what is between the markers in the file at `path`.
///
/// # Errors
/// When the file cannot be read or written, or lacks a marker.
pub fn update(path: &Path, text: &str) -> io::Result<()> {
    let old = fs::read_to_string(path)?;
    let new = replace(&old, text).ok_or_else(|| {
        Error::other(format!("{} needs the lines\n{BEGIN}\n{END}", path.display()))
    })?;
    fs::write(path, new)
}

fn replace(old: &str, text: &str) -> Option<String> {
    let (before, rest) = old.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_markers_changes() {
        let old = format!("# Title\n\n{BEGIN}\nold\n{END}\n\nEnd.\n");
        let once = replace(&old, "| new |\n").expect("markers");
        assert_eq!(once, format!("# Title\n\n{BEGIN}\n\n| new |\n\n{END}\n\nEnd.\n"));
        assert_eq!(replace(&once, "| new |\n"), Some(once.clone()));
        assert_eq!(replace("# Title\n", "x"), None);
        assert_eq!(replace(&format!("{END}{BEGIN}"), "x"), None);
    }
}
