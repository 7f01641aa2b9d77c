//! What is refused at start, and the start line.

use super::rig::{Server, fail};
use crate::support::{Client, connect, eventually};
use std::fs;
use std::thread::available_parallelism;

const TOKEN: &str = "0123456789abcdef";

#[test]
fn the_start_line_says_where_and_how() {
    let server = Server::start(&[]);
    let address = server.address();
    assert_ne!(address.port(), 0);
    assert_eq!(
        server.line,
        format!("ticketing-server listening on {address} mode=single auth=off tls=off\n")
    );
    Client::open(address).take(1, "k", 60);
}

#[test]
fn several_addresses_of_both_families_are_served() {
    let listen = "127.0.0.1:0,[::1]:0,127.0.0.1:0";
    let server = Server::start(&["--listen", listen, "--token", TOKEN]);
    assert_eq!(server.addresses.len(), 3);
    assert!(server.addresses[1].is_ipv6());
    assert!(server.line.ends_with(" mode=single auth=on tls=off\n"), "{}", server.line);
    for (number, address) in (1..).zip(&server.addresses) {
        Client::over(connect(*address), Some(TOKEN)).take(1, &format!("k{number}"), 60);
    }
}

#[test]
fn as_many_threads_serve_as_the_setting_or_the_processors_say() {
    let processors = available_parallelism().expect("a count").get();
    let cases: [(&[&str], usize); 4] = [
        (&["--threads", "1"], 1),
        (&["--threads", "2"], 2),
        (&["--threads", "5"], 5),
        (&[], (processors - 1).max(1)),
    ];
    for (arguments, count) in cases {
        let server = Server::start(arguments);
        Client::open(server.address()).take(1, "k", 60);
        // One is the process's first thread, which nobody named.
        let named = if count == 1 { 0 } else { count };
        // A thread names itself when it first runs.
        eventually(&format!("{arguments:?}"), || server.thread_count("io") == named);
    }
}

/// Variables, and parts of the message that refuses them.
type Case<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);

#[test]
fn starts_that_would_surprise_are_refused_with_name_and_remedy() {
    let files = tempfile::tempdir().expect("a directory");
    let path = |name: &str, content: &str| {
        let path = files.path().join(name);
        fs::write(&path, content).expect("written");
        path.to_str().expect("text").to_owned()
    };
    let missing = files.path().join("missing").to_str().expect("text").to_owned();
    let short = path("short", "short\n");
    let junk = path("junk.pem", "not a certificate");
    let pair = rcgen::generate_simple_self_signed(["a".into()]).expect("a certificate");
    let other = rcgen::generate_simple_self_signed(["b".into()]).expect("a certificate");
    let cert = path("cert.pem", &pair.cert.pem());
    let other_key = path("key.pem", &other.signing_key.serialize_pem());
    let taken = Server::start(&[]);
    let taken = taken.address().to_string();

    let cases: &[Case<'_>] = &[
        (&[("TICKETING_LISEN", "127.0.0.1:0")], &["TICKETING_LISEN", "no such setting"]),
        (&[("TICKETING_MAX_KEYS", "0")], &["--max-keys", "1..=", "TICKETING_MAX_KEYS"]),
        (&[("TICKETING_THREADS", "0")], &["--threads", "TICKETING_THREADS"]),
        (&[("TICKETING_MAX_IN_FLIGHT", "a")], &["--max-in-flight", "TICKETING_MAX_IN_FLIGHT"]),
        (&[("TICKETING_LISTEN", "localhost:1")], &["TICKETING_LISTEN", "write IP:PORT"]),
        (&[("TICKETING_LISTEN", "0.0.0.0:0")], &["TICKETING_LISTEN", "set TICKETING_TOKEN_FILE"]),
        (&[("TICKETING_LISTEN", "[::]:0")], &["TICKETING_LISTEN", "set TICKETING_TOKEN_FILE"]),
        (&[("TICKETING_LISTEN", &taken)], &["TICKETING_LISTEN", &taken, "take another port"]),
        (
            &[("TICKETING_LISTEN", "192.0.2.1:0"), ("TICKETING_TOKEN", TOKEN)],
            &["check the address"],
        ),
        (&[("TICKETING_TOKEN", "short")], &["TICKETING_TOKEN", "use a longer one"]),
        (&[("TICKETING_TOKEN", "")], &["TICKETING_TOKEN", "empty"]),
        (&[("TICKETING_TOKEN_FILE", &missing)], &[&missing, "check the path"]),
        (&[("TICKETING_TOKEN_FILE", &short)], &[&short, "line 1", "use a longer one"]),
        (
            &[("TICKETING_TLS_CERT", &missing), ("TICKETING_TLS_KEY", &other_key)],
            &["TICKETING_TLS_CERT", &missing, "give a readable PEM file"],
        ),
        (
            &[("TICKETING_TLS_CERT", &junk), ("TICKETING_TLS_KEY", &other_key)],
            &["TICKETING_TLS_CERT", &junk, "no certificate in it"],
        ),
        (
            &[("TICKETING_TLS_CERT", &cert), ("TICKETING_TLS_KEY", &junk)],
            &["TICKETING_TLS_KEY", &junk, "private key"],
        ),
        (
            &[("TICKETING_TLS_CERT", &cert), ("TICKETING_TLS_KEY", &other_key)],
            &["TICKETING_TLS_KEY", &other_key, "key of the certificate"],
        ),
        (&[("TICKETING_STATE_DIR", &junk)], &["TICKETING_STATE_DIR", &junk, "give a directory"]),
        (&[("TICKETING_LOG", "a=b=c")], &["TICKETING_LOG", "write a level such as info"]),
    ];
    refuse(cases);
}

#[test]
fn settings_that_do_not_fit_together_are_refused() {
    refuse(&[
        (&[("TICKETING_TLS_CERT", "a")], &["--tls-key"]),
        (&[("TICKETING_TLS_KEY", "a")], &["--tls-cert"]),
        (&[("TICKETING_TLS_CA", "a")], &["TICKETING_TLS_CA", "set TICKETING_TLS_CERT and"]),
        (&[("TICKETING_TLS", "system")], &["TICKETING_TLS:", "set TICKETING_TLS_CERT and"]),
        (
            &[("TICKETING_TOKEN", TOKEN), ("TICKETING_TOKEN_FILE", "a")],
            &["Give one of them", "TICKETING_TOKEN.", "TICKETING_TOKEN_FILE."],
        ),
        (
            &[("TICKETING_PEER_TOKEN", TOKEN), ("TICKETING_PEER_TOKEN_FILE", "a")],
            &["Give one of them", "TICKETING_PEER_TOKEN.", "TICKETING_PEER_TOKEN_FILE."],
        ),
        (&[("TICKETING_PEER_TLS_CERT", "a")], &["--peer-tls-key", "--peer-tls-ca"]),
        (
            &[
                ("TICKETING_PEER_TLS_CERT", "a"),
                ("TICKETING_PEER_TLS_KEY", "a"),
                ("TICKETING_PEER_TLS_CA", "a"),
            ],
            &["TICKETING_CLUSTER_ID: not set, but other cluster settings are"],
        ),
    ]);
}

fn refuse(cases: &[Case<'_>]) {
    for (environment, parts) in cases {
        let mut environment = environment.to_vec();
        if !environment.iter().any(|(name, _)| *name == "TICKETING_LISTEN") {
            environment.push(("TICKETING_LISTEN", "127.0.0.1:0"));
        }
        let failure = fail(&[], &environment);
        assert!(!failure.status.success(), "{environment:?}");
        for part in *parts {
            assert!(failure.message.contains(part), "{part:?} not in {}", failure.message);
        }
        assert!(!failure.message.contains("panicked"), "{}", failure.message);
    }
}
