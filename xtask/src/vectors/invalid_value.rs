//! Well-formed frames with a value that the protocol does not allow.

use super::case::{Case, Fields, Server, Topic};
use super::encode;
use super::requests::{largest_set, longest_key};

const BAD_KEY: u8 = 1;
const BAD_LEASE: u8 = 2;
const BAD_KEY_SET: u8 = 5;
const BAD_TOKEN: u8 = 7;

/// Keys that break the key rule and fit an `A` frame.
const BAD_KEYS: &[(&str, &[u8])] = &[
    ("empty key", b""),
    ("space alone", b" "),
    ("space inside", b"a b"),
    ("space at the end", b"a "),
    ("LF", b"a\nb"),
    ("LF at the end", b"a\n"),
    ("CR", b"a\rb"),
    ("CR at the start", b"\ra"),
    ("lone continuation byte", b"\x80"),
    ("lead byte without continuation", b"a\xc3"),
    ("overlong NUL", b"\xc0\x80"),
    ("overlong slash", b"\xe0\x80\xaf"),
    ("surrogate half", b"\xed\xa0\x80"),
    ("surrogate pair in three-byte form", b"\xed\xa0\xbd\xed\xb8\x80"),
    ("above U+10FFFF", b"\xf4\x90\x80\x80"),
    ("five-byte form", b"\xf8\x88\x80\x80\x80"),
    ("byte FF", b"\xff"),
    ("a four-byte character cut at its end", b"\xf0\x9f\x8e"),
    ("Latin-1 e acute", b"\xe9"),
];

fn refused(note: impl Into<String>, fields: Fields, bytes: &[u8], id: u64, code: u8) -> Case {
    Case::new(note, "error-codes", "request", bytes)
        .fields(fields)
        .answers(code, &encode::error(id, code))
}

/// `A` that is answered with an error.
pub(super) fn acquire(note: impl Into<String>, lease: u8, key: &[u8], code: u8) -> Case {
    let fields = Fields::op(b'A').number("request_id", 5_u8).number("wait", 10_u8);
    let fields = fields.number("lease", lease).bytes("key_hex", key);
    refused(note, fields, &encode::acquire(5, 10, lease, key), 5, code)
}

/// `R` that is answered with an error.
pub(super) fn release(note: impl Into<String>, token: u64, key: &[u8], code: u8) -> Case {
    let fields = Fields::op(b'R').number("request_id", 6_u8).number("token", token);
    let fields = fields.bytes("key_hex", key);
    refused(note, fields, &encode::release(6, token, key), 6, code)
}

/// `S` that is answered with an error.
pub(super) fn acquire_set(
    note: impl Into<String>,
    lease: u8,
    keys: &[impl AsRef<[u8]>],
    code: u8,
) -> Case {
    let fields = Fields::op(b'S').number("request_id", 7_u8).number("wait", 10_u8);
    let fields = fields.number("lease", lease).list("keys_hex", keys);
    refused(note, fields, &encode::acquire_set(7, 10, lease, keys), 7, code)
}

/// `G` that is answered with an error.
pub(super) fn release_set(
    note: impl Into<String>,
    token: u64,
    keys: &[impl AsRef<[u8]>],
    code: u8,
) -> Case {
    let fields = Fields::op(b'G').number("request_id", 8_u8).number("token", token);
    let fields = fields.list("keys_hex", keys);
    refused(note, fields, &encode::release_set(8, token, keys), 8, code)
}

/// Sets that break the set rule while every key is fine.
fn bad_sets() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let set = |keys: &[&str]| keys.iter().map(|key| key.as_bytes().to_vec()).collect::<Vec<_>>();
    vec![
        ("no key", set(&[])),
        ("one key", set(&["a"])),
        ("seventeen keys", (b'a'..=b'q').map(|byte| vec![byte]).collect()),
        ("descending", set(&["b", "a"])),
        ("the same key twice", set(&["a", "a"])),
        ("the last two swapped", set(&["a", "b", "d", "c"])),
        ("a key before its prefix", set(&["aa", "a"])),
        ("UTF-16 order instead of byte order", set(&["\u{10000}", "\u{ffff}"])),
        ("signed byte order", set(&["é", "z"])),
        ("order that ignores case", set(&["a", "B"])),
        ("sixteen long keys, the last twice", {
            let mut keys = largest_set();
            keys[15] = keys[14].clone();
            keys
        }),
    ]
}

/// Sets with a key that breaks the key rule.
fn sets_with_bad_keys() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    vec![
        ("first key empty", vec![vec![], b"a".to_vec()]),
        ("space in the last key", vec![b"a".to_vec(), b"b c".to_vec()]),
        ("not UTF-8", vec![b"a".to_vec(), vec![0xff]]),
        ("129 bytes of key", vec![b"a".to_vec(), vec![b'k'; 129]]),
        ("255 bytes of key", vec![b"a".to_vec(), vec![b'k'; 255]]),
        ("both keys end in LF", vec![b"a\n".to_vec(), b"b\n".to_vec()]),
    ]
}

/// What a server answers with `E`.
pub(crate) fn requests() -> Topic {
    let mut cases = Vec::new();
    for (note, key) in BAD_KEYS {
        cases.push(acquire(*note, 30, key, BAD_KEY));
        cases.push(release(*note, 9, key, BAD_KEY));
    }
    cases.push(acquire(
        "128 bytes, the last a space",
        30,
        &{
            let mut key = longest_key(b'k');
            key[127] = b' ';
            key
        },
        BAD_KEY,
    ));
    for (note, keys) in sets_with_bad_keys() {
        cases.push(acquire_set(note, 30, &keys, BAD_KEY));
        cases.push(release_set(note, 9, &keys, BAD_KEY));
    }
    for lease in [0, 251, 255] {
        let note = format!("lease {lease}");
        cases.push(acquire(note.clone(), lease, b"a", BAD_LEASE));
        cases.push(acquire_set(note, lease, &[b"a", b"b"], BAD_LEASE));
    }
    for (note, keys) in bad_sets() {
        cases.push(acquire_set(note, 30, &keys, BAD_KEY_SET));
        cases.push(release_set(note, 9, &keys, BAD_KEY_SET));
    }
    cases.push(release("token 0", 0, b"a", BAD_TOKEN));
    cases.push(release_set("token 0", 0, &[b"a", b"b"], BAD_TOKEN));
    Topic::new("invalid-value-request", cases)
}

/// What a client must not take although the frame is whole.
pub(crate) fn replies() -> Topic {
    let reply = |note: String, server: Server, bytes: &[u8]| {
        Case::new(note, "reply-frames", "reply", bytes).at(server).closes("value")
    };
    let mut cases = Vec::new();
    for code in [0, 8, 255] {
        cases.push(reply(format!("error code {code}"), Server::Single, &encode::error(1, code)));
    }
    for opcode in *b"AS" {
        let note = format!("token 0 in {}", char::from(opcode));
        cases.push(reply(note, Server::Single, &encode::reply(opcode, 1, &[0; 8])));
    }
    for slot in [0, 4, 254] {
        let note = format!("slot {slot} in single mode");
        cases.push(reply(note, Server::Single, &encode::reply(b'M', 1, &[slot])));
    }
    for slot in [0, 255] {
        let note = format!("L with slot {slot} in single mode");
        cases.push(reply(note, Server::Single, &encode::frame(b'L', &[slot])));
    }
    for voter_count in [1, 3, 5] {
        for slot in [voter_count, 254] {
            let note = format!("slot {slot} of {voter_count} in M");
            let server = Server::Cluster(voter_count);
            cases.push(reply(note, server, &encode::reply(b'M', 1, &[slot])));
            let note = format!("slot {slot} of {voter_count} in L");
            cases.push(reply(note, server, &encode::frame(b'L', &[slot])));
        }
    }
    Topic::new("invalid-value-reply", cases)
}
