//! One connection of the generator and its workers.

use std::io::{self, Error, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;

use rustix::event::epoll;
use rustix::fd::OwnedFd;

use super::{Keys, Shared, key};
use crate::buffer::Unfinished;
use crate::clock::now_nanos;
use crate::driver::{Driver, Event};

pub(super) struct Connection<D: Driver> {
    stream: TcpStream,
    session: D::Session,
    lanes: Vec<D::Lane>,
    workers: Vec<Worker>,
    input: Unfinished,
    /// What the socket did not take; empty unless the server stops reading.
    unsent: Vec<u8>,
    number: u64,
}

/// What the generator knows of a lane.
#[derive(Clone, Copy, Debug)]
struct Worker {
    /// When its request was sent; of an acquire that is denied, the first.
    asked_at: u64,
    /// Index among the contended keys, if its key is one.
    contended: Option<usize>,
}

impl<D: Driver> Connection<D> {
    pub(super) fn open(
        driver: &D,
        address: SocketAddr,
        numbers: Range<usize>,
        keys: Keys,
        salt: u64,
    ) -> io::Result<Self> {
        let (stream, session) = driver.open(address, numbers.len())?;
        stream.set_nonblocking(true)?;
        let (mut lanes, mut workers) = (Vec::new(), Vec::new());
        for number in numbers {
            let (key_number, contended) = match keys {
                Keys::Private => (number, None),
                Keys::Shared(count) => (number % count, Some(number % count)),
            };
            lanes.push(driver.lane(&session, &key(salt, key_number)));
            workers.push(Worker { asked_at: 0, contended });
        }
        let (input, unsent) = (Unfinished::default(), Vec::new());
        Ok(Self { stream, session, lanes, workers, input, unsent, number: 0 })
    }

    pub(super) fn register(&mut self, epoll: &OwnedFd, number: u64) -> io::Result<()> {
        self.number = number;
        let data = epoll::EventData::new_u64(number);
        Ok(epoll::add(epoll, &self.stream, data, epoll::EventFlags::IN)?)
    }

    pub(super) fn start(
        &mut self,
        driver: &D,
        shared: &mut Shared,
        epoll: &OwnedFd,
    ) -> io::Result<()> {
        shared.output.clear();
        let now = now_nanos();
        for lane in 0..self.lanes.len() {
            shared.busy += 1;
            self.acquire(driver, shared, lane, now);
        }
        self.send(&shared.output, epoll)
    }

    pub(super) fn ready(
        &mut self,
        driver: &D,
        shared: &mut Shared,
        epoll: &OwnedFd,
        writable: bool,
    ) -> io::Result<()> {
        if writable {
            self.send(&[], epoll)?;
        }
        let size = match self.input.read(&mut self.stream, &mut shared.input) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => {
                return Err(Error::new(error.kind(), format!("lost a connection: {error}")));
            }
            Ok(size) => size,
        };
        // Moved out for the loop, which needs `shared` and the input at once.
        let input = std::mem::take(&mut shared.input);
        let result = self.digest(driver, shared, &input[..size]);
        shared.input = input;
        result?;
        self.send(&shared.output, epoll)
    }

    /// Reads every whole answer in `bytes` and appends what the workers ask next to the output.
    fn digest(&mut self, driver: &D, shared: &mut Shared, bytes: &[u8]) -> io::Result<()> {
        let now = now_nanos();
        shared.output.clear();
        let mut rest = bytes;
        loop {
            let event = driver.event(&mut self.session, &mut self.lanes, rest, &mut shared.output);
            let Some((event, size)) = event.map_err(|fault| Error::other(fault.to_string()))?
            else {
                break;
            };
            rest = &rest[size..];
            self.handle(driver, shared, event, now);
        }
        self.input.keep(rest);
        Ok(())
    }

    fn handle(&mut self, driver: &D, shared: &mut Shared, event: Event, now: u64) {
        shared.tally.requests += u64::from(event != Event::Housekeeping);
        match event {
            Event::Housekeeping => {}
            Event::Granted { lane } => {
                let worker = &mut self.workers[lane];
                shared.tally.latency.record(now - worker.asked_at);
                worker.asked_at = now;
                if let Some(index) = worker.contended {
                    let key = &mut shared.contended[index];
                    if let Some(released_at) = key.released_at.take() {
                        shared.tally.hand_off.record(now - released_at);
                    }
                    key.waiting -= 1;
                    key.released_at = (key.waiting > 0).then_some(now);
                }
                let lanes = &mut self.lanes[lane];
                driver.release(&mut self.session, lane, lanes, &mut shared.output);
            }
            Event::Released { lane } => {
                shared.tally.latency.record(now - self.workers[lane].asked_at);
                shared.tally.pairs += 1;
                if shared.looping {
                    self.acquire(driver, shared, lane, now);
                } else {
                    shared.busy -= 1;
                }
            }
            Event::Denied { lane } => {
                shared.tally.denied += 1;
                if D::POLL_PAUSE_NANOS == 0 {
                    let frames = &mut self.lanes[lane];
                    driver.acquire(&mut self.session, lane, frames, &mut shared.output);
                } else {
                    shared.pauses.push_back((now + D::POLL_PAUSE_NANOS, self.number, lane));
                }
            }
        }
    }

    /// The pause of a denied worker is over.
    pub(super) fn ask_again(
        &mut self,
        driver: &D,
        shared: &mut Shared,
        epoll: &OwnedFd,
        lane: usize,
    ) -> io::Result<()> {
        shared.output.clear();
        driver.acquire(&mut self.session, lane, &mut self.lanes[lane], &mut shared.output);
        self.send(&shared.output, epoll)
    }

    fn acquire(&mut self, driver: &D, shared: &mut Shared, lane: usize, now: u64) {
        let worker = &mut self.workers[lane];
        worker.asked_at = now;
        if let Some(index) = worker.contended {
            shared.contended[index].waiting += 1;
        }
        driver.acquire(&mut self.session, lane, &mut self.lanes[lane], &mut shared.output);
    }

    /// Sends what is left from before and then `bytes`; keeps what the socket does not take and
    /// asks to be told when it takes more.
    fn send(&mut self, bytes: &[u8], epoll: &OwnedFd) -> io::Result<()> {
        let had_unsent = !self.unsent.is_empty();
        if had_unsent {
            self.unsent.extend_from_slice(bytes);
            let sent = write_some(&mut self.stream, &self.unsent)?;
            self.unsent.drain(..sent);
        } else if !bytes.is_empty() {
            let sent = write_some(&mut self.stream, bytes)?;
            self.unsent.extend_from_slice(&bytes[sent..]);
        }
        if had_unsent == self.unsent.is_empty() {
            let mut interest = epoll::EventFlags::IN;
            interest.set(epoll::EventFlags::OUT, !self.unsent.is_empty());
            let data = epoll::EventData::new_u64(self.number);
            epoll::modify(epoll, &self.stream, data, interest)?;
        }
        Ok(())
    }
}

fn write_some(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
    match stream.write(bytes) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        other => other,
    }
}
