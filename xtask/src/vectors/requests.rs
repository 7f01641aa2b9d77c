//! Valid request frames.

use super::case::{Case, Fields, Topic};
use super::encode;

const SPEC: &str = "request-frames";

/// Keys that are valid and that a careless implementation gets wrong.
const KEYS: &[(&str, &[u8])] = &[
    ("NUL alone", b"\0"),
    ("NUL inside", b"a\0b"),
    ("tab inside", b"a\tb"),
    ("vertical tab and form feed", b"\x0b\x0c"),
    ("every control character but LF and CR", b"\x01\x08\x0e\x1b\x1f\x7f"),
    ("two-byte UTF-8", "schlüssel".as_bytes()),
    ("three-byte UTF-8", "鍵".as_bytes()),
    ("four-byte UTF-8", "🎫".as_bytes()),
    ("highest code point, U+10FFFF", "\u{10ffff}".as_bytes()),
    ("noncharacter U+FFFF", "\u{ffff}".as_bytes()),
    ("byte order mark as a key", "\u{feff}".as_bytes()),
    ("no-break space is not a space", "\u{a0}".as_bytes()),
    ("U+0085 and U+2028 are no line breaks here", "\u{85}\u{2028}".as_bytes()),
    ("composed e acute", "\u{e9}".as_bytes()),
    ("decomposed e acute is another key", "e\u{301}".as_bytes()),
    ("upper case is another key", b"ORDER-1234"),
    ("lower case", b"order-1234"),
    ("quotes, backslash, percent", b"\"'\\%2e/../{}"),
];

/// Numbers that lose digits, signs or bytes in some language.
const U64_EDGES: &[(&str, u64)] = &[
    ("1", 1),
    ("2^31", 1 << 31),
    ("2^53 + 1, the first that a double cannot hold", (1 << 53) + 1),
    ("2^63, negative when signed", 1 << 63),
    ("2^64 - 1", u64::MAX),
    ("every byte different", 0x0102_0304_0506_0708),
];

/// 128 bytes of ASCII.
pub(super) fn longest_key(first: u8) -> Vec<u8> {
    let mut key = vec![b'k'; 128];
    key[0] = first;
    key
}

/// Sixteen keys of 128 bytes, ascending.
pub(super) fn largest_set() -> Vec<Vec<u8>> {
    (b'a'..=b'p').map(longest_key).collect()
}

fn acquire_case(note: impl Into<String>, id: u64, wait: u8, lease: u8, key: &[u8]) -> Case {
    Case::new(note, SPEC, "request", &encode::acquire(id, wait, lease, key)).fields(
        Fields::op(b'A')
            .number("request_id", id)
            .number("wait", wait)
            .number("lease", lease)
            .bytes("key_hex", key),
    )
}

fn release_case(note: impl Into<String>, id: u64, token: u64, key: &[u8]) -> Case {
    let fields = Fields::op(b'R').number("request_id", id).number("token", token);
    Case::new(note, SPEC, "request", &encode::release(id, token, key))
        .fields(fields.bytes("key_hex", key))
}

/// `A`.
pub(crate) fn acquire() -> Topic {
    let mut cases = vec![
        acquire_case("smallest: wait 0, lease 1, one byte of key", 1, 0, 1, b"a"),
        acquire_case("largest: wait 255, lease 250, 128 bytes", 2, 255, 250, &longest_key(b'k')),
        acquire_case("an ordinary request", 3, 30, 60, b"order-1234"),
        acquire_case("wait 0, lease 250", 4, 0, 250, b"a"),
        acquire_case("wait 255, lease 1", 5, 255, 1, b"a"),
        acquire_case("127 bytes of key", 6, 1, 2, &longest_key(b'k')[..127]),
        acquire_case("128 bytes of four-byte UTF-8", 7, 1, 2, "🔒".repeat(32).as_bytes()),
        acquire_case("128 bytes of two-byte UTF-8", 8, 1, 2, "ß".repeat(64).as_bytes()),
    ];
    for (note, key) in KEYS {
        cases.push(acquire_case(*note, 9, 10, 30, key));
    }
    for (note, id) in U64_EDGES {
        cases.push(acquire_case(format!("request id {note}"), *id, 10, 30, b"key"));
    }
    Topic::new("request-acquire", cases)
}

/// `R`.
pub(crate) fn release() -> Topic {
    let mut cases = vec![
        release_case("smallest: one byte of key", 1, 1, b"a"),
        release_case("largest: 128 bytes of key", 2, 7, &longest_key(b'k')),
        release_case("an ordinary request", 3, 1_785_000_000_000 << 20, b"order-1234"),
        release_case("largest id, smallest token", u64::MAX, 1, b"a"),
        release_case("key that looks like a token", 4, 1, b"\0\0\0\0\0\0\0\x01"),
    ];
    for (note, token) in U64_EDGES {
        cases.push(release_case(format!("token {note}"), 5, *token, b"key"));
    }
    for (note, key) in KEYS {
        cases.push(release_case(*note, 6, 9, key));
    }
    Topic::new("request-release", cases)
}

/// Sets that are valid and that a careless implementation orders or counts wrongly.
fn sets() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let set = |keys: &[&str]| keys.iter().map(|key| key.as_bytes().to_vec()).collect::<Vec<_>>();
    vec![
        ("smallest: two keys of one byte", set(&["a", "b"])),
        ("largest: sixteen keys of 128 bytes", largest_set()),
        ("sixteen keys of one byte", (b'a'..=b'p').map(|byte| vec![byte]).collect()),
        ("fifteen keys", (b'a'..=b'o').map(|byte| vec![byte]).collect()),
        ("three ordinary keys", set(&["account-77", "order-1234", "stock-5"])),
        ("a key and its prefix", set(&["a", "aa"])),
        ("NUL sorts first", set(&["\0", "a"])),
        ("a prefix sorts before its NUL continuation", set(&["a", "a\0"])),
        ("upper case sorts before lower case", set(&["Z", "a"])),
        ("bytes are unsigned: ASCII sorts before UTF-8", set(&["z", "é"])),
        ("UTF-8 order, which UTF-16 order reverses", set(&["\u{ffff}", "\u{10000}"])),
        ("tab sorts before letters", set(&["a\tb", "ab"])),
        ("composed and decomposed are two keys", set(&["e\u{301}", "\u{e9}"])),
    ]
}

fn acquire_set_case(note: &str, id: u64, wait: u8, lease: u8, keys: &[Vec<u8>]) -> Case {
    Case::new(note, SPEC, "request", &encode::acquire_set(id, wait, lease, keys)).fields(
        Fields::op(b'S')
            .number("request_id", id)
            .number("wait", wait)
            .number("lease", lease)
            .list("keys_hex", keys),
    )
}

fn release_set_case(note: &str, id: u64, token: u64, keys: &[Vec<u8>]) -> Case {
    let fields = Fields::op(b'G').number("request_id", id).number("token", token);
    Case::new(note, SPEC, "request", &encode::release_set(id, token, keys))
        .fields(fields.list("keys_hex", keys))
}

/// `S`.
pub(crate) fn acquire_set() -> Topic {
    let two = [b"a".to_vec(), b"b".to_vec()];
    let mut cases = vec![
        acquire_set_case("wait 0, lease 1", 1, 0, 1, &two),
        acquire_set_case("wait 255, lease 250", 2, 255, 250, &two),
        acquire_set_case("request id 2^64 - 1", u64::MAX, 10, 30, &two),
        acquire_set_case("request id 2^53 + 1", (1 << 53) + 1, 10, 30, &two),
    ];
    cases.extend(sets().iter().map(|(note, keys)| acquire_set_case(note, 3, 20, 40, keys)));
    Topic::new("request-acquire-set", cases)
}

/// `G`.
pub(crate) fn release_set() -> Topic {
    let two = [b"a".to_vec(), b"b".to_vec()];
    let mut cases = vec![
        release_set_case("smallest numbers", 1, 1, &two),
        release_set_case("largest numbers", u64::MAX, u64::MAX, &two),
        release_set_case("token 2^63, negative when signed", 2, 1 << 63, &two),
        release_set_case("token 2^53 + 1", 3, (1 << 53) + 1, &two),
    ];
    cases.extend(sets().iter().map(|(note, keys)| release_set_case(note, 4, 77, keys)));
    Topic::new("request-release-set", cases)
}
