//! What idle connections cost a server.

use std::io::{self, Error};
use std::net::TcpStream;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

use crate::driver::{DflockdDriver, Driver, EtcdDriver, RedisDriver, TicketingDriver};
use crate::process::Process;
use crate::system::System;

/// Descriptors the load tool needs besides the connections.
const OTHER_DESCRIPTORS: usize = 64;

/// Memory with many idle connections.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Idle {
    /// Connections open at once, past their handshake.
    pub connections: usize,
    /// Resident before the first, in bytes.
    pub before_bytes: u64,
    /// Resident with all of them, in bytes.
    pub resident_bytes: u64,
}

/// Opens `count` connections, lets the server finish with them, and reads its memory.
///
/// # Errors
/// When the server refuses one, or the machine's limit of open files is too low.
pub fn run(
    system: System,
    server: &Process,
    token: Option<&str>,
    count: usize,
) -> io::Result<Idle> {
    raise_open_files(count + OTHER_DESCRIPTORS)?;
    match system {
        System::Echo | System::Ticketing => {
            run_with(&TicketingDriver::new().with_token(token)?, server, count)
        }
        System::Redis => run_with(&RedisDriver::new(), server, count),
        System::Dflockd => run_with(&DflockdDriver::new(), server, count),
        System::Etcd => run_with(&EtcdDriver::new(), server, count),
    }
}

fn run_with<D: Driver>(driver: &D, server: &Process, count: usize) -> io::Result<Idle> {
    let before_bytes = server.memory()?.resident_bytes;
    let open = |_| Ok(driver.open(server.address(), 1)?.0);
    let streams: Vec<TcpStream> = (0..count).map(open).collect::<io::Result<_>>()?;
    let resident_bytes = server.memory()?.resident_bytes;
    Ok(Idle { connections: streams.len(), before_bytes, resident_bytes })
}

/// Makes room for `needed` open files here and in the servers started from here.
///
/// # Errors
/// When the machine does not allow it.
pub fn raise_open_files(needed: usize) -> io::Result<()> {
    let now = getrlimit(Resource::Nofile);
    let needed = needed as u64;
    if now.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let maximum = now.maximum.map(|maximum| maximum.max(needed));
    let wanted = Rlimit { current: Some(needed), maximum };
    setrlimit(Resource::Nofile, wanted).map_err(|error| {
        let have = now.maximum.unwrap_or_default();
        let text = format!("{needed} open files are needed, {have} allowed (ulimit -n): {error}");
        Error::other(text)
    })
}
