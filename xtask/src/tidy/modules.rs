//! A Rust file that no module names is dead, and the compiler does not say so.

use super::Source;
use super::documents::resolve;

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    sources
        .iter()
        .filter(|source| source.path.ends_with(".rs") && !is_included(&source.path, sources))
        .map(|source| format!("{}: no module names this file; add or remove it", source.path))
        .collect()
}

fn is_included(path: &str, sources: &[Source]) -> bool {
    let (directory, file) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = file.trim_end_matches(".rs");
    if stem == "main" || stem == "lib" || stem == "build" || is_target_directory(directory) {
        return true;
    }
    // `a/b/mod.rs` is named `b` by the files around `a/`; `a/b.rs` by those in `a/` or by `a.rs`.
    let (directory, name) = match (stem, directory.rsplit_once('/')) {
        ("mod", Some((parent, name))) => (parent, name),
        _ => (directory, stem),
    };
    let declaration = format!("mod {name};");
    sources.iter().any(|source| {
        may_declare(&source.path, directory) && source.text.contains(&declaration)
            || names_path(source, path)
    })
}

/// Whether the file has a `#[path = ...]` that leads there.
fn names_path(source: &Source, path: &str) -> bool {
    let mut attributes = source.text.split("#[path = \"").skip(1);
    attributes.any(|rest| {
        let link = rest.split('"').next().unwrap_or_default();
        resolve(&source.path, link).as_deref() == Ok(path)
    })
}

/// Whether modules in `directory` are declared by the file at `path`.
fn may_declare(path: &str, directory: &str) -> bool {
    let Some((place, file)) = path.rsplit_once('/') else { return false };
    let is_root = matches!(file, "mod.rs" | "lib.rs" | "main.rs") || is_target_directory(place);
    (place == directory && is_root) || path == format!("{directory}.rs")
}

/// Cargo takes every file in these for a program of its own.
fn is_target_directory(directory: &str) -> bool {
    ["/src/bin", "/tests", "/benches", "/examples", "/fuzz_targets"]
        .iter()
        .any(|ending| directory.ends_with(ending) || directory == &ending[1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_no_module_names_are_seen() {
        let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
        let sources = [
            source("c/src/lib.rs", "mod a;\nmod b;\nmod linked;\n"),
            source("c/src/a.rs", "mod inner;\n"),
            source("c/src/a/inner.rs", ""),
            source("c/src/b/mod.rs", "mod deep;\n"),
            source("c/src/b/deep.rs", ""),
            source("c/tests/alone.rs", ""),
            source("c/src/dead.rs", ""),
            source("c/src/linked.rs", "#[path = \"../tests/in/mod.rs\"]\nmod a;\n"),
            source("c/tests/in/mod.rs", ""),
        ];
        assert_eq!(check(&sources), ["c/src/dead.rs: no module names this file; add or remove it"]);
    }
}
