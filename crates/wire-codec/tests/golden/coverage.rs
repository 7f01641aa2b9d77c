//! Every opcode, code, layer and limit has a vector on each side of its edge.

use crate::load::{Case, cases};
use ticketing_wire_codec::limits;
use ticketing_wire_codec::{ErrorCode, RequestKind};

/// Whether some case is all of that.
fn some(cases: &[Case], fits: impl Fn(&Case) -> bool) -> bool {
    cases.iter().any(fits)
}

fn is_op(case: &Case, kind: RequestKind) -> bool {
    case.text("op").as_bytes() == [kind.opcode()]
}

#[test]
fn every_request_has_its_shortest_and_longest_body() {
    let valid = cases(&["request-"]);
    let broken = cases(&["invalid-frame-request"]);
    let head = limits::HEAD_SIZE_BYTES;
    // The shortest valid body; the frame itself may be shorter and is then a bad value.
    for (kind, shortest, longest) in [
        (RequestKind::Acquire, 11, limits::ACQUIRE_BODY_SIZE_BYTES_MAX),
        (RequestKind::Release, 17, limits::RELEASE_BODY_SIZE_BYTES_MAX),
        (RequestKind::AcquireSet, 15, limits::ACQUIRE_SET_BODY_SIZE_BYTES_MAX),
        (RequestKind::ReleaseSet, 21, limits::RELEASE_SET_BODY_SIZE_BYTES_MAX),
    ] {
        for size in [shortest, longest] {
            let whole = |case: &Case| is_op(case, kind) && case.bytes().len() == head + size;
            assert!(some(&valid, whole), "{kind:?} with a body of {size}");
        }
        let header = |case: &Case, size: usize| {
            let size = u16::try_from(size).expect("a length").to_be_bytes();
            case.bytes() == [kind.opcode(), size[0], size[1]]
        };
        let fixed = match kind {
            RequestKind::Acquire => limits::ACQUIRE_FIXED_SIZE_BYTES,
            RequestKind::Release => limits::RELEASE_FIXED_SIZE_BYTES,
            RequestKind::AcquireSet => limits::ACQUIRE_SET_FIXED_SIZE_BYTES,
            RequestKind::ReleaseSet => limits::RELEASE_SET_FIXED_SIZE_BYTES,
        };
        assert!(some(&broken, |case| header(case, fixed - 1)), "{kind:?} one too short");
        assert!(some(&broken, |case| header(case, longest + 1)), "{kind:?} one too long");
    }
}

#[test]
fn every_value_has_a_vector_on_each_side_of_its_edge() {
    let valid = cases(&["request-"]);
    let refused = cases(&["invalid-value-request"]);
    for kind in [RequestKind::Acquire, RequestKind::AcquireSet] {
        let with = |name: &'static str, value: u8| {
            move |case: &Case| is_op(case, kind) && case.byte(name) == value
        };
        for wait in [0, limits::WAIT_SECONDS_MAX] {
            assert!(some(&valid, with("wait", wait)), "{kind:?} wait {wait}");
        }
        for lease in [limits::LEASE_SECONDS_MIN, limits::LEASE_SECONDS_MAX] {
            assert!(some(&valid, with("lease", lease)), "{kind:?} lease {lease}");
        }
        for lease in [limits::LEASE_SECONDS_MIN - 1, limits::LEASE_SECONDS_MAX + 1] {
            assert!(some(&refused, with("lease", lease)), "{kind:?} lease {lease}");
        }
    }
    for kind in [RequestKind::AcquireSet, RequestKind::ReleaseSet] {
        let with = |count: usize| {
            move |case: &Case| is_op(case, kind) && case.list("keys_hex").len() == count
        };
        for count in [limits::SET_KEY_COUNT_MIN, limits::SET_KEY_COUNT_MAX] {
            assert!(some(&valid, with(count)), "{kind:?} of {count}");
        }
        for count in [0, limits::SET_KEY_COUNT_MIN - 1, limits::SET_KEY_COUNT_MAX + 1] {
            assert!(some(&refused, with(count)), "{kind:?} of {count}");
        }
        let with_key = |size: usize| {
            move |case: &Case| {
                is_op(case, kind) && case.list("keys_hex").iter().any(|key| key.len() == size)
            }
        };
        for size in [limits::KEY_SIZE_BYTES_MIN, limits::KEY_SIZE_BYTES_MAX] {
            assert!(some(&valid, with_key(size)), "{kind:?} with a key of {size}");
        }
        for size in [limits::KEY_SIZE_BYTES_MIN - 1, limits::KEY_SIZE_BYTES_MAX + 1] {
            assert!(some(&refused, with_key(size)), "{kind:?} with a key of {size}");
        }
    }
    for kind in [RequestKind::Release, RequestKind::ReleaseSet] {
        let with =
            |token: u64| move |case: &Case| is_op(case, kind) && case.number("token") == token;
        assert!(some(&valid, with(1)) && some(&valid, with(u64::MAX)), "{kind:?} tokens");
        assert!(some(&refused, with(0)), "{kind:?} token 0");
    }
    for kind in RequestKind::ALL {
        let with =
            |id: u64| move |case: &Case| is_op(case, kind) && case.number("request_id") == id;
        assert!(some(&valid, with(1)), "{kind:?} request id 1");
        assert!(some(&valid, with(u64::MAX)), "{kind:?} request id 2^64 - 1");
    }
}

#[test]
fn every_reply_comes_in_every_mode() {
    let valid = cases(&["reply-"]);
    for (mode, voter_count) in [("single", 0), ("cluster", 1), ("cluster", 3), ("cluster", 5)] {
        let there = |fits: &dyn Fn(&Case) -> bool| {
            some(&valid, |case| case.mode == mode && case.voter_count == voter_count && fits(case))
        };
        for op in ["A", "S", "R", "G", "N", "T", "B", "M", "I", "E"] {
            assert!(there(&|case| case.text("op") == op), "{op} in {mode} of {voter_count}");
        }
        for code in ErrorCode::ALL {
            let with = |case: &Case| case.text("op") == "E" && case.byte("code") == *code as u8;
            assert!(there(&with), "{code} in {mode} of {voter_count}");
        }
        for slot in (0..voter_count).chain([255]) {
            for op in if mode == "cluster" { &["M", "L"][..] } else { &["M"] } {
                let with = |case: &Case| case.text("op") == *op && case.byte("slot") == slot;
                assert!(there(&with), "{op} with slot {slot} in {mode} of {voter_count}");
            }
        }
    }
}

#[test]
fn every_code_is_answered_to_every_kind_it_is_for() {
    let refused = cases(&["invalid-value-request", "order-of-checks"]);
    for code in ErrorCode::ALL {
        // The others need a state, which bytes alone do not show.
        let by_value = [1, 2, 5, 7].contains(&(*code as u8));
        for kind in RequestKind::ALL.into_iter().filter(|kind| code.answers(*kind) && by_value) {
            let with = |case: &Case| {
                case.code.as_deref() == Some(&(*code as u8).to_string()) && is_op(case, kind)
            };
            assert!(some(&refused, with), "{code} for {kind:?}");
        }
    }
}

#[test]
fn every_layer_rejects_something_in_its_direction() {
    let invalid = cases(&["invalid-", "order-"]);
    for (layer, direction, how) in [
        ("frame", "request", "close"),
        ("frame", "reply", "close"),
        ("value", "request", "answer"),
        ("value", "reply", "close"),
        ("correlation", "reply", "close"),
        ("hello", "hello", "close"),
        ("proof", "proof", "refuse"),
        ("proof", "result", "close"),
    ] {
        let fits = |case: &Case| {
            case.is_rejected_by(layer)
                && case.direction == direction
                && case.how.as_deref() == Some(how)
        };
        assert!(some(&invalid, fits), "{layer} {direction} {how}");
    }
}
