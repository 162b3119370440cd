//! Delivery: moves the log to one sink, in order per record, at least once.
//!
//! Each sink has one task; a dead sink slows no other. The position is saved only after the sink has
//! acknowledged, so a crash repeats at most one round, under the same event ids. A change that the
//! sink refuses is parked in `deliveries`; a fault of the endpoint pauses the sink and parks nothing.
//! Nothing here knows how records got into the store.

mod backlog;
mod dead_log;
mod filter;
mod health;
mod redrive;
mod round;
mod settle;
mod status;

use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, stamp};
use crate::config;
use crate::retry_after;
use crate::sink::{Sink, Verdict};
use crate::store::{
    Begin, DeliveryState, DueBy, Reader, SinkProgress, SinkRow, SinkState, Store, StoreError,
};
pub use backlog::{SinkView, behind};
use dead_log::{DeadLog, DeadReport};
use health::{Attempt, Comparing, EndpointHealth, Observed};
pub use redrive::{Redrive, Redriven, redrive};
use round::{Limits, Round};
use settle::{RetrySchedule, Settlement, settle};
pub use status::{SinkActivity, SinkStatus};

/// Changes a sink may have parked before it takes no new ones.
const MOST_OPEN: i64 = 10_000;
/// Dead letters a sink may have before it takes no new changes: none is ever dropped by itself.
const MOST_DEAD: i64 = 1_000_000;
/// A sink looks for work after this long even if nothing woke it.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// A position that passed only unwanted changes is saved after this long, with those of other sinks.
const SAVE_PASSED_AFTER: Duration = Duration::from_secs(1);
/// How long a delivery waits before it tries again to save its progress on a full disk.
const DISK_WAIT: Duration = Duration::from_secs(10);

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
    /// Woken when an operator changed something about this sink.
    pub wake: watch::Receiver<()>,
    /// Where the sink's status is published.
    pub view: watch::Sender<Option<SinkStatus>>,
}

/// What a task knows between two rounds. A restart loses only the health.
struct TaskState {
    row: SinkRow,
    position: i64,
    health: EndpointHealth,
    /// When a position that is not saved yet was noted.
    passed_at: Option<Duration>,
    dead_log: DeadLog,
}

impl TaskState {
    fn of(row: SinkRow) -> Self {
        Self {
            position: row.position,
            row,
            health: EndpointHealth::Healthy,
            passed_at: None,
            dead_log: DeadLog::default(),
        }
    }

    fn is_holding(&self) -> bool {
        self.row.retrying >= MOST_OPEN || self.row.dead >= MOST_DEAD
    }

    fn status(&self, now: Duration) -> SinkStatus {
        let next_attempt_s = self.health.next_attempt_s(now);
        let state = match self.row.state {
            SinkState::Disabled => SinkActivity::Disabled,
            _ if next_attempt_s.is_some() => SinkActivity::Paused,
            _ if self.is_holding() => SinkActivity::Holding,
            _ => SinkActivity::Active,
        };
        SinkStatus {
            position: self.position,
            next_attempt_s,
            last_error: self.health.reason().map(str::to_owned),
            ..SinkStatus::of_row(self.row.clone(), state)
        }
    }
}

impl Deliverer {
    /// Delivers until `finish`, which lets the round in hand end; `cut` cuts that round short.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails in a way that waiting cannot fix.
    pub async fn run(
        mut self,
        finish: CancellationToken,
        cut: CancellationToken,
    ) -> Result<(), StoreError> {
        let mut known = TaskState::of(self.open().await?);
        let comparing = self.comparing(Comparing::Patient);
        let mut log = self.store.last_seq();
        self.publish(&known);
        let mut grown = false;
        loop {
            // Before reading: growth between the read and the wait would otherwise be missed.
            log.borrow_and_update();
            let wait = match self.step(&mut known, comparing, grown, &finish, &cut).await {
                Ok(wait) => wait.min(LOOK_AGAIN),
                Err(error) if error.passes() => DISK_WAIT,
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
                () = woken(&mut self.wake) => known.health.end_pause(self.clock.now().elapsed),
                changed = log.changed(), if !deaf => match changed {
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
            Err(error) if error.passes() => Ok(()),
            saved => saved,
        }
    }

    /// One round unless the sink pauses; returns how long to wait before the next one.
    async fn step(
        &mut self,
        known: &mut TaskState,
        comparing: Comparing,
        grown: bool,
        finish: &CancellationToken,
        cut: &CancellationToken,
    ) -> Result<Duration, StoreError> {
        let pause = known.health.pause(self.clock.now().elapsed);
        let wait = match pause {
            Some(pause) if !(grown && known.health.ends_with_more_than().is_some()) => pause,
            _ => self.round(known, comparing, finish, cut).await?.unwrap_or(LOOK_AGAIN),
        };
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
        let comparing = self.comparing(Comparing::AtOnce);
        // A run that is to end does not wait for room on the disk.
        let finish = CancellationToken::new();
        finish.cancel();
        loop {
            let delivered = known.row.delivered;
            let attempt = known.health.attempt(comparing);
            let wait = self.round(&mut known, comparing, &finish, cut).await?;
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
        let count = move |reader: &Reader| behind(reader, &filter, position, reader.last_seq()?);
        status.behind = self.store.read(count).await?;
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

    /// One round: what is due again, and what is new. Returns how long to wait before the next one;
    /// `None` if only new changes or an operator bring more work.
    async fn round(
        &mut self,
        known: &mut TaskState,
        comparing: Comparing,
        finish: &CancellationToken,
        cut: &CancellationToken,
    ) -> Result<Option<Duration>, StoreError> {
        let attempt = known.health.attempt(comparing);
        let Some(round) = self.read_round(known, attempt).await? else { return Ok(None) };
        let pause = known.health.pause(self.clock.now().elapsed);
        let enough = known.health.ends_with_more_than();
        if pause.is_some() && enough.is_some_and(|tried| round.fresh() <= tried) {
            return Ok(pause);
        }
        let tried = self.hand_over(&round, attempt, cut).await;
        let moment = self.clock.now();
        let schedule = RetrySchedule {
            waits: &self.settings.retry,
            chance: fastrand::f64(),
            now: moment.wall,
        };
        let Settlement { mut progress, observed, more, next_due } =
            settle(round, attempt, &tried, &schedule);
        if let Some(observed) = &observed {
            self.report(known, observed, &mut progress);
        }
        let dead = progress.put.iter().filter(|delivery| delivery.state == DeliveryState::Dead);
        dead.for_each(|letter| known.dead_log.add(letter));
        self.save(known, progress, finish).await?;
        if let Some(observed) = observed {
            known.health.observe(observed, moment.elapsed, fastrand::f64());
        }
        let pause = known.health.pause(moment.elapsed);
        Ok(pause.or(more.then_some(Duration::ZERO)).or(next_due))
    }

    /// Reads what the next round hands over; `None` if the sink is disabled.
    async fn read_round(
        &self,
        known: &mut TaskState,
        attempt: Attempt,
    ) -> Result<Option<Round>, StoreError> {
        let name = self.name.clone();
        let position = known.position;
        let filter = self.settings.filter.clone();
        let batch = self.sink.batch();
        let now = self.clock.now();
        // The longest wait with its jitter, and half as much again.
        let longest = self.settings.retry.iter().max().copied().unwrap_or_default();
        let longest = longest.max(retry_after::LONGEST).mul_f64(1.8);
        let latest = now.wall.checked_add(longest).map(stamp).unwrap_or_default();
        let now = now.stamp();
        let read = self.store.read(move |reader| {
            let Some(row) = reader.sink(&name)? else { return Ok(None) };
            let known = TaskState::of(row);
            let limits = Limits {
                sink: &name,
                position,
                filter: &filter,
                batch,
                attempt,
                by: DueBy { now: &now, latest: &latest },
                any_open: known.row.retrying > 0,
                only_due: known.is_holding(),
            };
            let disabled = known.row.state == SinkState::Disabled;
            let round = if disabled { None } else { Some(Round::read(reader, &limits)?) };
            Ok(Some((known.row, round)))
        });
        let Some((row, round)) = read.await? else { return Ok(None) };
        known.row = row;
        Ok(round)
    }

    /// Hands the changes over, all at once or one by one to compare them. Returns the verdicts in
    /// the order of the attempts, each with the index of its change.
    async fn hand_over(
        &mut self,
        round: &Round,
        attempt: Attempt,
        cut: &CancellationToken,
    ) -> Vec<(usize, Verdict)> {
        let changes = &round.changes;
        if changes.is_empty() {
            return Vec::new();
        }
        if !attempt.compares() {
            let verdicts = self.sink.deliver(changes, self.clock.now().wall, cut).await;
            return verdicts.into_iter().enumerate().collect();
        }
        let mut tried = Vec::with_capacity(changes.len());
        for index in attempt.order(changes.len()) {
            let one = std::slice::from_ref(&changes[index]);
            let verdicts = self.sink.deliver(one, self.clock.now().wall, cut).await;
            tried.extend(verdicts.into_iter().map(|verdict| (index, verdict)));
            if let Some((_, Verdict::Fault { retry_after: Some(_), .. })) = tried.last() {
                // The endpoint asks for a wait: nothing more is sent before it is over.
                break;
            }
        }
        tried
    }

    /// Logs a turn of the endpoint's health, once, and stores its reason.
    fn report(&self, known: &TaskState, observed: &Observed, progress: &mut SinkProgress) {
        match (observed, &known.health) {
            (Observed::Failed { fault, .. }, EndpointHealth::Healthy) => {
                let reason = &fault.reason;
                tracing::warn!(sink = %self.name, reason, "delivery failed; changes are kept and will be retried");
                progress.fault = Some(reason.clone());
            }
            (Observed::Gone { .. }, _) => {
                tracing::error!(sink = %self.name, "the endpoint is gone (410): the sink is disabled and keeps its changes; correct its url, then reload");
            }
            (Observed::Responded, health) if *health != EndpointHealth::Healthy => {
                tracing::info!(sink = %self.name, "the sink takes changes again");
            }
            _ => {}
        }
    }

    fn report_dead(&self, report: &DeadReport) {
        let DeadReport { count, last } = report;
        tracing::warn!(sink = %self.name, count, seq = last.seq, route = %last.route, reason = last.last_error.as_deref(),
            "changes were refused for good, the last one for this reason: see `shopmirror dead {} list`", self.name);
    }

    /// Saves what a round came to. A full disk does not make the sink get changes again that it has
    /// taken: only the saving is retried.
    async fn save(
        &self,
        known: &mut TaskState,
        progress: SinkProgress,
        finish: &CancellationToken,
    ) -> Result<(), StoreError> {
        let position = progress.position.unwrap_or(known.position);
        if !progress.must_be_saved() {
            if position > known.position {
                self.store.pass_unwanted(&self.name, position);
                known.position = position;
                known.passed_at.get_or_insert(self.clock.now().elapsed);
            }
            return Ok(());
        }
        let mut reported = false;
        loop {
            match self.store.save_progress(self.name.clone(), progress.clone()).await {
                Err(error) if error.passes() => {
                    if !reported {
                        tracing::warn!(sink = %self.name, %error, "could not save what was delivered; retrying");
                        reported = true;
                    }
                    tokio::select! {
                        () = finish.cancelled() => return Err(error),
                        () = tokio::time::sleep(DISK_WAIT) => {}
                    }
                }
                saved => {
                    known.row = saved?.unwrap_or_else(|| known.row.clone());
                    known.position = position;
                    known.passed_at = None;
                    return Ok(());
                }
            }
        }
    }

    fn comparing(&self, comparing: Comparing) -> Comparing {
        if self.sink.can_fail_for_one() { comparing } else { Comparing::Never }
    }

    fn publish(&self, known: &TaskState) {
        self.view.send_replace(Some(known.status(self.clock.now().elapsed)));
    }
}

/// Lets go of the sinks that are no longer configured, and says what each leaves undelivered.
///
/// # Errors
/// [`StoreError`] if the store fails.
pub async fn retire(store: &Store, configured: Vec<String>) -> Result<(), StoreError> {
    let last = store.seq();
    for row in store.retire_sinks(configured).await? {
        let behind = (last - row.position).max(0) + row.retrying;
        if behind > 0 {
            tracing::warn!(sink = %row.name, behind, "the sink is no longer configured, and changes were not delivered to it; if it is configured again under this name, it goes on from there");
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
