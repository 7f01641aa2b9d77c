//! `ticketing lock`: acquire, run the command, release.

use crate::args::Lock;
use crate::clock;
use crate::duration::write;
use crate::exit::{self, Failure, USAGE};
use crate::messages::Messages;
use crate::signals::Signals;
use crate::supervise::{Deadlines, KILL_MARGIN, Supervisor};
use std::process::ExitCode;
use std::time::Duration;
use ticketing_client::{AcquireOptions, Error, ReleaseOutcome, TicketSet};

/// Longest default time between TERM and KILL; otherwise a tenth of the lease.
const GRACE_MAX: Duration = Duration::from_secs(5);

pub(crate) async fn run(lock: Lock, messages: &Messages) -> Result<ExitCode, Failure> {
    let grace = lock.grace.unwrap_or((lock.lease / 10).min(GRACE_MAX));
    let options = options(&lock, grace)?;
    // From here on signals do not end this process by themselves.
    let mut signals = Signals::listen()?;
    let broker = lock.settings.broker()?;
    let acquired = tokio::select! {
        acquired = broker.acquire_set(&lock.keys, options) => acquired,
        signal = signals.next() => {
            broker.close().await;
            return Ok(exit::of_signal(signal));
        }
    };
    let ticket = match acquired {
        Ok(ticket) => ticket,
        Err(error) => {
            // A grant that came too late is being released.
            broker.close().await;
            return Err(error.into());
        }
    };
    let deadlines = Deadlines::new(ticket.valid_before().into(), grace);
    let supervisor = Supervisor { deadlines, signals: &mut signals, messages };
    let end = supervisor.run(&lock.command, variables(&ticket)).await;
    if end.is_over {
        release(ticket, messages).await;
        broker.close().await;
    } else {
        // What is left of the command may act on the lock, so the ticket outlives the connection.
        broker.close().await;
        drop(ticket);
    }
    end.status.map(exit::of_status)
}

fn options(lock: &Lock, grace: Duration) -> Result<AcquireOptions, Failure> {
    let reserve = grace.saturating_add(KILL_MARGIN);
    let budget = lock.budget.saturating_add(reserve);
    if budget >= lock.lease {
        let problem = format!(
            "--lease {}: it must be longer than --budget {} and the {} in which the command is \
             ended (--grace)",
            write(lock.lease),
            write(lock.budget),
            write(reserve)
        );
        return Err(Failure::new(USAGE, problem));
    }
    Ok(AcquireOptions::new().wait(lock.wait).lease(lock.lease).budget(budget))
}

fn variables(ticket: &TicketSet) -> [(&'static str, String); 2] {
    // The wall clock first: then the time that passes in between makes the end earlier.
    let now = clock::unix_now();
    let valid_before = (now + ticket.remaining()).as_millis();
    [
        ("TICKETING_FENCING_TOKEN", ticket.token().to_string()),
        ("TICKETING_VALID_BEFORE", valid_before.to_string()),
    ]
}

/// The command is over, so a release without an answer is no failure; the lease is still there.
async fn release(ticket: TicketSet, messages: &Messages) {
    match ticket.release().await {
        Ok(ReleaseOutcome::Released) => {}
        Ok(ReleaseOutcome::NotHeld) => {
            messages.say(
                "the lock was not held any more when it was released: its lease was over, or the \
                 server has lost its memory; give a longer --lease, or the server a state \
                 directory, and let the database check the fencing token",
            );
        }
        Err(Error::ReleaseUnconfirmed) => messages.say(Error::ReleaseUnconfirmed),
        Err(error) => {
            messages.say(format_args!("not released: {error}; the lock ends with its lease"));
        }
    }
}
