//! Which workspace crate may depend on which. A new edge is a reviewed line here.

use super::Source;
use crate::process::output;
use serde::Deserialize;
use std::collections::BTreeMap;

/// From each crate to those it depends on, without the common prefix of their names.
type Edges = BTreeMap<String, Vec<String>>;

/// Normal and build dependencies.
const NORMAL: &[(&str, &[&str])] = &[
    ("auth", &[]),
    ("benches", &["auth", "test-ports", "wire-codec"]),
    ("client", &["auth", "wire-codec"]),
    ("conformance", &["test-ports"]),
    ("lock-core", &[]),
    ("raft-log", &[]),
    ("server", &["auth", "lock-core", "raft-log", "wire-codec"]),
    ("test-ports", &[]),
    ("wire-codec", &[]),
    ("xtask", &["auth", "server", "test-ports", "wire-codec"]),
];

/// Dependencies of tests, benches and examples.
const DEVELOPMENT: &[(&str, &[&str])] = &[
    ("client", &["test-ports"]),
    ("conformance", &["client", "server"]),
    ("server", &["test-ports"]),
];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
}

/// Compares in both directions: neither an edge too many nor one that is gone stays unseen.
pub(super) fn check(_: &[Source]) -> Vec<String> {
    let arguments = ["metadata", "--no-deps", "--format-version", "1", "--offline"];
    let Some(json) = output("cargo", &arguments) else {
        return vec!["`cargo metadata` fails; run it to see why".into()];
    };
    let metadata: Metadata = match serde_json::from_slice(&json) {
        Ok(metadata) => metadata,
        Err(error) => return vec![format!("cargo metadata: {error}")],
    };
    let mut complaints = compare("normal", NORMAL, &edges(&metadata, |kind| kind != Some("dev")));
    complaints.extend(compare("dev", DEVELOPMENT, &edges(&metadata, |kind| kind == Some("dev"))));
    complaints
}

fn edges(metadata: &Metadata, is_wanted: impl Fn(Option<&str>) -> bool) -> Edges {
    let is_ours = |name: &str| metadata.packages.iter().any(|package| package.name == name);
    let mut edges = Edges::new();
    for package in &metadata.packages {
        let mut targets: Vec<String> = package
            .dependencies
            .iter()
            .filter(|edge| is_ours(&edge.name) && is_wanted(edge.kind.as_deref()))
            .map(|edge| short(&edge.name))
            .collect();
        targets.sort();
        targets.dedup();
        edges.insert(short(&package.name), targets);
    }
    edges
}

fn short(name: &str) -> String {
    name.strip_prefix("ticketing-").unwrap_or(name).to_owned()
}

fn compare(kind: &str, designed: &[(&str, &[&str])], actual: &Edges) -> Vec<String> {
    let mut complaints = Vec::new();
    for (name, targets) in actual {
        let expected = designed.iter().find(|(crate_name, _)| crate_name == name);
        let expected = expected.map_or(&[][..], |(_, targets)| targets);
        if targets != expected {
            complaints.push(format!(
                "{name}: {kind} dependencies are {targets:?}, designed are {expected:?}; \
                 change the dependency, or the table in xtask/src/tidy/edges.rs with a reason"
            ));
        }
    }
    for (name, _) in designed {
        if !actual.contains_key(*name) {
            complaints.push(format!("{name}: in the table of edges, but no crate has that name"));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_extra_and_vanished_edges_are_all_seen() {
        let actual = Edges::from([("a".into(), vec!["b".into()]), ("b".into(), vec![])]);
        assert_eq!(compare("normal", &[("a", &["b"]), ("b", &[])], &actual).len(), 0);
        assert_eq!(compare("normal", &[("a", &[]), ("b", &[])], &actual).len(), 1);
        assert_eq!(compare("normal", &[("a", &["b"]), ("b", &["a"])], &actual).len(), 1);
        assert_eq!(compare("normal", &[("a", &["b"]), ("c", &[])], &actual).len(), 1);
    }
}
