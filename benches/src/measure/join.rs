//! How fast a replacement node joins a cluster that holds many keys, and what clients notice.

use std::io::{self, Error, ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde::Serialize;

use super::hold;
use super::throughput::Percentiles;
use crate::clock::{NANOS_PER_SECOND, now_nanos};
use crate::cluster::{Cluster, NODE_COUNT};
use crate::driver::LEASE_SECONDS_MAX;
use crate::load::{Load, Shape};

/// Before the old node dies, so that caches and windows are warm.
const WARM_UP_NANOS: u64 = 300_000_000;
/// A node that has not joined after so long never will.
const JOIN_NANOS_MAX: u64 = 60 * NANOS_PER_SECOND;
/// How often the new node is asked how it stands.
const POLL: Duration = Duration::from_millis(10);
/// The load runs so long between two looks at whether the node has joined.
const SLICE_NANOS: u64 = 5_000_000;
/// Longest wait for a node that is asked; it asks nobody itself.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
/// What a voter that has caught up and knows a leader says.
const READY: &str = "\nready true\n";

/// What a replacement cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Join {
    /// Keys held meanwhile.
    pub keys: usize,
    /// From the start of the new node's process until it votes, in seconds.
    pub seconds: f64,
    /// The load beside it.
    pub pairs_per_second: f64,
    /// From request to answer, while it joined.
    pub latency_micros: Percentiles,
    /// Highest resident memory of the leader, in bytes.
    pub leader_peak_bytes: u64,
}

/// Fills the cluster with `keys` held keys, kills a follower under load, and starts its successor.
///
/// # Errors
/// When a node fails, or the successor does not join.
pub fn run(cluster: &mut Cluster, shape: Shape, keys: usize) -> io::Result<Join> {
    let leader = cluster.leader()?;
    let address = cluster.split(leader).0.address();
    let driver = cluster.ticketing_driver()?;
    hold::fill(&cluster.ticketing_driver()?.with_lease(LEASE_SECONDS_MAX), address, keys)?;
    let mut load = Load::open(&driver, address, shape, now_nanos())?;
    load.start()?;
    load.run(WARM_UP_NANOS, &mut None)?;
    let slot = (leader + 1) % NODE_COUNT;
    cluster.kill(slot);
    load.run(WARM_UP_NANOS, &mut None)?;
    load.reset();
    let start = now_nanos();
    let socket = cluster.start_successor(slot)?;
    while_asking(socket, || load.run(SLICE_NANOS, &mut None))?;
    let seconds = (now_nanos() - start) as f64 / NANOS_PER_SECOND as f64;
    let tally = load.tally();
    let join = Join {
        keys,
        seconds,
        pairs_per_second: tally.pairs as f64 / seconds,
        latency_micros: Percentiles::of(&tally.latency).unwrap_or_default(),
        leader_peak_bytes: cluster.split(leader).0.memory()?.peak_bytes,
    };
    load.drain()?;
    Ok(join)
}

/// Repeats `work` until the node behind `socket` is ready. It is asked by a second thread: a node
/// that is busy answers late, which must not hold up the generator.
fn while_asking(socket: PathBuf, mut work: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let (joined, over) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !joined.load(Ordering::Acquire) && !over.load(Ordering::Acquire) {
                // Before it listens, and while it is busy, it is not ready.
                joined.store(is_ready(&socket).unwrap_or(false), Ordering::Release);
                thread::sleep(POLL);
            }
        });
        let end = now_nanos() + JOIN_NANOS_MAX;
        let result = loop {
            match work() {
                Ok(()) if joined.load(Ordering::Acquire) => break Ok(()),
                Ok(()) if now_nanos() < end => {}
                Ok(()) => break Err(Error::new(ErrorKind::TimedOut, "no join within 60 s")),
                Err(error) => break Err(error),
            }
        };
        over.store(true, Ordering::Release);
        result
    })
}

fn is_ready(socket: &PathBuf) -> io::Result<bool> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(ANSWER_TIME_MAX))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text.contains(READY))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn work_goes_on_until_the_node_is_ready() {
        let folder = tempfile::tempdir().expect("a directory");
        let socket = folder.path().join("admin");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let node = thread::spawn(move || {
            for answer in ["mode cluster\nready false\n", "mode cluster\nready true\nrole x\n"] {
                let (mut stream, _) = listener.accept().expect("asked");
                stream.write_all(answer.as_bytes()).expect("written");
            }
        });
        let mut turns = 0;
        let work = || {
            turns += 1;
            thread::yield_now();
            Ok(())
        };
        while_asking(socket.clone(), work).expect("ready");
        node.join().expect("asked twice");
        assert!(turns > 0);
        let failed = while_asking(socket, || Err(Error::other("no leader")));
        assert_eq!(failed.expect_err("the load failed").to_string(), "no leader");
    }
}
