//! Delivery: moves the log to one sink, in order per record, at least once.
//!
//! Each sink has one task; a dead sink slows no other. The position is saved only after the sink has
//! acknowledged, so a crash repeats a bounded number of changes, under the same event ids. A change
//! that the sink refuses is parked in `deliveries`; a fault of the endpoint pauses the sink and parks
//! nothing. Nothing here knows how records got into the store.

mod backlog;
mod dead_log;
mod exchange;
mod filter;
mod flood;
mod flow;
mod health;
mod notices;
mod reading;
mod redrive;
mod refill;
mod replay;
mod room;
mod round;
mod settle;
mod status;
mod task_state;
mod window;

use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, stamp};
use crate::config::{self, MqttSettings, NameTemplate, SinkKind};
use crate::sink::Sink;
use crate::store::{Begin, Reader, SinkRow, SinkState, Store, StoreError};
pub use backlog::{SinkView, behind};
pub use filter::wants;
pub use flood::FloodGate;
use health::{Comparing, EndpointHealth};
pub use redrive::{Redrive, Redriven, redrive};
pub use replay::{ReplayRule, going_on, replay_filter, replay_rule};
pub use room::Room;
pub use status::{SinkActivity, SinkStatus};
use task_state::{DISK_WAIT, Ends, TaskState};

/// Changes a sink may have parked before it takes no new ones.
const MAX_OPEN: i64 = if cfg!(test) { 1_000 } else { 10_000 };
/// Dead letters a sink may have before it takes no new changes: none is ever dropped by itself.
const MAX_DEAD: i64 = 1_000_000;
/// A sink looks for work after this long even if nothing woke it.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// A position that passed only unwanted changes is saved after this long, with those of other sinks.
const SAVE_PASSED_AFTER: Duration = Duration::from_secs(1);

/// What one delivery task is made of.
pub struct Deliverer {
    /// The sink's name.
    pub name: String,
    /// Where changes go.
    pub sink: Sink,
    /// What the sink asked for.
    pub settings: config::SinkSettings,
    /// Where changes come from.
    pub store: Store,
    /// The time.
    pub clock: Clock,
    /// What holds back a flood of changes.
    pub gate: FloodGate,
    /// The room for large records, which it shares with the other sinks.
    pub room: Room,
    /// Woken when an operator changed something about this sink.
    pub wake: watch::Receiver<()>,
    /// Where the sink's status is published.
    pub view: watch::Sender<Option<SinkStatus>>,
}

/// What may bring work while a sink works or waits.
struct Wakes {
    log: watch::Receiver<i64>,
    wake: watch::Receiver<()>,
}

impl Deliverer {
    /// Delivers until `finish`, which lets what is under way end; `cut` cuts that short.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails in a way that waiting cannot fix.
    pub async fn run(
        mut self,
        finish: CancellationToken,
        cut: CancellationToken,
    ) -> Result<(), StoreError> {
        let mut known = TaskState::of(self.open().await?);
        self.expect_stored(&mut known).await?;
        self.remember_topics().await?;
        let comparing = self.comparing(Comparing::Patient);
        let mut wakes = self.wakes();
        let ends = Ends { finish: &finish, cut: &cut, waits_for_disk: true };
        self.publish(&known);
        let mut grown = false;
        loop {
            // Before reading: growth between the read and the wait would otherwise be missed.
            wakes.log.borrow_and_update();
            let wait = match self.step(&mut known, comparing, grown, &mut wakes, &ends).await {
                Ok(wait) => wait.min(LOOK_AGAIN),
                Err(error) if error.is_transient() => DISK_WAIT,
                Err(error) => return Err(error),
            };
            self.publish(&known);
            if let Some(report) = known.dead_log.due(self.clock.now().elapsed) {
                self.report_dead(&report);
            }
            grown = false;
            if wait.is_zero() && !finish.is_cancelled() {
                continue;
            }
            let now = self.clock.now().elapsed;
            let wait = known.dead_log.wait(now).map_or(wait, |left| left.min(wait));
            let resting = known.health.pause(now).is_some();
            let deaf = resting && known.health.ends_with_more_than().is_none();
            tokio::select! {
                biased;
                () = finish.cancelled() => break,
                () = woken(&mut wakes.wake) => {
                    known.look_beside();
                    known.health.end_pause(self.clock.now().elapsed);
                    // After a reload, a file may have been renamed so that a new one begins.
                    self.sink.reopen().await;
                }
                changed = wakes.log.changed(), if !deaf => match changed {
                    Ok(()) => grown = true,
                    Err(_) => break,
                },
                () = tokio::time::sleep(wait) => {}
            }
        }
        if let Some(report) = known.dead_log.rest() {
            self.report_dead(&report);
        }
        match self.store.save_passed_positions().await {
            // Those rows of the log are only read again.
            Err(error) if error.is_transient() => Ok(()),
            saved => saved,
        }
    }

    /// Works unless the sink pauses; returns how long to wait before the next call.
    async fn step(
        &mut self,
        known: &mut TaskState,
        comparing: Comparing,
        grown: bool,
        wakes: &mut Wakes,
        ends: &Ends<'_>,
    ) -> Result<Duration, StoreError> {
        let pause = known.health.pause(self.clock.now().elapsed);
        let mut beside = LOOK_AGAIN;
        if pause.is_none() {
            beside = if std::mem::take(&mut known.changes_first) {
                Duration::ZERO
            } else {
                self.notices(known, ends).await?.unwrap_or(LOOK_AGAIN)
            };
        }
        // A notice may have begun one.
        let pause = known.health.pause(self.clock.now().elapsed);
        let wait = match pause {
            Some(pause) if !(grown && known.health.ends_with_more_than().is_some()) => pause,
            _ => self.exchange(known, comparing, wakes, ends).await?.unwrap_or(LOOK_AGAIN),
        };
        let mut wait = wait.min(beside);
        let is_idle = !wait.is_zero() && known.health.pause(self.clock.now().elapsed).is_none();
        if is_idle && let Some(next) = self.replay(known, ends).await? {
            wait = wait.min(next);
        }
        let Some(since) = known.passed_at else { return Ok(wait) };
        let now = self.clock.now().elapsed;
        let left = (since + SAVE_PASSED_AFTER).saturating_sub(now);
        if !left.is_zero() {
            return Ok(wait.min(left));
        }
        self.store.save_passed_positions().await?;
        known.passed_at = None;
        Ok(wait)
    }

    /// Delivers what is in the log and due now, and returns the status of the sink then.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub async fn once(mut self, cut: &CancellationToken) -> Result<SinkStatus, StoreError> {
        let mut known = TaskState::of(self.open().await?);
        self.expect_stored(&mut known).await?;
        self.remember_topics().await?;
        let comparing = self.comparing(Comparing::AtOnce);
        let mut wakes = self.wakes();
        // A run that is to end does not wait for room on the disk.
        let ends = Ends { finish: &CancellationToken::new(), cut, waits_for_disk: false };
        self.notices(&mut known, &ends).await?;
        // Unless the endpoint asked for a wait.
        while !known.changes_first {
            let delivered = known.row.delivered;
            let attempt = known.health.attempt(comparing);
            let wait = self.exchange(&mut known, comparing, &mut wakes, &ends).await?;
            let more = wait == Some(Duration::ZERO);
            let compare = known.health.attempt(comparing).compares()
                && !matches!(known.health, EndpointHealth::AskedToWait { .. })
                && (!attempt.compares() || known.row.delivered > delivered);
            if cut.is_cancelled() || !(more || compare) {
                break;
            }
        }
        if let Some(report) = known.dead_log.rest() {
            self.report_dead(&report);
        }
        self.store.save_passed_positions().await?;
        let mut status = known.status(self.clock.now().elapsed);
        let (filter, position) = (self.settings.filter.clone(), known.position);
        let name = self.name;
        let count = move |reader: &Reader| {
            let behind = behind(reader, &filter, position, reader.last_seq()?)?;
            Ok((behind, reader.notice_counts(&name)?))
        };
        (status.behind, status.notices) = self.store.read(count).await?;
        Ok(status)
    }

    /// Makes the sink's row if it has none: from here on it misses nothing.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub async fn open(&self) -> Result<SinkRow, StoreError> {
        let begin = match self.settings.start {
            config::Start::Now => Begin::Now,
            config::Start::Beginning => Begin::Beginning,
            config::Start::At(time) => Begin::At(stamp(time)),
        };
        let at = self.clock.now().stamp();
        self.store.open_sink(self.name.clone(), self.settings.kind.type_name(), begin, at).await
    }

    /// Tells the sink under which topics of before it has to remove what is forgotten.
    async fn remember_topics(&mut self) -> Result<(), StoreError> {
        let SinkKind::Mqtt(MqttSettings { state_topic: Some(topic), .. }) = &self.settings.kind
        else {
            return Ok(());
        };
        let noted = self.store.note_state_topic(self.name.clone(), topic.text().to_owned()).await;
        let noted = match noted {
            // It is noted at the next start; until then those of before are not known.
            Err(error) if error.is_transient() => return Ok(()),
            noted => noted?,
        };
        self.sink.remember_topics(noted.into_iter().map(NameTemplate::of_text).collect());
        Ok(())
    }

    fn wakes(&self) -> Wakes {
        Wakes { log: self.store.last_seq(), wake: self.wake.clone() }
    }

    fn comparing(&self, comparing: Comparing) -> Comparing {
        if self.sink.can_fail_for_one() { comparing } else { Comparing::Never }
    }
}

/// Lets go of the sinks that are no longer configured, and says what each leaves undelivered.
///
/// # Errors
/// [`StoreError`] if the store fails.
pub async fn retire(store: &Store, configured: Vec<String>) -> Result<(), StoreError> {
    let last = store.seq();
    store.retire_sinks(configured).await?;
    // At each start, also for one that was removed long ago: the log grows until it is forgotten.
    let rows = store.read(|reader| reader.sinks()).await?;
    for row in rows.into_iter().filter(|row| row.state == SinkState::Removed) {
        let behind = (last - row.position).max(0) + row.retrying;
        if behind > 0 {
            tracing::warn!(sink = %row.name, behind, "the sink is no longer configured, and changes were not delivered to it; if it is configured again under this name, it goes on from there; the log keeps them until `shopmirror sinks forget {}`", row.name);
        }
    }
    Ok(())
}

/// Ends when an operator changed something; never if no one can any more.
async fn woken(wake: &mut watch::Receiver<()>) {
    if wake.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests;
