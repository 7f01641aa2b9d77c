//! `ticketing ping`: how long an acquire and a release take.

use crate::args::Ping;
use crate::clock;
use crate::exit::{Failure, INTERNAL};
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::time::Duration;
use ticketing_client::{AcquireOptions, Broker};
use tokio::time::sleep;

/// How long to wait for a connection before measuring.
const READY_LIMIT: Duration = Duration::from_secs(5);
/// Nobody else uses the key, and nobody should be kept from it for long.
const LEASE: Duration = Duration::from_secs(5);

pub(crate) async fn run(ping: Ping) -> Result<ExitCode, Failure> {
    let broker = ping.settings.broker()?;
    let result = measure(&ping, &broker).await;
    broker.close().await;
    result.map(|()| ExitCode::SUCCESS)
}

async fn measure(ping: &Ping, broker: &Broker) -> Result<(), Failure> {
    let key = format!("ticketing-ping-{}-{}", std::process::id(), clock::unix_now().as_nanos());
    let options = AcquireOptions::new().wait(Duration::ZERO).lease(LEASE);
    broker.ready(READY_LIMIT).await?;
    let mut times = Vec::new();
    for index in 0..ping.count {
        if index > 0 {
            sleep(ping.interval).await;
        }
        let begin = clock::now();
        let ticket = broker.acquire(&key, options).await?;
        let acquired = clock::now();
        let token = ticket.token();
        ticket.release().await?;
        let released = clock::now();
        let is_read = print(&format!(
            "acquire {} ms, release {} ms, token {token}",
            millis(acquired - begin),
            millis(released - acquired)
        ))?;
        if !is_read {
            return Ok(());
        }
        times.extend([acquired - begin, released - acquired]);
    }
    times.sort_unstable();
    if let (Some(min), Some(max)) = (times.first(), times.last()) {
        let median = times[times.len() / 2];
        print(&format!(
            "round trip: min {} ms, median {} ms, max {} ms",
            millis(*min),
            millis(median),
            millis(*max)
        ))?;
    }
    Ok(())
}

fn millis(duration: Duration) -> String {
    format!("{:.3}", duration.as_secs_f64() * 1000.0)
}

/// Returns whether somebody still reads, as `head` does until it has enough.
fn print(line: &str) -> Result<bool, Failure> {
    match writeln!(io::stdout(), "{line}") {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => {
            let problem = format!("standard output: {error}; check where it goes");
            Err(Failure::new(INTERNAL, problem))
        }
    }
}
