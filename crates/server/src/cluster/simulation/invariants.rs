//! What must hold of all grants that clients were told of, on true time.

use super::client::KEY_COUNT;
use std::collections::{BTreeMap, BTreeSet};
use ticketing_lock_core::Owner;

/// A grant, and how long its client relied on it. Times are microseconds of true time.
#[derive(Clone, Debug)]
pub(super) struct Held {
    /// A bit for each key.
    pub(super) keys: u8,
    pub(super) token: u64,
    /// Where the request stood in the order in which its process took requests in.
    pub(super) arrival: Arrival,
    /// When the request was sent.
    pub(super) sent: u64,
    /// When the grant arrived.
    pub(super) from: u64,
    /// When the holder stopped relying on it; `from` when it came too late to be of use.
    pub(super) until: u64,
}

/// A place in the order in which one process took requests in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Arrival {
    pub(super) incarnation: u64,
    pub(super) number: u64,
}

/// All grants so far.
#[derive(Default)]
pub(super) struct Records {
    ended: Vec<Held>,
    /// By time, the largest token that had been told by then.
    newest: Vec<(u64, u64)>,
    /// The process that leads a term.
    leaders: BTreeMap<u64, u64>,
    /// Requests, by the process that took them in, that some node has granted.
    granted: BTreeSet<(u64, Owner)>,
    /// Requests that were answered otherwise.
    refused: BTreeSet<(u64, Owner)>,
}

impl Records {
    /// A grant was told. Its token is above all that anybody had been told when it was asked for,
    /// of whatever key.
    pub(super) fn told(&mut self, held: &Held) {
        let known = self.newest.partition_point(|(at, _)| *at <= held.sent);
        if let Some((_, token)) = self.newest[..known].last() {
            assert!(held.token > *token, "a token below {token}, which was told before: {held:?}");
        }
        let newest = self.newest.last().map_or(0, |(_, token)| *token);
        self.newest.push((held.from, newest.max(held.token)));
    }

    /// That process leads a term.
    pub(super) fn leads(&mut self, term: u64, incarnation: u64) {
        let first = *self.leaders.entry(term).or_insert(incarnation);
        assert_eq!(first, incarnation, "two leaders of term {term}");
    }

    /// A node has applied a grant, from an entry of that term.
    pub(super) fn granted(&mut self, term: u64, owner: Owner) {
        let incarnation = self.leaders.get(&term).expect("whoever proposed it led");
        let request = (*incarnation, owner);
        assert!(!self.refused.contains(&request), "{request:?} was refused and is granted");
        self.granted.insert(request);
    }

    /// A request was answered that it is not granted, and nothing was done.
    pub(super) fn refused(&mut self, incarnation: u64, owner: Owner) {
        let request = (incarnation, owner);
        assert!(!self.granted.contains(&request), "{request:?} is granted and was refused");
        self.refused.insert(request);
    }

    /// A client no longer relies on a grant.
    pub(super) fn ended(&mut self, held: Held) {
        self.ended.push(held);
    }

    /// Checks every key, with those that are still held.
    pub(super) fn check<'a>(&'a self, holding: impl Iterator<Item = &'a Held>) {
        let all: Vec<_> = self.ended.iter().chain(holding).collect();
        for key in 0..KEY_COUNT {
            let mut of_key: Vec<_> =
                all.iter().copied().filter(|held| held.keys & 1 << key != 0).collect();
            check_holders(&mut of_key);
            check_queue(&mut of_key);
        }
    }
}

/// No two relied on one key at once, and who came later has the larger token.
fn check_holders(held: &mut [&Held]) {
    held.sort_unstable_by_key(|held| held.token);
    let mut last: Option<&Held> = None;
    for held in held.iter() {
        if let Some(last) = last {
            assert!(last.token < held.token, "one token twice: {last:?} and {held:?}");
            assert!(last.until <= held.from, "two holders: {last:?} and {held:?}");
        }
        // Nobody relied on a grant that came too late, not even on its time.
        if held.until > held.from {
            last = Some(held);
        }
    }
}

/// Grants of one process follow the order in which it took the requests in.
fn check_queue(held: &mut [&Held]) {
    held.sort_unstable_by_key(|held| held.arrival);
    for pair in held.windows(2) {
        let [first, second] = pair else { continue };
        if first.arrival.incarnation == second.arrival.incarnation {
            assert!(first.token < second.token, "out of order: {first:?} and {second:?}");
        }
    }
}
