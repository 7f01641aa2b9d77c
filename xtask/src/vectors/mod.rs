//! `cargo xtask vectors`: the golden vectors, made by a second encoder.
//!
//! Everything here is written from the *Client protocol* page by pushing bytes, and shares no code
//! with the codec under test.

mod case;
mod encode;
mod handshake;
mod invalid_correlation;
mod invalid_frame;
mod invalid_handshake;
mod invalid_value;
mod order;
mod peer;
mod replies;
mod requests;

use crate::TaskResult;
use crate::root::repository;
use case::Topic;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// Arguments of `vectors`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Change nothing; fail when a file differs from what would be written.
    #[arg(long)]
    pub(crate) check: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> TaskResult {
    let topics = topics();
    if arguments.check {
        check(&topics)?
    } else {
        write(&topics)?
    }
    let case_count: usize = topics.iter().map(Topic::case_count).sum();
    println!("vectors: {case_count} cases in {} files", topics.len());
    Ok(())
}

/// The bytes of every case, with its id.
pub(crate) fn all_bytes() -> Vec<(String, Vec<u8>)> {
    topics().iter().flat_map(Topic::bytes).collect()
}

/// The bytes of every case between nodes, with its id.
pub(crate) fn all_peer_bytes() -> Vec<(&'static str, Vec<u8>)> {
    peer::cases()
}

fn topics() -> Vec<Topic> {
    vec![
        requests::acquire(),
        requests::release(),
        requests::acquire_set(),
        requests::release_set(),
        replies::single(),
        replies::cluster(),
        handshake::hello(),
        handshake::proof(),
        invalid_frame::requests(),
        invalid_frame::replies(),
        invalid_value::requests(),
        invalid_value::replies(),
        invalid_correlation::replies(),
        invalid_handshake::hello(),
        invalid_handshake::proof(),
        order::requests(),
    ]
}

fn directory() -> PathBuf {
    repository().join("vectors")
}

fn write(topics: &[Topic]) -> TaskResult {
    for topic in topics {
        let path = directory().join(topic.file_name());
        fs::write(&path, topic.to_json())
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let path = directory().join(peer::FILE_NAME);
    fs::write(&path, peer::to_json()).map_err(|error| format!("{}: {error}", path.display()))
}

/// The files are exactly those of the topics, and each holds exactly what its topic gives: that
/// covers schema, count, ids, order and formatting at once.
fn check(topics: &[Topic]) -> TaskResult {
    let path = directory().join(peer::FILE_NAME);
    let content = fs::read_to_string(&path)
        .map_err(|error| format!("{}: {error}; run `cargo xtask vectors`", path.display()))?;
    if content != peer::to_json() {
        return Err(format!("{} is not what `cargo xtask vectors` writes; run it", path.display()));
    }
    let mut expected = BTreeSet::new();
    for topic in topics {
        let path = directory().join(topic.file_name());
        let content = fs::read_to_string(&path)
            .map_err(|error| format!("{}: {error}; run `cargo xtask vectors`", path.display()))?;
        if content != topic.to_json() {
            let name = path.display();
            return Err(format!("{name} is not what `cargo xtask vectors` writes; run it"));
        }
        expected.insert(topic.file_name());
    }
    for entry in fs::read_dir(directory()).map_err(|error| format!("vectors/: {error}"))? {
        let name = entry.map_err(|error| format!("vectors/: {error}"))?.file_name();
        let name = name.to_string_lossy().into_owned();
        if name.ends_with(".json") && !expected.contains(&name) {
            return Err(format!("vectors/{name} belongs to no topic; remove it"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_what_the_encoder_makes() {
        check(&topics()).unwrap();
    }

    #[test]
    fn there_are_as_many_as_promised() {
        let count = |prefixes: &[&str]| -> usize {
            topics()
                .iter()
                .filter(|topic| prefixes.iter().any(|prefix| topic.file_name().starts_with(prefix)))
                .map(Topic::case_count)
                .sum()
        };
        assert!(count(&["request-"]) >= 40);
        assert!(count(&["reply-"]) >= 30);
        assert!(count(&["hello", "proof"]) >= 10);
        assert!(count(&["invalid-"]) >= 60);
        assert!(count(&["order-"]) >= 8);
    }

    #[test]
    fn no_input_appears_twice_in_a_topic() {
        for topic in topics() {
            let mut seen = BTreeSet::new();
            for case in topic.to_json().lines().filter(|line| line.starts_with("{\"id\"")) {
                let case: serde_json::Value =
                    serde_json::from_str(case.trim_end_matches(',')).expect("a JSON object");
                let mut identity = case.clone();
                for name in ["id", "note", "spec"] {
                    identity.as_object_mut().expect("an object").remove(name);
                }
                assert!(seen.insert(identity.to_string()), "twice: {case}");
            }
        }
    }
}
