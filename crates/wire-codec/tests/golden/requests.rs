//! Requests: both ways, cut everywhere, and run together.

use crate::load::{Case, cases, unhex};
use ticketing_wire_codec::limits::REQUEST_SIZE_BYTES_MAX;
use ticketing_wire_codec::{
    ErrorCode, Keys, Operation, Reply, RequestFrame, RequestId, Step, Token, decode_request,
    encode_acquire, encode_acquire_set, encode_release, encode_release_set,
};

fn decode_whole<'a>(case: &Case, bytes: &'a [u8]) -> RequestFrame<'a> {
    match decode_request(bytes) {
        Ok(Step::Complete { value, size }) => {
            assert_eq!(size, bytes.len(), "{}", case.id);
            value
        }
        other => panic!("{}: {other:?}", case.id),
    }
}

fn request_id(case: &Case) -> RequestId {
    RequestId::new(case.number("request_id")).expect("a request id")
}

fn encode(case: &Case) -> Result<Vec<u8>, ErrorCode> {
    let mut buffer = [0; REQUEST_SIZE_BYTES_MAX];
    let id = request_id(case);
    let terms = || (case.byte("wait"), case.byte("lease"));
    let token = || Token::new(case.number("token")).ok_or(ErrorCode::BadToken);
    let frame = match case.text("op") {
        "A" => {
            let (wait, lease) = terms();
            encode_acquire(&mut buffer, id, wait, lease, &case.field_bytes("key_hex"))
        }
        "R" => encode_release(&mut buffer, id, token()?, &case.field_bytes("key_hex")),
        "S" => {
            let ((wait, lease), keys) = (terms(), case.list("keys_hex"));
            encode_acquire_set(&mut buffer, id, wait, lease, keys.iter().map(Vec::as_slice))
        }
        "G" => {
            let keys = case.list("keys_hex");
            encode_release_set(&mut buffer, id, token()?, keys.iter().map(Vec::as_slice))
        }
        other => panic!("{}: no request {other}", case.id),
    };
    frame.map(<[u8]>::to_vec)
}

fn assert_keys(case: &Case, keys: Keys<'_>) {
    match keys {
        Keys::One(key) => assert_eq!(key, case.field_bytes("key_hex"), "{}", case.id),
        Keys::Set(set) => {
            let decoded: Vec<Vec<u8>> = set.map(<[u8]>::to_vec).collect();
            assert_eq!(decoded, case.list("keys_hex"), "{}", case.id);
            assert_eq!(set.len(), decoded.len(), "{}", case.id);
        }
    }
}

#[test]
fn decoding_gives_the_fields() {
    for case in cases(&["request-"]) {
        let bytes = case.bytes();
        let frame = decode_whole(&case, &bytes);
        assert_eq!(frame.request_id, request_id(&case), "{}", case.id);
        assert_eq!(frame.kind.opcode(), case.text("op").as_bytes()[0], "{}", case.id);
        match frame.operation.expect(&case.id) {
            Operation::Acquire { wait_seconds, lease_seconds, keys } => {
                assert_eq!(wait_seconds, case.byte("wait"), "{}", case.id);
                assert_eq!(lease_seconds, case.byte("lease"), "{}", case.id);
                assert_keys(&case, keys);
            }
            Operation::Release { token, keys } => {
                assert_eq!(token.get(), case.number("token"), "{}", case.id);
                assert_keys(&case, keys);
            }
        }
    }
}

#[test]
fn encoding_the_fields_gives_the_bytes() {
    for case in cases(&["request-"]) {
        assert_eq!(encode(&case), Ok(case.bytes()), "{}", case.id);
    }
}

#[test]
fn a_frame_cut_anywhere_is_incomplete() {
    for case in cases(&["request-"]) {
        let bytes = case.bytes();
        for size in 0..bytes.len() {
            let step = decode_request(&bytes[..size]);
            assert_eq!(step, Ok(Step::Incomplete), "{} cut at {size}", case.id);
        }
    }
}

#[test]
fn frames_that_run_together_come_apart() {
    let all = cases(&["request-"]);
    let stream: Vec<u8> = all.iter().flat_map(Case::bytes).collect();
    let mut rest = stream.as_slice();
    for case in &all {
        let alone = case.bytes();
        let Ok(Step::Complete { value, size }) = decode_request(rest) else {
            panic!("{}: not whole", case.id);
        };
        assert_eq!(value, decode_whole(case, &alone), "{}", case.id);
        rest = &rest[size..];
    }
    assert!(rest.is_empty());
}

#[test]
fn broken_frames_end_the_connection_and_stay_broken() {
    let broken = cases(&["invalid-frame-request", "order-of-checks"]);
    for case in broken.iter().filter(|case| case.is_rejected_by("frame")) {
        let bytes = case.bytes();
        let fault = decode_request(&bytes).expect_err(&case.id);
        assert_eq!(case.how.as_deref(), Some("close"), "{}", case.id);
        for size in 0..bytes.len() {
            let early = decode_request(&bytes[..size]);
            assert!(early == Ok(Step::Incomplete) || early == Err(fault), "{}: {early:?}", case.id);
        }
        let longer = [bytes.as_slice(), b"more"].concat();
        assert_eq!(decode_request(&longer), Err(fault), "{}", case.id);
    }
}

#[test]
fn what_the_header_decides_is_decided_by_the_header() {
    for case in cases(&["invalid-frame-request"]) {
        if case.note.contains("the header is enough") {
            assert_eq!(case.bytes().len(), 3, "{}", case.id);
        }
    }
}

#[test]
fn bad_values_are_answered_and_never_encoded() {
    let all = cases(&["invalid-value-request", "order-of-checks"]);
    for case in all.iter().filter(|case| case.is_rejected_by("value")) {
        let bytes = case.bytes();
        let frame = decode_whole(case, &bytes);
        let code = frame.operation.expect_err(&case.id);
        let expected: u8 = case.code.as_deref().expect("a code").parse().expect("a number");
        assert_eq!(code as u8, expected, "{}", case.id);
        assert!(code.answers(frame.kind), "{}", case.id);
        let answer = Reply::Refused { request_id: frame.request_id, code }.encode();
        let expected = unhex(case.answer_hex.as_deref().expect("an answer"));
        assert_eq!(answer.as_bytes(), expected, "{}", case.id);
        assert_eq!(encode(case), Err(code), "{}", case.id);
    }
}
