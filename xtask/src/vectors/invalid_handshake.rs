//! Hellos that a client rejects, proofs that a server refuses, results that are none.

use super::case::{Case, Server, Topic};
use super::encode::{self, Hello};
use super::handshake::{
    DOMAIN, Inputs, NONCE, TOKEN, cluster_fingerprint, hello_fields, single_fingerprint,
};

const SPEC: &str = "connection";

fn hello_case(note: &str, server: Server, expected_slot: u8, hello: &Hello) -> Case {
    Case::new(note, SPEC, "hello", &hello.bytes())
        .at(server)
        .expecting_slot(expected_slot)
        .fields(hello_fields(hello))
        .closes("hello")
}

/// Hellos, each with what the client expects.
pub(crate) fn hello() -> Topic {
    let good = Hello::new(0, 255, NONCE);
    let magic = |magic: &[u8; 8]| Hello { magic: *magic, ..good };
    let single = |note: &str, hello: Hello| hello_case(note, Server::Single, 255, &hello);
    let cluster =
        |note: &str, slot: u8, hello: Hello| hello_case(note, Server::Cluster(3), slot, &hello);
    let cut = |note: &str, size: usize| {
        Case::new(note, SPEC, "hello", &good.bytes()[..size]).expecting_slot(255).closes("hello")
    };
    let cases = vec![
        single("an HTTP server", magic(b"HTTP/1.1")),
        single("magic of the peer protocol's shape", magic(b"TCKPEER3")),
        single("magic of version 2", magic(b"TCKCLI2\0")),
        single("magic ends in a digit", magic(b"TCKCLI30")),
        single("magic in lower case", magic(b"tckcli3\0")),
        single("wire version 0", Hello { version: 0, ..good }),
        single("stale wire version 1", Hello { version: 1, ..good }),
        single("stale wire version 2", Hello { version: 2, ..good }),
        single("wire version 4", Hello { version: 4, ..good }),
        single("wire version 3 in little-endian order", Hello { version: 0x0300, ..good }),
        single("mode 2", Hello { mode: 2, ..good }),
        single("mode 255", Hello { mode: 255, ..good }),
        single("slot 0 in single mode", Hello { slot: 0, ..good }),
        single("slot 254 in single mode", Hello { slot: 254, ..good }),
        single("a cluster where a single server is expected", Hello::new(1, 0, NONCE)),
        cluster("a single server where a cluster is expected", 0, good),
        cluster("slot 5", 0, Hello::new(1, 5, NONCE)),
        cluster("slot 255 in a cluster", 0, Hello::new(1, 255, NONCE)),
        cluster("slot 1 at the address of slot 0", 0, Hello::new(1, 1, NONCE)),
        cluster("slot 0 at the address of slot 2", 2, Hello::new(1, 0, NONCE)),
        cluster("slot 3 of three", 2, Hello::new(1, 3, NONCE)),
        cut("one byte short, then closed", 27),
        cut("closed in the middle of the nonce", 20),
        cut("closed at once", 0),
    ];
    Topic::new("invalid-hello", cases)
}

/// A proof that the server refuses: `inputs` are the server's, `bytes` what arrives.
fn proof_case(note: &str, server: Server, inputs: &Inputs<'_>, bytes: &[u8]) -> Case {
    let case = Case::new(note, SPEC, "proof", bytes).at(server).fields(inputs.fields());
    case.refuses("proof")
}

/// Proofs and results.
pub(crate) fn proof() -> Topic {
    let hello = Hello::new(0, 255, NONCE);
    let single = Inputs { token: TOKEN, hello, fingerprint: single_fingerprint() };
    let cluster =
        Inputs { hello: Hello::new(1, 1, NONCE), fingerprint: cluster_fingerprint(), ..single };
    let mut cases = wrong_inputs(&single, &cluster);
    let good = single.proof();
    let altered = |change: fn(&mut Vec<u8>)| {
        let mut proof = good.clone();
        change(&mut proof);
        proof
    };
    cases.extend([
        proof_case("first bit flipped", Server::Single, &single, &altered(|p| p[0] ^= 0x80)),
        proof_case("last bit flipped", Server::Single, &single, &altered(|p| p[31] ^= 1)),
        proof_case("all zeros", Server::Single, &single, &[0; 32]),
        proof_case("the token itself", Server::Single, &single, TOKEN),
        proof_case("bytes reversed", Server::Single, &single, &altered(|p| p.reverse())),
        proof_case("plain hash of token and message", Server::Single, &single, &{
            let message = hello.proof_message(DOMAIN, &single.fingerprint);
            encode::sha256(&[TOKEN, &message].concat())
        }),
        proof_case("another domain: AUTH2", Server::Single, &single, &{
            let message = hello.proof_message(b"TCK/CLIENT/AUTH2", &single.fingerprint);
            encode::hmac(TOKEN, &message)
        }),
        proof_case("a proof for the nonce alone", Server::Single, &single, &{
            encode::hmac(TOKEN, &NONCE)
        }),
    ]);
    for result in [0x02, 0x30, 0x31, 0x80, 0xff] {
        let note = format!("result byte {result:02x}");
        cases.push(Case::new(note, SPEC, "result", &[result]).closes("proof"));
    }
    Topic::new("invalid-proof", cases)
}

/// Proofs made over something else than the server expects.
fn wrong_inputs(single: &Inputs<'_>, cluster: &Inputs<'_>) -> Vec<Case> {
    let hello = single.hello;
    let mut next_nonce = NONCE;
    next_nonce[15] ^= 1;
    let of =
        |note: &str, client: Inputs<'_>| proof_case(note, Server::Single, single, &client.proof());
    let in_cluster = |note: &str, client: Inputs<'_>| {
        proof_case(note, Server::Cluster(3), cluster, &client.proof())
    };
    let newline = [TOKEN, b"\n"].concat();
    vec![
        of("another token", Inputs { token: b"another-token-of-some-length", ..*single }),
        of("the empty token where one is required", Inputs { token: b"", ..*single }),
        of("the token with a newline", Inputs { token: &newline, ..*single }),
        of("the token in upper case", Inputs { token: &TOKEN.to_ascii_uppercase(), ..*single }),
        of("replay: the proof of another nonce", {
            Inputs { hello: Hello { nonce: next_nonce, ..hello }, ..*single }
        }),
        of("stale wire version 2 in the message", {
            Inputs { hello: Hello { version: 2, ..hello }, ..*single }
        }),
        of("mode 1 in the message", Inputs { hello: Hello { mode: 1, ..hello }, ..*single }),
        of("slot 0 in the message", Inputs { hello: Hello { slot: 0, ..hello }, ..*single }),
        of("a cluster's fingerprint in single mode", {
            Inputs { fingerprint: cluster_fingerprint(), ..*single }
        }),
        of("a fingerprint of zeros", Inputs { fingerprint: [0; 32], ..*single }),
        in_cluster("the single fingerprint in a cluster", {
            Inputs { fingerprint: single_fingerprint(), ..*cluster }
        }),
        in_cluster("the proof for another slot", {
            Inputs { hello: Hello { slot: 2, ..cluster.hello }, ..*cluster }
        }),
        in_cluster("the proof for single mode", *single),
    ]
}
