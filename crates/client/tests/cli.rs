//! The `ticketing` command line as a process, against scripted servers.
#![cfg(all(unix, feature = "cli"))]

#[path = "support/command.rs"]
mod command;
mod support;

use command::{PATIENCE, code, end, output, program, signal, started, stderr, stdout, ticketing};
use std::io::Write;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use support::Request;
use support::process::{Act, Server};
use ticketing_test_ports::free_address;
use ticketing_wire_codec::{ErrorCode, Reply};

fn grant(_: &Request) -> Act {
    Act::Grant(41)
}

#[tokio::test]
async fn the_command_runs_with_its_input_output_variables_and_exit_code() {
    let server = Server::start(grant).await;
    #[expect(clippy::disallowed_methods, reason = "compared with what the process computes")]
    let unix_millis = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after").as_millis();
    let script = "cat; echo $TICKETING_FENCING_TOKEN $TICKETING_VALID_BEFORE; echo e >&2; exit 7";
    let arguments = ["lock", "k", "--wait", "5s", "--lease", "60s", "--", "sh", "-c", script];
    let before = unix_millis();
    let mut child =
        ticketing(server.address, &arguments).stdin(Stdio::piped()).spawn().expect("it runs");
    child.stdin.take().expect("piped").write_all(b"input\n").expect("written");
    let output = end(child).await;
    assert_eq!((code(&output), stderr(&output)), (7, "e\n"));
    let (input, line) = stdout(&output).split_once('\n').expect("two lines");
    assert_eq!(input, "input");
    let (token, valid_before) = line.trim_end().split_once(' ').expect("two words");
    assert_eq!(token, "41");
    let valid_before: u128 = valid_before.parse().expect("a number");
    assert!((before..unix_millis() + 60_000).contains(&valid_before), "{valid_before}");
    assert!(valid_before >= before + 50_000, "{valid_before} is too early");

    let requests = server.requests();
    assert_eq!(server.opcodes(), "AR");
    assert_eq!((&*requests[0].keys, requests[0].terms), (&["k".to_owned()][..], Some((5, 60))));
    assert_eq!((&*requests[1].keys, requests[1].token), (&["k".to_owned()][..], Some(41)));
}

#[tokio::test]
async fn several_keys_are_one_lock() {
    let server = Server::start(grant).await;
    let output = output(ticketing(server.address, &["lock", "b", "a", "--", "true"])).await;
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(server.opcodes(), "SG");
    assert_eq!(server.requests()[0].keys, ["a", "b"]);
    assert_eq!(server.requests()[0].terms, Some((30, 60)));
}

#[tokio::test]
async fn a_command_ended_by_a_signal_gives_128_and_its_number() {
    let server = Server::start(grant).await;
    let arguments = ["lock", "k", "--", "sh", "-c", "kill -9 $$"];
    assert_eq!(code(&output(ticketing(server.address, &arguments)).await), 128 + 9);
    assert_eq!(server.opcodes(), "AR");
}

#[tokio::test]
async fn without_the_lock_the_command_does_not_run() {
    type Script = fn(&Request) -> Act;
    let cases: [(Script, i32, &str); 5] = [
        (|r| Act::Reply(Reply::TimedOut { request_id: r.id }), 75, "within the wait"),
        (|r| Act::Reply(Reply::Busy { request_id: r.id }), 75, "at capacity"),
        (|r| Act::Reply(Reply::Indeterminate { request_id: r.id }), 76, "not answered"),
        (|_| Act::Cut, 76, "not answered"),
        (
            |r| Act::Reply(Reply::Refused { request_id: r.id, code: ErrorCode::BadKey }),
            65,
            "BadKey",
        ),
    ];
    for (script, expected, text) in cases {
        let server = Server::start(script).await;
        let arguments = ["lock", "k", "--wait", "5s", "--", "echo", "ran"];
        let output = output(ticketing(server.address, &arguments)).await;
        assert_eq!((code(&output), stdout(&output)), (expected, ""), "{output:?}");
        assert!(stderr(&output).starts_with("ticketing: "), "{output:?}");
        assert!(stderr(&output).contains(text), "{output:?}");
        assert_eq!(server.opcodes(), "A");
    }
}

#[tokio::test]
async fn a_grant_too_late_for_the_budget_is_released_without_running() {
    // The budget leaves 10 ms of the lease for the way to the server and back.
    let server = Server::start(|request| {
        if request.kind.is_acquire() {
            std::thread::sleep(Duration::from_millis(50));
        }
        Act::Grant(41)
    })
    .await;
    let arguments = ["lock", "k", "--lease", "2s", "--grace", "0s", "--budget", "1890ms", "--"];
    let mut command = ticketing(server.address, &arguments);
    command.args(["echo", "ran"]);
    let output = output(command).await;
    assert_eq!((code(&output), stdout(&output)), (75, ""), "{output:?}");
    assert_eq!(server.opcodes(), "AR");
}

#[tokio::test]
async fn servers_out_of_reach_and_tokens_refused_have_their_own_codes() {
    let address = free_address(Ipv4Addr::LOCALHOST).expect("a free port");
    let arguments = ["lock", "k", "--wait", "1s", "--", "echo", "ran"];
    let unreachable = output(ticketing(address, &arguments)).await;
    assert_eq!((code(&unreachable), stdout(&unreachable)), (69, ""), "{unreachable:?}");
    assert!(stderr(&unreachable).contains(&address.to_string()), "{unreachable:?}");

    let server = Server::start(grant).await;
    let mut command = ticketing(server.address, &arguments);
    command.env("TICKETING_TOKEN", "not what this server accepts");
    let refused = output(command).await;
    assert_eq!((code(&refused), stdout(&refused)), (77, ""), "{refused:?}");
}

#[tokio::test]
async fn bad_usage_is_64_and_help_is_not() {
    let cases: [(&[&str], &str); 12] = [
        (&[], "Usage"),
        (&["lock"], "<KEY>"),
        (&["lock", "k"], "<COMMAND>"),
        (&["lock", "--", "true"], "<KEY>"),
        (&["lock", "a b", "--", "true"], "a b"),
        (&["lock", "k", "--wait", "30", "--", "true"], "unit"),
        (&["lock", "k", "--wait", "256s", "--", "true"], "255"),
        (&["lock", "k", "--lease", "1500ms", "--", "true"], "whole seconds"),
        (&["lock", "k", "--lease", "251s", "--", "true"], "250"),
        (&["lock", "k", "--lease", "1s", "--grace", "1s", "--", "true"], "--lease"),
        (&["lock", "k", "--token-file", "/no/such/file", "--", "true"], "/no/such/file"),
        (&["ping", "--fingerprint", "abc"], "64 hexadecimal digits"),
    ];
    for (arguments, text) in cases {
        let output = output(ticketing("127.0.0.1:1", arguments)).await;
        assert_eq!(code(&output), 64, "{output:?}");
        assert!(stderr(&output).contains(text), "{text}: {output:?}");
        let is_help = arguments.is_empty();
        assert!(is_help || stderr(&output).starts_with("ticketing: "), "{output:?}");
    }
    for arguments in [&["--help"][..], &["lock", "--help"], &["ping", "--help"]] {
        let output = output(ticketing("127.0.0.1:1", arguments)).await;
        assert_eq!(code(&output), 0);
        assert!(stdout(&output).contains("Exit codes"), "{output:?}");
    }
}

/// Flags, variables, and the message that names those which contradict each other.
type Contradiction<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a str);

#[tokio::test]
async fn settings_that_contradict_each_other_are_refused_wherever_they_come_from() {
    const TLS_OFF: &str = "--tls off (TICKETING_TLS) and --tls-ca ca.pem (TICKETING_TLS_CA) \
        contradict each other; --tls-ca alone is TLS with that authority";
    const TWO_TOKENS: &str =
        "--token-file (TICKETING_TOKEN_FILE) and TICKETING_TOKEN are both set; give one of them";
    const NAME_ALONE: &str = "--tls-server-name (TICKETING_TLS_SERVER_NAME) without TLS: no \
        certificate is looked at; give --tls system or --tls-ca too, or leave the name out";
    const CLUSTER_OF_ONE: &str = "1 addresses and a fingerprint: give 1 address and no \
        fingerprint for a single server, or 3 or 5 addresses in slot order and a fingerprint for \
        a cluster";
    let fingerprint = "ab".repeat(32);
    let cases: [Contradiction<'_>; 11] = [
        (&["--tls", "off", "--tls-ca", "ca.pem"], &[], TLS_OFF),
        (&["--tls", "off"], &[("TICKETING_TLS_CA", "ca.pem")], TLS_OFF),
        (&["--tls-ca", "ca.pem"], &[("TICKETING_TLS", "off")], TLS_OFF),
        (&[], &[("TICKETING_TLS", "off"), ("TICKETING_TLS_CA", "ca.pem")], TLS_OFF),
        (&["--tls", "system", "--tls-ca", "ca.pem"], &[], "--tls system (TICKETING_TLS) and"),
        (&["--tls", "insecure", "--tls-ca", "ca.pem"], &[], "--tls insecure (TICKETING_TLS) and"),
        (&["--tls-server-name", "a.example"], &[], NAME_ALONE),
        (&["--tls", "off"], &[("TICKETING_TLS_SERVER_NAME", "a.example")], NAME_ALONE),
        (&["--token-file", "token"], &[("TICKETING_TOKEN", "some token or other")], TWO_TOKENS),
        (
            &[],
            &[("TICKETING_TOKEN_FILE", "token"), ("TICKETING_TOKEN", "some token or other")],
            TWO_TOKENS,
        ),
        (&["--fingerprint", &fingerprint], &[], CLUSTER_OF_ONE),
    ];
    for (arguments, variables, message) in cases {
        let mut command = ticketing("127.0.0.1:1", &[&["ping"], arguments].concat());
        command.envs(variables.iter().copied());
        let output = output(command).await;
        assert_eq!(code(&output), 64, "{output:?}");
        assert!(stderr(&output).starts_with(&format!("ticketing: {message}")), "{output:?}");
    }
}

#[tokio::test]
async fn empty_variables_are_refused_by_name() {
    for (name, expected) in [
        ("TICKETING_ADDRESSES", "address \"\": it has no port"),
        ("TICKETING_FINGERPRINT", "fingerprint \"\""),
        ("TICKETING_TLS", "--tls"),
        ("TICKETING_TLS_CA", "--tls-ca"),
        ("TICKETING_TOKEN", "the token is empty"),
        ("TICKETING_TOKEN_FILE", "--token-file"),
    ] {
        let mut command = ticketing("127.0.0.1:1", &["ping"]);
        command.env(name, "");
        let output = output(command).await;
        assert_eq!(code(&output), 64, "{name}: {output:?}");
        assert!(stderr(&output).contains(expected), "{name}: {output:?}");
    }
}

#[tokio::test]
async fn a_command_that_cannot_start_gives_the_lock_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("not-executable");
    std::fs::write(&path, "").expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("set");
    for (program, expected) in [("no-such-command", 127), (path.to_str().expect("text"), 126)] {
        let server = Server::start(grant).await;
        let output = output(ticketing(server.address, &["lock", "k", "--", program])).await;
        assert_eq!(code(&output), expected, "{output:?}");
        assert!(stderr(&output).contains(program), "{output:?}");
        assert_eq!(server.opcodes(), "AR");
    }
}

#[tokio::test]
async fn signals_are_forwarded_to_the_command() {
    for (name, expected) in [("TERM", 3), ("INT", 4), ("HUP", 5), ("USR1", 6)] {
        let server = Server::start(grant).await;
        let script = "trap 'exit 3' TERM; trap 'exit 4' INT; trap 'exit 5' HUP; \
                      trap 'exit 6' USR1; echo ready; while :; do sleep 0.05; done";
        let arguments = ["lock", "k", "--", "sh", "-c", script];
        let child = started(ticketing(server.address, &arguments)).await;
        signal(&child, name);
        assert_eq!(code(&end(child).await), expected, "{name}");
        assert_eq!(server.opcodes(), "AR");
    }
}

#[tokio::test]
async fn a_signal_that_was_ignored_at_the_start_stays_ignored() {
    let server = Server::start(grant).await;
    let ignoring = "trap '' INT; exec \"$0\" \"$@\"";
    let script = "trap 'exit 3' TERM; echo ready; kill -s INT $$; while :; do sleep 0.05; done";
    let binary = env!("CARGO_BIN_EXE_ticketing");
    let arguments = ["-c", ignoring, binary, "lock", "k", "--", "sh", "-c", script];
    let child = started(program("sh", server.address, &arguments)).await;
    signal(&child, "INT");
    signal(&child, "TERM");
    assert_eq!(code(&end(child).await), 3);
}

#[tokio::test]
async fn a_signal_while_waiting_for_the_lock_ends_without_running() {
    let server = Server::start(|_| Act::Nothing).await;
    let child = ticketing(server.address, &["lock", "k", "--", "echo", "ran"]).spawn();
    let child = child.expect("it runs");
    tokio::time::timeout(PATIENCE, async {
        while server.requests().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("it asks");
    signal(&child, "TERM");
    let output = end(child).await;
    assert_eq!((code(&output), stdout(&output)), (128 + 15, ""));
}

#[tokio::test]
async fn the_command_is_dead_before_the_lease_ends() {
    let server = Server::start(grant).await;
    let script = "trap 'echo term' TERM; echo ready; while :; do sleep 0.05; done";
    let arguments = ["lock", "k", "--lease", "3s", "--grace", "2s", "--", "sh", "-c", script];
    #[expect(clippy::disallowed_methods, reason = "compared with the lease")]
    let begin = Instant::now();
    let output = output(ticketing(server.address, &arguments)).await;
    assert_eq!((code(&output), stdout(&output)), (128 + 9, "ready\nterm\n"), "{output:?}");
    assert!(stderr(&output).contains("terminating") && stderr(&output).contains("killing"));
    assert!(begin.elapsed() >= Duration::from_millis(2_850), "{:?}", begin.elapsed());
    assert_eq!(server.opcodes(), "AR");
}

#[tokio::test]
async fn a_command_that_obeys_term_is_not_killed() {
    let server = Server::start(grant).await;
    let script = "trap 'exit 9' TERM; while :; do sleep 0.05; done";
    let arguments = ["lock", "k", "--lease", "2s", "--grace", "1s", "--", "sh", "-c", script];
    let output = output(ticketing(server.address, &arguments)).await;
    assert_eq!(code(&output), 9, "{output:?}");
    assert!(!stderr(&output).contains("killing"), "{output:?}");
}

#[tokio::test]
async fn processes_left_behind_are_ended_before_the_release() {
    let server = Server::start(grant).await;
    // One obeys TERM, one has to be killed; their output ends with them.
    let script = "sleep 300 & (trap '' TERM; sleep 300) & echo $!";
    let arguments = ["lock", "k", "--grace", "200ms", "--", "sh", "-c", script];
    let output = output(ticketing(server.address, &arguments)).await;
    assert_eq!(code(&output), 0, "{output:?}");
    assert!(stderr(&output).contains("left processes behind"), "{output:?}");
    assert!(!stderr(&output).contains("cannot be ended"), "{output:?}");
    let left = Command::new("kill").args(["-0", stdout(&output).trim()]).output();
    assert!(!left.expect("kill runs").status.success());
    assert_eq!(server.opcodes(), "AR");
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn the_command_does_not_outlive_who_watches_its_deadline() {
    let server = Server::start(grant).await;
    let arguments = ["lock", "k", "--", "sh", "-c", "echo; exec sleep 90"];
    let child = started(ticketing(server.address, &arguments)).await;
    signal(&child, "KILL");
    // It holds the output open as long as it lives.
    tokio::time::timeout(PATIENCE, end(child)).await.expect("the command is gone");
}

#[tokio::test]
async fn an_unconfirmed_release_is_reported_but_the_exit_code_is_the_commands() {
    let server =
        Server::start(
            |request| {
                if request.kind.is_acquire() { Act::Grant(41) } else { Act::Nothing }
            },
        )
        .await;
    let output =
        output(ticketing(server.address, &["lock", "k", "--", "sh", "-c", "exit 3"])).await;
    assert_eq!(code(&output), 3);
    assert!(stderr(&output).contains("lease at the latest"), "{output:?}");
    assert_eq!(server.opcodes(), "ARRR");
}

#[tokio::test]
async fn ping_measures_and_leaves_nothing_behind() {
    let server = Server::start(grant).await;
    let output =
        output(ticketing(server.address, &["ping", "--count", "3", "--interval", "1ms"])).await;
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(stdout(&output).lines().count(), 4, "{output:?}");
    assert!(stdout(&output).contains("round trip: min "), "{output:?}");
    assert_eq!(server.opcodes(), "ARARAR");
}
