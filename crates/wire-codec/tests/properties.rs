//! What holds for every input, valid or not.

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use ticketing_wire_codec::limits::{HELLO_SIZE_BYTES, REQUEST_SIZE_BYTES_MAX};
use ticketing_wire_codec::{
    ErrorCode, Hello, Keys, Operation, Reply, ReplyRules, RequestFrame, RequestId, RequestKind,
    Slot, Step, Token, check_key, decode_reply, decode_request, encode_acquire, encode_acquire_set,
    encode_release, encode_release_set,
};

/// The key rule once more, in other words.
fn is_key(bytes: &[u8]) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(text) => (1..=128).contains(&text.len()) && !text.contains([' ', '\n', '\r']),
        Err(_) => false,
    }
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    let char = any::<char>().prop_filter("allowed", |c| ![' ', '\n', '\r'].contains(c));
    vec(char, 1..=40)
        .prop_map(|chars| chars.into_iter().collect::<String>().into_bytes())
        .prop_filter("at most 128 bytes", |key| key.len() <= 128)
}

fn key_set() -> impl Strategy<Value = Vec<Vec<u8>>> {
    btree_set(key(), 2..=16).prop_map(|set| set.into_iter().collect())
}

fn request_id() -> impl Strategy<Value = RequestId> {
    (1..=u64::MAX).prop_map(|id| RequestId::new(id).expect("not 0"))
}

fn token() -> impl Strategy<Value = Token> {
    (1..=u64::MAX).prop_map(|token| Token::new(token).expect("not 0"))
}

fn slot() -> impl Strategy<Value = Option<Slot>> {
    proptest::option::of((0..=4_u8).prop_map(|slot| Slot::new(slot).expect("0 to 4")))
}

fn reply() -> impl Strategy<Value = Reply> {
    let code = proptest::sample::select(ErrorCode::ALL);
    (request_id(), token(), slot(), code, 0..11_u8).prop_map(
        |(request_id, token, leader, code, n)| match n {
            0 => Reply::Granted { request_id, token },
            1 => Reply::GrantedSet { request_id, token },
            2 => Reply::Released { request_id },
            3 => Reply::ReleasedSet { request_id },
            4 => Reply::NotHeld { request_id },
            5 => Reply::TimedOut { request_id },
            6 => Reply::Busy { request_id },
            7 => Reply::Moved { request_id, leader },
            8 => Reply::Indeterminate { request_id },
            9 => Reply::Refused { request_id, code },
            _ => Reply::Leader { leader },
        },
    )
}

/// Some valid request frame.
fn request_bytes() -> impl Strategy<Value = Vec<u8>> {
    let numbers = (request_id(), token(), any::<u8>(), 1..=250_u8, 0..4_u8);
    (numbers, key(), key_set()).prop_map(|((id, token, wait, lease, kind), key, set)| {
        let mut buffer = [0; REQUEST_SIZE_BYTES_MAX];
        let keys = set.iter().map(Vec::as_slice);
        match kind {
            0 => encode_acquire(&mut buffer, id, wait, lease, &key),
            1 => encode_release(&mut buffer, id, token, &key),
            2 => encode_acquire_set(&mut buffer, id, wait, lease, keys),
            _ => encode_release_set(&mut buffer, id, token, keys),
        }
        .expect("valid values")
        .to_vec()
    })
}

/// Bytes that look like frames: plain noise, or a valid frame with some bytes changed.
fn suspicious_bytes() -> impl Strategy<Value = Vec<u8>> {
    let changes = vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    let damaged = (request_bytes(), changes).prop_map(|(mut bytes, changes)| {
        for (index, value) in changes {
            let index = index.index(bytes.len().min(32));
            bytes[index] = value;
        }
        bytes
    });
    let headed = (prop::sample::select(b"ARSGNTBMIEL".to_vec()), vec(any::<u8>(), 0..64)).prop_map(
        |(opcode, mut bytes)| {
            bytes.insert(0, opcode);
            // A short length, so that many of these are whole.
            if let Some(high) = bytes.get_mut(1) {
                *high = 0;
            }
            bytes
        },
    );
    prop_oneof![vec(any::<u8>(), 0..256), damaged, headed]
}

/// Encodes what was decoded.
fn encode(frame: &RequestFrame<'_>) -> Vec<u8> {
    let mut buffer = [0; REQUEST_SIZE_BYTES_MAX];
    let id = frame.request_id;
    match frame.operation.expect("valid values") {
        Operation::Acquire { wait_seconds, lease_seconds, keys: Keys::One(key) } => {
            encode_acquire(&mut buffer, id, wait_seconds, lease_seconds, key)
        }
        Operation::Acquire { wait_seconds, lease_seconds, keys: Keys::Set(set) } => {
            encode_acquire_set(&mut buffer, id, wait_seconds, lease_seconds, set)
        }
        Operation::Release { token, keys: Keys::One(key) } => {
            encode_release(&mut buffer, id, token, key)
        }
        Operation::Release { token, keys: Keys::Set(set) } => {
            encode_release_set(&mut buffer, id, token, set)
        }
    }
    .expect("decoded values are valid")
    .to_vec()
}

fn assert_keys_valid(keys: Keys<'_>) {
    match keys {
        Keys::One(key) => assert!(is_key(key)),
        Keys::Set(set) => {
            let keys: Vec<&[u8]> = set.collect();
            assert!((2..=16).contains(&keys.len()));
            assert!(keys.iter().all(|key| is_key(key)));
            assert!(keys.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }
}

proptest! {
    #[test]
    fn requests_survive_decoding_and_encoding(bytes in request_bytes()) {
        let Ok(Step::Complete { value, size }) = decode_request(&bytes) else {
            panic!("a valid frame");
        };
        prop_assert_eq!(size, bytes.len());
        prop_assert_eq!(encode(&value), bytes);
    }

    #[test]
    fn replies_survive_encoding_and_decoding(reply in reply()) {
        let encoded = reply.encode();
        let bytes = encoded.as_bytes();
        let step = decode_reply(bytes, ReplyRules::Cluster { voter_count: 5 });
        prop_assert_eq!(step, Ok(Step::Complete { value: reply, size: bytes.len() }));
    }

    #[test]
    fn any_bytes_give_an_outcome_and_what_is_accepted_is_valid(bytes in suspicious_bytes()) {
        if let Ok(Step::Complete { value, size }) = decode_request(&bytes) {
            prop_assert!(size <= bytes.len() && size <= REQUEST_SIZE_BYTES_MAX);
            match value.operation {
                Ok(Operation::Acquire { keys, lease_seconds, .. }) => {
                    prop_assert!((1..=250).contains(&lease_seconds));
                    assert_keys_valid(keys);
                    prop_assert_eq!(encode(&value), &bytes[..size]);
                }
                Ok(Operation::Release { keys, .. }) => {
                    assert_keys_valid(keys);
                    prop_assert_eq!(encode(&value), &bytes[..size]);
                }
                Err(code) => prop_assert!(code.answers(value.kind)),
            }
        }
        for rules in [ReplyRules::Single, ReplyRules::Cluster { voter_count: 3 }] {
            if let Ok(Step::Complete { value, size }) = decode_reply(&bytes, rules) {
                let encoded = value.encode();
                prop_assert_eq!(encoded.as_bytes(), &bytes[..size]);
            }
        }
    }

    #[test]
    fn a_prefix_never_contradicts_the_whole(bytes in suspicious_bytes()) {
        let whole = decode_request(&bytes);
        for size in 0..bytes.len() {
            let part = decode_request(&bytes[..size]);
            prop_assert!(part == Ok(Step::Incomplete) || part == whole, "{:?} {:?}", part, whole);
        }
        let rules = ReplyRules::Cluster { voter_count: 3 };
        let whole = decode_reply(&bytes, rules);
        for size in 0..bytes.len() {
            let part = decode_reply(&bytes[..size], rules);
            prop_assert!(part == Ok(Step::Incomplete) || part == whole, "{:?} {:?}", part, whole);
        }
    }

    #[test]
    fn the_key_rule_is_the_page_s(bytes in prop_oneof![key(), vec(any::<u8>(), 0..140)]) {
        prop_assert_eq!(check_key(&bytes).is_ok(), is_key(&bytes));
    }

    #[test]
    fn hellos_decode_to_what_they_encode(
        mut bytes in any::<[u8; HELLO_SIZE_BYTES]>(),
        fix in 0..5_usize,
    ) {
        let good = b"TCKCLI3\0\0\x03\x01\x02";
        let fixed = [0, 8, 10, 11, 12][fix];
        bytes[..fixed].copy_from_slice(&good[..fixed]);
        if let Ok(hello) = Hello::decode(&bytes) {
            prop_assert_eq!(hello.encode(), bytes);
        }
    }

    #[test]
    fn every_reply_answers_some_request_or_is_unsolicited(reply in reply()) {
        let answers = RequestKind::ALL.into_iter().any(|kind| reply.answers(kind));
        prop_assert_eq!(answers, reply.request_id().is_some());
    }
}
