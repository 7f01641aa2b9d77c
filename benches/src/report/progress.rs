//! A progress bar on a terminal, plain lines elsewhere; always on standard error.

use std::io::{IsTerminal, Write, stderr};

const WIDTH: usize = 30;

/// How far the tool has come.
#[derive(Debug)]
pub struct Progress {
    done: usize,
    total: usize,
    terminal: bool,
}

impl Progress {
    /// Expects `total` steps.
    pub fn new(total: usize) -> Self {
        Self { done: 0, total, terminal: stderr().is_terminal() }
    }

    /// The next step begins.
    pub fn step(&mut self, name: &str) {
        let line = line(self.done, self.total, name);
        self.done += 1;
        // A progress bar that cannot be shown is no reason to stop.
        let _ = if self.terminal {
            write!(stderr(), "\r\x1b[K{line}").and_then(|()| stderr().flush())
        } else {
            writeln!(stderr(), "{line}")
        };
    }

    /// Clears the bar.
    pub fn finish(&self) {
        if self.terminal {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

fn line(done: usize, total: usize, name: &str) -> String {
    let filled = (done * WIDTH).checked_div(total).unwrap_or_default().min(WIDTH);
    let bar = "█".repeat(filled) + &"░".repeat(WIDTH - filled);
    format!("{bar} {done}/{total} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_is_always_as_wide() {
        for done in 0..=7 {
            let bars = line(done, 6, "x").chars().take_while(|c| "█░".contains(*c)).count();
            assert_eq!(bars, WIDTH);
        }
        assert!(line(3, 6, "64x1 Redis").ends_with(" 3/6 64x1 Redis"));
        assert!(line(0, 0, "x").starts_with('░'));
    }
}
