//! Every golden request and proof, over a real socket.

use super::rig::Rig;
use crate::support::{Client, acquire, connect, is_ended, read_hello, release, release_set};
use serde_json::Value;
use std::io::{Read, Write};
use ticketing_wire_codec::{
    Keys, Operation, Reply, RequestFrame, RequestKind, Step, Token, VERDICT_REFUSED, decode_request,
};

/// The cases of these files, with how many there must be.
fn cases(files: &[&str]) -> Vec<Value> {
    let mut all = Vec::new();
    for file in files {
        let path = format!("{}/../../vectors/{file}.json", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).expect("the vectors are there");
        let file: Value = serde_json::from_str(&text).expect("JSON");
        let cases = file["cases"].as_array().expect("cases");
        assert_eq!(file["case_count"].as_u64(), Some(cases.len() as u64));
        all.extend(cases.iter().cloned());
    }
    all
}

fn bytes(case: &Value, name: &str) -> Vec<u8> {
    let hex = case[name].as_str().unwrap_or_else(|| panic!("{name} in {case}"));
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex digits"))
        .collect()
}

/// Releases what a valid acquire has got.
fn give_back(client: &mut Client, frame: &RequestFrame<'_>, token: Token) {
    let Ok(Operation::Acquire { keys, .. }) = frame.operation else { panic!("an acquire") };
    let text = |key| std::str::from_utf8(key).expect("a checked key");
    match keys {
        Keys::One(key) => client.send(&release(1, token, text(key))),
        Keys::Set(set) => {
            let keys: Vec<_> = set.map(text).collect();
            client.send(&release_set(1, token, &keys));
        }
    }
    assert!(matches!(client.receive(), Reply::Released { .. } | Reply::ReleasedSet { .. }));
}

#[test]
fn valid_requests_are_answered_in_kind() {
    let rig = Rig::start(&[]);
    let mut client = Client::open(rig.address);
    let files =
        ["request-acquire", "request-acquire-set", "request-release", "request-release-set"];
    for case in cases(&files) {
        let sent = bytes(&case, "hex");
        let Ok(Step::Complete { value: frame, .. }) = decode_request(&sent) else {
            panic!("not a request: {case}");
        };
        client.send(&sent);
        let reply = client.receive();
        assert_eq!(reply.request_id(), Some(frame.request_id), "{case}");
        match (frame.kind, reply) {
            (RequestKind::Acquire, Reply::Granted { token, .. })
            | (RequestKind::AcquireSet, Reply::GrantedSet { token, .. }) => {
                give_back(&mut client, &frame, token);
            }
            (RequestKind::Release | RequestKind::ReleaseSet, Reply::NotHeld { .. }) => {}
            _ => panic!("{reply:?} to {case}"),
        }
    }
}

#[test]
fn invalid_requests_are_answered_or_end_their_connection() {
    let rig = Rig::start(&[]);
    let mut client = Client::open(rig.address);
    let mut is_closed = false;
    for case in cases(&["invalid-value-request", "invalid-frame-request", "order-of-checks"]) {
        if std::mem::take(&mut is_closed) {
            client = Client::open(rig.address);
        }
        client.send(&bytes(&case, "hex"));
        match case["how"].as_str() {
            Some("answer") => {
                let answer = client.receive();
                assert_eq!(answer.encode().as_bytes(), bytes(&case, "answer_hex"), "{case}");
            }
            Some("close") => {
                client.expect_end();
                is_closed = true;
            }
            _ => panic!("neither answer nor close: {case}"),
        }
    }
    // Whatever it was, it changed nothing and the server goes on.
    client = Client::open(rig.address);
    client.send(&acquire(1, 0, 1, "a"));
    assert!(matches!(client.receive(), Reply::Granted { .. }));
    assert_eq!(rig.counters().granted, 1);
}

#[test]
fn invalid_proofs_are_refused() {
    let rig = Rig::start(&["--token", "0123456789abcdef0123456789abcdef"]);
    let mut count = 0;
    for case in cases(&["invalid-proof"]) {
        if case["direction"] != "proof" || case["mode"] != "single" {
            continue;
        }
        let mut stream = connect(rig.address);
        read_hello(&mut stream).expect("a hello");
        stream.write_all(&bytes(&case, "hex")).expect("sent");
        let mut verdict = [0];
        stream.read_exact(&mut verdict).unwrap_or_else(|error| panic!("{error}: {case}"));
        assert_eq!(verdict, [VERDICT_REFUSED], "{case}");
        assert!(is_ended(&mut stream, 0), "{case}");
        count += 1;
    }
    assert!(count >= 10, "{count} cases ran");
    assert_eq!(rig.counters().sessions, 0);
}
