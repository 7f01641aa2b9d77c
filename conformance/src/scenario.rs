//! A scenario: one client behaviour, judged on one broker or a few against one played server.

use crate::driver::{Driver, Pending};
use crate::failure::{Check, fail, hex};
use crate::frame::Identity;
use crate::tls::Authority;
use crate::wire::Wire;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What a scenario judges; a column of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// Hello, proof, verdict.
    Handshake,
    /// Request bytes.
    Request,
    /// Good replies, however the bytes arrive.
    Reply,
    /// Replies that end the session, and recovery from them.
    Correlation,
    /// Connections cut around a request.
    Cut,
    /// What an acquire does with refusals.
    Retry,
    /// Which connection a request takes.
    Routing,
    /// Reconnecting.
    BackOff,
    /// The release window.
    Release,
    /// Grants that nobody wants.
    Unwanted,
    /// Inputs and capacities.
    Limits,
    /// Transport security.
    Tls,
    /// The end of a broker.
    Close,
    /// The examples in the client's README, against a real server.
    Readme,
}

impl Group {
    /// All, in the matrix's order.
    pub const ALL: [Self; 14] = [
        Self::Handshake,
        Self::Request,
        Self::Reply,
        Self::Correlation,
        Self::Cut,
        Self::Retry,
        Self::Routing,
        Self::BackOff,
        Self::Release,
        Self::Unwanted,
        Self::Limits,
        Self::Tls,
        Self::Close,
        Self::Readme,
    ];

    /// Its name in options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Request => "request",
            Self::Reply => "reply",
            Self::Correlation => "correlation",
            Self::Cut => "cut",
            Self::Retry => "retry",
            Self::Routing => "routing",
            Self::BackOff => "back-off",
            Self::Release => "release",
            Self::Unwanted => "unwanted",
            Self::Limits => "limits",
            Self::Tls => "tls",
            Self::Close => "close",
            Self::Readme => "readme",
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One scenario.
pub struct Scenario {
    /// Group and name: `cut/acquire-byte-03`.
    pub id: String,
    /// Where it counts.
    pub group: Group,
    /// Runs it.
    pub run: Run,
}

type Run = Arc<dyn Fn(Stage) -> Pin<Box<dyn Future<Output = Check> + Send>> + Send + Sync>;

impl Scenario {
    /// A scenario named `group/name`.
    pub fn new<F, R>(group: Group, name: impl fmt::Display, run: R) -> Self
    where
        R: Fn(Stage) -> F + Send + Sync + 'static,
        F: Future<Output = Check> + Send + 'static,
    {
        let run: Run = Arc::new(move |stage| Box::pin(run(stage)));
        Self { id: format!("{group}/{name}"), group, run }
    }
}

/// What a running scenario has to work with: the driver, and tags of its own.
#[derive(Clone)]
pub struct Stage {
    driver: Arc<Driver>,
    authority: Arc<Authority>,
    prefix: Arc<str>,
    next: Arc<AtomicU32>,
    brokers: Arc<Mutex<Vec<String>>>,
}

/// A broker opened in the driver.
#[derive(Clone)]
pub struct Broker {
    stage: Stage,
    /// Tag of its `open`.
    pub tag: String,
}

impl Stage {
    /// For one run of a scenario; `prefix` is unique in the driver's life.
    pub fn new(driver: Arc<Driver>, authority: Arc<Authority>, prefix: &str) -> Self {
        Self {
            driver,
            authority,
            prefix: prefix.into(),
            next: Arc::default(),
            brokers: Arc::default(),
        }
    }

    /// Certificates for played servers.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Gives the driver a command with a fresh tag.
    pub fn send(&self, verb: &str, rest: &str) -> Pending {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.driver.send(verb, format!("{}-{number}", self.prefix), rest)
    }

    /// Gives the driver an `open`, whatever its outcome.
    pub fn send_open(&self, options: &str) -> Pending {
        let pending = self.send("open", options);
        let mut brokers = self.brokers.lock().unwrap_or_else(PoisonError::into_inner);
        brokers.push(pending.tag.clone());
        pending
    }

    /// Opens a broker; `options` are those of the command.
    ///
    /// # Errors
    /// When it is not `ok`.
    pub async fn open(&self, options: &str) -> Check<Broker> {
        let mut pending = self.send_open(options);
        pending.expect("ok").await?;
        Ok(Broker { stage: self.clone(), tag: pending.tag })
    }

    /// Opens a broker on a played server; `more` are options besides those it needs.
    ///
    /// # Errors
    /// When it is not `ok`.
    pub async fn open_on(&self, wire: &Wire, more: &str) -> Check<Broker> {
        self.open(&format!("addrs={} {} {more}", wire.addresses(), options_of(&wire.identity)))
            .await
    }

    /// A played single server and a broker with both its connections up.
    ///
    /// # Errors
    /// When they do not come up.
    pub async fn single(&self) -> Check<(Wire, Broker)> {
        self.connected(Identity::single(), "").await
    }

    /// A played cluster and a broker with all its connections up.
    ///
    /// # Errors
    /// When they do not come up.
    pub async fn cluster(&self, voter_count: u8) -> Check<(Wire, Broker)> {
        self.connected(Identity::cluster(voter_count), "").await
    }

    /// A played server and a broker with all its connections up.
    ///
    /// # Errors
    /// When they do not come up.
    pub async fn connected(&self, identity: Identity, more: &str) -> Check<(Wire, Broker)> {
        let count = identity.cluster.map_or(2, |cluster| usize::from(cluster.voter_count));
        let mut wire = Wire::listen(identity).await?;
        let broker = self.open_on(&wire, more).await?;
        wire.connected(count).await?;
        broker.ready().await?;
        Ok((wire, broker))
    }

    /// Closes every broker that the scenario opened, without judging how.
    pub fn clear(&self) -> Vec<Pending> {
        let brokers = self.brokers.lock().unwrap_or_else(PoisonError::into_inner);
        brokers.iter().map(|tag| self.send("close", &format!("broker={tag}"))).collect()
    }
}

/// The options of `open` that say whom to expect.
pub fn options_of(identity: &Identity) -> String {
    let mut options = match &identity.cluster {
        None => "mode=single".to_owned(),
        Some(cluster) => format!("mode=cluster fingerprint={}", hex(&cluster.fingerprint)),
    };
    if !identity.token.is_empty() {
        options += &format!(" token={}", hex(&identity.token));
    }
    options
}

impl Broker {
    /// Any command on this broker.
    pub fn send(&self, verb: &str, rest: &str) -> Pending {
        self.stage.send(verb, &format!("broker={} {rest}", self.tag))
    }

    /// Waits until a connection is usable.
    ///
    /// # Errors
    /// When none is.
    pub async fn ready(&self) -> Check {
        self.send("ready", "timeout_ms=20000").expect("ok").await.map(drop)
    }

    /// `acquire` of a key given in hex.
    pub fn acquire(&self, key: &str, wait_ms: u64, lease: u32) -> Pending {
        self.send("acquire", &format!("key={key} wait_ms={wait_ms} lease={lease}"))
    }

    /// `acquire-set` of keys given in hex, with commas between.
    pub fn acquire_set(&self, keys: &str, wait_ms: u64, lease: u32) -> Pending {
        self.send("acquire-set", &format!("keys={keys} wait_ms={wait_ms} lease={lease}"))
    }

    /// `release` of what `acquire` got.
    pub fn release(&self, acquire: &Pending) -> Pending {
        self.stage.send("release", &format!("ticket={}", acquire.tag))
    }

    /// `drop` of what `acquire` got.
    pub fn drop_ticket(&self, acquire: &Pending) -> Pending {
        self.stage.send("drop", &format!("ticket={}", acquire.tag))
    }

    /// `cancel` of a pending acquire.
    pub fn cancel(&self, acquire: &Pending) -> Pending {
        self.stage.send("cancel", &format!("target={}", acquire.tag))
    }

    /// `close`.
    pub fn close(&self) -> Pending {
        self.send("close", "")
    }

    /// Acquires a key given in hex and has it granted with `token`.
    ///
    /// # Errors
    /// When the request does not come or the grant is not reported.
    pub async fn hold(&self, wire: &mut Wire, key: &str, token: u64) -> Check<Pending> {
        let mut call = self.acquire(key, 5_000, 30);
        let request = wire.request_of('A').await?;
        wire.favour(&request, token).await?;
        call.granted(token).await?;
        Ok(call)
    }

    /// The same for a set.
    ///
    /// # Errors
    /// When the request does not come or the grant is not reported.
    pub async fn hold_set(&self, wire: &mut Wire, keys: &str, token: u64) -> Check<Pending> {
        let mut call = self.acquire_set(keys, 5_000, 30);
        let request = wire.request_of('S').await?;
        wire.favour(&request, token).await?;
        call.granted(token).await?;
        Ok(call)
    }

    /// Shows that the client works: a whole acquire and release.
    ///
    /// # Errors
    /// With what went wrong.
    pub async fn works(&self, wire: &mut Wire) -> Check {
        const TOKEN: u64 = 0x7734;
        let call = self.hold(wire, "776f726b73", TOKEN).await?;
        let mut release = self.release(&call);
        let request = wire.request_of('R').await?;
        wire.favour(&request, TOKEN).await?;
        release.expect("released").await.map(drop)
    }
}

/// Passes when `seen` is one of `allowed`.
///
/// # Errors
/// With the other.
pub fn one_of(what: &str, allowed: &[&str], seen: &str) -> Check {
    if allowed.contains(&seen) {
        return Ok(());
    }
    fail(format!("{what}: {}", allowed.join(" or ")), seen)
}
