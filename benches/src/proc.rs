//! What the kernel tells about processes and cores: processor time and memory.

use std::fs;
use std::io::{self, Error, ErrorKind};

/// The unit of `/proc/stat`, fixed by the kernel's interface at 1/100 s.
const TICK_NANOS: u64 = 10_000_000;

/// Resident memory of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident now, in bytes.
    pub resident_bytes: u64,
    /// Highest ever resident, in bytes.
    pub peak_bytes: u64,
}

/// Processor time of all threads of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time on a processor, in nanoseconds.
    pub cpu_nanos: u64,
    /// Time ready to run but waiting for a processor, in nanoseconds. Threads that wait for each
    /// other's turn on one core count too.
    pub queued_nanos: u64,
}

/// Processor time of every live thread of `pid`.
///
/// # Errors
/// When the process is gone or the kernel offers no `schedstat`.
pub fn usage(pid: u32) -> io::Result<Usage> {
    let mut sum = Usage::default();
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end between the listing and the reading.
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
        let one = parse_schedstat(&text).ok_or_else(|| malformed("schedstat", &text))?;
        sum.cpu_nanos += one.cpu_nanos;
        sum.queued_nanos += one.queued_nanos;
    }
    Ok(sum)
}

/// How long `core` was not idle since the machine started, whoever used it, in nanoseconds; time
/// that the host took away included. Resolution: 10 ms.
///
/// # Errors
/// When there is no such core.
pub fn core_busy_nanos(core: usize) -> io::Result<u64> {
    let text = fs::read_to_string("/proc/stat")?;
    parse_core(&text, core).ok_or_else(|| malformed("stat", &text))
}

/// Reads the resident memory of `pid`.
///
/// # Errors
/// When the process is gone.
pub fn memory(pid: u32) -> io::Result<Memory> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    parse_status(&text).ok_or_else(|| malformed("status", &text))
}

/// Model name of the first processor, for the report's head.
pub fn processor_name() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| "unknown processor".into(), |(_, name)| name.trim().to_owned())
}

fn malformed(file: &str, text: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("/proc {file} has an unknown form: {text:?}"))
}

/// Time on a processor, time waiting for one, number of turns.
fn parse_schedstat(text: &str) -> Option<Usage> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    let cpu_nanos = numbers.next()?.ok()?;
    let queued_nanos = numbers.next()?.ok()?;
    Some(Usage { cpu_nanos, queued_nanos })
}

/// user, nice, system, idle, iowait, irq, softirq, steal; what follows is counted in user already.
fn parse_core(text: &str, core: usize) -> Option<u64> {
    let name = format!("cpu{core} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&name))?;
    let ticks: Vec<u64> = line.split_ascii_whitespace().filter_map(|n| n.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, steal] = *ticks.first_chunk()?;
    Some((user + nice + system + irq + softirq + steal) * TICK_NANOS)
}

fn parse_status(text: &str) -> Option<Memory> {
    let kibibytes = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    };
    Some(Memory {
        resident_bytes: kibibytes("VmRSS")? * 1024,
        peak_bytes: kibibytes("VmHWM")? * 1024,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedstat_is_run_time_then_wait_time() {
        let usage = Usage { cpu_nanos: 176_812_436, queued_nanos: 35_137_752 };
        assert_eq!(parse_schedstat("176812436 35137752 477\n"), Some(usage));
        assert_eq!(parse_schedstat(""), None);
        assert_eq!(parse_schedstat("12"), None);
    }

    #[test]
    fn a_core_is_busy_when_it_is_not_idle() {
        let text =
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 400 500 4 5 6 0 0\ncpu10 0 0 0 0 0 0 0 1\n";
        assert_eq!(parse_core(text, 0), Some(21 * TICK_NANOS));
        assert_eq!(parse_core(text, 10), Some(TICK_NANOS));
        assert_eq!(parse_core(text, 1), None);
    }

    #[test]
    fn status_is_in_kibibytes() {
        let text = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nThreads:\t1\n";
        let memory = Memory { resident_bytes: 1 << 20, peak_bytes: 2 << 20 };
        assert_eq!(parse_status(text), Some(memory));
        assert_eq!(parse_status("VmRSS:\t1024 kB\n"), None);
    }

    #[test]
    fn our_own_process_is_readable() {
        let pid = std::process::id();
        assert!(usage(pid).expect("usage").cpu_nanos > 0);
        let memory = memory(pid).expect("memory");
        assert!(memory.resident_bytes > 0 && memory.peak_bytes >= memory.resident_bytes);
    }
}
