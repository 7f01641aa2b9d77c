//! Deadlines of sessions. All of one kind run equally long, so a list in the order in which they
//! began is an exact timer: insert, remove and expire are O(1).

use std::time::Duration;
use ticketing_lock_core::Instant;

const NONE: u32 = u32::MAX;

/// A session's place in one list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    previous: u32,
    next: u32,
    since: Instant,
    is_armed: bool,
}

impl Default for Link {
    fn default() -> Self {
        Self { previous: NONE, next: NONE, since: Instant::from_nanos(0), is_armed: false }
    }
}

impl Link {
    pub(crate) const fn is_armed(&self) -> bool {
        self.is_armed
    }
}

/// Where the links of one list live.
pub(crate) trait Links {
    fn link(&mut self, index: u32) -> &mut Link;
}

/// One list.
#[derive(Debug)]
pub(crate) struct Deadlines {
    head: u32,
    tail: u32,
    duration: Duration,
    /// When the head began; kept here so that asking touches no session.
    head_since: Instant,
}

impl Deadlines {
    pub(crate) const fn new(duration: Duration) -> Self {
        Self { head: NONE, tail: NONE, duration, head_since: Instant::from_nanos(0) }
    }

    /// Starts the session's time, again if it runs already.
    pub(crate) fn arm(&mut self, links: &mut impl Links, index: u32, now: Instant) {
        self.disarm(links, index);
        *links.link(index) = Link { previous: self.tail, next: NONE, since: now, is_armed: true };
        if self.tail == NONE {
            self.head = index;
            self.head_since = now;
        } else {
            links.link(self.tail).next = index;
        }
        self.tail = index;
    }

    /// Stops the session's time. No effect when it does not run.
    pub(crate) fn disarm(&mut self, links: &mut impl Links, index: u32) {
        let link = std::mem::take(links.link(index));
        if !link.is_armed {
            return;
        }
        if link.previous == NONE {
            self.head = link.next;
            if link.next != NONE {
                self.head_since = links.link(link.next).since;
            }
        } else {
            links.link(link.previous).next = link.next;
        }
        if link.next == NONE {
            self.tail = link.previous;
        } else {
            links.link(link.next).previous = link.previous;
        }
    }

    /// Starts everybody's time again.
    pub(crate) fn start_over(&mut self, links: &mut impl Links, now: Instant) {
        self.head_since = now;
        let mut index = self.head;
        while index != NONE {
            let link = links.link(index);
            link.since = now;
            index = link.next;
        }
    }

    /// When the first of them is over.
    pub(crate) fn next(&self) -> Option<Instant> {
        (self.head != NONE).then(|| self.ends(self.head_since))
    }

    /// Takes out one that is over.
    pub(crate) fn pop_due(&mut self, links: &mut impl Links, now: Instant) -> Option<u32> {
        if self.next()? > now {
            return None;
        }
        let index = self.head;
        self.disarm(links, index);
        Some(index)
    }

    fn ends(&self, since: Instant) -> Instant {
        let duration = self.duration.as_nanos() as u64;
        Instant::from_nanos(since.as_nanos().saturating_add(duration))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Links for [Link; 4] {
        fn link(&mut self, index: u32) -> &mut Link {
            &mut self[index as usize]
        }
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn they_end_in_the_order_they_began_and_never_early() {
        let mut links = [Link::default(); 4];
        let mut list = Deadlines::new(Duration::from_secs(3));
        for index in 0..4 {
            list.arm(&mut links, index, at(u64::from(index)));
        }
        list.disarm(&mut links, 1);
        list.disarm(&mut links, 1);
        list.arm(&mut links, 0, at(4));
        assert_eq!(list.next(), Some(at(5)));
        assert_eq!(list.pop_due(&mut links, Instant::from_nanos(5_000_000_000 - 1)), None);
        assert_eq!(list.pop_due(&mut links, at(9)), Some(2));
        assert_eq!(list.pop_due(&mut links, at(9)), Some(3));
        assert_eq!(list.next(), Some(at(7)));
        assert_eq!(list.pop_due(&mut links, at(9)), Some(0));
        assert_eq!(list.next(), None);
        assert_eq!(list.pop_due(&mut links, at(99)), None);
    }

    #[test]
    fn everybody_can_start_over_in_the_same_order() {
        let mut links = [Link::default(); 4];
        let mut list = Deadlines::new(Duration::from_secs(3));
        list.start_over(&mut links, at(1));
        assert_eq!(list.next(), None);
        for index in 0..3 {
            list.arm(&mut links, index, at(1));
        }
        list.start_over(&mut links, at(9));
        assert_eq!(list.next(), Some(at(12)));
        list.disarm(&mut links, 0);
        assert_eq!(list.next(), Some(at(12)));
        list.arm(&mut links, 3, at(10));
        for (index, end) in [(1, 12), (2, 12), (3, 13)] {
            assert_eq!(list.next(), Some(at(end)));
            assert_eq!(list.pop_due(&mut links, at(end)), Some(index));
        }
    }
}
