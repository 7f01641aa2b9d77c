//! The scenarios, a file for each group.

mod back_off;
mod close;
mod correlation;
mod cut;
mod handshake;
mod limits;
mod release;
mod reply;
mod request;
mod retry;
mod routing;
mod tls;
mod unwanted;
mod warm_up;

use crate::delay;
use crate::failure::{Check, fail};
use crate::limits::{DELAY_COUNT_MAX, EARLINESS_MAX, LATENESS_MAX, RETRY_PAUSE_MAX};
use crate::scenario::Scenario;
use crate::vectors::Vectors;
use std::time::{Duration, Instant};

/// Every scenario, in the matrix's order of groups.
pub fn all(vectors: &Vectors) -> Vec<Scenario> {
    [
        handshake::scenarios(vectors),
        request::scenarios(vectors),
        reply::scenarios(vectors),
        correlation::scenarios(vectors),
        cut::scenarios(),
        retry::scenarios(),
        routing::scenarios(),
        back_off::scenarios(),
        release::scenarios(),
        unwanted::scenarios(),
        limits::scenarios(vectors),
        tls::scenarios(),
        close::scenarios(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// When a client began to count: the judge cannot know better than between two of its readings.
#[derive(Clone, Copy, Debug)]
struct Moment {
    earliest: Instant,
    latest: Instant,
}

impl From<Instant> for Moment {
    fn from(at: Instant) -> Self {
        Self { earliest: at, latest: at }
    }
}

/// Passes when a client's timer acted when due: never sooner, whatever the machine does, and no
/// later than a healthy client on this machine.
fn timing(what: &str, due: Duration, begun: impl Into<Moment>, seen: Instant) -> Check {
    let begun = begun.into();
    judge_timing(what, due, begun, seen, lateness_max(begun.earliest))
}

/// How late a healthy client may be on this machine, as far as was seen since then.
fn lateness_max(since: Instant) -> Duration {
    LATENESS_MAX + delay::worst_since(since) * DELAY_COUNT_MAX
}

fn judge_timing(
    what: &str,
    due: Duration,
    begun: Moment,
    seen: Instant,
    lateness_max: Duration,
) -> Check {
    let longest = seen.saturating_duration_since(begun.earliest);
    let shortest = seen.saturating_duration_since(begun.latest);
    if longest + EARLINESS_MAX < due || shortest > due + lateness_max {
        let expected = format!("{what}: {due:?}, at most {lateness_max:?} late");
        return fail(expected, format!("between {shortest:?} and {longest:?}"));
    }
    Ok(())
}

/// Passes when a call ended with its wait, or so shortly before that another attempt would have
/// come too late.
fn wait_over(due: Duration, begun: Instant, seen: Instant) -> Check {
    let early = if seen < begun + due { RETRY_PAUSE_MAX } else { Duration::ZERO };
    timing("the call ends with its wait", due, begun, seen + early)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use std::collections::HashSet;
    use std::path::Path;

    fn vectors() -> Vectors {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors");
        Vectors::load(&root).expect("golden vectors")
    }

    #[test]
    fn every_vector_is_replayed_or_skipped_for_a_reason() {
        let vectors = vectors();
        let scenarios = all(&vectors);
        for case in &vectors.cases {
            // Followed by nothing, or by how the case is used.
            let replayed = scenarios.iter().any(|scenario| {
                let name = scenario.id.split_once('/').map_or("", |(_, name)| name);
                name.strip_prefix(&case.id).is_some_and(|rest| !rest.starts_with(char::is_numeric))
            });
            assert_ne!(replayed, case.skip_reason().is_some(), "{}", case.id);
        }
    }

    #[test]
    fn scenario_ids_are_unique() {
        let scenarios = all(&vectors());
        let ids: HashSet<_> = scenarios.iter().map(|scenario| &scenario.id).collect();
        assert_eq!(ids.len(), scenarios.len());
    }

    #[test]
    fn times_are_judged_on_both_sides() {
        let (second, tenth) = (Duration::from_secs(1), Duration::from_millis(100));
        let earliest = clock::now();
        let begun = Moment { earliest, latest: earliest + tenth };
        let judged = |after| judge_timing("t", second, begun, earliest + after, tenth);
        assert!(judged(second).is_ok());
        assert!(judged(second - EARLINESS_MAX * 2).is_err());
        assert!(judged(second + tenth * 2).is_ok(), "late, counted from the latest");
        assert!(judged(second + tenth * 3).is_err());
        assert!(wait_over(second, earliest, earliest + second - RETRY_PAUSE_MAX).is_ok());
        assert!(wait_over(second, earliest, earliest + second - RETRY_PAUSE_MAX * 2).is_err());
    }
}
