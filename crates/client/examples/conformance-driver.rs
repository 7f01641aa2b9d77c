//! The client's conformance driver: its public API over standard input and output, one command
//! per line in and one outcome per line out. The contract is `conformance/DRIVER.md`.

use std::collections::HashMap;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use ticketing_client::{AcquireOptions, Broker, Error, ReleaseOutcome, Ticket, TicketSet, Tls};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::oneshot;

/// A ticket of either kind.
enum Held {
    One(Ticket),
    Set(TicketSet),
}

/// Why a command cannot even be given to the API.
enum Refusal {
    /// Not a command of the contract.
    BadCommand,
    /// A value that the API's types cannot express.
    InvalidInput,
}

#[derive(Default)]
struct Driver {
    brokers: Mutex<HashMap<String, Broker>>,
    tickets: Mutex<HashMap<String, Held>>,
    /// Cancels the acquire with that tag.
    acquires: Mutex<HashMap<String, oneshot::Sender<()>>>,
}

/// `name=value` words, each of which the command has to use.
struct Options<'a>(HashMap<&'a str, &'a str>);

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let driver = Arc::new(Driver::default());
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let mut words = line.split(' ');
        let (Some(verb), Some(tag)) = (words.next(), words.next()) else {
            continue;
        };
        let outcome = match Options::parse(words) {
            Some(options) => driver.start(verb, tag, options),
            None => Err(Refusal::BadCommand),
        };
        match outcome {
            Ok(()) => {}
            Err(Refusal::BadCommand) => print(tag, "error BadCommand"),
            Err(Refusal::InvalidInput) => print(tag, "error InvalidInput"),
        }
    }
    let brokers: Vec<Broker> = lock(&driver.brokers).drain().map(|(_, broker)| broker).collect();
    for broker in brokers {
        broker.close().await;
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn print(tag: &str, outcome: &str) {
    let mut stdout = std::io::stdout().lock();
    // Nobody reads any more: then nobody misses the outcome.
    let _ = writeln!(stdout, "{tag} {outcome}").and_then(|()| stdout.flush());
}

fn name(error: &Error) -> String {
    let name = match error {
        Error::Busy => "Busy",
        Error::ClientCapacity => "ClientCapacity",
        Error::Closed => "Closed",
        Error::Indeterminate => "Indeterminate",
        Error::InsufficientLease => "InsufficientLease",
        Error::InvalidInput { .. } => "InvalidInput",
        Error::NoLeader => "NoLeader",
        Error::NotConnected { .. } => "NotConnected",
        Error::Rejected(code) => return format!("error Rejected {}", *code as u8),
        Error::ReleaseUnconfirmed => "ReleaseUnconfirmed",
        Error::Timeout => "Timeout",
        Error::Unauthorized => "Unauthorized",
        _ => "Unknown",
    };
    format!("error {name}")
}

fn unhex(text: &str) -> Result<Vec<u8>, Refusal> {
    if text == "-" {
        return Ok(Vec::new());
    }
    let digits = text.as_bytes().chunks(2).map(|pair| {
        let pair = str::from_utf8(pair).ok().filter(|pair| pair.len() == 2);
        pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()).ok_or(Refusal::BadCommand)
    });
    digits.collect()
}

impl<'a> Options<'a> {
    fn parse(words: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut options = HashMap::new();
        for word in words {
            let (name, value) = word.split_once('=')?;
            if options.insert(name, value).is_some() {
                return None;
            }
        }
        Some(Self(options))
    }

    fn take(&mut self, name: &str) -> Result<&'a str, Refusal> {
        self.0.remove(name).ok_or(Refusal::BadCommand)
    }

    /// A number. One that is no `u64` is a value that a duration or count cannot express.
    fn number(&mut self, name: &str) -> Result<u64, Refusal> {
        let text = self.take(name)?;
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Refusal::BadCommand);
        }
        text.parse().map_err(|_| Refusal::InvalidInput)
    }

    fn optional_number(&mut self, name: &str) -> Result<Option<u64>, Refusal> {
        if self.0.contains_key(name) { self.number(name).map(Some) } else { Ok(None) }
    }

    fn finish(self) -> Result<(), Refusal> {
        if self.0.is_empty() { Ok(()) } else { Err(Refusal::BadCommand) }
    }
}

impl Driver {
    fn start(self: &Arc<Self>, verb: &str, tag: &str, options: Options<'_>) -> Result<(), Refusal> {
        match verb {
            "open" => self.open(tag, options),
            "ready" => self.ready(tag, options),
            "acquire" => self.acquire(tag, options, false),
            "acquire-set" => self.acquire(tag, options, true),
            "cancel" => self.cancel(tag, options),
            "release" => self.release(tag, options),
            "drop" => self.abandon(tag, options),
            "close" => self.close(tag, options),
            "pairs" => self.pairs(tag, options),
            _ => Err(Refusal::BadCommand),
        }
    }

    fn broker(&self, options: &mut Options<'_>) -> Result<Broker, Refusal> {
        let tag = options.take("broker")?;
        lock(&self.brokers).get(tag).cloned().ok_or(Refusal::BadCommand)
    }

    fn open(&self, tag: &str, mut options: Options<'_>) -> Result<(), Refusal> {
        let addresses = options.take("addrs")?;
        let mut builder = Broker::builder().addresses(addresses.split(','));
        // The API knows the mode by the fingerprint.
        if !matches!(options.take("mode")?, "single" | "cluster") {
            return Err(Refusal::BadCommand);
        }
        if let Ok(text) = options.take("fingerprint") {
            match text.parse() {
                Ok(fingerprint) => builder = builder.fingerprint(fingerprint),
                Err(_) => return Err(Refusal::InvalidInput),
            }
        }
        if let Ok(token) = options.take("token") {
            builder = builder.token(unhex(token)?);
        }
        match options.take("tls") {
            Err(_) | Ok("off") => {}
            Ok("system") => builder = builder.tls(Tls::SystemRoots),
            Ok("insecure") => builder = builder.tls(Tls::InsecureAcceptAnyCertificate),
            Ok(other) => {
                let path = other.strip_prefix("ca:").ok_or(Refusal::BadCommand)?;
                builder = builder.tls(Tls::CaFile(path.into()));
            }
        }
        if let Ok(name) = options.take("server_name") {
            builder = builder.tls_server_name(name);
        }
        if let Some(count) = options.optional_number("pending")? {
            builder =
                builder.pending_limit(usize::try_from(count).map_err(|_| Refusal::InvalidInput)?);
        }
        options.finish()?;
        match builder.build() {
            Ok(broker) => {
                lock(&self.brokers).insert(tag.to_owned(), broker);
                print(tag, "ok");
            }
            Err(error) => {
                eprintln!("{tag}: {error}");
                print(tag, &name(&error));
            }
        }
        Ok(())
    }

    fn ready(&self, tag: &str, mut options: Options<'_>) -> Result<(), Refusal> {
        let broker = self.broker(&mut options)?;
        let limit = Duration::from_millis(options.number("timeout_ms")?);
        options.finish()?;
        let tag = tag.to_owned();
        tokio::spawn(async move {
            match broker.ready(limit).await {
                Ok(()) => print(&tag, "ok"),
                Err(error) => print(&tag, &name(&error)),
            }
        });
        Ok(())
    }

    fn acquire(
        self: &Arc<Self>,
        tag: &str,
        mut options: Options<'_>,
        is_set: bool,
    ) -> Result<(), Refusal> {
        let broker = self.broker(&mut options)?;
        let keys = match options.take(if is_set { "keys" } else { "key" })? {
            "" if is_set => Vec::new(),
            text if is_set => text.split(',').map(unhex).collect::<Result<_, _>>()?,
            text => vec![unhex(text)?],
        };
        let mut terms = AcquireOptions::new()
            .wait(Duration::from_millis(options.number("wait_ms")?))
            .lease(Duration::from_secs(options.number("lease")?));
        if let Some(millis) = options.optional_number("budget_ms")? {
            terms = terms.budget(Duration::from_millis(millis));
        }
        options.finish()?;
        let (cancel, cancelled) = oneshot::channel();
        lock(&self.acquires).insert(tag.to_owned(), cancel);
        let (driver, tag) = (Arc::clone(self), tag.to_owned());
        tokio::spawn(async move {
            let acquired = async {
                if is_set {
                    broker.acquire_set(&keys, terms).await.map(Held::Set)
                } else {
                    broker.acquire(&keys[0], terms).await.map(Held::One)
                }
            };
            let outcome = tokio::select! {
                acquired = acquired => Some(acquired),
                // Leaving here drops the acquire, which is how it is cancelled.
                Ok(()) = cancelled => None,
            };
            lock(&driver.acquires).remove(&tag);
            match outcome {
                Some(Ok(held)) => driver.grant(&tag, held),
                Some(Err(error)) => print(&tag, &name(&error)),
                None => print(&tag, "error Cancelled"),
            }
        });
        Ok(())
    }

    fn grant(&self, tag: &str, held: Held) {
        let (token, remaining) = match &held {
            Held::One(ticket) => (ticket.token(), ticket.remaining()),
            Held::Set(tickets) => (tickets.token(), tickets.remaining()),
        };
        lock(&self.tickets).insert(tag.to_owned(), held);
        print(tag, &format!("granted token={token} remaining_ms={}", remaining.as_millis()));
    }

    fn cancel(&self, tag: &str, mut options: Options<'_>) -> Result<(), Refusal> {
        let target = options.take("target")?;
        options.finish()?;
        // Too late is fine too: then the target has been answered.
        if let Some(cancel) = lock(&self.acquires).remove(target) {
            let _ = cancel.send(());
        }
        print(tag, "ok");
        Ok(())
    }

    fn held(&self, options: &mut Options<'_>) -> Result<Held, Refusal> {
        let tag = options.take("ticket")?;
        lock(&self.tickets).remove(tag).ok_or(Refusal::BadCommand)
    }

    fn release(&self, tag: &str, mut options: Options<'_>) -> Result<(), Refusal> {
        let held = self.held(&mut options)?;
        options.finish()?;
        let tag = tag.to_owned();
        tokio::spawn(async move {
            let outcome = match held {
                Held::One(ticket) => ticket.release().await,
                Held::Set(tickets) => tickets.release().await,
            };
            match outcome {
                Ok(ReleaseOutcome::Released) => print(&tag, "released"),
                Ok(ReleaseOutcome::NotHeld) => print(&tag, "not-held"),
                Err(error) => print(&tag, &name(&error)),
            }
        });
        Ok(())
    }

    fn abandon(&self, tag: &str, mut options: Options<'_>) -> Result<(), Refusal> {
        let held = self.held(&mut options)?;
        options.finish()?;
        drop(held);
        print(tag, "ok");
        Ok(())
    }

    fn close(&self, tag: &str, mut options: Options<'_>) -> Result<(), Refusal> {
        let broker = self.broker(&mut options)?;
        options.finish()?;
        let tag = tag.to_owned();
        tokio::spawn(async move {
            broker.close().await;
            print(&tag, "ok");
        });
        Ok(())
    }

    fn pairs(&self, tag: &str, mut options: Options<'_>) -> Result<(), Refusal> {
        let broker = self.broker(&mut options)?;
        let key = unhex(options.take("key")?)?;
        let (callers, count) = (options.number("callers")?, options.number("count")?);
        options.finish()?;
        let tag = tag.to_owned();
        tokio::spawn(async move {
            let terms =
                AcquireOptions::new().wait(Duration::from_secs(5)).lease(Duration::from_secs(30));
            let (started, left) = (AtomicU64::new(0), AtomicU64::new(0));
            let counters = Arc::new((started, left));
            #[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
            let begin = Instant::now();
            let mut tasks = tokio::task::JoinSet::new();
            for caller in 0..callers {
                let (broker, counters) = (broker.clone(), Arc::clone(&counters));
                let key = [&*key, caller.to_string().as_bytes()].concat();
                tasks.spawn(async move {
                    while counters.0.fetch_add(1, Ordering::Relaxed) < count {
                        let is_done = match broker.acquire(&key, terms).await {
                            Ok(ticket) => ticket.release().await.is_ok(),
                            Err(_) => false,
                        };
                        if !is_done {
                            counters.1.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            while tasks.join_next().await.is_some() {}
            let failed = counters.1.load(Ordering::Relaxed);
            let nanoseconds = begin.elapsed().as_nanos();
            print(&tag, &format!("pairs count={count} failed={failed} nanoseconds={nanoseconds}"));
        });
        Ok(())
    }
}
