//! What a manifest holds and a document repeats, and what nobody uses any more.

use super::Source;

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let text = |path: &str| sources.iter().find(|source| source.path == path).map(|s| &*s.text);
    let manifest = text("Cargo.toml").unwrap_or_default();
    let mut complaints = check_version(manifest, text("README.md").unwrap_or_default());
    let architecture = text("ARCHITECTURE.md").unwrap_or_default();
    for name in dependencies(manifest) {
        if !architecture.contains(&format!("`{name}`")) {
            complaints
                .push(format!("{name}: say in ARCHITECTURE.md, Dependencies, what it is for"));
        }
        if !sources.iter().any(|source| uses(source, name)) {
            complaints.push(format!("{name}: no crate uses it; remove it from Cargo.toml"));
        }
    }
    complaints
}

fn check_version(manifest: &str, readme: &str) -> Vec<String> {
    let Some(version) = value(manifest, "rust-version") else {
        return vec!["Cargo.toml: no rust-version".into()];
    };
    let sentence = format!("Rust {version} or newer");
    if readme.contains(&sentence) {
        return Vec::new();
    }
    vec![format!("README.md: say \"{sentence}\", as Cargo.toml's rust-version has it")]
}

/// The value of `name = "value"`.
fn value<'a>(manifest: &'a str, name: &str) -> Option<&'a str> {
    let line = manifest.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "))?;
    Some(line.trim_matches('"'))
}

/// Names of `[workspace.dependencies]` that are not our own crates.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let (_, section) = manifest.split_once("[workspace.dependencies]\n").unwrap_or_default();
    let section = section.split("\n[").next().unwrap_or_default();
    section
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name)
        .filter(|name| !name.starts_with("ticketing-"))
}

/// Whether a crate's manifest takes that dependency from the workspace.
fn uses(source: &Source, name: &str) -> bool {
    let is_ours = |line: &str| {
        line.strip_prefix(name).is_some_and(|rest| {
            rest.starts_with(".workspace") || rest.starts_with(" = { workspace")
        })
    };
    source.path.ends_with("/Cargo.toml") && source.text.lines().any(is_ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(readme: &str, architecture: &str, member: &str) -> usize {
        let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
        let manifest = "[workspace.package]\nrust-version = \"1.90\"\n\n\
                        [workspace.dependencies]\nticketing-a = { path = \"a\" }\nring = \"1\"\n\n\
                        [profile.dev]\ndebug = 0\n";
        check(&[
            source("Cargo.toml", manifest),
            source("README.md", readme),
            source("ARCHITECTURE.md", architecture),
            source("a/Cargo.toml", member),
        ])
        .len()
    }

    #[test]
    fn another_number_and_a_dependency_unused_or_unexplained_are_seen() {
        let used = "[dependencies]\nring.workspace = true\n";
        assert_eq!(complaints("Rust 1.90 or newer.", "| `ring` |", used), 0);
        assert_eq!(complaints("Rust 1.85 or newer.", "| `ring` |", used), 1);
        assert_eq!(complaints("Rust 1.90 or newer.", "ring", used), 1);
        assert_eq!(complaints("Rust 1.90 or newer.", "| `ring` |", "[dependencies]\n"), 1);
    }
}
