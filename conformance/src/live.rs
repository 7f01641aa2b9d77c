//! All clients at once against a real server, single and cluster: order across languages, one
//! holder at a time, growing tokens, equal shares, and service after the leader was killed.

use crate::clock;
use crate::cluster_process::ClusterProcess;
use crate::driver::{Driver, Pending};
use crate::failure::{Check, Failure, fail, same};
use crate::registry::Language;
use crate::scenario::{Broker, Stage, options_of};
use crate::server_process::ServerProcess;
use crate::tls::Authority;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Keys that everybody wants.
const KEYS: [&str; 2] = ["7365617473", "73746f636b"];
/// Callers of each language for each key.
const CALLER_COUNT: usize = 4;
/// Work under the lock: long enough for whoever was served to queue again before its next turn.
const WORK: Duration = Duration::from_millis(2);
/// Time before shares are counted: drivers warm up.
const WARM_UP: Duration = Duration::from_secs(2);
/// Time that clients and cluster have to get over the death of the leader: the lease of a grant
/// that was lost with it, and again for those who waited behind it.
const RECOVERY: Duration = Duration::from_secs(8);
/// Time in which shares are counted.
const COUNTED: Duration = Duration::from_secs(8);
/// Each share lies within this part of an equal one.
const SHARE_TOLERANCE: f64 = 0.10;
/// Rounds of the check of order.
const ROUND_COUNT: usize = 3;
/// Pause after each request of that check, in which it reaches the queue.
const QUEUE_PAUSE: Duration = Duration::from_millis(150);
/// Pause of a caller whose call got lost.
const LOST_PAUSE: Duration = Duration::from_millis(50);
/// Longest wait for any turn.
const WAIT: Duration = Duration::from_secs(60);
/// Lease while nobody kills a server: longer than anything here takes, time in the queue included.
const LEASE_LONG_SECONDS: u32 = 120;
/// Lease against a cluster whose leader dies: a grant lost with it blocks its key no longer.
const LEASE_SHORT_SECONDS: u32 = 3;
/// What may become of calls under way when the leader dies.
const LOST: [&str; 7] = [
    "error Indeterminate",
    "error InsufficientLease",
    "error NoLeader",
    "error NotConnected",
    "error ReleaseUnconfirmed",
    "error Timeout",
    "not-held",
];

/// A language and its broker.
#[derive(Clone)]
struct Player {
    name: String,
    broker: Broker,
    lease: u32,
    /// Whether calls may get lost, because the leader is killed.
    may_lose: bool,
}

/// What a lock protects: a file with a count and the highest token seen, kept by its users.
struct Ground {
    file: PathBuf,
    is_used: AtomicBool,
}

/// What came of a run.
pub struct Live {
    /// What was played against.
    name: &'static str,
    /// Grants of each language for each key in the counted time.
    shares: BTreeMap<String, Vec<u64>>,
    /// What was wrong.
    pub failures: Vec<Failure>,
}

/// Plays against a single server with all `languages`, whose drivers are built.
///
/// # Errors
/// When the server or a driver does not start.
pub async fn single(languages: &[Language]) -> Check<Live> {
    let server = ServerProcess::start(&[]).await.map_err(trouble)?;
    let options = format!("addrs={} mode=single", server.address);
    let players = players(languages, &options, LEASE_LONG_SECONDS, false).await?;
    let mut failures = Vec::new();
    let shares = play(&players, WARM_UP, async { Ok(()) }, &mut failures).await?;
    failures.extend(server.stop().await.map_err(trouble).err());
    Ok(Live { name: "single", shares, failures })
}

/// Plays against a cluster, whose leader is killed under way.
///
/// # Errors
/// When the cluster or a driver does not start.
pub async fn cluster(languages: &[Language]) -> Check<Live> {
    let mut cluster = ClusterProcess::start().await.map_err(trouble)?;
    let options = format!("addrs={} {}", cluster.addresses(), options_of(&cluster.identity));
    let players = players(languages, &options, LEASE_SHORT_SECONDS, true).await?;
    let mut failures = Vec::new();
    let kill = async {
        tokio::time::sleep(WARM_UP).await;
        cluster.kill_leader().await.map_err(trouble)
    };
    let shares = play(&players, WARM_UP + RECOVERY, kill, &mut failures).await?;
    Ok(Live { name: "cluster", shares, failures })
}

fn trouble(error: String) -> Failure {
    Failure { expected: "a running server".into(), seen: error }
}

async fn players(
    languages: &[Language],
    options: &str,
    lease: u32,
    may_lose: bool,
) -> Check<Vec<Player>> {
    let authority = Arc::new(Authority::new()?);
    let mut players = Vec::new();
    for language in languages {
        let driver = Arc::new(Driver::start(&language.run, &language.directory)?);
        let stage = Stage::new(driver, Arc::clone(&authority), "live");
        let broker = stage.open(options).await?;
        broker.ready().await?;
        players.push(Player { name: language.name.clone(), broker, lease, may_lose });
    }
    Ok(players)
}

/// The check of order, then everybody against everybody while `event` happens; shares count
/// after `warm_up`.
async fn play(
    players: &[Player],
    warm_up: Duration,
    event: impl Future<Output = Check>,
    failures: &mut Vec<Failure>,
) -> Check<BTreeMap<String, Vec<u64>>> {
    for round in 0..ROUND_COUNT {
        failures.extend(in_order(players, round).await.err());
    }
    let (shares, event) = tokio::join!(contend(players, warm_up, failures), event);
    event?;
    for player in players {
        failures.extend(player.broker.close().expect("ok").await.err());
    }
    shares
}

impl Live {
    /// A line for each language and for each failure.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (language, shares) in &self.shares {
            text += &format!("live {}: {language}: grants of each key {shares:?}\n", self.name);
        }
        for failure in &self.failures {
            text += &format!("live {}: FAIL {failure}\n", self.name);
        }
        text
    }
}

/// While one holds the key all others queue, twice each, in an order known to the judge; they are
/// served in that order.
async fn in_order(players: &[Player], round: usize) -> Check {
    let key = format!("6f72646572{:02x}", 0x61 + round);
    let Some(first) = players.get(round % players.len().max(1)) else {
        return fail("languages to play with", "none");
    };
    let mut held = first.acquire(&key, LEASE_LONG_SECONDS);
    granted(&mut held).await?;
    let mut queued: Vec<(usize, Pending)> = Vec::new();
    for place in 0..players.len() * 2 {
        let player = (place * (round + 1) + round) % players.len();
        queued.push((player, players[player].acquire(&key, LEASE_LONG_SECONDS)));
        tokio::time::sleep(QUEUE_PAUSE).await;
    }
    first.broker.release(&held).expect("released").await?;
    let mut last = 0;
    for place in 0..queued.len() {
        let (player, call) = &mut queued[place];
        let (player, token) = (*player, granted(call).await?);
        if token <= last {
            return fail(format!("a token above {last}"), token.to_string());
        }
        last = token;
        // Whoever queued behind must still wait.
        for (_, waiting) in &mut queued[place + 1..] {
            waiting.still_open()?;
        }
        players[player].broker.release(&queued[place].1).expect("released").await?;
    }
    Ok(())
}

impl Player {
    fn acquire(&self, key: &str, lease: u32) -> Pending {
        self.broker.acquire(key, WAIT.as_millis() as u64, lease)
    }

    /// Passes an outcome that a call may have when the leader dies.
    fn lost(&self, failure: Failure) -> Check {
        let is_lost = self.may_lose && LOST.contains(&failure.seen.as_str());
        if is_lost { Ok(()) } else { Err(failure) }
    }
}

/// The token of a grant that must come.
async fn granted(call: &mut Pending) -> Check<u64> {
    let outcome = call.outcome_within(WAIT * 2).await?;
    let token = outcome.text.strip_prefix("granted token=").and_then(|rest| rest.split(' ').next());
    match token.and_then(|token| token.parse().ok()) {
        Some(token) => Ok(token),
        None => fail("granted", outcome.text),
    }
}

/// Everybody wants every key, for a while; gives the grants of each in the counted time.
async fn contend(
    players: &[Player],
    warm_up: Duration,
    failures: &mut Vec<Failure>,
) -> Check<BTreeMap<String, Vec<u64>>> {
    let directory = tempfile::tempdir()?;
    let start = clock::now() + warm_up;
    let end = start + COUNTED;
    let mut callers = JoinSet::new();
    let mut counts = BTreeMap::new();
    let mut grounds = Vec::new();
    for key in KEYS {
        let ground = Arc::new(Ground::new(directory.path().join(key))?);
        let total = Arc::new(AtomicU64::new(0));
        for player in players {
            let count = Arc::new(AtomicU64::new(0));
            for _ in 0..CALLER_COUNT {
                let caller = Caller {
                    player: player.clone(),
                    key,
                    ground: Arc::clone(&ground),
                    total: Arc::clone(&total),
                    counted: Arc::clone(&count),
                };
                callers.spawn(caller.run(start, end));
            }
            counts.entry(player.name.clone()).or_insert_with(Vec::new).push(count);
        }
        grounds.push((ground, total));
    }
    while let Some(ended) = callers.join_next().await {
        match ended {
            Ok(check) => failures.extend(check.err()),
            Err(error) => return fail("a caller that ends", error.to_string()),
        }
    }
    for (ground, total) in grounds {
        let written = ground.read()?.0;
        failures.extend(same("count in the file", total.load(Ordering::SeqCst), written).err());
    }
    let shares: BTreeMap<String, Vec<u64>> = counts
        .into_iter()
        .map(|(name, counts)| {
            (name, counts.iter().map(|count| count.load(Ordering::SeqCst)).collect())
        })
        .collect();
    failures.extend((0..KEYS.len()).flat_map(|key| unfair(&shares, key)));
    Ok(shares)
}

/// The languages whose share of a key is too far from equal.
fn unfair(shares: &BTreeMap<String, Vec<u64>>, key: usize) -> Vec<Failure> {
    let sum: u64 = shares.values().map(|counts| counts[key]).sum();
    let equal = sum as f64 / shares.len().max(1) as f64;
    shares
        .iter()
        .filter(|(_, counts)| {
            (counts[key] as f64 - equal).abs() > equal * SHARE_TOLERANCE || counts[key] == 0
        })
        .map(|(name, counts)| Failure {
            expected: format!("{name}: {equal:.0} grants of key {key}, within 10 %"),
            seen: counts[key].to_string(),
        })
        .collect()
}

/// One of the callers that want a key.
struct Caller {
    player: Player,
    key: &'static str,
    ground: Arc<Ground>,
    /// Grants of the key to anybody.
    total: Arc<AtomicU64>,
    /// Grants to this language in the counted time.
    counted: Arc<AtomicU64>,
}

impl Caller {
    async fn run(self, start: Instant, end: Instant) -> Check {
        while clock::now() < end {
            let mut call = self.player.acquire(self.key, self.player.lease);
            let token = match granted(&mut call).await {
                Ok(token) => token,
                Err(failure) => {
                    self.player.lost(failure)?;
                    tokio::time::sleep(LOST_PAUSE).await;
                    continue;
                }
            };
            self.ground.work(&self.player.name, token).await?;
            self.total.fetch_add(1, Ordering::SeqCst);
            if (start..end).contains(&clock::now()) {
                self.counted.fetch_add(1, Ordering::SeqCst);
            }
            let released = self.player.broker.release(&call).expect("released").await;
            if let Err(failure) = released {
                self.player.lost(failure)?;
            }
        }
        Ok(())
    }
}

impl Ground {
    fn new(file: PathBuf) -> Check<Self> {
        std::fs::write(&file, "0 0")?;
        Ok(Self { file, is_used: AtomicBool::new(false) })
    }

    /// The count, and the highest token.
    fn read(&self) -> Check<(u64, u64)> {
        let text = std::fs::read_to_string(&self.file)?;
        let numbers = text
            .split_once(' ')
            .and_then(|(count, token)| Some((count.parse().ok()?, token.parse().ok()?)));
        numbers.map_or_else(|| fail("a count and a token", &text), Ok)
    }

    /// Counts one up, as its only user, with a token above all before.
    async fn work(&self, who: &str, token: u64) -> Check {
        if self.is_used.swap(true, Ordering::SeqCst) {
            return fail(format!("{who} alone with token {token}"), "another holder");
        }
        let (count, highest) = self.read()?;
        if token <= highest {
            return fail(format!("{who}: a token above {highest}"), token.to_string());
        }
        tokio::time::sleep(WORK).await;
        std::fs::write(&self.file, format!("{} {token}", count + 1))?;
        self.is_used.store(false, Ordering::SeqCst);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_that_is_too_small_is_named() {
        let shares =
            |go: u64| BTreeMap::from([("go".to_owned(), vec![go]), ("c".to_owned(), vec![100])]);
        assert!(unfair(&shares(95), 0).is_empty());
        assert_eq!(unfair(&shares(50), 0).len(), 2);
        assert!(!unfair(&shares(0), 0).is_empty());
    }

    #[tokio::test]
    async fn two_users_at_once_and_old_tokens_are_seen() {
        let directory = tempfile::tempdir().expect("a directory");
        let ground = Ground::new(directory.path().join("g")).expect("a file");
        let (one, two) = tokio::join!(ground.work("a", 5), ground.work("b", 6));
        assert!(one.is_ok());
        assert!(two.expect_err("overlap").seen.contains("another holder"));
        assert!(ground.work("c", 5).await.expect_err("old").expected.contains("above 5"));
        assert_eq!(ground.read(), Ok((1, 5)));
    }
}
