//! The task of one sink. It passes values between three owners: the feeder fills the queue from the
//! log, the sender sends its rows, and the outcomes are saved. None of the three knows the others.
//!
//! A round saves, feeds, reads and begins calls; then the task waits for the first of: a call that
//! ends, a log that grows, an operator, or a time that one of the owners named.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

use super::backlog::counted;
use super::call::Ended;
use super::feed::{Demand, Feeder};
use super::outcomes::Outcomes;
use super::pending::Pending;
use super::retry_policy::{RetryPolicy, RowUpdate};
use super::send::{Sender, Terms};
use super::{DISK_WAIT, Deliverer, LOOK_AGAIN, SinkActivity, SinkStatus};
use crate::sink::Verdict;
use crate::store::{QueueLane, Reader, RemovalReason, StoreError};

/// Faults in a row after which a single run tries no further change.
const MAX_FAULTS_ONCE: u32 = 16;

/// What a task knows. A restart loses only the health and the pace.
struct Task {
    deliverer: Arc<Deliverer>,
    pending: Pending,
    feeder: Feeder,
    sender: Sender,
    outcomes: Outcomes,
}

impl Deliverer {
    /// Delivers until `finish`, which lets what is in flight end; `cut` cuts that short.
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
            task.pending.log |= log.has_changed().unwrap_or(false);
            log.borrow_and_update();
            // An end that comes during the step is for the next one, which saves everything.
            let finishing = finish.is_cancelled();
            let wait = match task.step(finishing).await {
                Ok(wait) => {
                    if is_blocked {
                        tracing::warn!(
                            sink = %task.deliverer.name,
                            "what was delivered can be saved again"
                        );
                    }
                    is_blocked = false;
                    wait
                }
                Err(error) if error.is_transient() => {
                    if !is_blocked {
                        tracing::warn!(sink = %task.deliverer.name, %error, "could not save what was delivered; retrying");
                    }
                    is_blocked = true;
                    DISK_WAIT
                }
                Err(error) => return Err(error),
            };
            task.publish();
            if finishing && task.sender.is_idle() {
                // What could not be saved is sent again under the same event ids.
                task.outcomes.report(true);
                return Ok(());
            }
            tokio::select! {
                biased;
                () = finish.cancelled(), if !finishing => {}
                Some(ended) = task.sender.next_ended() => task.ended(ended),
                Ok(()) = wake.changed(), if !finishing => task.pending.add(Pending::OPERATOR),
                grown = log.changed(), if !finishing => match grown {
                    Ok(()) => task.pending.add(Pending::LOG),
                    Err(_) => return Ok(()),
                },
                () = tokio::time::sleep(wait) => {
                    if wait == LOOK_AGAIN {
                        task.pending.add(Pending::ALL);
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
        while !(cut.is_cancelled() && task.sender.is_idle()) {
            let wait = task.step(false).await?;
            if let Some(ended) = task.sender.next_ended().await {
                task.ended(ended);
                let is_well = task.sender.health().is_well();
                faults = if is_well { 0 } else { faults + 1 };
                continue;
            }
            let now = task.now();
            if !cut.is_cancelled()
                && let Some(left) = task.sender.rate_wait(now)
            {
                cut.run_until_cancelled(tokio::time::sleep(left)).await;
                continue;
            }
            if wait.is_zero() {
                continue;
            }
            if !task.outcomes.is_empty() {
                // What waited for these rows goes only once they are saved.
                task.save().await?;
                continue;
            }
            let is_paused = task.sender.health().pause(now).is_some();
            let is_hopeless = faults >= MAX_FAULTS_ONCE || task.sender.health().is_asked();
            if !is_paused || is_hopeless {
                break;
            }
            task.sender.end_pause(now);
        }
        task.save().await?;
        task.feeder.save_position(true).await?;
        task.outcomes.report(true);
        let status = task.status();
        let filter = task.deliverer.settings.filter.clone();
        let count = move |reader: &Reader| counted(status, reader, &filter, reader.last_seq()?);
        task.deliverer.store.read(count).await
    }
}

impl Task {
    async fn begin(
        mut deliverer: Deliverer,
        ending: CancellationToken,
        cut: CancellationToken,
    ) -> Result<Self, StoreError> {
        // Before the row is read: the position may be saved until then.
        deliverer.positions.withdraw(&deliverer.name).await;
        let row = deliverer.open().await?;
        let sinks = std::mem::take(&mut deliverer.sinks);
        let deliverer = Arc::new(deliverer);
        let mut sender = Sender::new(Arc::clone(&deliverer), sinks, ending, cut);
        sender.resume(row.mark.as_deref(), row.acknowledged.upto);
        let name = deliverer.name.clone();
        deliverer.store.clear_refill(name).await?;
        let task = Self {
            pending: Pending::OPERATOR,
            feeder: Feeder::new(Arc::clone(&deliverer), row),
            sender,
            outcomes: Outcomes::new(Arc::clone(&deliverer)),
            deliverer,
        };
        task.publish();
        Ok(task)
    }

    fn now(&self) -> Duration {
        self.deliverer.clock.now().elapsed
    }

    /// Saves, feeds, reads and begins calls; returns how long to wait before the next step.
    async fn step(&mut self, finishing: bool) -> Result<Duration, StoreError> {
        let now = self.now();
        let is_due = self.outcomes.wait(now) == Some(Duration::ZERO)
            || self.feeder.wait(now) == Some(Duration::ZERO);
        let is_last = finishing && self.sender.is_idle();
        if is_due || is_last {
            self.save().await?;
        }
        if finishing {
            self.feeder.save_position(is_last).await?;
            return Ok(LOOK_AGAIN);
        }
        if self.pending.operator {
            self.look_at_all().await?;
        }
        // First what is in the queue: it is older than what the log has.
        self.read_ahead().await?;
        self.feed().await?;
        self.read_ahead().await?;
        let started = self.start();
        self.feeder.save_position(false).await?;
        self.outcomes.report(false);
        Ok(self.wait(started))
    }

    /// An operator may have changed anything: everything is read again, and what waits because of
    /// the endpoint alone is tried again.
    async fn look_at_all(&mut self) -> Result<(), StoreError> {
        self.feeder.queue_all();
        self.save().await?;
        let name = self.deliverer.name.clone();
        let latest = self.deliverer.latest_due();
        let store = &self.deliverer.store;
        store.retry_faulted(name.clone(), latest).await?;
        let row = store.read(move |reader| reader.sink(&name)).await?;
        self.feeder.adopt(row).await?;
        self.sender.look_again(self.now());
        self.pending = Pending::ALL;
        Ok(())
    }

    /// Feeds new changes to the sender at once, unless the queue has others that go first.
    async fn feed(&mut self) -> Result<(), StoreError> {
        let mut demand = Demand {
            is_low: self.sender.is_low(),
            is_idle: self.sender.has_settled(),
            is_direct: !self.pending.queue && !self.feeder.is_refilling(),
            room: self.sender.room(),
        };
        loop {
            if !demand.is_direct && self.may_feed() {
                self.feeder.queue_all();
                self.save().await?;
                self.feeder.save_position(true).await?;
            }
            let fed = self.feeder.feed(&mut self.pending, demand).await?;
            self.sender.add(fed.rows);
            if !fed.is_blocked {
                return Ok(());
            }
            demand.is_direct = false;
        }
    }

    async fn read_ahead(&mut self) -> Result<(), StoreError> {
        if !self.may_read() {
            return Ok(());
        }
        // Nothing passes what the destination has lost.
        let lane = if self.feeder.is_refilling() {
            QueueLane::Refill
        } else {
            QueueLane::Replay
        };
        let read = self.sender.read_ahead(lane).await?;
        self.pending.queue = false;
        self.pending.add(read.pending);
        for row in read.vanished {
            self.outcomes.remove(row, RemovalReason::LeftOut);
        }
        Ok(())
    }

    fn may_read(&self) -> bool {
        !self.feeder.is_disabled() && self.sender.may_read(self.pending, self.now())
    }

    /// Whether changes of the log may follow at once.
    fn may_feed(&self) -> bool {
        self.pending.log && self.sender.is_low() && self.feeder.is_open()
    }

    fn start(&mut self) -> Option<Duration> {
        if self.feeder.is_disabled() {
            return None;
        }
        let started = self.sender.start(Terms {
            upto: self.feeder.row().position,
            is_full: self.outcomes.is_full(),
            has_unsaved: self.outcomes.has_unsaved(),
            is_more: self.pending.queue || self.may_feed(),
        });
        if started.must_save {
            self.outcomes.hurry();
        }
        started.wait
    }

    /// How long nothing is to be done; `start` is how long the sender waits for its rate.
    fn wait(&self, start: Option<Duration>) -> Duration {
        if self.may_feed() || self.may_read() || self.pending.operator {
            return Duration::ZERO;
        }
        let now = self.now();
        let waits = [
            start,
            self.sender.wait(now),
            self.outcomes.wait(now),
            self.outcomes.refusals().wait(now),
            self.feeder.wait(now),
        ];
        let first = waits.into_iter().flatten().min();
        first.unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN)
    }

    /// Saves what became of rows.
    async fn save(&mut self) -> Result<(), StoreError> {
        let done = self.outcomes.done_after(self.feeder.row().position);
        let fed = self.feeder.part(&done).await;
        let upto = fed.as_ref().map(|feed| feed.upto);
        let Some(settled) = self.outcomes.settle(fed).await? else {
            return Ok(());
        };
        self.feeder.saved();
        self.sender.settled(&settled.rows);
        self.pending.add(settled.pending);
        if !self.feeder.adopt_moved(settled.row, upto).await? {
            // An operator moved the position, or it was saved without this task's knowledge.
            self.pending.add(Pending::OPERATOR);
        }
        Ok(())
    }

    /// Takes in what became of a call.
    fn ended(&mut self, ended: Result<Ended, JoinError>) {
        let Ended { mut sink, rows } = self.sender.take_back(ended);
        let keeps_order = sink.keeps_order();
        let retry = Arc::clone(&self.deliverer.settings.retry);
        let policy = RetryPolicy {
            retry: &retry,
            keeps_order,
            chance: fastrand::f64(),
            now: self.deliverer.clock.now().wall,
        };
        let is_untried = rows
            .iter()
            .all(|(_, verdict)| matches!(verdict, None | Some(Verdict::NotTried)));
        for (row, verdict) in rows {
            let mut verdict = verdict;
            if let Some(found) = verdict {
                verdict = Some(self.sender.attributed(&row, found, keeps_order));
            }
            let update = policy.update(&row, verdict.as_ref());
            if let Some(verdict) = &verdict {
                self.outcomes.hear(verdict);
                if let Some(reason) = self.sender.learn(&row, verdict, keeps_order) {
                    self.outcomes.note_error(reason);
                }
            }
            // What leaves the memory must be in the queue.
            match &update {
                RowUpdate::Remove(_) => {}
                RowUpdate::Keep(kept) => {
                    self.feeder.queue_all();
                    self.sender.hold_back(kept);
                }
                RowUpdate::Unchanged => {
                    self.feeder.queue_all();
                    self.sender.put_back(&row);
                    self.pending.add(Pending::QUEUE);
                }
            }
            self.outcomes.add(row, update);
        }
        let row = self.feeder.row();
        self.outcomes.remember(sink.mark(), is_untried, row);
        self.outcomes.keep_made(sink.take_made());
        if let Some(held) = sink.take_lost() {
            let acknowledged = self.outcomes.acknowledged(row);
            if let Some(report) = self.feeder.begin_refill(held, acknowledged) {
                self.outcomes.note_error(report.into());
            }
            self.feeder.queue_all();
            self.sender.clear_ahead();
            self.pending.add(Pending::QUEUE);
        } else if let Some(upto) = sink.stored()
            && !self.feeder.is_refilling()
        {
            self.outcomes.acknowledge(upto, row);
        }
        self.sender.put_idle(sink);
    }

    fn publish(&self) {
        self.deliverer.view.send_replace(Some(self.status()));
    }

    fn status(&self) -> SinkStatus {
        let now = self.now();
        let row = self.feeder.row();
        let health = self.sender.health();
        // The last refusal, while refused changes are left, or why the sink is disabled.
        let is_left = row.retrying + row.dead > 0 || self.feeder.is_disabled();
        let (last_error, last_error_quotation) = match health.reason() {
            Some(reason) => (Some(reason.text.clone()), reason.quotation.clone()),
            None if is_left => (row.last_error.clone(), row.last_error_quotation.clone()),
            None => (None, None),
        };
        let mut next_attempt_s = None;
        if !health.is_well() {
            let pause = health.pause(now).unwrap_or_default();
            next_attempt_s = Some(pause.as_secs_f64());
        }
        SinkStatus {
            position: self.feeder.position(),
            filtered: self.feeder.filtered(),
            next_attempt_s,
            last_error,
            last_error_quotation,
            ..SinkStatus::from_row(row.clone(), self.activity(now))
        }
    }

    fn activity(&self, now: Duration) -> SinkActivity {
        if self.feeder.is_disabled() {
            SinkActivity::Disabled
        } else if self.feeder.is_held() {
            SinkActivity::Held
        } else if !self.sender.health().is_well() {
            SinkActivity::Paused
        } else if self.feeder.has_refused_too_much() {
            SinkActivity::Holding
        } else if self.outcomes.refusals().are_all(now) {
            SinkActivity::Refusing
        } else {
            SinkActivity::Active
        }
    }
}
