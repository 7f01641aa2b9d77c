//! The `ticketing` command line: run a command while holding a lock, or measure a round trip.

// They panic where nobody reads: see messages.rs.
#![deny(clippy::print_stderr, clippy::print_stdout)]

#[cfg(not(unix))]
compile_error!("the command line needs Unix; the library builds with --no-default-features");

mod args;
mod clock;
mod duration;
mod exit;
mod group;
mod lock;
mod messages;
mod ping;
mod settings;
mod signals;
mod supervise;
mod sys;

use args::{Arguments, Command};
use clap::Parser;
use messages::{Messages, say_now};
use std::process::ExitCode;
use tokio::runtime::Builder;

fn main() -> ExitCode {
    // Before there are threads.
    sys::expect_children();
    let messages = match Messages::start() {
        Ok(messages) => messages,
        Err(error) => {
            say_now(format_args!("cannot start a thread: {error}; raise the limit of processes"));
            return exit::INTERNAL.into();
        }
    };
    let code = run(&messages);
    messages.finish();
    code
}

fn run(messages: &Messages) -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => {
            let text = error.render().to_string();
            // Without any argument it is the help.
            messages.write(text.replacen("error: ", "ticketing: ", 1));
            return exit::USAGE.into();
        }
        Err(help_or_version) => {
            let _ = help_or_version.print();
            return ExitCode::SUCCESS;
        }
    };
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            messages.say(format_args!("cannot start: {error}; raise the limit of open files"));
            return exit::INTERNAL.into();
        }
    };
    let outcome = runtime.block_on(async {
        match arguments.command {
            Command::Lock(lock) => lock::run(lock, messages).await,
            Command::Ping(ping) => ping::run(ping).await,
        }
    });
    // A host name that is still being looked up must not delay the exit.
    runtime.shutdown_background();
    outcome.unwrap_or_else(|failure| {
        messages.say(failure.problem);
        failure.code.into()
    })
}
