//! Every time limit and size of the judge.

use std::time::Duration;

/// Longest wait for the next thing that a healthy client does at once: connect, send, answer,
/// close. Generous, because the machine may be busy; only a failing client makes the judge wait.
pub const STEP_LIMIT: Duration = Duration::from_secs(20);
/// How long the judge watches when something must *not* happen.
pub const QUIET_TIME: Duration = Duration::from_millis(300);
/// Longest run of one scenario.
pub const SCENARIO_LIMIT: Duration = Duration::from_secs(120);
/// Pause between two writes that the client should see as two reads.
pub const SPLIT_PAUSE: Duration = Duration::from_millis(2);
/// Longest wait of a driver process to end after the end of its input.
pub const DRIVER_EXIT_LIMIT: Duration = Duration::from_secs(10);
/// Longest build of a driver.
pub const BUILD_LIMIT: Duration = Duration::from_secs(900);
/// Longest run of a README's example, its build included.
pub const EXAMPLE_LIMIT: Duration = Duration::from_secs(120);
/// Scenarios that run at the same time against one driver process.
pub const SCENARIO_COUNT_AT_ONCE: usize = 16;
/// Runs of a scenario whose driver ended under it, maybe because of another: the guilty one ends
/// each driver that it gets, and after two of its own the third run of the innocent is undisturbed.
pub const RUN_COUNT_MAX: usize = 3;
/// Lines of a driver's stderr kept for the report.
pub const LOG_LINE_COUNT_MAX: usize = 6;

/// Client: limit of the whole handshake.
pub const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// Client: a sent acquire without an answer is indeterminate this long after the wait it sent.
pub const ANSWER_GRACE: Duration = Duration::from_secs(5);
/// Client: window in which a release is repeated.
pub const RELEASE_WINDOW: Duration = Duration::from_secs(5);
/// Client: a release without an answer is repeated after this.
pub const RELEASE_ATTEMPT: Duration = Duration::from_secs(2);
/// Client: reconnect back-off of one connection, in milliseconds; the last value repeats.
pub const BACK_OFF_MS: [u64; 7] = [100, 200, 400, 800, 1600, 3200, 3200];
/// Client: a session this long starts the back-off anew.
pub const BACK_OFF_RESET: Duration = Duration::from_secs(1);
/// Client: longest pause between two attempts of one call.
pub const RETRY_PAUSE_MAX: Duration = Duration::from_millis(100);
/// How much later than due a client's timer may act, while the judge itself is on time: a driver on
/// a crowded machine needs processor time that the judge does not. Less than the last steps of
/// the back-off, so that a client with other steps is found out.
pub const LATENESS_MAX: Duration = Duration::from_millis(1_000);
const _: () = assert!(LATENESS_MAX.as_millis() < (BACK_OFF_MS[5] - BACK_OFF_MS[4]) as u128);
/// How many times the judge's own longest delay is added to that: what a client does passes through
/// several threads, each of which may wait that long for its turn.
pub const DELAY_COUNT_MAX: u32 = 10;
/// How much sooner than due a client's timer may act: clocks and timers of some runtimes count
/// whole milliseconds.
pub const EARLINESS_MAX: Duration = Duration::from_millis(20);
