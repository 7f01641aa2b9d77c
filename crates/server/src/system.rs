//! What the operating system has to grant.

use crate::limits::{DESCRIPTOR_RESERVE_COUNT, LINGER_COUNT_MAX, UNAUTHENTICATED_COUNT_MAX};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use tracing::warn;

/// Connections of each kind that are open at most, so that descriptors remain for everything else:
/// above all for the links of a cluster, which strangers must not be able to use up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    pub(crate) authenticated: u32,
    pub(crate) unauthenticated: usize,
    pub(crate) lingering: usize,
}

impl Shares {
    /// What this process's limit of open files allows.
    pub(crate) fn new(max_connections: u32) -> Self {
        Self::within(file_limit().map_or(u64::MAX, |limit| limit.rlim_cur), max_connections)
    }

    fn within(limit: u64, max_connections: u32) -> Self {
        let (unauthenticated, lingering) = (UNAUTHENTICATED_COUNT_MAX, LINGER_COUNT_MAX);
        if limit >= needed(max_connections) {
            return Self { authenticated: max_connections, unauthenticated, lingering };
        }
        let rest = limit.saturating_sub(DESCRIPTOR_RESERVE_COUNT);
        let part = (rest / 8).max(1) as usize;
        let (unauthenticated, lingering) = (unauthenticated.min(part), lingering.min(part));
        let room = rest.saturating_sub((unauthenticated + lingering) as u64).max(1);
        let authenticated = max_connections.min(u32::try_from(room).unwrap_or(u32::MAX));
        Self { authenticated, unauthenticated, lingering }
    }
}

fn needed(max_connections: u32) -> u64 {
    let on_the_way = (UNAUTHENTICATED_COUNT_MAX + LINGER_COUNT_MAX) as u64;
    u64::from(max_connections) + on_the_way + DESCRIPTOR_RESERVE_COUNT
}

/// Raises the limit of open files to what `max_connections` needs, or says that it does not reach.
pub fn raise_file_limit(max_connections: u32) {
    let needed = needed(max_connections);
    match raise_to(needed) {
        Ok(limit) if limit >= needed => {}
        Ok(limit) => warn!(
            limit,
            needed,
            connections = Shares::within(limit, max_connections).authenticated,
            "TICKETING_MAX_CONNECTIONS needs more open files than the system allows, so there will \
             be fewer connections; raise the hard limit (ulimit -Hn, LimitNOFILE=), or lower the \
             setting"
        ),
        Err(error) => warn!(
            %error,
            needed,
            "cannot read or raise the limit of open files; raise it before the start (ulimit -n, \
             LimitNOFILE=)"
        ),
    }
}

/// The limit afterwards. A process without privileges gets no further than its hard limit.
fn raise_to(needed: u64) -> io::Result<u64> {
    let mut limit = file_limit()?;
    if limit.rlim_cur >= needed {
        return Ok(limit.rlim_cur);
    }
    let hard = limit.rlim_max;
    limit.rlim_max = hard.max(needed);
    limit.rlim_cur = needed;
    // SAFETY: the pointer is to a live rlimit that the call reads.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } == 0 {
        return Ok(needed);
    }
    limit.rlim_max = hard;
    limit.rlim_cur = hard.min(needed);
    // SAFETY: as above.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } == 0 {
        return Ok(limit.rlim_cur);
    }
    Err(io::Error::last_os_error())
}

fn file_limit() -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a live rlimit that the call fills.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } {
        0 => Ok(limit),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether this process was started with the signal ignored, as `nohup` does with SIGHUP.
pub fn is_signal_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action the call only fills `action`, which is as large as it expects.
    let result = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: filled by the call that succeeded.
    result == 0 && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_limit_is_shared_out_and_leaves_the_reserve() {
        for limit in [DESCRIPTOR_RESERVE_COUNT + 3, 256, 1_024, 4_096, needed(16_384) - 1] {
            let Shares { authenticated, unauthenticated, lingering } =
                Shares::within(limit, 16_384);
            assert!(authenticated > 0 && unauthenticated > 0 && lingering > 0, "{limit}");
            let sum = u64::from(authenticated) + (unauthenticated + lingering) as u64;
            assert!(sum + DESCRIPTOR_RESERVE_COUNT <= limit, "{limit}: {sum}");
        }
    }

    #[test]
    fn a_limit_that_reaches_gives_what_is_configured() {
        for count in [1, 100, 16_384] {
            let (unauthenticated, lingering) = (UNAUTHENTICATED_COUNT_MAX, LINGER_COUNT_MAX);
            let all = Shares { authenticated: count, unauthenticated, lingering };
            assert_eq!(Shares::within(needed(count), count), all);
            assert_eq!(Shares::within(u64::MAX, count), all);
        }
    }
}
