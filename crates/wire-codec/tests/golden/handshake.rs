//! Hellos, and the message under the proof.

use crate::load::{Case, cases};
use ticketing_wire_codec::{Hello, HelloFault, Mode, PROOF_MESSAGE_SIZE, Slot, proof_message};

fn expected_mode(case: &Case) -> Mode {
    match case.number("mode") {
        0 => Mode::Single,
        _ => Mode::Cluster { self_slot: Slot::new(case.byte("slot")).expect("a slot") },
    }
}

fn hello(case: &Case) -> Hello {
    let nonce = case.field_bytes("nonce_hex").try_into().expect("16 bytes");
    Hello { mode: expected_mode(case), nonce }
}

/// What a client dialled, as the case says.
fn dialled(case: &Case) -> Mode {
    match (case.mode.as_str(), case.expected_slot) {
        ("single", Some(255)) => Mode::Single,
        ("cluster", Some(slot)) => {
            assert!(slot < case.voter_count, "{}", case.id);
            Mode::Cluster { self_slot: Slot::new(slot).expect("a slot") }
        }
        other => panic!("{}: {other:?}", case.id),
    }
}

#[test]
fn hellos_decode_encode_and_are_expected() {
    for case in cases(&["hello"]) {
        let bytes = case.bytes().try_into().expect("28 bytes");
        assert_eq!(Hello::decode(&bytes), Ok(hello(&case)), "{}", case.id);
        assert_eq!(hello(&case).encode(), bytes, "{}", case.id);
        assert_eq!(hello(&case).mode, dialled(&case), "{}", case.id);
    }
}

#[test]
fn bad_hellos_are_rejected_or_not_the_expected_ones() {
    for case in cases(&["invalid-hello"]) {
        // A hello that ends early never becomes one.
        let Ok(bytes) = case.bytes().try_into() else {
            assert!(case.bytes().len() < 28, "{}", case.id);
            continue;
        };
        if let Ok(hello) = Hello::decode(&bytes) {
            assert_ne!(hello.mode, dialled(&case), "{}", case.id);
        }
    }
}

#[test]
fn a_hello_with_several_faults_reports_the_first_in_wire_order() {
    let mut bytes = [0xee; 28];
    assert_eq!(Hello::decode(&bytes), Err(HelloFault::Magic));
    bytes[..8].copy_from_slice(b"TCKCLI3\0");
    assert_eq!(Hello::decode(&bytes), Err(HelloFault::Version));
    bytes[8..10].copy_from_slice(&[0, 3]);
    assert_eq!(Hello::decode(&bytes), Err(HelloFault::Mode));
    bytes[10] = 1;
    assert_eq!(Hello::decode(&bytes), Err(HelloFault::Slot));
    bytes[11] = 4;
    assert!(Hello::decode(&bytes).is_ok());
}

#[test]
fn the_message_under_the_proof_is_the_vectors() {
    for case in cases(&["proof"]) {
        let fingerprint = case.field_bytes("fingerprint_hex").try_into().expect("32 bytes");
        let message = proof_message(&hello(&case), &fingerprint);
        assert_eq!(message.len(), PROOF_MESSAGE_SIZE);
        assert_eq!(message.as_slice(), case.field_bytes("message_hex"), "{}", case.id);
    }
}
