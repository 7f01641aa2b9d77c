//! Replies: both ways, cut everywhere, run together, and against what was asked.

use crate::load::{Case, cases, unhex};
use std::collections::BTreeMap;
use ticketing_wire_codec::{
    ErrorCode, Reply, ReplyFault, ReplyRules, RequestId, RequestKind, Slot, Step, Token,
    decode_reply, decode_request,
};

fn rules(case: &Case) -> ReplyRules {
    match case.mode.as_str() {
        "cluster" => ReplyRules::Cluster { voter_count: case.voter_count },
        _ => ReplyRules::Single,
    }
}

fn expected(case: &Case) -> Reply {
    let leader = || Slot::new(case.byte("slot"));
    if case.text("op") == "L" {
        return Reply::Leader { leader: leader() };
    }
    let request_id = RequestId::new(case.number("request_id")).expect("a request id");
    let token = || Token::new(case.number("token")).expect("a token");
    match case.text("op") {
        "A" => Reply::Granted { request_id, token: token() },
        "S" => Reply::GrantedSet { request_id, token: token() },
        "R" => Reply::Released { request_id },
        "G" => Reply::ReleasedSet { request_id },
        "N" => Reply::NotHeld { request_id },
        "T" => Reply::TimedOut { request_id },
        "B" => Reply::Busy { request_id },
        "I" => Reply::Indeterminate { request_id },
        "M" => Reply::Moved { request_id, leader: leader() },
        "E" => {
            let code = ErrorCode::from_wire(case.byte("code")).expect("a code");
            assert_eq!(code.name(), case.text("name"), "{}", case.id);
            Reply::Refused { request_id, code }
        }
        other => panic!("{}: no reply {other}", case.id),
    }
}

fn valid() -> Vec<Case> {
    cases(&["reply-"])
}

#[test]
fn decoding_gives_the_fields() {
    for case in valid() {
        let bytes = case.bytes();
        let whole = Step::Complete { value: expected(&case), size: bytes.len() };
        assert_eq!(decode_reply(&bytes, rules(&case)), Ok(whole), "{}", case.id);
    }
}

#[test]
fn encoding_the_fields_gives_the_bytes() {
    for case in valid() {
        assert_eq!(expected(&case).encode().as_bytes(), case.bytes(), "{}", case.id);
    }
}

#[test]
fn a_frame_cut_anywhere_is_incomplete() {
    for case in valid() {
        let bytes = case.bytes();
        for size in 0..bytes.len() {
            let step = decode_reply(&bytes[..size], rules(&case));
            assert_eq!(step, Ok(Step::Incomplete), "{} cut at {size}", case.id);
        }
    }
}

#[test]
fn frames_that_run_together_come_apart() {
    let five = |case: &Case| case.mode == "cluster" && case.voter_count == 5;
    let all: Vec<Case> = valid().into_iter().filter(five).collect();
    let stream: Vec<u8> = all.iter().flat_map(Case::bytes).collect();
    let mut rest = stream.as_slice();
    for case in &all {
        let Ok(Step::Complete { value, size }) = decode_reply(rest, rules(case)) else {
            panic!("{}: not whole", case.id);
        };
        assert_eq!(value, expected(case), "{}", case.id);
        rest = &rest[size..];
    }
    assert!(rest.is_empty());
}

#[test]
fn broken_and_bad_replies_end_the_session() {
    for case in cases(&["invalid-frame-reply", "invalid-value-reply"]) {
        let bytes = case.bytes();
        let fault = decode_reply(&bytes, rules(&case)).expect_err(&case.id);
        let is_value = matches!(
            fault,
            ReplyFault::NotInCluster
                | ReplyFault::Slot
                | ReplyFault::TokenZero
                | ReplyFault::UnknownCode
        );
        assert_eq!(is_value, case.is_rejected_by("value"), "{}: {fault}", case.id);
        assert_eq!(case.how.as_deref(), Some("close"), "{}", case.id);
        for size in 0..bytes.len() {
            let early = decode_reply(&bytes[..size], rules(&case));
            assert!(early == Ok(Step::Incomplete) || early == Err(fault), "{}: {early:?}", case.id);
        }
    }
}

/// A client in miniature: what waits for an answer, and whether the next reply fits.
fn accepts(waiting: &mut BTreeMap<RequestId, RequestKind>, reply: Reply) -> bool {
    let Some(id) = reply.request_id() else {
        return true;
    };
    waiting.remove(&id).is_some_and(|kind| reply.answers(kind))
}

#[test]
fn replies_that_fit_no_waiting_request_decode_but_do_not_answer() {
    for case in cases(&["invalid-correlation"]) {
        let mut waiting = BTreeMap::new();
        for request in &case.requests_hex {
            let request = unhex(request);
            let Ok(Step::Complete { value, .. }) = decode_request(&request) else {
                panic!("{}: not a request", case.id);
            };
            waiting.insert(value.request_id, value.kind);
        }
        let bytes = case.bytes();
        let mut rest = bytes.as_slice();
        loop {
            let Ok(Step::Complete { value, size }) = decode_reply(rest, rules(&case)) else {
                panic!("{}: not a reply", case.id);
            };
            rest = &rest[size..];
            assert_eq!(accepts(&mut waiting, value), !rest.is_empty(), "{}", case.id);
            if rest.is_empty() {
                break;
            }
        }
    }
}
