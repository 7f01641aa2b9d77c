//! How the kernel schedules the load tool, and every server it starts.

use std::fmt;
use std::io::{self, Error};

use serde::Serialize;

/// A scheduling class and the priority in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduling {
    policy: libc::c_int,
    priority: libc::c_int,
}

impl Scheduling {
    /// The usual class, in which processes take turns.
    pub const USUAL: Self = Self { policy: libc::SCHED_OTHER, priority: 0 };

    /// The calling thread's.
    ///
    /// # Errors
    /// When the kernel refuses to tell.
    pub fn current() -> io::Result<Self> {
        let mut parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: 0 is the calling thread, and the pointer is to a live value of the right type.
        let (policy, result) =
            unsafe { (libc::sched_getscheduler(0), libc::sched_getparam(0, &raw mut parameters)) };
        if policy < 0 || result < 0 {
            return Err(Error::last_os_error());
        }
        // This flag says what children inherit; it is none of the class.
        let policy = policy & !libc::SCHED_RESET_ON_FORK;
        Ok(Self { policy, priority: parameters.sched_priority })
    }

    /// Puts the calling thread, and whatever it starts from now on, into this class.
    ///
    /// # Errors
    /// When this user may not use it.
    pub fn apply(self) -> io::Result<()> {
        let parameters = libc::sched_param { sched_priority: self.priority };
        // SAFETY: 0 is the calling thread, and the pointer is to a live value of the right type.
        let result = unsafe { libc::sched_setscheduler(0, self.policy, &raw const parameters) };
        if result < 0 {
            let error = Error::last_os_error();
            return Err(Error::new(error.kind(), format!("cannot use the {self}: {error}")));
        }
        Ok(())
    }

    /// Its name in `sched(7)`.
    fn class(self) -> &'static str {
        match self.policy {
            libc::SCHED_OTHER => "SCHED_OTHER",
            libc::SCHED_FIFO => "SCHED_FIFO",
            libc::SCHED_RR => "SCHED_RR",
            libc::SCHED_BATCH => "SCHED_BATCH",
            libc::SCHED_IDLE => "SCHED_IDLE",
            libc::SCHED_DEADLINE => "SCHED_DEADLINE",
            _ => "unknown to this tool",
        }
    }
}

impl fmt::Display for Scheduling {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = self.class();
        match self.priority {
            0 => write!(formatter, "scheduling class {class}"),
            priority => {
                write!(formatter, "real-time scheduling class {class}, priority {priority}")
            }
        }
    }
}

impl Serialize for Scheduling {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_their_names() {
        assert_eq!(Scheduling::USUAL.to_string(), "scheduling class SCHED_OTHER");
        let first = Scheduling { policy: libc::SCHED_FIFO, priority: 1 };
        assert_eq!(first.to_string(), "real-time scheduling class SCHED_FIFO, priority 1");
    }

    #[test]
    fn the_kernel_tells_and_takes_it() {
        let before = Scheduling::current().expect("told");
        Scheduling::USUAL.apply().expect("the class that everybody may use");
        assert_eq!(Scheduling::current().expect("told"), Scheduling::USUAL);
        // A user who may not go back leaves this test's thread as it is.
        let _ = before.apply();
    }
}
