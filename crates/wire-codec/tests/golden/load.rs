//! Reads the vector files.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// One file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Topic {
    format: u32,
    topic: String,
    case_count: usize,
    /// Its cases.
    pub(crate) cases: Vec<Case>,
}

/// One vector; `vectors/README.md` explains the fields.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) note: String,
    #[serde(rename = "spec")]
    _spec: String,
    pub(crate) direction: String,
    pub(crate) mode: String,
    pub(crate) voter_count: u8,
    pub(crate) expected_slot: Option<u8>,
    #[serde(default)]
    pub(crate) requests_hex: Vec<String>,
    #[serde(default)]
    fields: BTreeMap<String, Field>,
    hex: String,
    expect: String,
    pub(crate) layer: Option<String>,
    pub(crate) how: Option<String>,
    pub(crate) code: Option<String>,
    pub(crate) answer_hex: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Field {
    List(Vec<String>),
    Text(String),
}

impl Case {
    /// The frame.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        unhex(&self.hex)
    }

    /// Whether it must be accepted.
    pub(crate) fn is_ok(&self) -> bool {
        match self.expect.as_str() {
            "ok" => true,
            "reject" => false,
            other => panic!("{}: unknown expectation {other}", self.id),
        }
    }

    /// Whether that layer must reject it.
    pub(crate) fn is_rejected_by(&self, layer: &str) -> bool {
        !self.is_ok() && self.layer.as_deref() == Some(layer)
    }

    /// A decoded value as text.
    pub(crate) fn text(&self, name: &str) -> &str {
        match self.fields.get(name) {
            Some(Field::Text(text)) => text,
            other => panic!("{}: field {name} is {other:?}", self.id),
        }
    }

    /// A decoded number.
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or_else(|error| panic!("{}: {name}: {error}", self.id))
    }

    /// A decoded number of one byte.
    pub(crate) fn byte(&self, name: &str) -> u8 {
        u8::try_from(self.number(name)).expect("one byte")
    }

    /// Decoded bytes.
    pub(crate) fn field_bytes(&self, name: &str) -> Vec<u8> {
        unhex(self.text(name))
    }

    /// A decoded list of bytes.
    pub(crate) fn list(&self, name: &str) -> Vec<Vec<u8>> {
        match self.fields.get(name) {
            Some(Field::List(values)) => values.iter().map(|value| unhex(value)).collect(),
            other => panic!("{}: field {name} is {other:?}", self.id),
        }
    }
}

/// The cases of the files whose name starts with one of the prefixes.
pub(crate) fn cases(prefixes: &[&str]) -> Vec<Case> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory())
        .expect("vectors/ is there")
        .map(|entry| entry.expect("a directory entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    paths.sort();
    let mut cases = Vec::new();
    for path in paths {
        let name = path.file_stem().expect("a file name").to_string_lossy().into_owned();
        if !prefixes.iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let topic: Topic = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!((topic.format, &topic.topic), (1, &name));
        assert_eq!(topic.case_count, topic.cases.len(), "{name}");
        cases.extend(topic.cases);
    }
    assert!(!cases.is_empty(), "no vectors for {prefixes:?}");
    cases
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors")
}

/// Bytes from hex.
pub(crate) fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "half a byte in {text}");
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex digits"))
        .collect()
}
