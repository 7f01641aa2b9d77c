//! Frames that end the connection because they are no frames of the protocol.

use super::case::{Case, Server, Topic};
use super::encode;

const REQUEST_SPEC: &str = "what-ends-a-connection";
const REPLY_SPEC: &str = "reply-frames";

/// Request opcodes with the shortest and longest body.
const RANGES: &[(u8, u16, u16)] =
    &[(b'A', 10, 138), (b'R', 16, 144), (b'S', 11, 2_075), (b'G', 17, 2_081)];

/// Reply opcodes with their exact body.
const REPLIES: &[(u8, u16)] = &[
    (b'A', 16),
    (b'S', 16),
    (b'R', 8),
    (b'G', 8),
    (b'N', 8),
    (b'T', 8),
    (b'B', 8),
    (b'M', 9),
    (b'I', 8),
    (b'E', 9),
    (b'L', 1),
];

fn request(note: impl Into<String>, bytes: &[u8]) -> Case {
    Case::new(note, REQUEST_SPEC, "request", bytes).closes("frame")
}

/// What a server must not take.
pub(crate) fn requests() -> Topic {
    let mut cases = Vec::new();
    for opcode in [0x00, b'a', b'Q', 0x7f, 0xff] {
        let body = encode::acquire_body(1, 0, 30, b"a");
        cases.push(request("unknown opcode", &encode::frame(opcode, &body)));
    }
    for opcode in *b"NTBMIEL" {
        let note = format!("{} is a reply, not a request", char::from(opcode));
        cases.push(request(note, &encode::frame(opcode, &encode::acquire_body(1, 0, 30, b"a"))));
    }
    cases.push(request("unknown opcode, known by its first byte", b"x"));
    for (opcode, shortest, longest) in RANGES {
        let name = char::from(*opcode);
        for length in [0, shortest - 1, longest + 1, u16::MAX] {
            let note = format!("{name} with body length {length}: the header is enough");
            cases.push(request(note, &encode::frame_with_length(*opcode, length, &[])));
        }
    }
    cases.push(request("a whole frame with 129 bytes of key", &{
        encode::acquire(1, 0, 30, &[b'k'; 129])
    }));
    cases.push(request("length field in little-endian order", &{
        encode::frame_with_length(b'A', 11 << 8, &encode::acquire_body(1, 0, 30, b"a"))
    }));
    cases.push(request("request id 0 in A", &encode::acquire(0, 0, 30, b"a")));
    cases.push(request("request id 0 in R", &encode::release(0, 1, b"a")));
    cases.push(request("request id 0 in S", &encode::acquire_set(0, 0, 30, &[b"a", b"b"])));
    cases.push(request("request id 0 in G", &encode::release_set(0, 1, &[b"a", b"b"])));
    cases.extend(bad_records());
    Topic::new("invalid-frame-request", cases)
}

/// Set records that do not fill the body exactly.
fn bad_records() -> Vec<Case> {
    let keys = [b"a", b"b"];
    let both = |note: &str, count: u8, tail: &[u8], cut: usize| {
        let mut acquire = encode::acquire_set_body(1, 0, 30, count, &keys);
        let mut release = encode::release_set_body(1, 1, count, &keys);
        for body in [&mut acquire, &mut release] {
            body.extend(tail);
            body.truncate(body.len() - cut);
        }
        [
            request(format!("S: {note}"), &encode::frame(b'S', &acquire)),
            request(format!("G: {note}"), &encode::frame(b'G', &release)),
        ]
    };
    [
        both("count above the records", 3, b"", 0),
        both("count below the records", 1, b"", 0),
        both("count 0 with records", 0, b"", 0),
        both("one byte after the last record", 2, b"x", 0),
        both("an empty record after the last one", 2, b"\0", 0),
        both("the last record is cut", 2, b"", 1),
        both("the last record runs past the body", 3, b"\xffx", 0),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What a client must not take.
pub(crate) fn replies() -> Topic {
    let reply = |note: String, server: Server, bytes: &[u8]| {
        Case::new(note, REPLY_SPEC, "reply", bytes).at(server).closes("frame")
    };
    let mut cases = Vec::new();
    for opcode in [0x00, b'a', b'Q', 0x80, 0xff] {
        let bytes = encode::reply(opcode, 1, &1_u64.to_be_bytes());
        cases.push(reply("unknown opcode".into(), Server::Single, &bytes));
    }
    for (opcode, length) in REPLIES {
        let server = if *opcode == b'L' { Server::Cluster(3) } else { Server::Single };
        let name = char::from(*opcode);
        for wrong in [length - 1, length + 1, u16::MAX] {
            let note = format!("{name} with body length {wrong}: the header is enough");
            cases.push(reply(note, server, &encode::frame_with_length(*opcode, wrong, &[])));
        }
    }
    for opcode in *b"ASRGNTBMIE" {
        let rest: &[u8] = match opcode {
            b'A' | b'S' => &[0, 0, 0, 0, 0, 0, 0, 1],
            b'M' => &[255],
            b'E' => &[1],
            _ => &[],
        };
        let note = format!("request id 0 in {}", char::from(opcode));
        cases.push(reply(note, Server::Single, &encode::reply(opcode, 0, rest)));
    }
    Topic::new("invalid-frame-reply", cases)
}
