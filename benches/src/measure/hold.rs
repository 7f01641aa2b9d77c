//! Bytes per held key, and whether the memory is used again after release.

use std::io::{self, Error, Write};
use std::net::{SocketAddr, TcpStream};

use serde::Serialize;

use crate::buffer::{BUFFER_SIZE_BYTES, Unfinished};
use crate::clock::now_nanos;
use crate::driver::{
    DflockdDriver, Driver, EtcdDriver, Event, LEASE_SECONDS_MAX, RedisDriver, TicketingDriver,
};
use crate::load::key;
use crate::process::Process;
use crate::system::System;

/// Requests in flight while filling.
const WINDOW: usize = 256;
/// These hold fewer: at their pace a million keys would take a minute and a quarter of an hour.
const DFLOCKD_KEYS: usize = 200_000;
const ETCD_KEYS: usize = 20_000;

/// What holding many keys costs a server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Held {
    /// Keys held at once.
    pub keys: usize,
    /// Growth of resident memory by filling, over the number of keys.
    pub bytes_per_key: f64,
    /// Resident when all are held, in bytes.
    pub full_bytes: u64,
    /// Resident after all were released, in bytes.
    pub released_bytes: u64,
    /// Resident when the same number of other keys is held, in bytes.
    pub refilled_bytes: u64,
    /// Highest ever resident, in bytes.
    pub peak_bytes: u64,
}

impl Held {
    /// Whether a second filling took no more than 1 % above the first.
    pub fn is_reused(&self) -> bool {
        self.refilled_bytes as f64 <= self.full_bytes as f64 * 1.01
    }
}

/// Holds `keys` keys, releases them, and holds as many other ones.
///
/// # Errors
/// When the server fails or refuses; the echo, which holds nothing, is refused here.
pub fn run(system: System, server: &Process, keys: usize) -> io::Result<Held> {
    let lease = LEASE_SECONDS_MAX;
    match system {
        System::Echo => Err(Error::other("an echo holds no keys")),
        System::Ticketing => run_with(&TicketingDriver::new().with_lease(lease), server, keys),
        System::Redis => run_with(&RedisDriver::new().with_lease(lease), server, keys),
        System::Dflockd => {
            let keys = keys.min(DFLOCKD_KEYS);
            run_with(&DflockdDriver::new().with_lease(lease), server, keys)
        }
        System::Etcd => {
            let keys = keys.min(ETCD_KEYS);
            run_with(&EtcdDriver::new().with_lease(lease), server, keys)
        }
    }
}

fn run_with<D: Driver>(driver: &D, server: &Process, count: usize) -> io::Result<Held> {
    let mut holder = Holder::open(driver, server.address(), count)?;
    let before = server.memory()?;
    holder.ask(driver, Ask::Acquire)?;
    let full = server.memory()?;
    holder.ask(driver, Ask::Release)?;
    let released = server.memory()?;
    holder.rekey(driver);
    holder.ask(driver, Ask::Acquire)?;
    let refilled = server.memory()?;
    holder.ask(driver, Ask::Release)?;
    let growth = full.resident_bytes.saturating_sub(before.resident_bytes);
    Ok(Held {
        keys: count,
        bytes_per_key: growth as f64 / count as f64,
        full_bytes: full.resident_bytes,
        released_bytes: released.resident_bytes,
        refilled_bytes: refilled.resident_bytes,
        peak_bytes: server.memory()?.peak_bytes,
    })
}

/// Takes `count` keys and leaves them held: a granted lock outlives its connection.
///
/// # Errors
/// When the server fails or refuses.
pub(super) fn fill<D: Driver>(driver: &D, address: SocketAddr, count: usize) -> io::Result<()> {
    Holder::open(driver, address, count)?.ask(driver, Ask::Acquire)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ask {
    Acquire,
    Release,
}

/// One connection on which every key is held, asked in windows.
struct Holder<D: Driver> {
    stream: TcpStream,
    session: D::Session,
    lanes: Vec<D::Lane>,
    input: Box<[u8]>,
    output: Vec<u8>,
    unfinished: Unfinished,
}

impl<D: Driver> Holder<D> {
    fn open(driver: &D, address: SocketAddr, count: usize) -> io::Result<Self> {
        let (stream, session) = driver.open(address, count)?;
        let salt = now_nanos();
        let lanes = (0..count).map(|number| driver.lane(&session, &key(salt, number))).collect();
        let input = vec![0; BUFFER_SIZE_BYTES].into_boxed_slice();
        let (output, unfinished) = (Vec::new(), Unfinished::default());
        Ok(Self { stream, session, lanes, input, output, unfinished })
    }

    fn rekey(&mut self, driver: &D) {
        let salt = now_nanos();
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            driver.rekey(lane, &key(salt, number));
        }
    }

    /// Asks for every key, or gives every key back.
    fn ask(&mut self, driver: &D, ask: Ask) -> io::Result<()> {
        let count = self.lanes.len();
        for start in (0..count).step_by(WINDOW) {
            self.output.clear();
            let window = start..count.min(start + WINDOW);
            for index in window.clone() {
                let (session, lane) = (&mut self.session, &mut self.lanes[index]);
                match ask {
                    Ask::Acquire => driver.acquire(session, index, lane, &mut self.output),
                    Ask::Release => driver.release(session, index, lane, &mut self.output),
                }
            }
            self.stream.write_all(&self.output)?;
            self.answers(driver, ask, window.len())?;
        }
        Ok(())
    }

    fn answers(&mut self, driver: &D, ask: Ask, mut left: usize) -> io::Result<()> {
        while left > 0 {
            let size = self.unfinished.read(&mut self.stream, &mut self.input)?;
            let mut rest = &self.input[..size];
            self.output.clear();
            loop {
                let (session, lanes) = (&mut self.session, &mut self.lanes);
                let event = driver.event(session, lanes, rest, &mut self.output);
                let Some((event, used)) = event.map_err(|fault| Error::other(fault.to_string()))?
                else {
                    break;
                };
                rest = &rest[used..];
                match (ask, event) {
                    (_, Event::Housekeeping) => {}
                    (Ask::Acquire, Event::Granted { .. }) => left -= 1,
                    (Ask::Release, Event::Released { .. }) => left -= 1,
                    (_, event) => return Err(Error::other(format!("unexpected {event:?}"))),
                }
            }
            self.unfinished.keep(rest);
            self.stream.write_all(&self.output)?;
        }
        Ok(())
    }
}
