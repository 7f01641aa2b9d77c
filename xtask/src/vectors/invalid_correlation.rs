//! Replies that are fine by themselves but fit no request that waits for one.

use super::case::{Case, Server, Topic};
use super::encode;

/// One request of each kind, all with request id 1.
fn request(opcode: u8) -> Vec<u8> {
    match opcode {
        b'A' => encode::acquire(1, 10, 30, b"a"),
        b'R' => encode::release(1, 9, b"a"),
        b'S' => encode::acquire_set(1, 10, 30, &[b"a", b"b"]),
        _ => encode::release_set(1, 9, &[b"a", b"b"]),
    }
}

fn reply(opcode: u8) -> Vec<u8> {
    let token = 9_u64.to_be_bytes();
    encode::reply(opcode, 1, if matches!(opcode, b'A' | b'S') { &token } else { &[] })
}

fn case(note: impl Into<String>, requests: &[Vec<u8>], bytes: &[u8]) -> Case {
    Case::new(note, "reply-frames", "reply", bytes).after(requests).closes("correlation")
}

/// What a client must not take in that situation. The last frame is the one at fault.
pub(crate) fn replies() -> Topic {
    let mut cases = vec![
        case("nothing was asked", &[], &reply(b'A')),
        case("another id", &[request(b'A')], &{ encode::reply(b'A', 2, &9_u64.to_be_bytes()) }),
        case("an error for another id", &[request(b'A')], &encode::error(2, 1)),
        case(
            "the id with its upper half dropped",
            &{ [encode::acquire((1 << 32) + 1, 10, 30, b"a")] },
            &reply(b'A'),
        ),
    ];
    for (asked, answered) in [(b'A', b'A'), (b'R', b'R'), (b'S', b'S'), (b'G', b'G')] {
        let twice = [reply(answered), reply(answered)].concat();
        let note = format!("{} answered twice", char::from(asked));
        cases.push(case(note, &[request(asked)], &twice));
    }
    cases.push(case("granted after it timed out", &[request(b'A')], &{
        [reply(b'T'), reply(b'A')].concat()
    }));
    cases.push(case("released after an error", &[request(b'R')], &{
        [encode::error(1, 6), reply(b'R')].concat()
    }));
    for (asked, unfit) in
        [(b'A', b"SRGN".as_slice()), (b'R', b"ASGTB"), (b'S', b"ARGN"), (b'G', b"ASRTB")]
    {
        for answered in unfit {
            let note = format!("{} in answer to {}", char::from(*answered), char::from(asked));
            cases.push(case(note, &[request(asked)], &reply(*answered)));
        }
    }
    for (asked, codes) in
        [(b'A', [5, 6, 7].as_slice()), (b'S', &[6, 7]), (b'R', &[2, 5]), (b'G', &[2])]
    {
        for code in codes {
            let note = format!("error {code} in answer to {}", char::from(asked));
            cases.push(case(note, &[request(asked)], &encode::error(1, *code)));
        }
    }
    cases.push(
        case("a second M for one request", &[request(b'A')], &{
            [encode::reply(b'M', 1, &[2]), encode::reply(b'M', 1, &[0])].concat()
        })
        .at(Server::Cluster(3)),
    );
    Topic::new("invalid-correlation", cases)
}
