//! Any bytes from a node's peers: hellos, messages, snapshots. Nothing stops the node, and what it
//! sends its peers can read.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ticketing_server::exercise_peer(bytes));
