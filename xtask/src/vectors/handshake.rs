//! Valid hellos, and proofs for given tokens, identities and nonces.

use super::case::{Case, Fields, Server, Topic};
use super::encode::{self, Hello};

const SPEC: &str = "connection";
/// First bytes of the message under the proof.
pub(super) const DOMAIN: &[u8; 16] = b"TCK/CLIENT/AUTH3";
/// A token as a person would configure it.
pub(super) const TOKEN: &[u8] = b"0123456789abcdef0123456789abcdef";
/// A nonce with every byte different.
pub(super) const NONCE: [u8; 16] =
    [0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff];

/// The fingerprint of single mode.
pub(super) fn single_fingerprint() -> [u8; 32] {
    encode::sha256(b"ticketing/single/v3")
}

/// The fingerprint of an invented cluster.
pub(super) fn cluster_fingerprint() -> [u8; 32] {
    let mut fingerprint = [0; 32];
    for (index, byte) in (0..).zip(fingerprint.iter_mut()) {
        *byte = 0xc0 ^ (index * 7);
    }
    fingerprint
}

/// Decoded values of a hello.
pub(super) fn hello_fields(hello: &Hello) -> Fields {
    Fields::default()
        .number("version", hello.version)
        .number("mode", hello.mode)
        .number("slot", hello.slot)
        .bytes("nonce_hex", &hello.nonce)
}

fn hello_case(note: &str, server: Server, slot: u8, nonce: [u8; 16]) -> Case {
    let hello = match server {
        Server::Cluster(_) => Hello::new(1, slot, nonce),
        Server::Single => Hello::new(0, 255, nonce),
    };
    let case = Case::new(note, SPEC, "hello", &hello.bytes()).at(server);
    case.expecting_slot(slot).fields(hello_fields(&hello))
}

/// Server hellos.
pub(crate) fn hello() -> Topic {
    let mut cases = vec![
        hello_case("single mode", Server::Single, 255, NONCE),
        hello_case("a nonce of zeros is bytes like any other", Server::Single, 255, [0; 16]),
        hello_case("a nonce of ones", Server::Single, 255, [0xff; 16]),
        hello_case("one voter", Server::Cluster(1), 0, NONCE),
    ];
    for voter_count in [3, 5] {
        for slot in 0..voter_count {
            let note = format!("slot {slot} of {voter_count}");
            cases.push(hello_case(&note, Server::Cluster(voter_count), slot, NONCE));
        }
    }
    Topic::new("hello", cases)
}

/// A proof's inputs: the token, the hello answered, and the identity meant.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    /// The client's token.
    pub(super) token: &'a [u8],
    /// The hello answered.
    pub(super) hello: Hello,
    /// The identity meant.
    pub(super) fingerprint: [u8; 32],
}

impl Inputs<'_> {
    /// The proof.
    pub(super) fn proof(&self) -> Vec<u8> {
        encode::hmac(self.token, &self.hello.proof_message(DOMAIN, &self.fingerprint))
    }

    /// The inputs and the message made of them.
    pub(super) fn fields(&self) -> Fields {
        hello_fields(&self.hello)
            .bytes("token_hex", self.token)
            .bytes("fingerprint_hex", &self.fingerprint)
            .bytes("message_hex", &self.hello.proof_message(DOMAIN, &self.fingerprint))
    }
}

fn proof_case(note: &str, server: Server, inputs: Inputs<'_>) -> Case {
    Case::new(note, SPEC, "proof", &inputs.proof()).at(server).fields(inputs.fields())
}

/// Client proofs.
pub(crate) fn proof() -> Topic {
    let hello = Hello::new(0, 255, NONCE);
    let single = Inputs { token: TOKEN, hello, fingerprint: single_fingerprint() };
    let mut cases = vec![
        proof_case("single mode", Server::Single, single),
        proof_case("no authentication: the empty token", Server::Single, {
            Inputs { token: b"", ..single }
        }),
        proof_case("shortest token", Server::Single, Inputs { token: &[b'x'; 16], ..single }),
        proof_case("longest token", Server::Single, Inputs { token: &[b'x'; 4096], ..single }),
        proof_case("a token of one hash block", Server::Single, {
            Inputs { token: &[b'x'; 64], ..single }
        }),
        proof_case("a token above one hash block", Server::Single, {
            Inputs { token: &[b'x'; 65], ..single }
        }),
        proof_case("a token that is not UTF-8, with NUL", Server::Single, {
            Inputs { token: &[0, 0xff, 0xfe, 0x80, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0], ..single }
        }),
        proof_case("a nonce of zeros", Server::Single, {
            Inputs { hello: Hello::new(0, 255, [0; 16]), ..single }
        }),
        proof_case("a nonce of ones", Server::Single, {
            Inputs { hello: Hello::new(0, 255, [0xff; 16]), ..single }
        }),
        proof_case("one voter", Server::Cluster(1), {
            let hello = Hello::new(1, 0, NONCE);
            Inputs { hello, fingerprint: cluster_fingerprint(), ..single }
        }),
    ];
    for voter_count in [3, 5] {
        for slot in 0..voter_count {
            let note = format!("slot {slot} of {voter_count}");
            let hello = Hello::new(1, slot, [0xa0 | slot; 16]);
            let inputs = Inputs { hello, fingerprint: cluster_fingerprint(), ..single };
            cases.push(proof_case(&note, Server::Cluster(voter_count), inputs));
        }
    }
    Topic::new("proof", cases)
}
