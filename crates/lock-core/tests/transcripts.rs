//! Scripted commands, and every effect of them in words: one file in `testdata` per topic.
//!
//! A line is a command; `#n` is a token, `^n` an arrival, `/n` a request id. Requests of a session
//! count up from 1.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use ticketing_lock_core::{
    Command, Due, Event, Instant, LockTable, Owner, RefusedReason, SessionId, TableLimits,
};

#[test]
fn transcripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("testdata is there")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    for path in paths {
        let script = std::fs::read_to_string(&path).expect("readable");
        let name = path.file_stem().and_then(|stem| stem.to_str()).expect("a plain name");
        insta::assert_snapshot!(name, Transcript::run(&script));
    }
}

struct Transcript {
    table: LockTable,
    now: Instant,
    request_ids: BTreeMap<u32, u64>,
    text: String,
}

impl Transcript {
    fn run(script: &str) -> String {
        let limits = TableLimits { key_count_max: 100, waiters_per_key_max: 100 };
        let mut transcript = Self {
            table: LockTable::new([1; 16], limits),
            now: Instant::from_nanos(0),
            request_ids: BTreeMap::new(),
            text: String::new(),
        };
        for line in script.lines() {
            transcript.text.push_str(line);
            transcript.text.push('\n');
            let words: Vec<&str> = line.split_whitespace().collect();
            if !words.is_empty() && words[0] != "--" {
                transcript.line(&words);
                transcript.table.check_invariants();
            }
        }
        transcript.text
    }

    fn line(&mut self, words: &[&str]) {
        match *words {
            ["at", seconds] => self.now = at(seconds),
            ["due"] => {
                let (table, text) = (&mut self.table, &mut self.text);
                let count = table.apply_due(self.now, 100, &mut |event| tell(text, event));
                writeln!(text, "    {count} applied").expect("memory");
            }
            ["poll"] => self.poll(),
            ["rearm"] => self.table.rearm_due(),
            ["deadline"] => {
                let text = match self.table.next_deadline() {
                    None => "none".to_owned(),
                    Some(at) => format!("{} s", at.as_nanos() as f64 / 1e9),
                };
                writeln!(self.text, "    {text}").expect("memory");
            }
            ["clear", "waiters"] => self.apply(Command::ClearWaiters),
            ["expire", token, key] => {
                self.apply(Command::Expire { token: number(token), key: key.as_bytes() });
            }
            ["time", "out", arrival] => {
                self.apply(Command::TimeOut { arrival: number(arrival) });
            }
            ["raise", "floor", floor] => {
                self.apply(Command::RaiseTokenFloor { floor: number(floor) });
            }
            ["limits", keys, waiters] => {
                let limits = TableLimits {
                    key_count_max: number(keys) as u32,
                    waiters_per_key_max: number(waiters) as u32,
                };
                self.apply(Command::Configure { limits });
            }
            [session, "closes"] => {
                self.apply(Command::CloseSession { session: session_id(session) });
            }
            [session, "reclaims", token] => {
                let token = number(token);
                self.apply(Command::Reclaim { session: session_id(session), token });
            }
            [session, "releases", token, ref keys @ ..] => {
                let (owner, token) = (self.owner(session), number(token));
                self.apply(Command::Release { owner, token, keys: &bytes(keys) });
            }
            [session, "acquires", ref keys @ .., "wait", wait, "lease", lease] => {
                let owner = self.owner(session);
                self.apply(Command::Acquire {
                    owner,
                    wait_seconds: number(wait) as u8,
                    lease_seconds: number(lease) as u8,
                    keys: &bytes(keys),
                });
            }
            _ => panic!("no such command: {words:?}"),
        }
    }

    fn apply(&mut self, command: Command<'_>) {
        let text = &mut self.text;
        self.table.apply(command, self.now, &mut |event| tell(text, event));
    }

    fn poll(&mut self) {
        while let Some(due) = self.table.poll_due(self.now) {
            match due {
                Due::Lease { token, key, .. } => {
                    let key = String::from_utf8_lossy(key);
                    writeln!(self.text, "    the lease of #{token} on {key} is over")
                }
                Due::Wait { arrival } => writeln!(self.text, "    the wait of ^{arrival} is over"),
            }
            .expect("memory");
        }
    }

    fn owner(&mut self, session: &str) -> Owner {
        let session = session_id(session);
        let request_id = self.request_ids.entry(session.index()).or_default();
        *request_id += 1;
        Owner { session, request_id: *request_id }
    }
}

fn tell(text: &mut String, event: Event) {
    let name = |owner: Owner| {
        let generation = owner.session.get() >> 32;
        let prime = "'".repeat(generation as usize);
        format!("s{}{prime}/{}", owner.session.index(), owner.request_id)
    };
    let line = match event {
        Event::Expired { token } => format!("#{token} expired"),
        Event::Granted { owner, token, key_count } => {
            format!("{} granted {key_count} as #{token}", name(owner))
        }
        Event::GroupMismatch { owner } => format!("{} names other keys", name(owner)),
        Event::NotHeld { owner } => format!("{} does not hold it", name(owner)),
        Event::Queued { owner, arrival } => format!("{} waits as ^{arrival}", name(owner)),
        Event::Refused { owner, reason: RefusedReason::Capacity } => {
            format!("{} refused: capacity", name(owner))
        }
        Event::Refused { owner, reason: RefusedReason::Malformed } => {
            format!("{} refused: malformed", name(owner))
        }
        Event::Released { owner } => format!("{} released", name(owner)),
        Event::TimedOut { owner, key_count } => {
            format!("{} timed out ({key_count})", name(owner))
        }
        Event::WaiterDropped { owner } => format!("{} dropped", name(owner)),
    };
    writeln!(text, "    {line}").expect("memory");
}

/// Seconds with at most nine decimals.
fn at(text: &str) -> Instant {
    let (seconds, decimals) = text.split_once('.').unwrap_or((text, ""));
    Instant::from_nanos(number(seconds) * 1_000_000_000 + number(&format!("{decimals:0<9}")))
}

fn number(text: &str) -> u64 {
    match text.trim_start_matches(['#', '^', '/']) {
        "max" => u64::MAX,
        digits => digits.parse().expect("a number"),
    }
}

/// `s3` is session 3, `s3'` the next one with its index.
fn session_id(text: &str) -> SessionId {
    let generation = text.matches('\'').count() as u32;
    let index = text.trim_start_matches('s').trim_end_matches('\'');
    SessionId::new(index.parse().expect("a session"), generation)
}

fn bytes<'a>(keys: &[&'a str]) -> Vec<&'a [u8]> {
    keys.iter().map(|key| key.as_bytes()).collect()
}
