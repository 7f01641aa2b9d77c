//! `ticketing-server status`: where a running server stands.

use crate::output::print;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;
use ticketing_server::clock::Clock;
use ticketing_server::config::Settings;

/// How often a server that is not ready is asked again.
const POLL: Duration = Duration::from_millis(50);
/// A server that says nothing for this long hangs.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
/// More than any status.
const STATUS_SIZE_BYTES_MAX: u64 = 64 * 1024;

/// What to do.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Waits until the server is ready, for at most so many seconds: 60 where none are given.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "60")]
    wait_ready: Option<u32>,
}

/// Prints the status. Succeeds when the server is ready for clients.
pub(crate) fn run(
    arguments: &Arguments,
    settings: &Settings,
) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let Some(path) = &settings.admin_socket else {
        return Err("TICKETING_ADMIN_SOCKET: not set; give the path that the server was \
                    started with"
            .into());
    };
    let clock = Clock::start();
    let seconds = arguments.wait_ready.unwrap_or(0);
    loop {
        let status = ask(path);
        let is_ready = status.as_ref().is_ok_and(|text| text.contains("\nready true\n"));
        let is_over = clock.now().as_nanos() >= u64::from(seconds) * 1_000_000_000;
        if !is_ready && !is_over {
            sleep(POLL);
            continue;
        }
        let text = status.map_err(|error| {
            let path = path.display();
            format!(
                "TICKETING_ADMIN_SOCKET: {path}: {error}; check that the server runs with this path"
            )
        })?;
        print(&text)?;
        return Ok(if is_ready { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
}

fn ask(path: &Path) -> io::Result<String> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(ANSWER_TIME_MAX))?;
    let mut text = String::new();
    stream.take(STATUS_SIZE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}
