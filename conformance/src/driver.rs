//! A client's driver process: commands in, outcomes out, matched by tag.

use crate::clock;
use crate::failure::{Check, Failure, fail};
use crate::limits::{DRIVER_EXIT_LIMIT, LOG_LINE_COUNT_MAX, STEP_LIMIT};
use crate::memory;
use crate::shell::kill_group;
use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// A running driver.
pub struct Driver {
    commands: mpsc::UnboundedSender<String>,
    shared: Arc<Shared>,
    child: Child,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// Tags without an outcome; `None` once stdout has ended.
    waiting: Mutex<Waiting>,
    /// Outcomes that nobody waited for.
    stray: Mutex<Vec<String>>,
    /// Last lines of stderr.
    log: Mutex<VecDeque<String>>,
    /// Commands and outcomes of each scenario that runs, by the prefix of its tags.
    transcripts: Mutex<HashMap<String, Vec<String>>>,
}

#[derive(Default)]
struct Waiting {
    by_tag: HashMap<String, oneshot::Sender<Outcome>>,
    ended: bool,
}

/// An outcome line without its tag.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The words after the tag.
    pub text: String,
    /// When the judge had read it.
    pub at: Instant,
}

/// A command without its outcome yet.
pub struct Pending {
    /// Tag of the command: what later commands name as their ticket, target or broker.
    pub tag: String,
    /// When it was given to the driver.
    pub at: Instant,
    command: String,
    outcome: oneshot::Receiver<Outcome>,
    shared: Arc<Shared>,
}

impl Driver {
    /// Starts `command` with `sh -c` in `directory`.
    ///
    /// # Errors
    /// The operating system's, when the shell cannot be started.
    pub fn start(command: &str, directory: &Path) -> std::io::Result<Self> {
        let mut child = Command::new("sh")
            .args(["-c", command])
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let shared = Arc::new(Shared::default());
        let (commands, queue) = mpsc::unbounded_channel();
        let missing = || std::io::Error::other("the driver has no pipes");
        let tasks = vec![
            tokio::spawn(write_commands(child.stdin.take().ok_or_else(missing)?, queue)),
            tokio::spawn(read_outcomes(
                child.stdout.take().ok_or_else(missing)?,
                Arc::clone(&shared),
            )),
            tokio::spawn(read_log(child.stderr.take().ok_or_else(missing)?, Arc::clone(&shared))),
        ];
        Ok(Self { commands, shared, child, tasks })
    }

    /// What was said from now on with tags that begin with `prefix-`, until it is taken.
    pub fn record(&self, prefix: &str) {
        lock(&self.shared.transcripts).insert(prefix.to_owned(), Vec::new());
    }

    /// The lines recorded for `prefix`; no more are.
    pub fn take_transcript(&self, prefix: &str) -> Vec<String> {
        lock(&self.shared.transcripts).remove(prefix).unwrap_or_default()
    }

    /// Gives one command; `rest` are its words after verb and tag.
    pub fn send(&self, verb: &str, tag: String, rest: &str) -> Pending {
        let command = format!("{verb} {tag} {rest}").trim_end().to_owned();
        let (sender, outcome) = oneshot::channel();
        {
            let mut waiting = lock(&self.shared.waiting);
            if !waiting.ended {
                waiting.by_tag.insert(tag.clone(), sender);
            }
        }
        self.shared.note('>', &tag, &command);
        // Fails only when the writer has ended, and then the reader's end answers.
        let _ = self.commands.send(format!("{command}\n"));
        Pending { tag, at: clock::now(), command, outcome, shared: Arc::clone(&self.shared) }
    }

    /// Whether its output has ended.
    pub fn has_ended(&self) -> bool {
        lock(&self.shared.waiting).ended
    }

    /// Resident memory of its processes, in bytes.
    ///
    /// # Errors
    /// When it has ended, or this system has no `/proc`.
    pub fn resident_bytes(&self) -> std::io::Result<u64> {
        let ended = || std::io::Error::other("the driver has ended");
        memory::resident_bytes(self.child.id().ok_or_else(ended)?)
    }

    /// Outcomes that no command was waiting for.
    pub fn stray(&self) -> Vec<String> {
        lock(&self.shared.stray).clone()
    }

    /// Ends its input and waits for it to exit by itself, with status 0.
    ///
    /// # Errors
    /// When it exits otherwise or not at all; then it is killed.
    pub async fn finish(mut self) -> Check {
        drop(self.commands);
        let expected = "end of stdin: brokers closed, exit status 0";
        let check = match tokio::time::timeout(DRIVER_EXIT_LIMIT, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => fail(expected, format!("{status}{}", self.shared.log_tail())),
            Ok(Err(error)) => fail(expected, error.to_string()),
            Err(_) => {
                kill_group(&self.child).await;
                fail(expected, format!("still running after {DRIVER_EXIT_LIMIT:?}"))
            }
        };
        for task in &self.tasks {
            task.abort();
        }
        check
    }
}

impl Pending {
    /// Its outcome, within the step limit.
    ///
    /// # Errors
    /// When none comes, or the driver ended.
    pub async fn outcome(&mut self) -> Check<Outcome> {
        self.outcome_within(STEP_LIMIT).await
    }

    /// Its outcome, within `limit` from now.
    ///
    /// # Errors
    /// When none comes, or the driver ended.
    pub async fn outcome_within(&mut self, limit: Duration) -> Check<Outcome> {
        let expected = format!("an outcome of `{}`", self.command);
        match tokio::time::timeout(limit, &mut self.outcome).await {
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(_)) => fail(expected, format!("the driver ended{}", self.shared.log_tail())),
            Err(_) => fail(expected, format!("none within {limit:?}")),
        }
    }

    /// Passes when the outcome is exactly `text`.
    ///
    /// # Errors
    /// With the other outcome.
    pub async fn expect(&mut self, text: &str) -> Check<Outcome> {
        self.expect_within(STEP_LIMIT, text).await
    }

    /// The same within another limit.
    ///
    /// # Errors
    /// With the other outcome.
    pub async fn expect_within(&mut self, limit: Duration, text: &str) -> Check<Outcome> {
        let outcome = self.outcome_within(limit).await?;
        if outcome.text == text {
            return Ok(outcome);
        }
        Err(self.other(text, &outcome.text))
    }

    /// Passes when it is granted with `token`; gives the reported time to `valid_before`.
    ///
    /// # Errors
    /// With the other outcome.
    pub async fn granted(&mut self, token: u64) -> Check<Duration> {
        let outcome = self.outcome().await?;
        let head = format!("granted token={token} remaining_ms=");
        let number = outcome.text.strip_prefix(&head).and_then(|text| text.parse().ok());
        number.map(Duration::from_millis).ok_or_else(|| self.other(&head, &outcome.text))
    }

    /// Passes when nothing was reported yet.
    ///
    /// # Errors
    /// With the outcome.
    pub fn still_open(&mut self) -> Check {
        match self.outcome.try_recv() {
            Err(oneshot::error::TryRecvError::Empty) => Ok(()),
            Ok(outcome) => Err(self.other("no outcome yet", &outcome.text)),
            Err(oneshot::error::TryRecvError::Closed) => {
                Err(self.other("no outcome yet", "the driver ended"))
            }
        }
    }

    fn other(&self, expected: &str, seen: &str) -> Failure {
        Failure { expected: format!("`{}` → {expected}", self.command), seen: seen.to_owned() }
    }
}

impl Shared {
    fn note(&self, direction: char, tag: &str, line: &str) {
        let prefix = tag.split_once('-').map_or(tag, |(prefix, _)| prefix);
        if let Some(transcript) = lock(&self.transcripts).get_mut(prefix) {
            transcript.push(format!("{direction} {line}"));
        }
    }

    fn log_tail(&self) -> String {
        let log = lock(&self.log);
        if log.is_empty() {
            return String::new();
        }
        let lines: Vec<&str> = log.iter().map(String::as_str).collect();
        format!("; its last words: {}", lines.join(" | "))
    }
}

async fn write_commands(mut stdin: ChildStdin, mut queue: mpsc::UnboundedReceiver<String>) {
    while let Some(line) = queue.recv().await {
        if stdin.write_all(line.as_bytes()).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

async fn read_outcomes(stdout: impl AsyncRead + Unpin, shared: Arc<Shared>) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let at = clock::now();
        let (tag, text) = line.split_once(' ').unwrap_or((&line, ""));
        shared.note('<', tag, &line);
        let sender = lock(&shared.waiting).by_tag.remove(tag);
        match sender {
            // A scenario that failed no longer waits.
            Some(sender) => drop(sender.send(Outcome { text: text.to_owned(), at })),
            None => lock(&shared.stray).push(line),
        }
    }
    let mut waiting = lock(&shared.waiting);
    waiting.ended = true;
    waiting.by_tag.clear();
}

async fn read_log(stderr: impl AsyncRead + Unpin, shared: Arc<Shared>) {
    let mut lines = BufReader::new(stderr).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let mut log = lock(&shared.log);
        if log.len() == LOG_LINE_COUNT_MAX {
            log.pop_front();
        }
        log.push_back(line);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(script: &str) -> Driver {
        Driver::start(script, Path::new(".")).expect("sh starts")
    }

    #[tokio::test]
    async fn outcomes_find_their_commands_in_any_order() {
        let driver = start("read a; read b; echo t2 two; echo t1 one");
        let mut first = driver.send("x", "t1".into(), "");
        let mut second = driver.send("x", "t2".into(), "y=1");
        first.expect("one").await.expect("one");
        assert_eq!(second.expect("one").await.expect_err("other").seen, "two");
        driver.finish().await.expect("exit 0");
    }

    #[tokio::test]
    async fn a_dead_driver_answers_everything() {
        let driver = start("read a; echo broken >&2; exit 3");
        let mut pending = driver.send("x", "t1".into(), "");
        let failure = pending.outcome().await.expect_err("ended");
        assert!(failure.seen.contains("the driver ended"), "{failure}");
        let mut late = driver.send("x", "t2".into(), "");
        assert!(late.outcome().await.expect_err("ended").seen.contains("the driver ended"));
        assert!(driver.has_ended());
        assert!(driver.finish().await.expect_err("status").seen.contains("exit status: 3"));
    }

    #[tokio::test]
    async fn outcomes_without_a_command_are_kept() {
        let driver = start("echo t9 what; read a; echo t1 ok; read b");
        driver.send("x", "t1".into(), "").expect("ok").await.expect("ok");
        assert_eq!(driver.stray(), ["t9 what"]);
    }
}
