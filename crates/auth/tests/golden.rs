//! Replays the proof vectors: what is accepted, and what is refused.

use serde_json::Value;
use std::path::Path;
use ticketing_auth::{ClientToken, PROOF_SIZE_BYTES, SINGLE_FINGERPRINT, TokenSet};

fn unhex(text: &Value) -> Vec<u8> {
    let text = text.as_str().expect("a hex text");
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex digits"))
        .collect()
}

fn cases(topic: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors").join(topic);
    let text = std::fs::read_to_string(path).expect("a vector file");
    let file: Value = serde_json::from_str(&text).expect("JSON");
    let cases = file["cases"].as_array().expect("cases").clone();
    assert_eq!(file["case_count"], cases.len());
    cases.into_iter().filter(|case| case["direction"] == "proof").collect()
}

fn proof(case: &Value) -> [u8; PROOF_SIZE_BYTES] {
    unhex(&case["hex"]).try_into().expect("a proof of 32 bytes")
}

#[test]
fn clients_prove_the_golden_bytes() {
    for case in cases("proof.json") {
        let token = match unhex(&case["fields"]["token_hex"]) {
            bytes if bytes.is_empty() => ClientToken::none(),
            bytes => ClientToken::new(&bytes).expect("a valid token"),
        };
        let message = unhex(&case["fields"]["message_hex"]);
        assert_eq!(token.prove(&message), proof(&case), "{}", case["id"]);
    }
}

#[test]
fn servers_refuse_the_golden_forgeries() {
    for case in cases("invalid-proof.json") {
        let token = String::from_utf8(unhex(&case["fields"]["token_hex"])).expect("text");
        let set = TokenSet::from_value("token", &token).expect("a valid token");
        let message = unhex(&case["fields"]["message_hex"]);
        assert!(set.verify(&message, &set.newest().prove(&message)), "{}", case["id"]);
        assert!(!set.verify(&message, &proof(&case)), "{}", case["id"]);
    }
}

#[test]
fn the_single_fingerprint_is_the_golden_one() {
    let single = cases("proof.json").into_iter().filter(|case| case["mode"] == "single");
    let mut count = 0;
    for case in single {
        assert_eq!(unhex(&case["fields"]["fingerprint_hex"]), SINGLE_FINGERPRINT);
        count += 1;
    }
    assert!(count > 0);
}
