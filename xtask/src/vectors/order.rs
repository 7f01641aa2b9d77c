//! Requests with two faults: which one decides shows the order of the checks.

use super::case::{Case, Topic};
use super::encode;
use super::invalid_value::{acquire, acquire_set, release, release_set};

fn closes(note: &str, bytes: &[u8]) -> Case {
    Case::new(note, "order-of-checks", "request", bytes).closes("frame")
}

/// Two faults each.
pub(crate) fn requests() -> Topic {
    let bad = [b"a b".to_vec(), b"c".to_vec()];
    let bad_descending = [b"b".to_vec(), b"a a".to_vec()];
    let one_bad = [b"\n".to_vec()];
    let many_with_one_bad: Vec<Vec<u8>> =
        (b'a'..=b'p').map(|byte| vec![byte]).chain([b"q ".to_vec()]).collect();
    let answered = vec![
        release("token 0 before a bad key", 0, b"a b", 7),
        release("token 0 before an empty key", 0, b"", 7),
        release_set("token 0 before a bad key in a set", 0, &bad, 7),
        release_set("token 0 before a descending set", 0, &[b"b", b"a"], 7),
        release_set("token 0 before a set of one", 0, &[b"a"], 7),
        acquire("bad key before lease 0", 0, b"a b", 1),
        acquire("bad key before lease 251", 251, b"", 1),
        acquire_set("bad key before descending order", 30, &bad_descending, 1),
        acquire_set("bad key before a count of one", 30, &one_bad, 1),
        acquire_set("bad key before a count of seventeen", 30, &many_with_one_bad, 1),
        release_set("bad key before descending order", 9, &bad_descending, 1),
        release_set("bad key before a count of seventeen", 9, &many_with_one_bad, 1),
        acquire_set("bad key before lease 0", 0, &bad, 1),
        acquire_set("descending set before lease 0", 0, &[b"b", b"a"], 5),
        acquire_set("set of one before lease 251", 251, &[b"a"], 5),
        acquire_set("empty set before lease 255", 255, &[] as &[&[u8]], 5),
    ];
    let mut cases: Vec<Case> =
        answered.into_iter().map(|case| case.citing("order-of-checks")).collect();
    cases.extend([
        closes("request id 0 before lease 0", &encode::acquire(0, 0, 0, b"a")),
        closes("request id 0 before a bad key", &encode::acquire(0, 0, 30, b"a b")),
        closes("request id 0 before token 0", &encode::release(0, 0, b"a")),
        closes("records that do not fill the body before token 0", &{
            encode::frame(b'G', &encode::release_set_body(1, 0, 3, &[b"a", b"b"]))
        }),
        closes("records that do not fill the body before a bad key", &{
            encode::frame(b'S', &encode::acquire_set_body(1, 0, 30, 3, &[b" ", b"b"]))
        }),
        closes("records that do not fill the body before lease 0", &{
            encode::frame(b'S', &encode::acquire_set_body(1, 0, 0, 1, &[b"a", b"b"]))
        }),
        closes("records that do not fill the body before a count of 17", &{
            encode::frame(b'S', &encode::acquire_set_body(1, 0, 30, 17, &[b"a", b"b"]))
        }),
        closes("body length before lease 0", &encode::acquire(1, 0, 0, &[b'k'; 129])),
        closes("body length before a bad key", &encode::release(1, 1, &[b' '; 129])),
    ]);
    Topic::new("order-of-checks", cases)
}
