//! Loopback addresses for servers whose address has to be known before they listen, or that listen
//! at the same address again.
//!
//! A port that the system chose and that was closed again is no such address: the system may give
//! it to another test's server or to any outgoing connection, and then a client finds a stranger
//! there.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the ports that Linux (from 32768), macOS and Windows (from 49152) choose by themselves.
const PORTS: Range<u32> = 10_000..32_768;
/// Spreads the process ids over the range: other processes may be running tests too.
const SPREAD: u32 = 2_654_435_769;

/// An address at `host` that nobody listens on, and that this process will not be given again
/// before it was given every other one.
///
/// # Errors
/// When `host` cannot be listened on ([`ErrorKind::AddrNotAvailable`], for example without IPv6),
/// or every port is in use ([`ErrorKind::AddrInUse`]).
pub fn free_address(host: impl Into<IpAddr>) -> io::Result<SocketAddr> {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let host = host.into();
    let start = std::process::id().wrapping_mul(SPREAD);
    let mut candidates = PORTS.map(|_| {
        let place = start.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed));
        let port = PORTS.start + place % (PORTS.end - PORTS.start);
        SocketAddr::new(host, u16::try_from(port).expect("the range is one of ports"))
    });
    let free = candidates.find_map(|address| match TcpListener::bind(address) {
        Ok(_) => Some(Ok(address)),
        Err(error) if error.kind() == ErrorKind::AddrInUse => None,
        Err(error) => Some(Err(error)),
    });
    free.unwrap_or_else(|| Err(ErrorKind::AddrInUse.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;

    #[test]
    fn addresses_differ_and_can_be_listened_on_twice() {
        let mut seen = BTreeSet::new();
        for _ in 0..100 {
            let address = free_address(Ipv4Addr::LOCALHOST).expect("a free port");
            assert!(PORTS.contains(&u32::from(address.port())), "{address}");
            assert!(seen.insert(address), "{address} was given before");
            for _ in 0..2 {
                drop(TcpListener::bind(address).expect("nobody listens there"));
            }
        }
    }

    #[test]
    fn an_address_in_use_is_passed_over() {
        // Whoever listens there, this process is given the port once more after all the others.
        let taken = free_address(Ipv4Addr::LOCALHOST).expect("a free port");
        let _listener = TcpListener::bind(taken).expect("nobody listens there");
        for _ in PORTS {
            assert_ne!(free_address(Ipv4Addr::LOCALHOST).expect("a free port"), taken);
        }
    }

    #[test]
    fn a_host_of_others_is_an_error() {
        let error = free_address(Ipv4Addr::new(192, 0, 2, 1)).expect_err("not this machine's");
        assert_eq!(error.kind(), ErrorKind::AddrNotAvailable);
    }
}
