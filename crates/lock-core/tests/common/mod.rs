//! The dumbest correct lock table.

use ticketing_lock_core::{Command, Event, Instant, Owner, RefusedReason, TableLimits, limits};

/// A request from its arrival to the end of its grant.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) owner: Owner,
    pub(crate) wait_seconds: u8,
    pub(crate) lease_seconds: u8,
    pub(crate) keys: Vec<Vec<u8>>,
    /// 0 when it never queued.
    pub(crate) arrival: u64,
    /// 0 while it waits.
    pub(crate) token: u64,
    pub(crate) deadline: Instant,
    pub(crate) is_named: bool,
    is_dropping: bool,
}

impl Request {
    fn timer_class(&self) -> u16 {
        if self.token > 0 { self.lease_seconds.into() } else { 256 + u16::from(self.wait_seconds) }
    }
}

/// All requests in the order in which they entered. Whoever shares no key with an earlier one holds
/// its keys; that is the whole rule.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) limits: TableLimits,
    pub(crate) token_last: u64,
    pub(crate) arrival_last: u64,
    pub(crate) clock: Instant,
    pub(crate) requests: Vec<Request>,
    pub(crate) events: Vec<Event>,
}

impl Model {
    pub(crate) fn new(limits: TableLimits) -> Self {
        Self {
            limits,
            token_last: 0,
            arrival_last: 0,
            clock: Instant::from_nanos(0),
            requests: Vec::new(),
            events: Vec::new(),
        }
    }

    pub(crate) fn apply(&mut self, command: Command<'_>, now: Instant) {
        self.clock = self.clock.max(now);
        match command {
            Command::Acquire { owner, wait_seconds, lease_seconds, keys } => {
                self.acquire(owner, wait_seconds, lease_seconds, keys);
            }
            Command::ClearWaiters => {
                let mut arrivals: Vec<_> = self.waiters().collect();
                arrivals.sort_by_key(|waiter| (waiter.wait_seconds, waiter.arrival));
                let arrivals = arrivals.iter().map(|waiter| waiter.arrival).collect();
                self.drop_waiters(arrivals);
            }
            Command::CloseSession { session } => {
                let is_its = |waiter: &&Request| waiter.owner.session == session;
                let arrivals = self.waiters().filter(is_its).map(|waiter| waiter.arrival);
                let arrivals = arrivals.collect();
                self.drop_waiters(arrivals);
            }
            Command::Configure { limits } => self.limits = limits,
            Command::Expire { token, key } => {
                if self.holder(key).is_some_and(|grant| self.requests[grant].token == token) {
                    self.expire(token);
                }
            }
            Command::RaiseTokenFloor { floor } => self.token_last = self.token_last.max(floor),
            Command::Reclaim { session, token } => {
                let is_it =
                    |grant: &Request| grant.token == token && grant.owner.session == session;
                if token > 0
                    && let Some(at) = self.requests.iter().position(is_it)
                {
                    self.remove(at);
                }
            }
            Command::Release { owner, token, keys } => self.release(owner, token, keys),
            Command::TimeOut { arrival } => {
                if let Some(at) = self.position(arrival) {
                    self.time_out(at);
                }
            }
        }
    }

    fn acquire(&mut self, owner: Owner, wait_seconds: u8, lease_seconds: u8, keys: &[&[u8]]) {
        let session_fits = owner.session.index() < limits::SESSION_COUNT_MAX;
        if !well_formed(keys) || !(1..=250).contains(&lease_seconds) || !session_fits {
            self.events.push(Event::Refused { owner, reason: RefusedReason::Malformed });
            return;
        }
        let key_count = keys.len() as u8;
        let taken_count = keys.iter().filter(|key| self.members(key).next().is_some()).count();
        if taken_count > 0 && wait_seconds == 0 {
            self.events.push(Event::TimedOut { owner, key_count });
            return;
        }
        let is_queue_full = |key: &&&[u8]| {
            let waiters = self.members(key).filter(|member| member.token == 0).count();
            waiters > 0 && waiters >= self.limits.waiters_per_key_max as usize
                || waiters == 0
                    && self.holder(key).is_some()
                    && self.limits.waiters_per_key_max == 0
        };
        let new_count = keys.len() - taken_count;
        let keys_fit =
            new_count == 0 || self.key_count() + new_count <= self.limits.key_count_max as usize;
        if keys.iter().any(|key| is_queue_full(&key)) || !keys_fit || self.token_last == u64::MAX {
            self.events.push(Event::Refused { owner, reason: RefusedReason::Capacity });
            return;
        }
        self.requests.push(Request {
            owner,
            wait_seconds,
            lease_seconds,
            keys: keys.iter().map(|key| key.to_vec()).collect(),
            arrival: 0,
            token: 0,
            deadline: self.clock.after_seconds(wait_seconds),
            is_named: false,
            is_dropping: false,
        });
        let at = self.requests.len() - 1;
        if taken_count == 0 {
            self.grant(at);
        } else {
            self.arrival_last += 1;
            self.requests[at].arrival = self.arrival_last;
            self.events.push(Event::Queued { owner, arrival: self.arrival_last });
        }
    }

    fn release(&mut self, owner: Owner, token: u64, keys: &[&[u8]]) {
        if !well_formed(keys) {
            self.events.push(Event::Refused { owner, reason: RefusedReason::Malformed });
            return;
        }
        let held = keys
            .iter()
            .filter_map(|key| self.holder(key))
            .find(|grant| self.requests[*grant].token == token);
        match held {
            None => self.events.push(Event::NotHeld { owner }),
            Some(at) if self.requests[at].keys != keys => {
                self.events.push(Event::GroupMismatch { owner });
            }
            Some(at) => {
                self.events.push(Event::Released { owner });
                self.remove(at);
            }
        }
    }

    /// What is due next: by deadline, then by kind and length, then in the order it began.
    pub(crate) fn due(&self) -> Option<usize> {
        let is_due = |at: &usize| {
            let request = &self.requests[*at];
            request.deadline <= self.clock && !request.is_named
        };
        (0..self.requests.len()).filter(is_due).min_by_key(|at| {
            let request = &self.requests[*at];
            let number = if request.token > 0 { request.token } else { request.arrival };
            (request.deadline, request.timer_class(), number)
        })
    }

    pub(crate) fn end(&mut self, at: usize) {
        match self.requests[at].token {
            0 => self.time_out(at),
            token => self.expire(token),
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let armed = self.requests.iter().filter(|request| !request.is_named);
        armed.map(|request| request.deadline).min()
    }

    pub(crate) fn holder(&self, key: &[u8]) -> Option<usize> {
        let is_holder =
            |request: &Request| request.token > 0 && request.keys.iter().any(|own| own == key);
        self.requests.iter().position(is_holder)
    }

    pub(crate) fn key_count(&self) -> usize {
        let mut keys: Vec<_> = self.requests.iter().flat_map(|request| &request.keys).collect();
        keys.sort();
        keys.dedup();
        keys.len()
    }

    pub(crate) fn waiters(&self) -> impl Iterator<Item = &Request> {
        self.requests.iter().filter(|request| request.token == 0)
    }

    fn members(&self, key: &[u8]) -> impl Iterator<Item = &Request> {
        self.requests.iter().filter(move |request| request.keys.iter().any(|own| own == key))
    }

    fn position(&self, arrival: u64) -> Option<usize> {
        let is_it = |request: &Request| request.token == 0 && request.arrival == arrival;
        self.requests.iter().position(is_it)
    }

    fn expire(&mut self, token: u64) {
        self.events.push(Event::Expired { token });
        let at = self.requests.iter().position(|request| request.token == token);
        self.remove(at.expect("the caller found it"));
    }

    fn time_out(&mut self, at: usize) {
        let owner = self.requests[at].owner;
        let key_count = self.requests[at].keys.len() as u8;
        self.events.push(Event::TimedOut { owner, key_count });
        self.remove(at);
    }

    fn drop_waiters(&mut self, arrivals: Vec<u64>) {
        for request in &mut self.requests {
            request.is_dropping = request.token == 0 && arrivals.contains(&request.arrival);
        }
        for arrival in arrivals {
            let at = self.position(arrival).expect("waiters that are dropped are not granted");
            self.events.push(Event::WaiterDropped { owner: self.requests[at].owner });
            self.remove(at);
        }
    }

    fn remove(&mut self, at: usize) {
        let gone = self.requests.remove(at);
        for key in gone.keys {
            let shares = |request: &Request| request.keys.contains(&key);
            let Some(next) = self.requests.iter().position(shares) else { continue };
            if self.requests[next].token == 0
                && !self.requests[next].is_dropping
                && self.token_last < u64::MAX
                && self.is_its_turn(next)
            {
                self.grant(next);
            }
        }
    }

    fn is_its_turn(&self, at: usize) -> bool {
        let shares =
            |earlier: &Request| earlier.keys.iter().any(|key| self.requests[at].keys.contains(key));
        !self.requests[..at].iter().any(shares)
    }

    fn grant(&mut self, at: usize) {
        self.token_last += 1;
        let request = &mut self.requests[at];
        request.token = self.token_last;
        request.deadline = self.clock.after_seconds(request.lease_seconds);
        request.is_named = false;
        self.events.push(Event::Granted {
            owner: request.owner,
            token: request.token,
            key_count: request.keys.len() as u8,
        });
    }
}

fn well_formed(keys: &[&[u8]]) -> bool {
    !keys.is_empty()
        && keys.len() <= 16
        && keys.iter().all(|key| !key.is_empty() && key.len() <= 128)
        && keys.windows(2).all(|pair| pair[0] < pair[1])
}
