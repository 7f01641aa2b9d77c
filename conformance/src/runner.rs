//! Runs scenarios against one client's driver.

use crate::clock;
use crate::delay;
use crate::driver::Driver;
use crate::failure::{Check, Failure, fail};
use crate::limits::{RUN_COUNT_MAX, SCENARIO_COUNT_AT_ONCE, SCENARIO_LIMIT};
use crate::registry::Language;
use crate::scenario::{Group, Scenario, Stage};
use crate::tls::Authority;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// How one scenario ended.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The scenario.
    pub id: String,
    /// Its group.
    pub group: Group,
    /// What it found.
    pub check: Check,
    /// What was said to the driver and by it in the run that failed.
    pub transcript: Vec<String>,
    /// How long it took, all runs together.
    pub time: Duration,
}

/// The driver process that scenarios share; a new one takes the place of one that ended.
struct Drivers {
    language: Language,
    current: Mutex<Arc<Driver>>,
}

impl Drivers {
    fn start(language: &Language) -> std::io::Result<Self> {
        let driver = Driver::start(&language.run, &language.directory)?;
        Ok(Self { language: language.clone(), current: Mutex::new(Arc::new(driver)) })
    }

    fn get(&self) -> std::io::Result<Arc<Driver>> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.has_ended() {
            *current = Arc::new(Driver::start(&self.language.run, &self.language.directory)?);
        }
        Ok(Arc::clone(&current))
    }
}

/// Runs all scenarios, the waiting ones side by side, and ends the driver.
///
/// # Errors
/// When the driver cannot be started at all, or no certificates be made.
pub async fn run(language: &Language, scenarios: Vec<Scenario>) -> Check<Vec<Verdict>> {
    let authority = Arc::new(Authority::new()?);
    let drivers = Arc::new(Drivers::start(language)?);
    let places = Arc::new(Semaphore::new(SCENARIO_COUNT_AT_ONCE));
    let mut running = JoinSet::new();
    let closes = scenarios.iter().any(|scenario| scenario.group == Group::Close);
    let watch = tokio::spawn(delay::watch());
    for (number, scenario) in scenarios.into_iter().enumerate() {
        let (drivers, authority) = (Arc::clone(&drivers), Arc::clone(&authority));
        let places = Arc::clone(&places);
        running.spawn(async move {
            let _place = places.acquire().await;
            let start = clock::now();
            let (check, transcript) = judge(&scenario, number, &drivers, &authority).await;
            let time = clock::now() - start;
            (number, Verdict { id: scenario.id, group: scenario.group, check, transcript, time })
        });
    }
    let mut verdicts = Vec::new();
    while let Some(joined) = running.join_next().await {
        match joined {
            Ok(verdict) => verdicts.push(verdict),
            Err(error) => return fail("a scenario that ends", error.to_string()),
        }
    }
    watch.abort();
    verdicts.sort_by_key(|(number, _)| *number);
    let mut verdicts: Vec<Verdict> = verdicts.into_iter().map(|(_, verdict)| verdict).collect();
    verdicts.extend(end(drivers, &authority).await.into_iter().filter(|_| closes));
    Ok(verdicts)
}

async fn judge(
    scenario: &Scenario,
    number: usize,
    drivers: &Drivers,
    authority: &Arc<Authority>,
) -> (Check, Vec<String>) {
    let mut result = (Ok(()), Vec::new());
    for run in 0..RUN_COUNT_MAX {
        let driver = match drivers.get() {
            Ok(driver) => driver,
            Err(error) => return (Err(error.into()), Vec::new()),
        };
        let prefix = format!("s{number}r{run}");
        driver.record(&prefix);
        let stage = Stage::new(Arc::clone(&driver), Arc::clone(authority), &prefix);
        let limited = tokio::time::timeout(SCENARIO_LIMIT, (scenario.run)(stage.clone())).await;
        let check = limited.unwrap_or_else(|_| {
            fail(format!("the scenario ends within {SCENARIO_LIMIT:?}"), "it does not")
        });
        result = (check, driver.take_transcript(&prefix));
        stage.clear();
        // A driver that ended may have been ended by another scenario: the guilty one fails again.
        if result.0.is_ok() || !driver.has_ended() {
            break;
        }
    }
    result
}

/// What the driver itself owes: no line that nobody asked for, and an orderly end with a broker
/// still open.
async fn end(drivers: Arc<Drivers>, authority: &Arc<Authority>) -> Vec<Verdict> {
    let verdict = |name: &str, check| Verdict {
        id: format!("{}/{name}", Group::Close),
        group: Group::Close,
        check,
        transcript: Vec::new(),
        time: Duration::ZERO,
    };
    let start = clock::now();
    let Ok(driver) = drivers.get() else {
        return Vec::new();
    };
    drop(drivers);
    let stage = Stage::new(Arc::clone(&driver), Arc::clone(authority), "end");
    let opened = stage.single().await;
    let stray = driver.stray();
    let lines = if stray.is_empty() {
        Ok(())
    } else {
        fail("one outcome for each command", stray.join(" | "))
    };
    drop(stage);
    let finished = match opened {
        Err(failure) => Err(failure),
        Ok((mut wire, broker)) => {
            drop(broker);
            match Arc::try_unwrap(driver) {
                Err(_) => fail("a driver that nobody uses", "a scenario still does"),
                Ok(driver) => finish(driver, &mut wire).await,
            }
        }
    };
    let mut ended = verdict("end-of-input", finished);
    ended.time = clock::now() - start;
    vec![verdict("driver-lines", lines), ended]
}

async fn finish(driver: Driver, wire: &mut crate::wire::Wire) -> Check {
    driver.finish().await?;
    while wire.open_count() > 0 {
        if wire.event_within(crate::limits::STEP_LIMIT).await?.is_none() {
            return Err(Failure {
                expected: "every socket closed at the end of input".into(),
                seen: format!("{} open", wire.open_count()),
            });
        }
    }
    Ok(())
}
