//! How late the judge itself is run. On a machine that does much else its clients are late as
//! well, and that is no fault of theirs: what is allowed to them grows with what is seen here.

use crate::clock;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often the judge looks whether it is late.
const PERIOD: Duration = Duration::from_millis(10);
/// Shorter delays are not worth a note.
const NOTABLE: Duration = Duration::from_millis(2);

static SEEN: Mutex<Seen> = Mutex::new(Seen { due: None, delays: Vec::new() });

struct Seen {
    /// When the next look is due; `None` while nobody looks.
    due: Option<Instant>,
    /// When a look came late, and by how much.
    delays: Vec<(Instant, Duration)>,
}

/// Looks for ever.
pub async fn watch() {
    loop {
        seen().due = Some(clock::now() + PERIOD);
        tokio::time::sleep(PERIOD).await;
        seen().look(clock::now());
    }
}

/// The longest delay since then; a delay under way counts.
pub fn worst_since(start: Instant) -> Duration {
    seen().worst(start, clock::now())
}

fn seen() -> MutexGuard<'static, Seen> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seen {
    fn look(&mut self, now: Instant) {
        let delay = self.under_way(now);
        if delay >= NOTABLE {
            self.delays.push((now, delay));
        }
    }

    fn under_way(&self, now: Instant) -> Duration {
        self.due.map_or(Duration::ZERO, |due| now.saturating_duration_since(due))
    }

    fn worst(&self, start: Instant, now: Instant) -> Duration {
        let since = self.delays.iter().rev().take_while(|(at, _)| *at >= start);
        since.map(|(_, delay)| *delay).fold(self.under_way(now), Duration::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_delay_counts_while_it_lasts_and_from_then_on() {
        let ms = Duration::from_millis;
        let start = clock::now();
        let mut seen = Seen { due: None, delays: Vec::new() };
        assert_eq!(seen.worst(start, start + ms(99)), ms(0), "nobody looks");
        seen.due = Some(start + ms(10));
        assert_eq!(seen.worst(start, start + ms(60)), ms(50), "under way");
        seen.look(start + ms(60));
        seen.due = Some(start + ms(70));
        seen.look(start + ms(71));
        seen.due = Some(start + ms(80));
        assert_eq!(seen.worst(start, start + ms(75)), ms(50), "over");
        assert_eq!(seen.worst(start + ms(61), start + ms(83)), ms(3), "before that");
    }
}
