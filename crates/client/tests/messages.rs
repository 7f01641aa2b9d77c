//! What somebody reads whose command line does not get through: each names the thing and the
//! remedy, word for word.
#![cfg(all(target_os = "linux", feature = "cli"))]

mod support;

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use support::authority::Authority;
use support::process::{Act, Server};
use ticketing_test_ports::free_address;
use ticketing_wire_codec::limits::{HELLO_SIZE_BYTES, PROOF_SIZE_BYTES};
use ticketing_wire_codec::{ErrorCode, Reply};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;

/// More than any machine needs.
const TRIES_MAX: u32 = 20;

/// Exit code and message of `ticketing lock` with these settings, the address left out.
async fn failure(address: impl ToString, flags: &[&str], variables: &[(&str, &str)]) -> String {
    let address = address.to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ticketing"));
    command.args(["lock", "k", "--wait", "3s"]).args(flags).args(["--", "echo", "ran"]);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("TICKETING_ADDRESSES", &address);
    command.envs(variables.iter().copied());
    let output = spawn_blocking(move || command.output()).await;
    let output = output.expect("no panic").expect("it runs");
    assert!(output.stdout.is_empty(), "{output:?}");
    let message = String::from_utf8(output.stderr).expect("text").replace(&address, "ADDRESS");
    format!("{}: {message}", output.status.code().expect("no signal"))
}

fn refuse(request: &support::Request) -> Act {
    Act::Reply(Reply::Refused { request_id: request.id, code: ErrorCode::NotActive })
}

/// A peer that says something of its own to everybody, and closes.
async fn stranger(words: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(words).await;
            // A proof, if one comes.
            if words.len() == HELLO_SIZE_BYTES {
                let _ = stream.read_exact(&mut [0; PROOF_SIZE_BYTES]).await;
            }
        }
    });
    address
}

/// Checks exit code and message. On a machine that does much else nothing may have happened before
/// the wait was over; then it is tried again.
async fn fails(address: SocketAddr, flags: &[&str], variables: &[(&str, &str)], expected: &str) {
    let expected = format!("{expected}\n");
    let mut message = failure(address, flags, variables).await;
    for _ in 0..TRIES_MAX {
        if message == expected || !message.contains("no answer yet") {
            break;
        }
        message = failure(address, flags, variables).await;
    }
    assert_eq!(message, expected);
}

/// The same for a server that cannot be reached, and why.
async fn unreachable(address: SocketAddr, flags: &[&str], reason: &str) {
    let expected = format!("69: ticketing: no server could be reached: ADDRESS: {reason}");
    fails(address, flags, &[], &expected).await;
}

#[tokio::test]
async fn nobody_listens() {
    let address = free_address(Ipv4Addr::LOCALHOST).expect("a free port");
    let reason = "Connection refused (os error 111); check that the server runs there";
    unreachable(address, &[], reason).await;
}

#[tokio::test]
async fn the_address_is_none_to_connect_to() {
    let token = [("TICKETING_TOKEN", "a token that nobody asks for")];
    let message = failure("255.255.255.255:1", &[], &token).await;
    // The reason depends on the machine's network.
    let start = "69: ticketing: no server could be reached: ADDRESS: ";
    assert!(message.starts_with(start), "{message}");
    assert!(message.ends_with("; check the address\n"), "{message}");
}

#[tokio::test]
async fn the_token_is_wrong() {
    let server = Server::start(refuse).await;
    let token = [("TICKETING_TOKEN", "not what this server accepts")];
    let refused = "77: ticketing: the server refused the token, or its cluster has another \
                   fingerprint; give the client those that the server accepts";
    fails(server.address, &[], &token, refused).await;
    let short = "64: ticketing: TICKETING_TOKEN: the token has 5 bytes, fewer than 16; use a \
                 longer one, such as 32 random bytes in hex";
    fails(server.address, &[], &[("TICKETING_TOKEN", "short")], short).await;
}

#[tokio::test]
async fn a_restarted_server_waits_for_its_predecessors_leases() {
    let server = Server::start(refuse).await;
    let waiting = "69: ticketing: no server grants now: a restarted single server waits until its \
                   predecessor's leases are over, a cluster needs a majority of its nodes; wait \
                   longer or try again";
    fails(server.address, &[], &[], waiting).await;
}

#[tokio::test]
async fn the_peer_is_something_else() {
    let silent = stranger(b"").await;
    let other = stranger(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    let newer = stranger(b"TCKCLI3\0\0\x04\0\xff0123456789abcdef").await;
    let cluster = stranger(b"TCKCLI3\0\0\x03\x01\x020123456789abcdef").await;
    let full = stranger(b"TCKCLI3\0\0\x03\0\xff0123456789abcdef").await;
    tokio::join!(
        unreachable(
            silent,
            &[],
            "handshake: the peer closed the connection without a word; check that both sides use \
             TLS or neither"
        ),
        unreachable(
            other,
            &[],
            "handshake: not a Ticketing server (wrong magic); check the address, and that both \
             sides use TLS or neither"
        ),
        unreachable(
            newer,
            &[],
            "handshake: server speaks another wire version; use a client and a server of the \
             same protocol version"
        ),
        unreachable(
            cluster,
            &[],
            "handshake: expected a single server, found slot 2 of a cluster; list the addresses \
             of a cluster in slot order, with its fingerprint"
        ),
        unreachable(
            full,
            &[],
            "handshake: the server closed the connection without a verdict; it has as many \
             connections as it may have, or is stopping: look at its log"
        ),
    );
}

#[tokio::test]
async fn tls_does_not_come_about() {
    let (authority, other) = (Authority::new("ours"), Authority::new("theirs"));
    let (file, other_file) = (authority.file(), other.file());
    let with_ours = ["--tls-ca", file.to_str().expect("text")];
    let with_theirs = ["--tls-ca", other_file.to_str().expect("text")];
    let plain = Server::start(refuse).await.address;
    let version = &rustls::version::TLS13;
    let right = authority.server("127.0.0.1", version).await;
    let misnamed = authority.server("other.example", version).await;
    let own = authority.server_with_its_own(version).await;
    tokio::join!(
        unreachable(
            plain,
            &with_ours,
            "TLS: received corrupt message of type InvalidContentType; check that the server uses \
             TLS"
        ),
        unreachable(
            right,
            &[],
            "no answer yet; check the address, and that both sides use TLS or neither"
        ),
        unreachable(
            right,
            &with_theirs,
            "TLS: invalid peer certificate: UnknownIssuer; give the certificate of the authority \
             that signed the server's"
        ),
        unreachable(
            misnamed,
            &with_ours,
            "TLS: invalid peer certificate: certificate not valid for name \"127.0.0.1\"; \
             certificate is only valid for DnsName(\"other.example\"); connect by a name in the \
             certificate, or set the TLS server name"
        ),
        unreachable(
            own,
            &with_ours,
            "TLS: invalid peer certificate: Other(OtherError(CaUsedAsEndEntity)); the server \
             shows an authority's certificate: make one with basicConstraints=CA:FALSE"
        ),
    );
    let missing = "64: ticketing: TLS CA file /no/such.pem: I/O error: No such file or directory \
                   (os error 2); give a PEM file of CA certificates";
    fails(right, &["--tls-ca", "/no/such.pem"], &[], missing).await;
}
