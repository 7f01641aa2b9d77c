//! The golden vectors of `vectors/`, as the scenarios use them.

use crate::failure::unhex;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::Path;

/// The only format this judge reads.
const FORMAT: u32 = 1;
/// Clusters have 3 or 5 slots; vectors for a codec alone may have 1.
const VOTER_COUNT_MIN: u8 = 3;

/// All cases of all topics.
pub struct Vectors {
    /// In the order of files and cases.
    pub cases: Vec<Case>,
}

#[derive(Deserialize)]
struct File {
    format: u32,
    topic: String,
    case_count: usize,
    cases: Vec<Case>,
}

/// One case.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    /// Unique for ever.
    pub id: String,
    /// What is special about it.
    pub note: String,
    /// File it is in.
    #[serde(default)]
    pub topic: String,
    /// `single` or `cluster`.
    mode: String,
    /// Slots of the cluster; 0 in single mode.
    pub voter_count: u8,
    /// Slot that the client expects where it dialled.
    pub expected_slot: Option<u8>,
    /// What the client has sent before.
    #[serde(default)]
    requests_hex: Vec<String>,
    /// The decoded values.
    #[serde(default)]
    pub fields: Fields,
    hex: String,
    /// Whether it must be accepted.
    expect: String,
    code: Option<String>,
}

/// The decoded values of a case, as text.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Fields {
    op: String,
    wait: String,
    lease: String,
    token: String,
    slot: String,
    code: String,
    key_hex: String,
    keys_hex: Vec<String>,
    nonce_hex: String,
    token_hex: String,
    fingerprint_hex: String,
}

impl Vectors {
    /// Reads every topic in `directory`.
    ///
    /// # Errors
    /// Names the file that cannot be read, is in another format or is incomplete.
    pub fn load(directory: &Path) -> Result<Self, String> {
        let trouble = |error: std::io::Error| format!("{}: {error}", directory.display());
        let mut paths = Vec::new();
        for entry in directory.read_dir().map_err(trouble)? {
            let path = entry.map_err(trouble)?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                paths.push(path);
            }
        }
        paths.sort();
        let mut cases = Vec::new();
        for path in paths {
            let text = std::fs::read_to_string(&path).map_err(trouble)?;
            cases.extend(parse(&text).map_err(|error| format!("{}: {error}", path.display()))?);
        }
        if cases.is_empty() {
            return Err(format!("{}: no vectors", directory.display()));
        }
        Ok(Self { cases })
    }

    /// The cases of a topic that a client can meet.
    pub fn of(&self, topic: &str) -> impl Iterator<Item = &Case> {
        self.cases.iter().filter(move |case| case.topic == topic && case.skip_reason().is_none())
    }
}

fn parse(text: &str) -> Result<Vec<Case>, String> {
    let file: File = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if file.format != FORMAT {
        return Err(format!("format {}; this judge reads format {FORMAT}", file.format));
    }
    if file.cases.len() != file.case_count {
        return Err(format!("{} cases, case_count {}", file.cases.len(), file.case_count));
    }
    file.cases
        .into_iter()
        .map(|case| {
            let texts = [&case.hex, &case.fields.key_hex, &case.fields.nonce_hex];
            let texts = texts.into_iter().chain(&case.requests_hex).chain(&case.fields.keys_hex);
            for text in texts {
                unhex(text).ok_or_else(|| format!("{}: `{text}` is no hex", case.id))?;
            }
            Ok(Case { topic: file.topic.clone(), ..case })
        })
        .collect()
}

impl Case {
    /// Why no scenario replays it; `None` for a case that a client can meet.
    pub fn skip_reason(&self) -> Option<&'static str> {
        match self.topic.as_str() {
            "invalid-frame-request" | "invalid-proof" => Some("what a server must reject"),
            "hello" | "proof" if self.voter_count == 1 => Some("clusters have 3 or 5 slots"),
            "invalid-value-reply" if self.voter_count == 1 && self.is_slot_in_cluster() => {
                Some("clusters have 3 or 5 slots, of which this is one")
            }
            "invalid-correlation" if self.requests().iter().any(|bytes| id_of(bytes) > 1) => {
                Some("an id that takes 2^32 requests to reach")
            }
            "invalid-value-request" | "order-of-checks" => self.unsendable_reason(),
            _ => None,
        }
    }

    /// Why a client's user cannot even ask for this request.
    fn unsendable_reason(&self) -> Option<&'static str> {
        match self.op() {
            'R' | 'G' => Some("a ticket has the keys and token of its grant"),
            '?' => Some("what a server must reject"),
            'S' if self.code.as_deref() == Some("5") => {
                let different: BTreeSet<_> = self.fields.keys_hex.iter().collect();
                let sendable = (1..=16).contains(&different.len());
                sendable.then_some("clients sort sets and remove duplicates")
            }
            _ => None,
        }
    }

    fn is_slot_in_cluster(&self) -> bool {
        self.bytes().last().is_some_and(|slot| *slot < VOTER_COUNT_MIN)
    }

    /// Number of slots of the cluster in which to replay it; `None` in single mode.
    pub fn cluster_size(&self) -> Option<u8> {
        (self.mode == "cluster").then_some(self.voter_count.max(VOTER_COUNT_MIN))
    }

    /// Whether it must be accepted.
    pub fn is_ok(&self) -> bool {
        self.expect == "ok"
    }

    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        unhex(&self.hex).unwrap_or_default()
    }

    /// What the client has sent before, in order.
    pub fn requests(&self) -> Vec<Vec<u8>> {
        self.requests_hex.iter().filter_map(|text| unhex(text)).collect()
    }

    /// Opcode of a frame.
    pub fn op(&self) -> char {
        self.fields.op.chars().next().unwrap_or('?')
    }

    /// Wait of an acquire, in seconds.
    pub fn wait(&self) -> u64 {
        number(&self.fields.wait)
    }

    /// Lease of an acquire, in seconds.
    pub fn lease(&self) -> u32 {
        number(&self.fields.lease) as u32
    }

    /// Fencing token.
    pub fn token(&self) -> u64 {
        number(&self.fields.token)
    }

    /// Error code of a reply.
    pub fn code(&self) -> u8 {
        number(&self.fields.code) as u8
    }

    /// Slot in a reply or hello.
    pub fn slot(&self) -> u8 {
        number(&self.fields.slot) as u8
    }

    /// Nonce of a hello.
    pub fn nonce(&self) -> [u8; 16] {
        unhex(&self.fields.nonce_hex).and_then(|bytes| bytes.try_into().ok()).unwrap_or_default()
    }

    /// Client token of a proof.
    pub fn client_token(&self) -> Vec<u8> {
        unhex(&self.fields.token_hex).unwrap_or_default()
    }

    /// Identity of a proof.
    pub fn fingerprint(&self) -> [u8; 32] {
        let bytes = unhex(&self.fields.fingerprint_hex);
        bytes.and_then(|bytes| bytes.try_into().ok()).unwrap_or_default()
    }

    /// The `key=` or `keys=` option that asks for it.
    pub fn key_option(&self) -> String {
        let named = |key: &String| if key.is_empty() { "-".to_owned() } else { key.clone() };
        match self.op() {
            'A' | 'R' => format!("key={}", named(&self.fields.key_hex)),
            _ => {
                let keys: Vec<String> = self.fields.keys_hex.iter().map(named).collect();
                format!("keys={}", keys.join(","))
            }
        }
    }

    /// Whether it is about a set.
    pub fn is_set(&self) -> bool {
        matches!(self.op(), 'S' | 'G')
    }
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

/// The request id in a frame.
pub fn id_of(frame: &[u8]) -> u64 {
    let id = frame.get(3..11).and_then(|bytes| <[u8; 8]>::try_from(bytes).ok());
    id.map_or(0, u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASE: &str = r#"{"id":"t-1","note":"n","spec":"s","direction":"request","mode":"single",
        "voter_count":0,"fields":{"op":"A","request_id":"1","wait":"2","lease":"3","key_hex":""},
        "hex":"41","expect":"ok"}"#;

    fn file(count: usize, case: &str) -> String {
        format!(r#"{{"format":1,"topic":"t","case_count":{count},"cases":[{case}]}}"#)
    }

    #[test]
    fn a_case_tells_its_values() {
        let cases = parse(&file(1, CASE)).expect("good");
        assert_eq!(cases[0].topic, "t");
        assert_eq!((cases[0].wait(), cases[0].lease()), (2, 3));
        assert_eq!(cases[0].key_option(), "key=-");
    }

    #[test]
    fn a_file_that_lost_cases_is_refused() {
        assert!(parse(&file(2, CASE)).expect_err("short").contains("case_count 2"));
        assert!(parse(&file(1, &CASE.replace("\"41\"", "\"4\""))).is_err());
    }
}
