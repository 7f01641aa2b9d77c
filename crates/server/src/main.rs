//! The `ticketing-server` binary.

mod cluster_command;
mod log;
mod output;
mod status_command;

use clap::{Parser, Subcommand};
use log::Log;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::future::poll_fn;
use std::io::{self, Write};
use std::process::ExitCode;
use std::task::Poll;
use std::thread;
use ticketing_server::config::{self, Settings};
use ticketing_server::limits::LOG_FLUSH_TIME_MAX;
use ticketing_server::net::{End, Server, runtime};
use ticketing_server::{is_signal_ignored, raise_file_limit};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Exit code of a node whose slot belongs to a younger process.
const EXIT_REMOVED: u8 = 3;
/// Exit code of a node whose state differed from the leader's.
const EXIT_DIVERGED: u8 = 4;

#[derive(Parser)]
#[command(name = "ticketing-server", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Subcommand)]
enum Command {
    /// Makes a cluster's identity, or shows this environment's.
    Cluster(cluster_command::Arguments),
    /// Shows where a running server stands; succeeds when it is ready for clients.
    Status(status_command::Arguments),
}

fn main() -> ExitCode {
    let arguments = config::read(std::env::args_os(), std::env::vars_os());
    let result =
        arguments.map_err(Into::into).and_then(|arguments: Arguments| match arguments.command {
            Some(Command::Cluster(command)) => cluster_command::run(&command, &arguments.settings),
            Some(Command::Status(command)) => status_command::run(&command, &arguments.settings),
            None => run(&arguments.settings),
        });
    result.unwrap_or_else(|error| {
        // The exit code tells it even where nobody reads.
        let _ = writeln!(io::stderr(), "ticketing-server: {error}");
        ExitCode::FAILURE
    })
}

/// Errors from before there is a log are the caller's to report.
fn run(settings: &Settings) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let log = Log::start().map_err(|error| {
        format!("cannot start the log: {error}; raise the limits of processes and open files")
    })?;
    tracing_subscriber::fmt()
        .with_env_filter(settings.log.to_filter())
        .with_writer(log.clone())
        .init();
    stop_on_panic(log.clone());
    let code = start(settings).unwrap_or_else(|error| {
        log.say(&format!("ticketing-server: {error}\n"));
        ExitCode::FAILURE
    });
    log.flush(LOG_FLUSH_TIME_MAX);
    Ok(code)
}

fn start(settings: &Settings) -> Result<ExitCode, Box<dyn std::error::Error>> {
    raise_file_limit(settings.max_connections);
    let threads = settings.thread_count();
    let runtime = runtime(threads).map_err(|error| {
        format!(
            "cannot start {threads} I/O threads: {error}; lower TICKETING_THREADS, or raise the \
             limits of processes and open files"
        )
    })?;
    runtime.block_on(serve(settings))
}

async fn serve(settings: &Settings) -> Result<ExitCode, Box<dyn std::error::Error>> {
    // Before the start line: whoever reads it may send the signal at once.
    let mut signals = stop_signals().map_err(|error| {
        format!("cannot listen to signals: {error}; raise the limit of open files")
    })?;
    let stop = poll_fn(move |context| {
        let is_there = signals.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
        if is_there { Poll::Ready(()) } else { Poll::Pending }
    });
    let server = Server::bind(settings)?;
    announce(&server)?;
    let end = server.serve(stop).await;
    Ok(match end {
        End::Diverged => ExitCode::from(EXIT_DIVERGED),
        End::Removed => ExitCode::from(EXIT_REMOVED),
        End::Stopped => ExitCode::SUCCESS,
    })
}

/// A terminal that closes sends SIGHUP; a server that should outlive it is started with that
/// ignored.
fn stop_signals() -> io::Result<Vec<Signal>> {
    let mut kinds = vec![SignalKind::terminate(), SignalKind::interrupt()];
    if !is_signal_ignored(SignalKind::hangup().as_raw_value()) {
        kinds.push(SignalKind::hangup());
    }
    kinds.into_iter().map(signal).collect()
}

/// The one line on standard output. Nobody has to read it, so a thread of its own waits until
/// somebody does.
fn announce(server: &Server) -> Result<(), String> {
    let line = format!("{server}\n");
    let write = move || {
        let mut stdout = io::stdout().lock();
        let _ = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush());
    };
    match thread::Builder::new().name("start line".into()).spawn(write) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("cannot start a thread: {error}; raise the limit of processes")),
    }
}

/// A lock server whose state is in doubt must not go on granting. While the message waits for its
/// reader, whoever panicked still holds the lock around that state.
fn stop_on_panic(log: Log) {
    std::panic::set_hook(Box::new(move |panic| {
        let thread = thread::current();
        let name = thread.name().unwrap_or("without a name");
        let backtrace = Backtrace::capture();
        let trace = match backtrace.status() {
            BacktraceStatus::Captured => backtrace.to_string(),
            _ => "set RUST_BACKTRACE=1 for a backtrace\n".to_owned(),
        };
        log.say(&format!("ticketing-server: thread {name} {panic}\n{trace}"));
        log.flush(LOG_FLUSH_TIME_MAX);
        std::process::abort();
    }));
}
