//! Valid reply frames.

use super::case::{Case, Fields, Server, Topic};
use super::encode;

const SPEC: &str = "reply-frames";
/// Unknown leader, or none.
pub(super) const NO_SLOT: u8 = 255;

/// Replies that carry nothing but the id, and what they mean.
const BARE: &[(u8, &str)] = &[
    (b'R', "released"),
    (b'G', "set released"),
    (b'N', "not held"),
    (b'T', "turn did not come"),
    (b'B', "busy"),
    (b'I', "indeterminate"),
];

/// Error codes and their names.
pub(super) const CODES: &[(u8, &str)] = &[
    (1, "BadKey"),
    (2, "BadLease"),
    (3, "NotActive"),
    (4, "NoLeader"),
    (5, "BadKeySet"),
    (6, "GroupMismatch"),
    (7, "BadToken"),
];

fn granted(note: &str, server: Server, opcode: u8, id: u64, token: u64) -> Case {
    Case::new(note, SPEC, "reply", &encode::reply(opcode, id, &token.to_be_bytes()))
        .at(server)
        .fields(Fields::op(opcode).number("request_id", id).number("token", token))
}

fn moved(note: String, server: Server, id: u64, slot: u8) -> Case {
    Case::new(note, SPEC, "reply", &encode::reply(b'M', id, &[slot]))
        .at(server)
        .fields(Fields::op(b'M').number("request_id", id).number("slot", slot))
}

fn leader(note: String, voter_count: u8, slot: u8) -> Case {
    Case::new(note, SPEC, "reply", &encode::frame(b'L', &[slot]))
        .at(Server::Cluster(voter_count))
        .fields(Fields::op(b'L').number("slot", slot))
}

/// What every mode sends: grants, bare replies, every error code.
fn common(server: Server, id: u64) -> Vec<Case> {
    let mut cases = vec![
        granted("granted", server, b'A', id, 41),
        granted("set granted", server, b'S', id, 42),
        granted("granted, largest numbers", server, b'A', u64::MAX, u64::MAX),
        granted("set granted, largest numbers", server, b'S', u64::MAX, u64::MAX),
    ];
    for (opcode, note) in BARE {
        let fields = Fields::op(*opcode).number("request_id", id);
        let bytes = encode::reply(*opcode, id, &[]);
        cases.push(Case::new(*note, SPEC, "reply", &bytes).at(server).fields(fields));
    }
    for (code, name) in CODES {
        let fields = Fields::op(b'E').number("request_id", id).number("code", *code);
        let case = Case::new(format!("refused: {name}"), "error-codes", "reply", &{
            encode::error(id, *code)
        });
        cases.push(case.at(server).fields(fields.text("name", name)));
    }
    cases.push(moved("moved, leader unknown".into(), server, id, NO_SLOT));
    cases
}

/// Single mode.
pub(crate) fn single() -> Topic {
    let mut cases = common(Server::Single, 7);
    cases.extend([
        granted("smallest numbers", Server::Single, b'A', 1, 1),
        granted("token 2^53 + 1", Server::Single, b'A', 2, (1 << 53) + 1),
        granted("token 2^63, negative when signed", Server::Single, b'A', 3, 1 << 63),
        granted("set token 2^63, negative when signed", Server::Single, b'S', 4, 1 << 63),
        granted("request id 2^63", Server::Single, b'A', 1 << 63, 5),
        granted("every byte different", Server::Single, b'A', 0x0102_0304_0506_0708, {
            0x090a_0b0c_0d0e_0f10
        }),
    ]);
    Topic::new("reply-single", cases)
}

/// Clusters of 1, 3 and 5 voters.
pub(crate) fn cluster() -> Topic {
    let mut cases = Vec::new();
    for voter_count in [1, 3, 5] {
        let server = Server::Cluster(voter_count);
        cases.extend(common(server, 8));
        for slot in 0..voter_count {
            cases.push(moved(format!("moved, leader in slot {slot}"), server, 9, slot));
            cases.push(leader(format!("the leader is slot {slot}"), voter_count, slot));
        }
        cases.push(leader("no leader known".into(), voter_count, NO_SLOT));
    }
    Topic::new("reply-cluster", cases)
}
