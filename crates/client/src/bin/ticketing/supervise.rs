//! Runs the command so that it is over before the lock is.

use crate::exit::{CANNOT_START, Failure, INTERNAL, NOT_FOUND};
use crate::group::Group;
use crate::messages::Messages;
use crate::signals::Signals;
use crate::sys;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::process::ExitStatus;
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep_until};

/// KILL goes out this long before the deadline, so that it has worked by then.
pub(crate) const KILL_MARGIN: Duration = Duration::from_millis(100);
/// How long what KILL has hit may still be visible.
const KILLED_WINDOW: Duration = Duration::from_secs(1);

/// The times of a command's forced end.
#[derive(Clone, Copy)]
pub(crate) struct Deadlines {
    pub(crate) term_at: Instant,
    pub(crate) kill_at: Instant,
}

impl Deadlines {
    /// Over by `valid_before`, with `grace` between TERM and KILL.
    pub(crate) fn new(valid_before: Instant, grace: Duration) -> Self {
        let kill_at = valid_before - KILL_MARGIN;
        Self { term_at: kill_at - grace, kill_at }
    }
}

/// What came of the command.
pub(crate) struct End {
    pub(crate) status: Result<ExitStatus, Failure>,
    /// Whether nothing of its process group is left.
    pub(crate) is_over: bool,
}

/// What a running command has been told.
enum Stage {
    Free,
    Terminated,
    Killed,
    /// KILL did not work.
    Stuck,
}

/// What the supervision of a command needs.
pub(crate) struct Supervisor<'a> {
    pub(crate) deadlines: Deadlines,
    pub(crate) signals: &'a mut Signals,
    pub(crate) messages: &'a Messages,
}

impl Supervisor<'_> {
    /// Runs the command, and ends what it leaves behind.
    pub(crate) async fn run(self, command: &[OsString], variables: [(&str, String); 2]) -> End {
        sys::adopt_orphans();
        match start(command, variables) {
            Ok(child) => self.watch(child).await,
            Err(failure) => End { status: Err(failure), is_over: true },
        }
    }

    /// Nothing in here may return early: the group would go on without the lock.
    async fn watch(mut self, mut child: Child) -> End {
        let id = child.id().and_then(|id| i32::try_from(id).ok()).expect("it was not waited for");
        let mut group = Group::of_leader(id);
        let status = self.wait(&mut child, &group).await;
        if status.is_err() {
            // It may still run, and nobody would notice its end.
            group.kill();
        }
        let is_over = self.end_rest(&mut group).await;
        End { status, is_over }
    }

    async fn wait(&mut self, child: &mut Child, group: &Group) -> Result<ExitStatus, Failure> {
        let Deadlines { term_at, kill_at } = self.deadlines;
        let mut stage = Stage::Free;
        loop {
            let next_at = match stage {
                Stage::Free => Some(term_at),
                Stage::Terminated => Some(kill_at),
                Stage::Killed => Some(kill_at + KILLED_WINDOW),
                Stage::Stuck => None,
            };
            tokio::select! {
                biased;
                status = child.wait() => return status.map_err(|error| {
                    let remedy = "start ticketing where nothing else waits for its children";
                    let problem = format!("cannot wait for the command: {error}; {remedy}");
                    Failure::new(INTERNAL, problem)
                }),
                () = sleep_until(next_at.unwrap_or(kill_at)), if next_at.is_some() => {
                    stage = self.advance(stage, group);
                }
                signal = self.signals.next() => group.signal(signal),
            }
        }
    }

    /// The lease is ending. Signals first: the message can wait.
    fn advance(&self, stage: Stage, group: &Group) -> Stage {
        let (stage, problem) = match stage {
            Stage::Free => {
                group.terminate();
                (Stage::Terminated, "terminating the command; give a longer --lease")
            }
            Stage::Terminated => {
                group.kill();
                (Stage::Killed, "killing the command; give a longer --grace")
            }
            Stage::Killed | Stage::Stuck => {
                let problem = "the command cannot be killed; end it by hand: it may still do what \
                               the lock is for";
                (Stage::Stuck, problem)
            }
        };
        self.messages.say(format_args!("the lease is ending: {problem}"));
        stage
    }

    /// Ends what the command left behind: it may still act on the lock. Returns whether it is over.
    async fn end_rest(&mut self, group: &mut Group) -> bool {
        let now = Instant::now();
        if self.ends_before(now, group).await {
            return true;
        }
        let Deadlines { term_at, kill_at } = self.deadlines;
        if now < kill_at {
            group.terminate();
            self.messages
                .say("the command left processes behind: terminating them; let it wait for them");
            if self.ends_before(kill_at.min(now + (kill_at - term_at)), group).await {
                return true;
            }
        }
        group.kill();
        let is_over = self.ends_before(Instant::now() + KILLED_WINDOW, group).await;
        if !is_over {
            self.messages.say(
                "processes that the command left behind cannot be ended; look for them: they may \
                 still do what the lock is for, so it is kept until its lease ends",
            );
        }
        is_over
    }

    /// Whether the group is over by then; signals reach it meanwhile.
    async fn ends_before(&mut self, deadline: Instant, group: &mut Group) -> bool {
        loop {
            tokio::select! {
                biased;
                is_over = group.ends_before(deadline) => return is_over,
                signal = self.signals.next() => group.signal(signal),
            }
        }
    }
}

/// Starts the command as the leader of a process group.
fn start(command: &[OsString], variables: [(&str, String); 2]) -> Result<Child, Failure> {
    let (program, arguments) = command.split_first().expect("the command line requires one");
    let mut command = Command::new(program);
    command.args(arguments).envs(variables).process_group(0);
    sys::kill_with_parent(&mut command);
    command.spawn().map_err(|error| {
        let (code, remedy) = match error.kind() {
            ErrorKind::NotFound => (NOT_FOUND, "check its name and PATH"),
            _ => (CANNOT_START, "check that it may be executed"),
        };
        Failure::new(code, format!("cannot run {}: {error}; {remedy}", program.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longer than the test may take.
    const FAR: Duration = Duration::from_secs(100);

    #[tokio::test]
    async fn a_command_whose_end_is_lost_takes_its_group_along() {
        sys::adopt_orphans();
        let script = "(trap '' TERM; exec sleep 300) & exit 5";
        let variables = [("A", String::new()), ("B", String::new())];
        let child = start(&["sh", "-c", script].map(OsString::from), variables);
        let child = child.expect("it runs");
        let id = child.id().and_then(|id| i32::try_from(id).ok()).expect("it was not waited for");
        // SAFETY: plain numbers, and a status that is not asked for.
        let reaped = unsafe { libc::waitpid(id, std::ptr::null_mut(), 0) };
        assert_eq!(reaped, id);
        assert!(sys::signal_group(id, 0).is_ok(), "it left a process behind");

        let messages = Messages::start().expect("a thread");
        let mut signals = Signals::listen().expect("signals");
        let deadlines = Deadlines::new(Instant::now() + FAR, FAR / 2);
        let supervisor = Supervisor { deadlines, signals: &mut signals, messages: &messages };
        let end = supervisor.watch(child).await;
        let failure = end.status.expect_err("somebody else has it");
        assert_eq!(failure.code, INTERNAL);
        assert!(end.is_over);
        assert!(sys::signal_group(id, 0).is_err(), "nothing is left");
    }
}
