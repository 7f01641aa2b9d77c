//! The log's way to standard error: a bounded queue, and one thread that writes.
//!
//! Whoever logs waits for nobody: neither for a reader that hangs nor for a disk that is full. What
//! does not fit, or cannot be written, is dropped and counted, and a line says so where it was.

use std::io::{self, Write};
use std::mem;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use ticketing_server::limits::LOG_SIZE_BYTES_MAX;
use tracing_subscriber::fmt::MakeWriter;

/// A log that is being written.
#[derive(Clone)]
pub(crate) struct Log(Arc<Queue>);

struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Batch,
    is_writing: bool,
}

/// Lines in a row, and how many are missing around them.
#[derive(Default)]
struct Batch {
    missing_before: u64,
    text: Vec<u8>,
    line_count: u64,
    missing_after: u64,
}

impl Log {
    /// Writes to standard error. Through a descriptor of its own: while a write to the standard
    /// library's hangs, everybody who only wants to use that one hangs too.
    pub(crate) fn start() -> io::Result<Self> {
        let stderr = io::stderr().as_fd().try_clone_to_owned()?;
        Self::start_to(std::fs::File::from(stderr))
    }

    fn start_to(sink: impl Write + Send + 'static) -> io::Result<Self> {
        let log = Self(Arc::new(Queue { state: Mutex::default(), changed: Condvar::new() }));
        let writer = log.clone();
        thread::Builder::new().name("log".into()).spawn(move || writer.write_for_ever(sink))?;
        Ok(log)
    }

    /// Last words, whatever waits already. They end with a newline.
    pub(crate) fn say(&self, text: &str) {
        self.lock().waiting.append(text.as_bytes());
        self.0.changed.notify_all();
    }

    /// Waits until everything is written, or could not be, for a limited time.
    pub(crate) fn flush(&self, time_max: Duration) {
        let is_busy = |state: &mut State| state.is_writing || !state.waiting.is_empty();
        let _ = self.0.changed.wait_timeout_while(self.lock(), time_max, is_busy);
    }

    fn write_for_ever(&self, mut sink: impl Write) {
        loop {
            let batch = self.next();
            let is_written = sink.write_all(&batch.render()).and_then(|()| sink.flush()).is_ok();
            let mut state = self.lock();
            state.is_writing = false;
            if !is_written {
                state.waiting.missing_before += batch.all_count();
            }
            self.0.changed.notify_all();
        }
    }

    /// Waits for lines, takes all of them.
    fn next(&self) -> Batch {
        let is_idle = |state: &mut State| state.waiting.is_empty();
        let waited = self.0.changed.wait_while(self.lock(), is_idle);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_writing = true;
        mem::take(&mut state.waiting)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> &'a Self {
        self
    }
}

/// Gets one whole line a call, and takes or drops it at once: no write fails.
impl Write for &Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.lock().waiting.push(line);
        self.0.changed.notify_all();
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Batch {
    /// Once a line is missing, so are those after it: there is one gap, and it is at the end.
    fn push(&mut self, line: &[u8]) {
        if self.missing_after > 0 || self.text.len() + line.len() > LOG_SIZE_BYTES_MAX {
            self.missing_after += 1;
        } else {
            self.append(line);
        }
    }

    fn append(&mut self, line: &[u8]) {
        self.text.extend_from_slice(line);
        self.line_count += 1;
    }

    /// Whether there is nothing to write. What is missing before is told with the next line: as
    /// long as there is none, it would only fail again.
    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.missing_after == 0
    }

    fn all_count(&self) -> u64 {
        self.missing_before + self.line_count + self.missing_after
    }

    fn render(&self) -> Vec<u8> {
        let gap = |count: u64| match count {
            0 => String::new(),
            _ => format!(
                "ticketing-server: lines missing here: {count}; they could not be written, or \
                 whoever reads this log did not keep up\n"
            ),
        };
        let (before, after) = (gap(self.missing_before), gap(self.missing_after));
        [before.as_bytes(), &self.text, after.as_bytes()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    const LINE: &[u8] = b"one line of the log\n";
    /// A write that does not come within this time never does.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// Hands every write out, and hangs in it until it is told whether it worked.
    struct Sink {
        writes: Sender<String>,
        outcomes: Receiver<bool>,
    }

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let text = String::from_utf8(bytes.to_owned()).expect("text");
            self.writes.send(text).expect("the test reads");
            match self.outcomes.recv() {
                Ok(true) => Ok(bytes.len()),
                Ok(false) | Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A log, what it writes, and how that goes.
    fn watched() -> (Log, impl Fn() -> String, Sender<bool>) {
        let (writes, written) = channel();
        let (outcome, outcomes) = channel();
        let log = Log::start_to(Sink { writes, outcomes }).expect("a thread");
        (log, move || written.recv_timeout(PATIENCE).expect("a write"), outcome)
    }

    fn put(log: &Log, line: &[u8]) {
        let mut writer = log.make_writer();
        writer.write_all(line).expect("never fails");
    }

    #[test]
    fn a_reader_that_hangs_costs_lines_which_are_counted_and_no_time() {
        let (log, written, outcome) = watched();
        put(&log, b"first\n");
        assert_eq!(written(), "first\n");
        let fitting = LOG_SIZE_BYTES_MAX / LINE.len();
        for _ in 0..fitting + 7 {
            put(&log, LINE);
        }
        // It would fit, but not where it belongs.
        put(&log, b"\n");
        log.say("last words\n");
        log.flush(Duration::ZERO);
        outcome.send(true).expect("it hangs in a write");
        let text = written();
        let (lines, rest) = text.split_at(fitting * LINE.len());
        assert!(lines.as_bytes().chunks(LINE.len()).all(|line| line == LINE));
        assert!(
            rest.starts_with("last words\nticketing-server: lines missing here: 8; "),
            "{rest}"
        );
        outcome.send(true).expect("it hangs in a write");
        put(&log, b"again\n");
        assert_eq!(written(), "again\n");
        outcome.send(true).expect("it hangs in a write");
        log.flush(PATIENCE);
        assert!(log.lock().waiting.is_empty());
    }

    #[test]
    fn lines_that_could_not_be_written_are_counted_before_the_next_that_can() {
        let (log, written, outcome) = watched();
        for line in ["one\n", "two\n"] {
            put(&log, line.as_bytes());
            written();
            outcome.send(false).expect("it hangs in a write");
            log.flush(PATIENCE);
        }
        put(&log, b"three\n");
        let text = written();
        assert!(text.starts_with("ticketing-server: lines missing here: 2; "), "{text}");
        assert!(text.ends_with("\nthree\n"), "{text}");
        outcome.send(true).expect("it hangs in a write");
        put(&log, b"four\n");
        assert_eq!(written(), "four\n");
    }

    #[test]
    fn a_line_that_never_fits_holds_up_no_other() {
        let (log, written, outcome) = watched();
        put(&log, &[b'x'; LOG_SIZE_BYTES_MAX + 1]);
        assert!(written().starts_with("ticketing-server: lines missing here: 1; "));
        outcome.send(true).expect("it hangs in a write");
        put(&log, LINE);
        assert_eq!(written().as_bytes(), LINE);
    }
}
