//! Frames and hellos between nodes, pushed byte by byte from the *Cluster protocol* page.

use std::fmt::Write as _;

/// The file, below `vectors/`.
pub(super) const FILE_NAME: &str = "peer/frames.json";

/// A payload under construction.
#[derive(Clone, Default)]
struct Payload(Vec<u8>);

impl Payload {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// A number; 0 is left out, as Protocol Buffers do.
    fn number(mut self, field: u64, value: u64) -> Self {
        if value > 0 {
            self.varint(field << 3);
            self.varint(value);
        }
        self
    }

    fn fixed(mut self, field: u64, value: u64) -> Self {
        if value > 0 {
            self.varint(field << 3 | 1);
            self.0.extend_from_slice(&value.to_le_bytes());
        }
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// Numbers in one field, one after the other.
    fn list(self, field: u64, numbers: &[u64]) -> Self {
        let mut packed = Self::default();
        numbers.iter().for_each(|number| packed.varint(*number));
        self.bytes(field, &packed.0)
    }

    fn message(self, field: u64, message: Self) -> Self {
        self.bytes(field, &message.0)
    }

    fn frame(self, kind: u8) -> Vec<u8> {
        let mut frame = (self.0.len() as u32).to_be_bytes().to_vec();
        frame.push(kind);
        frame.extend(self.0);
        frame
    }
}

const GROUP: u64 = 0x0102_0304_0506_0708;

/// Of the group, from slot 1 generation 1 to slot 2 generation 3, term 9.
fn raft(field: u64, body: Payload) -> Vec<u8> {
    let head = Payload::default().fixed(1, GROUP);
    head.number(2, 1 << 8 | 1).number(3, 3 << 8 | 2).number(4, 9).message(field, body).frame(6)
}

pub(super) fn cases() -> Vec<(&'static str, Vec<u8>)> {
    let new = Payload::default;
    let data = new().number(1, 8).number(2, 9).bytes(3, b"entry");
    let change = new().number(1, 4).number(2, 1 << 8).number(3, 2 << 8);
    let replace = new().number(1, 9).number(2, 9).message(4, change);
    let append = new().number(1, 7).number(2, 8).number(3, 6).message(4, data).message(4, replace);
    let incarnations: Vec<u8> = [1_u64, 2, 3].iter().flat_map(|one| one.to_le_bytes()).collect();
    let mut dialer = b"TCKPEER\0\0\x01\x00\x02\x01".to_vec();
    dialer.extend(0x1122_3344_5566_7788_u64.to_be_bytes());
    dialer.extend([0xf0; 32]);
    dialer.extend([0x0d; 32]);
    let mut acceptor = b"TCKNODE\0\0\x01\x00\x01".to_vec();
    acceptor.extend(0x8877_6655_4433_2211_u64.to_be_bytes());
    acceptor.extend([0x0a; 32]);
    vec![
        ("peer-001-dialer-hello", dialer),
        ("peer-002-acceptor-hello", acceptor),
        ("peer-003-admitted", new().fixed(1, 5).number(2, 2 << 8).frame(1)),
        ("peer-004-commit", new().fixed(1, 5).bytes(2, &incarnations).frame(2)),
        ("peer-005-join", new().frame(3)),
        ("peer-006-prepare", new().fixed(1, u64::MAX).bytes(2, &incarnations).frame(4)),
        ("peer-007-promise", new().fixed(1, u64::MAX).frame(5)),
        ("peer-008-removed", new().number(1, 1 << 8 | 4).frame(7)),
        ("peer-009-status-fresh", new().number(1, 1).frame(8)),
        ("peer-010-status-member", {
            // The leader's slot is present even when it is 0.
            let mut status = new().fixed(2, 5).number(3, 1 << 8 | 1);
            status.0.extend([4 << 3, 0]);
            status.frame(8)
        }),
        ("peer-011-append", raft(5, append)),
        ("peer-012-appended", raft(6, new().number(1, 300).number(2, 299))),
        ("peer-013-append-refused", {
            raft(7, new().number(1, 9).number(2, 4).number(3, 2).number(4, 1))
        }),
        ("peer-014-heartbeat", raft(8, new())),
        ("peer-015-heartbeat-reply", raft(9, new().number(1, 128))),
        ("peer-016-time-out-now", raft(10, new())),
        ("peer-017-pre-vote", {
            raft(11, new().number(1, 1).number(2, 8).number(3, 7).number(4, 6).number(5, 5))
        }),
        ("peer-018-vote-reply", raft(12, new().number(1, 2).number(2, 1))),
        ("peer-019-snapshot-head", {
            let ids = new().fixed(1, GROUP).number(2, 1 << 8 | 1).number(3, 3 << 8 | 2);
            let place = ids.number(4, 9).number(5, 8).number(6, 7);
            let lists = place.list(7, &[1 << 8, 1 << 8 | 1, 1 << 8 | 2]).list(9, &[3 << 8 | 2]);
            lists.list(10, &[1, 1, 3, 0, 0]).number(11, 5).frame(9)
        }),
        ("peer-020-snapshot-chunk", Payload(b"state".to_vec()).frame(10)),
    ]
}

/// The file's content.
pub(super) fn to_json() -> String {
    let cases = cases();
    let mut json =
        format!("{{\"format\": 1, \"topic\": \"peer\", \"case_count\": {}, ", cases.len());
    json.push_str("\"cases\": [\n");
    for (at, (id, bytes)) in cases.iter().enumerate() {
        let _ = write!(json, "{{\"id\": \"{id}\", \"spec\": \"cluster-protocol\", \"hex\": \"");
        bytes.iter().for_each(|byte| write!(json, "{byte:02x}").expect("a string"));
        json.push_str(if at + 1 < cases.len() { "\"},\n" } else { "\"}\n" });
    }
    json.push_str("]}\n");
    json
}
