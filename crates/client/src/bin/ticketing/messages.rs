//! Messages on standard error. Saying one neither fails nor waits for a reader: a deadline may have
//! to be watched meanwhile.

use crate::sys;
use std::fmt::Display;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// How long the end of the program waits for who reads them.
const READER_LIMIT: Duration = Duration::from_secs(2);

/// A thread that writes them.
pub(crate) struct Messages {
    queue: Sender<String>,
    /// Closed when that thread ends.
    written: Receiver<()>,
}

impl Messages {
    pub(crate) fn start() -> io::Result<Self> {
        let (queue, texts) = channel::<String>();
        let (is_writing, written) = channel::<()>();
        thread::Builder::new().name("messages".to_owned()).spawn(move || {
            // The command may have the terminal: then this process is in the background.
            sys::block_terminal_output_stops();
            for text in texts {
                write_now(&text);
            }
            drop(is_writing);
        })?;
        Ok(Self { queue, written })
    }

    /// One line of its own.
    pub(crate) fn say(&self, problem: impl Display) {
        self.write(line(problem));
    }

    /// Text that says by itself whose it is.
    pub(crate) fn write(&self, text: String) {
        let _ = self.queue.send(text);
    }

    /// Lets the thread come to its end, unless nobody reads.
    pub(crate) fn finish(self) {
        drop(self.queue);
        let _ = self.written.recv_timeout(READER_LIMIT);
    }
}

/// The message where there is no thread to write it.
pub(crate) fn say_now(problem: impl Display) {
    write_now(&line(problem));
}

fn line(problem: impl Display) -> String {
    format!("ticketing: {problem}\n")
}

fn write_now(text: &str) {
    // Where nobody can be told, the exit code has to do.
    let _ = io::stderr().write_all(text.as_bytes());
}
