//! The clocks of the load tool: monotonic time and the calling thread's processor time.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds of a second.
pub const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Monotonic time in nanoseconds since an arbitrary point.
pub fn now_nanos() -> u64 {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// Wall-clock time in seconds since 1970, for the report's date.
pub fn unix_seconds() -> u64 {
    nanos(clock_gettime(ClockId::Realtime)) / NANOS_PER_SECOND
}

/// Processor time used by the calling thread, in nanoseconds.
pub fn thread_cpu_nanos() -> u64 {
    nanos(clock_gettime(ClockId::ThreadCPUTime))
}

fn nanos(time: Timespec) -> u64 {
    // None of the three clocks is negative.
    time.tv_sec as u64 * NANOS_PER_SECOND + time.tv_nsec as u64
}
