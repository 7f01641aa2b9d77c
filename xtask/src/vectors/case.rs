//! What a vector is, and the text form of a topic's file.

use serde::{Serialize, Serializer};

/// The `format` of every file. It changes only when old readers would misread.
const FORMAT: u32 = 1;

/// The cases of one file.
pub(crate) struct Topic {
    name: &'static str,
    cases: Vec<Case>,
}

/// One vector. Field by field documented in `vectors/README.md`.
#[derive(Clone, Serialize)]
pub(crate) struct Case {
    id: String,
    note: String,
    spec: &'static str,
    direction: &'static str,
    mode: &'static str,
    voter_count: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_slot: Option<u8>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    requests_hex: Vec<String>,
    #[serde(skip_serializing_if = "Fields::is_empty")]
    fields: Fields,
    #[serde(skip)]
    bytes: Vec<u8>,
    hex: String,
    expect: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    layer: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    how: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer_hex: Option<String>,
}

/// Decoded values by name: numbers as decimal strings, bytes as hex.
#[derive(Clone, Default)]
pub(crate) struct Fields(Vec<(&'static str, Field)>);

#[derive(Clone, Serialize)]
#[serde(untagged)]
enum Field {
    List(Vec<String>),
    Text(String),
}

impl Fields {
    /// Starts with the opcode.
    pub(crate) fn op(opcode: u8) -> Self {
        Self::default().text("op", char::from(opcode))
    }

    /// Adds a text.
    pub(crate) fn text(mut self, name: &'static str, value: impl ToString) -> Self {
        self.0.push((name, Field::Text(value.to_string())));
        self
    }

    /// Adds a number.
    pub(crate) fn number(self, name: &'static str, value: impl Into<u64>) -> Self {
        self.text(name, value.into())
    }

    /// Adds bytes.
    pub(crate) fn bytes(self, name: &'static str, value: &[u8]) -> Self {
        self.text(name, hex(value))
    }

    /// Adds a list of bytes.
    pub(crate) fn list(mut self, name: &'static str, values: &[impl AsRef<[u8]>]) -> Self {
        let values = values.iter().map(|value| hex(value.as_ref())).collect();
        self.0.push((name, Field::List(values)));
        self
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// Lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Where a connection stands when the bytes arrive.
#[derive(Clone, Copy)]
pub(crate) enum Server {
    /// A cluster of so many voters.
    Cluster(u8),
    /// Single mode.
    Single,
}

impl Case {
    /// A case that must be accepted; the topic gives it its id.
    pub(crate) fn new(
        note: impl Into<String>,
        spec: &'static str,
        direction: &'static str,
        bytes: &[u8],
    ) -> Self {
        Self {
            id: String::new(),
            note: note.into(),
            spec,
            direction,
            mode: "single",
            voter_count: 0,
            expected_slot: None,
            requests_hex: Vec::new(),
            fields: Fields::default(),
            bytes: bytes.to_vec(),
            hex: hex(bytes),
            expect: "ok",
            layer: None,
            how: None,
            code: None,
            answer_hex: None,
        }
    }

    /// In that mode.
    pub(crate) fn at(mut self, server: Server) -> Self {
        (self.mode, self.voter_count) = match server {
            Server::Cluster(voter_count) => ("cluster", voter_count),
            Server::Single => ("single", 0),
        };
        self
    }

    /// The slot of the address that the client has dialled.
    pub(crate) fn expecting_slot(mut self, slot: u8) -> Self {
        self.expected_slot = Some(slot);
        self
    }

    /// Cites another section.
    pub(crate) fn citing(mut self, spec: &'static str) -> Self {
        self.spec = spec;
        self
    }

    /// With those decoded values.
    pub(crate) fn fields(mut self, fields: Fields) -> Self {
        self.fields = fields;
        self
    }

    /// After those requests were sent.
    pub(crate) fn after(mut self, requests: &[Vec<u8>]) -> Self {
        self.requests_hex = requests.iter().map(|request| hex(request)).collect();
        self
    }

    /// To be rejected by that layer, by closing the connection.
    pub(crate) fn closes(mut self, layer: &'static str) -> Self {
        (self.expect, self.layer, self.how) = ("reject", Some(layer), Some("close"));
        self
    }

    /// To be rejected by that layer with the result byte `00`, after which the server closes.
    pub(crate) fn refuses(mut self, layer: &'static str) -> Self {
        (self.expect, self.layer, self.how) = ("reject", Some(layer), Some("refuse"));
        self
    }

    /// To be answered with an error reply; the connection lives on.
    pub(crate) fn answers(mut self, code: u8, answer: &[u8]) -> Self {
        (self.expect, self.layer, self.how) = ("reject", Some("value"), Some("answer"));
        self.code = Some(code.to_string());
        self.answer_hex = Some(hex(answer));
        self
    }
}

impl Topic {
    /// Numbers the cases. Published cases keep their number: new ones go to the end.
    pub(crate) fn new(name: &'static str, cases: Vec<Case>) -> Self {
        let number = |(index, mut case): (usize, Case)| {
            case.id = format!("{name}-{:03}", index + 1);
            case
        };
        Self { name, cases: cases.into_iter().enumerate().map(number).collect() }
    }

    /// Name of its file in `vectors/`.
    pub(crate) fn file_name(&self) -> String {
        format!("{}.json", self.name)
    }

    /// Id and bytes of each case.
    pub(crate) fn bytes(&self) -> impl Iterator<Item = (String, Vec<u8>)> {
        self.cases.iter().map(|case| (case.id.clone(), case.bytes.clone()))
    }

    /// How many cases it has.
    pub(crate) fn case_count(&self) -> usize {
        self.cases.len()
    }

    /// The file: a line of heading, a line per case.
    pub(crate) fn to_json(&self) -> String {
        let lines: Vec<String> = self
            .cases
            .iter()
            .map(|case| serde_json::to_string(case).expect("a case has only string keys"))
            .collect();
        format!(
            "{{\"format\":{FORMAT},\"topic\":\"{}\",\"case_count\":{},\"cases\":[\n{}\n]}}\n",
            self.name,
            self.cases.len(),
            lines.join(",\n")
        )
    }
}
