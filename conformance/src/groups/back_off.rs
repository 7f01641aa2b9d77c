//! Group `back-off`: when a connection that ended is made again. Judged on slot 0 of a cluster,
//! because two connections to one address cannot be told apart.

use super::{Moment, timing};
use crate::clock;
use crate::conn::{Conn, Cut};
use crate::failure::{Check, fail};
use crate::frame::Identity;
use crate::limits::{BACK_OFF_MS, BACK_OFF_RESET, STEP_LIMIT};
use crate::scenario::{Broker, Group, Scenario, Stage};
use crate::wire::Wire;
use std::time::Duration;

/// The scenarios of this group.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new(Group::BackOff, "doubles-up-to-3.2s", doubles),
        Scenario::new(Group::BackOff, "after-wrong-hello", after_wrong_hello),
        Scenario::new(Group::BackOff, "reset-by-session-of-1s", reset),
        Scenario::new(Group::BackOff, "not-reset-by-short-session", not_reset),
        Scenario::new(Group::BackOff, "others-undisturbed", others_undisturbed),
    ]
}

/// Fails connections to slot 0 and measures the pauses between.
struct Failing {
    wire: Wire,
    broker: Broker,
    /// When the last one ended.
    ended: Moment,
}

impl Failing {
    /// A broker whose first connection to slot 0 has just failed.
    async fn start(stage: &Stage) -> Check<Self> {
        let mut wire = Wire::listen(Identity::cluster(3)).await?;
        wire.pause(0, true);
        let broker = stage.open_on(&wire, "").await?;
        wire.connected(2).await?;
        let ended = cut(wire.accept(0).await?);
        Ok(Self { wire, broker, ended })
    }

    /// The next connection must come `pause` after the last one's end.
    async fn next(&mut self, pause: Duration) -> Check<Conn> {
        let conn = self.wire.accept_within(0, pause + STEP_LIMIT).await?;
        timing("pause before the next connection", pause, self.ended, clock::now())?;
        Ok(conn)
    }

    async fn fail_next(&mut self, pause_ms: u64) -> Check {
        self.ended = cut(self.next(Duration::from_millis(pause_ms)).await?);
        Ok(())
    }

    async fn session(&mut self, pause_ms: u64, time: Duration) -> Check {
        let mut conn = self.next(Duration::from_millis(pause_ms)).await?;
        if !conn.greet(&self.wire.identity).await? {
            return fail("a connection that stays for its hello", "closed before");
        }
        tokio::time::sleep(time).await;
        self.ended = cut(conn);
        Ok(())
    }
}

fn cut(mut conn: Conn) -> Moment {
    let earliest = clock::now();
    conn.cut(Cut::Close);
    Moment { earliest, latest: clock::now() }
}

async fn doubles(stage: Stage) -> Check {
    let mut failing = Failing::start(&stage).await?;
    for pause in BACK_OFF_MS {
        failing.fail_next(pause).await?;
    }
    Ok(())
}

async fn after_wrong_hello(stage: Stage) -> Check {
    let mut failing = Failing::start(&stage).await?;
    for pause in &BACK_OFF_MS[..4] {
        let mut conn = failing.next(Duration::from_millis(*pause)).await?;
        let earliest = clock::now();
        // The hello of slot 1, from slot 0.
        conn.write(&failing.wire.identity.hello(1, &[1; 16])).await?;
        conn.closed_by_client(STEP_LIMIT).await?;
        failing.ended = Moment { earliest, latest: clock::now() };
    }
    Ok(())
}

async fn reset(stage: Stage) -> Check {
    let mut failing = Failing::start(&stage).await?;
    for pause in &BACK_OFF_MS[..3] {
        failing.fail_next(*pause).await?;
    }
    failing.session(BACK_OFF_MS[3], BACK_OFF_RESET + Duration::from_secs(1)).await?;
    failing.fail_next(BACK_OFF_MS[0]).await?;
    failing.fail_next(BACK_OFF_MS[1]).await
}

async fn not_reset(stage: Stage) -> Check {
    let mut failing = Failing::start(&stage).await?;
    failing.fail_next(BACK_OFF_MS[0]).await?;
    failing.fail_next(BACK_OFF_MS[1]).await?;
    failing.session(BACK_OFF_MS[2], Duration::from_millis(200)).await?;
    failing.fail_next(BACK_OFF_MS[3]).await
}

/// While one slot fails, the others serve.
async fn others_undisturbed(stage: Stage) -> Check {
    let mut failing = Failing::start(&stage).await?;
    for pause in &BACK_OFF_MS[..3] {
        failing.broker.works(&mut failing.wire).await?;
        failing.wire.accept_within(0, Duration::from_millis(*pause) + STEP_LIMIT).await?;
    }
    failing.broker.works(&mut failing.wire).await
}
