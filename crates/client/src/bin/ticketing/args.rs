//! Commands and flags.

use crate::duration::{parse, parse_whole_seconds};
use crate::exit;
use crate::settings::Settings;
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::time::Duration;

/// Locks from the command line, by a Ticketing server.
#[derive(Debug, Parser)]
#[command(name = "ticketing", version, max_term_width = 100, after_help = exit::HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Lock(Lock),
    Ping(Ping),
}

/// Run a command while holding the lock on one key, or on several at once.
///
/// The command finds its fencing token in TICKETING_FENCING_TOKEN, to be passed to the database
/// with every write, and the time until which it may act on the lock in TICKETING_VALID_BEFORE
/// (Unix time in milliseconds). Standard input and output are the command's. It runs in a process
/// group of its own, to which TERM, INT, HUP, QUIT, USR1 and USR2 are forwarded. Before the lease
/// can end, the group gets TERM, then KILL. What is left of the group when the command ends is
/// ended too; then the lock is released.
#[derive(Args, Debug)]
#[command(
    after_help = exit::HELP,
    override_usage = "ticketing lock [OPTIONS] <KEY>... -- <COMMAND> [ARGS]..."
)]
pub(crate) struct Lock {
    /// Keys to lock, all or nothing: 1 to 16, each 1 to 128 bytes of UTF-8 without spaces and
    /// line breaks.
    #[arg(required = true, value_name = "KEY")]
    pub(crate) keys: Vec<String>,

    /// How long to wait for the turn: 0s (one immediate try) to 255s. Fractions are rounded up.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse)]
    pub(crate) wait: Duration,

    /// After which time the server takes the lock back: 1s to 250s, whole seconds. Counted from
    /// before the request is sent, so it has to cover the wait as well.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_whole_seconds)]
    pub(crate) lease: Duration,

    /// The least time the command needs before it would get TERM. With less left, it is not run.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse)]
    pub(crate) budget: Duration,

    /// Time between TERM and KILL when the lease ends [default: a tenth of the lease, 5s at most]
    #[arg(long, value_name = "DURATION", value_parser = parse)]
    pub(crate) grace: Option<Duration>,

    #[command(flatten)]
    pub(crate) settings: Settings,

    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Measure how long an acquire and a release take, on a key of its own.
#[derive(Args, Debug)]
#[command(after_help = exit::HELP)]
pub(crate) struct Ping {
    /// How often.
    #[arg(
        long, value_name = "COUNT", default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(crate) count: u32,

    /// Pause in between.
    #[arg(long, value_name = "DURATION", default_value = "200ms", value_parser = parse)]
    pub(crate) interval: Duration,

    #[command(flatten)]
    pub(crate) settings: Settings,
}
