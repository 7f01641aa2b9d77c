//! The same over TLS. Mission S4.

use super::rig::Rig;
use crate::support::{Client, Stream, acquire, connect, eventually, id, is_ended, release};
use rustls::pki_types::ServerName;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};
use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;
use ticketing_wire_codec::Reply;

const TOKEN: &str = "a-token-of-this-test";
const VERSIONS: [&SupportedProtocolVersion; 2] = [&rustls::version::TLS12, &rustls::version::TLS13];

type TlsStream = StreamOwned<ClientConnection, TcpStream>;

impl Stream for TlsStream {
    fn socket(&self) -> &TcpStream {
        &self.sock
    }
}

/// A server with a certificate of its own.
struct TlsRig {
    rig: Rig,
    roots: Arc<RootCertStore>,
    _files: TempDir,
}

impl TlsRig {
    fn start() -> Self {
        let files = tempfile::tempdir().expect("a directory");
        let pair = rcgen::generate_simple_self_signed(["localhost".into()]).expect("a certificate");
        let write = |name: &str, pem: String| -> PathBuf {
            let path = files.path().join(name);
            std::fs::write(&path, pem).expect("written");
            path
        };
        let cert = write("cert.pem", pair.cert.pem());
        let key = write("key.pem", pair.signing_key.serialize_pem());
        let mut roots = RootCertStore::empty();
        roots.add(pair.cert.der().clone()).expect("a certificate");
        let paths = [cert.to_str().expect("text"), key.to_str().expect("text")];
        let rig = Rig::start(&["--token", TOKEN, "--tls-cert", paths[0], "--tls-key", paths[1]]);
        Self { rig, roots: Arc::new(roots), _files: files }
    }

    fn connect(&self, version: &'static SupportedProtocolVersion) -> TlsStream {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .expect("a known version")
            .with_root_certificates(Arc::clone(&self.roots))
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").expect("a name");
        let connection = ClientConnection::new(Arc::new(config), name).expect("a configuration");
        StreamOwned::new(connection, connect(self.rig.address))
    }

    fn open(&self, version: &'static SupportedProtocolVersion) -> Client {
        Client::over(self.connect(version), Some(TOKEN))
    }
}

#[test]
fn both_versions_carry_locks() {
    let tls = TlsRig::start();
    for version in VERSIONS {
        let (mut one, mut two) = (tls.open(version), tls.open(version));
        let token = one.take(1, "k", 60);
        two.send(&acquire(1, 60, 60, "k"));
        two.expect_silence();
        one.send(&release(2, token, "k"));
        assert_eq!(one.receive(), Reply::Released { request_id: id(2) });
        let Reply::Granted { token, .. } = two.receive() else { panic!("a grant") };
        two.send(&release(2, token, "k"));
        assert_eq!(two.receive(), Reply::Released { request_id: id(2) });
    }
    tls.rig.expect_empty();
}

#[test]
fn replies_of_many_records_arrive_whole() {
    let tls = TlsRig::start();
    for version in VERSIONS {
        let mut client = tls.open(version);
        client.take(1, version_key(version), 60);
        let count = 20_000;
        let frames: Vec<u8> =
            (1..=count).flat_map(|n| acquire(n, 0, 60, version_key(version))).collect();
        client.send(&frames);
        for request in 1..=count {
            assert_eq!(client.receive(), Reply::TimedOut { request_id: id(request) });
        }
    }
}

fn version_key(version: &SupportedProtocolVersion) -> &'static str {
    if version.version == rustls::ProtocolVersion::TLSv1_2 { "k12" } else { "k13" }
}

#[test]
fn a_broken_frame_ends_after_its_replies() {
    let tls = TlsRig::start();
    for version in VERSIONS {
        let mut client = tls.open(version);
        client.send(&[acquire(1, 0, 60, version_key(version)), b"nonsense".to_vec()].concat());
        assert!(matches!(client.receive(), Reply::Granted { .. }));
        client.expect_end();
    }
}

#[test]
fn waiters_of_a_lost_client_leave() {
    let tls = TlsRig::start();
    for version in VERSIONS {
        let key = version_key(version);
        let (mut holder, mut gone) = (tls.open(version), tls.open(version));
        let token = holder.take(1, key, 60);
        gone.send(&acquire(1, 60, 60, key));
        eventually("it waits", || tls.rig.counters().in_flight == 1);
        gone.reset();
        eventually("it left", || tls.rig.counters().in_flight == 0);
        holder.send(&release(2, token, key));
        assert_eq!(holder.receive(), Reply::Released { request_id: id(2) });
    }
}

#[test]
fn plain_and_broken_handshakes_end() {
    let tls = TlsRig::start();
    let mut plain = connect(tls.rig.address);
    plain.write_all(&[b'x'; 64]).expect("sent");
    assert!(is_ended(&mut plain, 64), "an alert at most");
    let mut silent = connect(tls.rig.address);
    assert!(is_ended(&mut silent, 0), "not even a hello before TLS");
    assert_eq!(tls.rig.counters().sessions, 0);
    tls.open(VERSIONS[0]).take(1, "k", 60);
}
