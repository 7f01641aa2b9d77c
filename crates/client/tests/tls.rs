//! TLS 1.2 and 1.3: the right authority and name are accepted, everything else is refused.

mod support;

use rustls::SupportedProtocolVersion;
use std::time::Duration;
use support::authority::Authority;
use ticketing_client::{AcquireOptions, Broker, BrokerBuilder, Error, Tls};

/// Far more than a handshake takes, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);

fn versions() -> [&'static SupportedProtocolVersion; 2] {
    [&rustls::version::TLS12, &rustls::version::TLS13]
}

async fn accepted(builder: BrokerBuilder) {
    let broker = builder.build().expect("valid settings");
    broker.ready(PATIENCE).await.expect("accepted");
    let ticket = broker.acquire("k", AcquireOptions::new()).await.expect("granted");
    ticket.release().await.expect("released");
    broker.close().await;
}

async fn refused(builder: BrokerBuilder, expected: &str) {
    let broker = builder.build().expect("valid settings");
    let mut last = String::new();
    // A handshake has to have failed, however slow the machine is.
    for _ in 0..100 {
        match broker.ready(Duration::from_millis(100)).await {
            Err(Error::NotConnected { reason }) if reason.contains(expected) => return,
            Err(Error::NotConnected { reason }) => last = reason,
            other => panic!("{other:?}"),
        }
    }
    panic!("refused for another reason: {last}");
}

#[tokio::test]
async fn the_right_authority_and_name_are_accepted() {
    let authority = Authority::new("ours");
    for version in versions() {
        let address = authority.server("127.0.0.1", version).await;
        let tls = Tls::CaFile(authority.file());
        accepted(Broker::builder().address(address.to_string()).tls(tls)).await;
    }
}

#[tokio::test]
async fn a_wrong_authority_is_refused() {
    let authority = Authority::new("ours");
    // Taking its name does not make it the authority.
    for (name, problem) in [("theirs", "UnknownIssuer"), ("ours", "BadSignature")] {
        let stranger = Authority::new(name);
        for version in versions() {
            let address = authority.server("127.0.0.1", version).await;
            let tls = Tls::CaFile(stranger.file());
            refused(Broker::builder().address(address.to_string()).tls(tls), problem).await;
        }
    }
}

#[tokio::test]
async fn a_wrong_host_name_is_refused() {
    let authority = Authority::new("ours");
    for version in versions() {
        let address = authority.server("other.example", version).await;
        let builder =
            Broker::builder().address(address.to_string()).tls(Tls::CaFile(authority.file()));
        refused(builder.clone(), "not valid for name").await;
        refused(builder.clone().tls_server_name("another.example"), "not valid for name").await;
        accepted(builder.tls_server_name("other.example")).await;
    }
}

#[tokio::test]
async fn any_certificate_is_accepted_only_when_asked_for_by_that_name() {
    let authority = Authority::new("ours");
    for version in versions() {
        let address = authority.server("other.example", version).await;
        let builder = Broker::builder().address(address.to_string());
        accepted(builder.tls(Tls::InsecureAcceptAnyCertificate)).await;
    }
}

#[tokio::test]
async fn a_server_without_tls_is_refused() {
    let server = support::process::Server::start(|_| support::process::Act::Grant(1)).await;
    let authority = Authority::new("ours");
    let builder =
        Broker::builder().address(server.address.to_string()).tls(Tls::CaFile(authority.file()));
    refused(builder, "TLS").await;
    assert_eq!((server.opcodes().as_str(), server.requests()), ("", vec![]));
}

/// In a process of its own, because the variable that stands for the system's roots is global.
#[cfg(all(unix, feature = "cli"))]
#[tokio::test]
async fn the_systems_authorities_are_used_when_asked_for() {
    let (authority, stranger) = (Authority::new("ours"), Authority::new("theirs"));
    let address = authority.server("127.0.0.1", &rustls::version::TLS13).await;
    for (roots, wait, expected) in [(&authority, "60s", 0), (&stranger, "2s", 69)] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ticketing"));
        command.args(["lock", "k", "--wait", wait, "--lease", "100s", "--tls", "system"]);
        command.args(["--", "true"]);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("SSL_CERT_FILE", roots.file());
        command.env("TICKETING_ADDRESSES", address.to_string());
        let output = tokio::task::spawn_blocking(move || command.output()).await;
        let output = output.expect("no panic").expect("it runs");
        assert_eq!(output.status.code(), Some(expected), "{output:?}");
    }
}
