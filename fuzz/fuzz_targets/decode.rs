//! Any bytes through every decoder: no panic, and a shorter input never contradicts a longer one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ticketing_wire_codec::{Hello, ReplyRules, Step, decode_reply, decode_request};

const RULES: [ReplyRules; 3] = [
    ReplyRules::Single,
    ReplyRules::Cluster { voter_count: 3 },
    ReplyRules::Cluster { voter_count: 5 },
];

fuzz_target!(|bytes: &[u8]| {
    requests(bytes);
    for rules in RULES {
        replies(bytes, rules);
    }
    if let Some(hello) = bytes.first_chunk()
        && let Ok(decoded) = Hello::decode(hello)
    {
        assert_eq!(&decoded.encode(), hello);
    }
});

/// Walks a stream of requests as the server does.
fn requests(mut bytes: &[u8]) {
    loop {
        let whole = decode_request(bytes);
        let half = decode_request(&bytes[..bytes.len() / 2]);
        assert!(half == Ok(Step::Incomplete) || half == whole);
        let Ok(Step::Complete { size, .. }) = whole else { break };
        bytes = &bytes[size..];
    }
}

/// Walks a stream of replies as a client does.
fn replies(mut bytes: &[u8], rules: ReplyRules) {
    loop {
        let whole = decode_reply(bytes, rules);
        let half = decode_reply(&bytes[..bytes.len() / 2], rules);
        assert!(half == Ok(Step::Incomplete) || half == whole);
        let Ok(Step::Complete { value, size }) = whole else { break };
        assert_eq!(value.encode().as_bytes(), &bytes[..size]);
        bytes = &bytes[size..];
    }
}
