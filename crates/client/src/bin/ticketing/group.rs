//! The command's process group, and the terminal lent to it.

use crate::sys;
use std::io::{self, IsTerminal};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often a group that is ending is looked at.
const POLL_PERIOD: Duration = Duration::from_millis(10);

/// A process group that the command leads.
pub(crate) struct Group {
    id: i32,
    has_terminal: bool,
    is_over: bool,
}

impl Group {
    /// The group of a command just started as its leader. An interactive command gets the
    /// terminal, so that it can read from it and receives its keys (Ctrl-C).
    pub(crate) fn of_leader(id: i32) -> Self {
        // In a pipeline the neighbours may need the terminal.
        let is_interactive = io::stdin().is_terminal() && io::stdout().is_terminal();
        let has_terminal =
            is_interactive && sys::owns_terminal() && sys::give_terminal_to(id).is_ok();
        let group = Self { id, has_terminal, is_over: false };
        if has_terminal {
            // It may have been stopped for reading before the terminal was its own.
            group.signal(libc::SIGCONT);
        }
        group
    }

    /// Sends a signal to all of it. One that has ended meanwhile needs none.
    pub(crate) fn signal(&self, signal: i32) {
        let _ = sys::signal_group(self.id, signal);
    }

    /// Asks it to end. A stopped process does not notice before it continues.
    pub(crate) fn terminate(&self) {
        self.signal(libc::SIGTERM);
        self.signal(libc::SIGCONT);
    }

    pub(crate) fn kill(&self) {
        self.signal(libc::SIGKILL);
    }

    /// Only once the command itself has been waited for.
    fn is_alive(&self) -> bool {
        sys::reap(self.id);
        match sys::signal_group(self.id, 0) {
            Ok(()) => true,
            // A member that changed its user is alive too.
            Err(error) => error.raw_os_error() == Some(libc::EPERM),
        }
    }

    /// Whether it has ended, at that time at the latest.
    pub(crate) async fn ends_before(&mut self, deadline: Instant) -> bool {
        loop {
            self.is_over = !self.is_alive();
            if self.is_over {
                return true;
            }
            if deadline.elapsed() > Duration::ZERO {
                return false;
            }
            sleep(POLL_PERIOD).await;
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.is_over {
            // Nobody watches it any more, not even when this is a panic.
            self.kill();
        }
        if self.has_terminal {
            // Without it, the shell takes the terminal back by itself.
            let _ = sys::give_terminal_to(sys::own_group());
        }
    }
}
