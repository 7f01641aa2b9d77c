//! Resident memory of a process and of what it has started, as Linux tells it.

use std::fs;
use std::io::{Error, ErrorKind, Result};

/// Resident memory of every process in the group of `leader`, in bytes.
///
/// # Errors
/// When there is no such process, or no `/proc`.
pub fn resident_bytes(leader: u32) -> Result<u64> {
    let mut sum = None;
    for entry in fs::read_dir("/proc")? {
        let directory = entry?.path();
        // A process may end between the listing and the reading, and some entries are none.
        let Ok(stat) = fs::read_to_string(directory.join("stat")) else { continue };
        if group(&stat) != Some(leader) {
            continue;
        }
        let Ok(status) = fs::read_to_string(directory.join("status")) else { continue };
        sum = Some(sum.unwrap_or(0) + resident(&status).unwrap_or(0));
    }
    sum.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("no process in group {leader}")))
}

/// The process group: the third field after the program's name, which may contain anything.
fn group(stat: &str) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(2)?.parse().ok()
}

/// A process that has just ended has no such line.
fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_found() {
        assert_eq!(group("7 (a) b) S 1 42 7 0"), Some(42));
        assert_eq!(group("7 (a"), None);
        assert_eq!(resident("VmHWM:\t 9 kB\nVmRSS:\t  12 kB\n"), Some(12 * 1024));
        assert_eq!(resident("Name:\tz\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_live_group_has_memory() {
        use std::os::unix::process::CommandExt;
        use std::process::{Command, Stdio};
        let mut leader =
            Command::new("cat").stdin(Stdio::piped()).process_group(0).spawn().expect("cat starts");
        assert!(resident_bytes(leader.id()).is_ok_and(|bytes| bytes > 0));
        drop(leader.stdin.take());
        leader.wait().expect("ends");
        assert!(resident_bytes(leader.id()).is_err());
    }
}
