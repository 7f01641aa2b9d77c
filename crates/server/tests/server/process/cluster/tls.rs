//! TLS between nodes. Mission C10: certificates of one authority, each naming its node's host.

use super::rig::{Cluster, NODE_COUNT};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::fs;
use tempfile::TempDir;

/// The host of every peer address of the tests.
const HOST: &str = "127.0.0.1";

/// An authority, and the certificates that it signs.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    files: TempDir,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        let files = tempfile::tempdir().expect("a directory");
        fs::write(files.path().join("ca.pem"), issuer.pem()).expect("written");
        Self { issuer, files }
    }

    fn path(&self, name: &str) -> String {
        self.files.path().join(name).to_str().expect("text").to_owned()
    }

    /// The settings of a node that trusts this authority and shows a certificate for `host` that
    /// `signer` signed.
    fn settings(&self, signer: &Self, host: &str) -> Settings {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new([host.to_owned()]).expect("a name");
        let cert = params.signed_by(&key, &signer.issuer).expect("signed");
        // One file more each time: every node has its own.
        let number = fs::read_dir(self.files.path()).expect("readable").count();
        let (cert_path, key_path) =
            (self.path(&format!("cert-{number}.pem")), self.path(&format!("key-{number}.pem")));
        fs::write(&cert_path, cert.pem()).expect("written");
        fs::write(&key_path, key.serialize_pem()).expect("written");
        Settings([cert_path, key_path, self.path("ca.pem")])
    }
}

/// Paths of the certificate, its key, and the authority.
struct Settings([String; 3]);

impl Settings {
    fn variables(&self) -> [(&str, &str); 3] {
        let names = ["TICKETING_PEER_TLS_CERT", "TICKETING_PEER_TLS_KEY", "TICKETING_PEER_TLS_CA"];
        std::array::from_fn(|at| (names[at], self.0[at].as_str()))
    }
}

/// The first two nodes trust each other; the third is started with other settings.
fn with_odd_third(third: &[(&str, &str)], authority: &Authority) -> Cluster {
    let mut cluster = Cluster::new();
    for slot in 0..NODE_COUNT - 1 {
        cluster.start(slot, &authority.settings(authority, HOST).variables());
    }
    cluster.start(NODE_COUNT - 1, third);
    cluster
}

#[test]
fn nodes_of_one_authority_form_a_cluster_and_serve() {
    let authority = Authority::new("one");
    let settings = authority.settings(&authority, HOST);
    let cluster = with_odd_third(&settings.variables(), &authority);
    let (_, mut leader) = cluster.leader();
    leader.take(2, "k", 60);
    for slot in 0..NODE_COUNT {
        cluster.ready(slot);
    }
}

#[test]
fn a_replacement_receives_its_snapshot_over_tls() {
    let authority = Authority::new("one");
    let settings = authority.settings(&authority, HOST);
    let mut cluster = with_odd_third(&settings.variables(), &authority);
    let (leader, mut client) = cluster.leader();
    client.take(2, "k", 250);
    let slot = (leader + 1) % NODE_COUNT;
    cluster.ready(slot);
    // The old process is killed, the new one knows nothing.
    cluster.start(slot, &settings.variables());
    let lines = cluster.ready(slot);
    let says = |line: &str| lines.iter().any(|found| found == line);
    assert!(says("generation 2") && !says("locks 0"), "{lines:#?}");
    cluster.wait_for_log(slot, &["snapshot received"]);
}

#[test]
fn a_certificate_of_another_authority_is_refused_on_both_sides() {
    let authority = Authority::new("one");
    // An authority that was made anew often keeps its name.
    for name in ["two", "one"] {
        let settings = authority.settings(&Authority::new(name), HOST);
        let cluster = with_odd_third(&settings.variables(), &authority);
        // The two dial it and do not take its certificate; it dials them and is told so.
        let words = ["no link", "of another authority (compare TICKETING_PEER_TLS_CA)"];
        cluster.wait_for_log(0, &words);
        cluster.wait_for_log(2, &["no link", "refuses this node's certificate"]);
        // And they say who was turned away at their own doors.
        cluster.wait_for_log(1, &["peer refused", "of another authority"]);
        assert!(!cluster.log(2).contains("link open"), "{}", cluster.log(2));
    }
}

#[test]
fn a_certificate_for_another_host_is_refused() {
    let authority = Authority::new("one");
    let settings = authority.settings(&authority, "elsewhere.example");
    let cluster = with_odd_third(&settings.variables(), &authority);
    let words = ["no link", "names another host (compare its peer address in"];
    for slot in 0..NODE_COUNT - 1 {
        cluster.wait_for_log(slot, &words);
    }
    // All three have to be in touch for a beginning.
    assert!(!cluster.log(0).contains("leader slot"), "{}", cluster.log(0));
}

#[test]
fn a_node_without_tls_among_others_is_told_what_to_compare() {
    let authority = Authority::new("one");
    let cluster = with_odd_third(&[], &authority);
    for slot in [0, 2] {
        cluster.wait_for_log(slot, &["no link", "TICKETING_PEER_TLS_CERT set on every node"]);
    }
}
