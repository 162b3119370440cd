//! The task of one sink: feeds its queue, sends from it, and saves what became of it.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use shopmirror_core::clock::stamp;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::backlog::counted;
use super::feed::Feeding;
use super::health::Health;
use super::pace::Pace;
use super::refusals::{Refusals, Refused};
use super::send::{Ahead, Call};
use super::{DISK_WAIT, Deliverer, LOOK_AGAIN, SinkActivity, SinkStatus};
use crate::net::retry_after;
use crate::sink::Sink;
use crate::store::{Lane, Outcomes, Reader, SinkRow, SinkState, StoreError};

/// Faults in a row after which a single run tries no further change.
const MAX_FAULTS_ONCE: u32 = 16;

/// What a task knows. A restart loses only the health and the pace.
pub(super) struct Task {
    pub(super) it: Deliverer,
    /// The sink's row as it was saved last.
    pub(super) row: SinkRow,
    pub(super) feeding: Feeding,
    /// Sinks that take a call now.
    pub(super) idle: Vec<Box<dyn Sink>>,
    pub(super) calls: JoinSet<Call>,
    /// Rows that go next, in their order.
    pub(super) ahead: VecDeque<Ahead>,
    /// There may be due rows in the queue that are not at hand.
    pub(super) look: bool,
    pub(super) next_due: Option<Duration>,
    /// Rows that are under way, or whose outcome is not saved.
    pub(super) in_hand: HashSet<(Lane, i64)>,
    /// The records of rows that are under way.
    pub(super) records: HashSet<(String, String)>,
    pub(super) outcomes: Outcomes,
    /// When the first of the rows was acknowledged that are not saved.
    pub(super) unsaved_since: Option<Duration>,
    pub(super) health: Health,
    /// The row for which the endpoint last asked for a wait.
    pub(super) told_to_wait: Option<(Lane, i64)>,
    pub(super) refusals: Refusals,
    pub(super) pace: Option<Pace>,
    /// The task begins, an operator changed something, or the configuration was read again.
    /// It also finds what was planned while the clock was ahead.
    pub(super) is_woken: bool,
    /// Ends the wait for room in memory.
    pub(super) ending: CancellationToken,
    /// Cuts short what is under way.
    pub(super) cut: CancellationToken,
}

impl Deliverer {
    /// Delivers until `finish`, which lets what is under way end; `cut` cuts that short.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails in a way that waiting cannot fix.
    pub async fn run(
        self,
        finish: CancellationToken,
        cut: CancellationToken,
    ) -> Result<(), StoreError> {
        let mut log = self.store.last_seq();
        let mut wake = self.wake.clone();
        let mut task = Task::begin(self, finish.clone(), cut).await?;
        let mut is_blocked = false;
        loop {
            // Before reading: growth between the read and the wait would otherwise be missed.
            task.feeding.look |= log.has_changed().is_ok_and(|grown| grown);
            log.borrow_and_update();
            let wait = match task.step(finish.is_cancelled()).await {
                Ok(wait) => {
                    is_blocked = false;
                    wait
                }
                Err(error) if error.is_transient() => {
                    if !is_blocked {
                        tracing::warn!(sink = %task.it.name, %error, "could not save what was delivered; retrying");
                    }
                    is_blocked = true;
                    DISK_WAIT
                }
                Err(error) => return Err(error),
            };
            task.publish();
            if finish.is_cancelled() && task.calls.is_empty() {
                // What could not be saved is handed over again under the same event ids.
                task.report(true);
                return Ok(());
            }
            let finishing = finish.is_cancelled();
            tokio::select! {
                biased;
                () = finish.cancelled(), if !finishing => {}
                Some(ended) = task.calls.join_next() => task.ended(ended),
                Ok(()) = wake.changed(), if !finishing => task.is_woken = true,
                grown = log.changed(), if !finishing => match grown {
                    Ok(()) => task.feeding.look = true,
                    Err(_) => return Ok(()),
                },
                () = tokio::time::sleep(wait) => {
                    if wait == LOOK_AGAIN {
                        task.look = true;
                        task.feeding.look_at_all();
                    }
                }
            }
        }
    }

    /// Delivers what is in the log and due, and returns the status of the sink then. Only a rate is
    /// waited for.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub async fn once(self, cut: &CancellationToken) -> Result<SinkStatus, StoreError> {
        let mut task = Task::begin(self, CancellationToken::new(), cut.clone()).await?;
        let mut faults = 0;
        while !(cut.is_cancelled() && task.calls.is_empty()) {
            let wait = task.step(false).await?;
            if let Some(ended) = task.calls.join_next().await {
                task.ended(ended);
                faults = if task.health.is_well() { 0 } else { faults + 1 };
                continue;
            }
            if let Some(left) = task.rate_wait().filter(|_| !cut.is_cancelled()) {
                cut.run_until_cancelled(tokio::time::sleep(left)).await;
                continue;
            }
            let now = task.now();
            if wait.is_zero() {
                continue;
            }
            if !task.outcomes.is_empty() {
                // What waited for these rows is offered only once they are saved.
                task.save().await?;
                continue;
            }
            let is_paused = task.health.pause(now).is_some();
            let is_hopeless = faults >= MAX_FAULTS_ONCE || task.health.is_asked();
            if !is_paused || is_hopeless {
                break;
            }
            task.health.end_pause(now);
        }
        task.save().await?;
        task.report(true);
        let (status, filter) = (task.status(), task.it.settings.filter.clone());
        let count = move |reader: &Reader| counted(status, reader, &filter, reader.last_seq()?);
        task.it.store.read(count).await
    }
}

impl Task {
    async fn begin(
        mut it: Deliverer,
        ending: CancellationToken,
        cut: CancellationToken,
    ) -> Result<Self, StoreError> {
        let row = it.open().await?;
        let idle = std::mem::take(&mut it.sinks);
        let pace = it
            .settings
            .rate
            .map(|rate| Pace::new(rate, it.clock.now().elapsed));
        let mut task = Self {
            it,
            row,
            feeding: Feeding::default(),
            idle,
            calls: JoinSet::new(),
            ahead: VecDeque::new(),
            look: false,
            next_due: None,
            in_hand: HashSet::new(),
            records: HashSet::new(),
            outcomes: Outcomes::default(),
            unsaved_since: None,
            health: Health::default(),
            told_to_wait: None,
            refusals: Refusals::default(),
            pace,
            is_woken: true,
            ending,
            cut,
        };
        task.it.store.clear_refill(task.it.name.clone()).await?;
        task.resume();
        task.publish();
        Ok(task)
    }

    pub(super) fn now(&self) -> Duration {
        self.it.clock.now().elapsed
    }

    /// Saves, feeds, reads and begins calls; returns how long to wait before the next step.
    async fn step(&mut self, finishing: bool) -> Result<Duration, StoreError> {
        if self
            .save_wait(self.now())
            .is_some_and(|wait| wait.is_zero())
            || finishing && self.calls.is_empty()
        {
            self.save().await?;
        }
        if finishing {
            return Ok(LOOK_AGAIN);
        }
        if self.is_woken {
            self.woken().await?;
            self.is_woken = false;
        }
        self.feed().await?;
        self.read_ahead().await?;
        let start = self.start();
        self.report(false);
        let now = self.now();
        if self.may_feed() || self.may_read(now) || self.is_woken {
            return Ok(Duration::ZERO);
        }
        let next_due = self
            .next_due
            .map(|at| at.saturating_sub(now))
            .filter(|left| !left.is_zero());
        let waits = [
            start,
            next_due,
            self.health.pause(now),
            self.save_wait(now),
            self.feed_wait(now),
            self.refusals.wait(now),
        ];
        Ok(waits
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(LOOK_AGAIN)
            .min(LOOK_AGAIN))
    }

    /// The task begins, an operator changed something, or the configuration was read again.
    async fn woken(&mut self) -> Result<(), StoreError> {
        let name = self.it.name.clone();
        // What waits because of the endpoint alone is tried again.
        let latest = self.it.clock.now().wall.checked_add(self.longest_wait());
        let latest = latest.map(stamp).unwrap_or_default();
        self.it.store.retry_faulted(name.clone(), latest).await?;
        let row = self.it.store.read(move |reader| reader.sink(&name)).await?;
        self.adopt(row).await?;
        self.ahead.clear();
        self.look = true;
        self.feeding.look_at_all();
        self.health.end_pause(self.now());
        Ok(())
    }

    /// No attempt is planned for later than the longest wait with its jitter.
    pub(super) fn longest_wait(&self) -> Duration {
        let longest = self
            .it
            .settings
            .retry
            .iter()
            .max()
            .copied()
            .unwrap_or_default();
        longest.max(retry_after::MAX_WAIT).mul_f64(1.8)
    }

    pub(super) fn publish(&self) {
        self.it.view.send_replace(Some(self.status()));
    }

    fn status(&self) -> SinkStatus {
        let now = self.now();
        let state = match self.row.state {
            SinkState::Disabled => SinkActivity::Disabled,
            _ if self.is_held() => SinkActivity::Held,
            _ if !self.health.is_well() => SinkActivity::Paused,
            _ if self.is_holding() => SinkActivity::Holding,
            _ if self.refusals.are_all(now) => SinkActivity::Refusing,
            _ => SinkActivity::Active,
        };
        // The last refusal, while refused changes are left, or why the sink is disabled.
        let is_left =
            self.row.retrying + self.row.dead > 0 || self.row.state == SinkState::Disabled;
        let refused = self.row.last_error.clone().filter(|_| is_left);
        let pause = self.health.pause(now).unwrap_or_default();
        SinkStatus {
            position: self.position(),
            next_attempt_s: (!self.health.is_well()).then_some(pause.as_secs_f64()),
            last_error: self.health.reason().map(str::to_owned).or(refused),
            ..SinkStatus::of_row(self.row.clone(), state)
        }
    }

    /// Writes the line about refusals that is due, or the last one.
    fn report(&mut self, is_last: bool) {
        let now = self.now();
        let due = self.refusals.due(now, is_last);
        let Some(Refused { count, dead, last }) = due else {
            return;
        };
        let (name, reason) = (&self.it.name, last.last_error.as_deref());
        if last.lane == Lane::Notice {
            tracing::warn!(sink = %name, count, dead, about = %last.record_id, reason,
                "the sink refused alerts or reports: correct the sink, see `shopmirror check --sink {name}`, then reload, and they are sent again");
        } else {
            tracing::warn!(sink = %name, count, dead, seq = last.seq, route = %last.route, reason,
                "the sink refused changes, the last one for this reason: see `shopmirror sinks {name} dead`");
        }
    }
}
