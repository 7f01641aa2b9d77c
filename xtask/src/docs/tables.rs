//! Tables of the handbook, from the constants.

use std::fmt::Write;
use ticketing_auth::{TOKEN_COUNT_MAX, TOKEN_SIZE_BYTES_MAX, TOKEN_SIZE_BYTES_MIN};
use ticketing_wire_codec::ErrorCode;
use ticketing_wire_codec::limits::*;

/// `E` codes: number, name, requests, meaning.
pub(super) fn error_codes() -> String {
    let mut table = String::from("| code | name | answers | when |\n|---|---|---|---|\n");
    for code in ErrorCode::ALL {
        let answers = match code.request_opcodes() {
            "ARSG" => "all".to_owned(),
            opcodes => opcodes.chars().map(|c| format!("`{c}`")).collect::<Vec<_>>().join(" "),
        };
        let (number, name, text) = (*code as u8, code.name(), code.text());
        writeln!(table, "| {number} | {name} | {answers} | {text} |").expect("a string grows");
    }
    table
}

/// Every bound of the protocol.
pub(super) fn limits() -> String {
    let row = |name: &str, unit: &str, least: usize, most: usize| {
        format!("| {name} | {unit} | {least} | {most} |\n")
    };
    let exact = |name: &str, size: usize| row(name, "bytes", size, size);
    [
        "| what | unit | least | most |\n|---|---|---|---|\n".to_owned(),
        row("key", "bytes", KEY_SIZE_BYTES_MIN, KEY_SIZE_BYTES_MAX),
        row("set", "keys", SET_KEY_COUNT_MIN, SET_KEY_COUNT_MAX),
        row("wait", "seconds", 0, WAIT_SECONDS_MAX.into()),
        row("lease", "seconds", LEASE_SECONDS_MIN.into(), LEASE_SECONDS_MAX.into()),
        row("client token", "bytes", TOKEN_SIZE_BYTES_MIN, TOKEN_SIZE_BYTES_MAX),
        row("client tokens accepted at once", "tokens", 1, TOKEN_COUNT_MAX),
        row("slot", "number", 0, SLOT_MAX.into()),
        row("body of `A`", "bytes", ACQUIRE_FIXED_SIZE_BYTES, ACQUIRE_BODY_SIZE_BYTES_MAX),
        row("body of `R`", "bytes", RELEASE_FIXED_SIZE_BYTES, RELEASE_BODY_SIZE_BYTES_MAX),
        row("body of `S`", "bytes", ACQUIRE_SET_FIXED_SIZE_BYTES, {
            ACQUIRE_SET_BODY_SIZE_BYTES_MAX
        }),
        row("body of `G`", "bytes", RELEASE_SET_FIXED_SIZE_BYTES, {
            RELEASE_SET_BODY_SIZE_BYTES_MAX
        }),
        exact("header of a frame", HEAD_SIZE_BYTES),
        exact("hello", HELLO_SIZE_BYTES),
        exact("nonce", NONCE_SIZE_BYTES),
        exact("proof", PROOF_SIZE_BYTES),
        exact("fingerprint", FINGERPRINT_SIZE_BYTES),
    ]
    .concat()
}
