//! A state directory that is lost while the node waits for the others.

use super::rig::{Cluster, NODE_COUNT};

#[test]
fn a_node_that_cannot_note_its_membership_says_so_and_ends() {
    let mut cluster = Cluster::new();
    let directory = cluster.path_of("state");
    let settings = [("TICKETING_STATE_DIR", directory.to_str().expect("text"))];
    cluster.start(0, &settings);
    std::fs::remove_dir_all(&directory).expect("made at the start");
    for slot in 1..NODE_COUNT {
        cluster.start(slot, &[]);
    }
    cluster.wait_for_log(0, &["ERROR", "cannot note the membership in TICKETING_STATE_DIR"]);
    cluster.wait_for_log(0, &["a member without its mark must not take part"]);
    assert!(!cluster.end_of(0).success());
}
