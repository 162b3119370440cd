//! What a delivery task knows of its sink, and how it saves and reports what it came to.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::dead_log::{DeadLog, DeadReport};
use super::health::{EndpointHealth, Fault, Observed};
use super::refill::Refill;
use super::replay::ReplayTask;
use super::{Deliverer, MAX_DEAD, MAX_OPEN, SinkActivity, SinkStatus};
use crate::retry_after;
use crate::store::{
    Acknowledged, DeliveryState, GateState, PendingDelivery, Replay, SinkProgress, SinkRow,
    SinkState, StoreError,
};

/// How long a delivery waits before it tries again to save its progress on a full disk.
pub(super) const DISK_WAIT: Duration = Duration::from_secs(10);

/// How long a wait that was asked for is remembered: longer than any of them.
const ASKED_REMEMBERED: Duration = retry_after::MAX_WAIT.saturating_mul(2);

/// What a task knows between two rounds. A restart loses only the health.
pub(super) struct TaskState {
    pub(super) row: SinkRow,
    pub(super) position: i64,
    pub(super) health: EndpointHealth,
    /// When a position that is not saved yet was noted.
    pub(super) passed_at: Option<Duration>,
    pub(super) dead_log: DeadLog,
    /// More changes came at once than the sink is to get, and it is not held yet.
    pub(super) flooded: bool,
    /// The last wait that the endpoint asked for when it was given a notice or a change of a replay.
    asked_beside: Option<AskedBeside>,
    /// After such a wait changes go before notices.
    pub(super) changes_first: bool,
    /// When a notice is due; `None` if none waits.
    pub(super) notices_at: Option<Duration>,
    /// The replay that is under way.
    pub(super) replay: Option<ReplayTask>,
    /// The last replay, if it ended and an operator has to see it.
    pub(super) ended_replay: Option<Replay>,
    /// An operator may have begun or ended one.
    pub(super) look_for_replay: bool,
    /// What the destination has acknowledged, if it keeps an account of that.
    pub(super) acknowledged: Acknowledged,
    /// What it has lost and is given again.
    pub(super) refill: Option<Refill>,
}

/// A wait that the endpoint asked for when it was given something beside its changes.
#[derive(Debug, Clone, Copy)]
struct AskedBeside {
    at: Duration,
    /// Changes that the sink had taken until then.
    delivered: i64,
}

/// What ends the work in hand.
pub(super) struct Ends<'a> {
    /// Nothing further is handed over; what is under way is finished.
    pub(super) finish: &'a CancellationToken,
    /// What is under way is cut short.
    pub(super) cut: &'a CancellationToken,
    /// Whether to wait until a full disk has room again.
    pub(super) waits_for_disk: bool,
}

impl TaskState {
    pub(super) fn of(row: SinkRow) -> Self {
        Self {
            position: row.position,
            row,
            health: EndpointHealth::Healthy,
            passed_at: None,
            dead_log: DeadLog::default(),
            flooded: false,
            asked_beside: None,
            changes_first: false,
            notices_at: Some(Duration::ZERO),
            replay: None,
            ended_replay: None,
            look_for_replay: true,
            acknowledged: Acknowledged { after: 0, upto: 0 },
            refill: None,
        }
    }

    /// Something beside the log may have come: it is looked for before the next changes.
    pub(super) fn look_beside(&mut self) {
        self.notices_at = Some(Duration::ZERO);
        self.look_for_replay = true;
    }

    /// The endpoint asked for a wait when it was given something beside the changes. They wait as well,
    /// unless the sink took changes since it asked before: then it means only what it was given.
    /// Returns whether they wait.
    fn rest(&mut self, reason: &str, asked: Duration, now: Duration) -> bool {
        let delivered = self.row.delivered;
        let before = self.asked_beside.replace(AskedBeside { at: now, delivered });
        let is_recent = |before: &AskedBeside| now.saturating_sub(before.at) < ASKED_REMEMBERED;
        if before.filter(is_recent).is_some_and(|before| delivered > before.delivered) {
            return false;
        }
        let fault = Fault { reason: reason.to_owned(), asked: Some(asked) };
        let failed = Observed::Failed { fault, delivered: false, uncompared: None };
        self.health.observe(failed, now, fastrand::f64());
        self.changes_first = true;
        true
    }

    pub(super) fn is_holding(&self) -> bool {
        self.row.retrying >= MAX_OPEN || self.row.dead >= MAX_DEAD
    }

    /// Whether an operator has to release new changes.
    pub(super) fn is_held(&self) -> bool {
        self.row.gate == GateState::Held
    }

    /// Whether only what is parked is delivered.
    pub(super) fn only_due(&self) -> bool {
        self.is_held() || self.is_holding()
    }

    pub(super) fn status(&self, now: Duration) -> SinkStatus {
        let next_attempt_s = self.health.next_attempt_s(now);
        let state = match self.row.state {
            SinkState::Disabled => SinkActivity::Disabled,
            _ if self.is_held() => SinkActivity::Held,
            _ if next_attempt_s.is_some() => SinkActivity::Paused,
            _ if self.is_holding() => SinkActivity::Holding,
            _ => SinkActivity::Active,
        };
        let under_way = self.replay.as_ref().map(|task| task.replay.clone());
        SinkStatus {
            // What is lost counts as behind.
            position: self.refill.as_ref().map_or(self.position, Refill::at),
            next_attempt_s,
            last_error: self.health.reason().map(str::to_owned),
            replay: under_way.or_else(|| self.ended_replay.clone()),
            ..SinkStatus::of_row(self.row.clone(), state)
        }
    }

    /// Notes the dead letters of what is to be saved, for the log of the daemon.
    pub(super) fn note_dead(&mut self, progress: &SinkProgress) {
        // One without an attempt was refused before, and is only not sent again.
        let is_new = |d: &&PendingDelivery| d.state == DeliveryState::Dead && d.attempts > 0;
        let dead = progress.put.iter().filter(is_new);
        dead.for_each(|letter| self.dead_log.add(letter));
    }

    /// Takes over the row as it was read; returns whether an operator moved the position on.
    pub(super) fn adopt(&mut self, row: SinkRow) -> bool {
        let moved = row.position > self.position;
        self.position = self.position.max(row.position);
        self.row = row;
        moved
    }

    /// Takes over what was saved.
    pub(super) fn saved(&mut self, row: Option<SinkRow>, position: Option<i64>) {
        if let Some(row) = row {
            self.row = row;
        }
        self.position = position.unwrap_or_default().max(self.position);
        self.passed_at = None;
    }
}

impl Deliverer {
    pub(super) fn publish(&self, known: &TaskState) {
        self.view.send_replace(Some(known.status(self.clock.now().elapsed)));
    }

    /// Pauses the sink if the endpoint asked for a wait when it was given something beside the changes.
    pub(super) fn rest(&self, known: &mut TaskState, fault: &Fault) {
        let Some(asked) = fault.asked else { return };
        if known.rest(&fault.reason, asked, self.clock.now().elapsed) {
            let (reason, wait_s) = (&fault.reason, asked.as_secs());
            tracing::warn!(sink = %self.name, reason, wait_s, "the endpoint asks for a wait: changes wait as well");
        }
    }

    /// Logs a turn of the endpoint's health, once, and stores its reason.
    pub(super) fn report(
        &self,
        known: &TaskState,
        observed: &Observed,
        progress: &mut SinkProgress,
    ) {
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

    pub(super) fn report_dead(&self, report: &DeadReport) {
        let DeadReport { count, last } = report;
        tracing::warn!(sink = %self.name, count, seq = last.seq, route = %last.route, reason = last.last_error.as_deref(),
            "changes were refused for good, the last one for this reason: see `shopmirror dead {} list`", self.name);
    }

    /// Saves what a round came to.
    pub(super) async fn save(
        &self,
        known: &mut TaskState,
        progress: SinkProgress,
        ends: &Ends<'_>,
    ) -> Result<(), StoreError> {
        let position = progress.position;
        known.note_dead(&progress);
        if progress.must_be_saved() {
            let row = self.save_all(progress, ends).await?;
            known.saved(row, position);
        } else if let Some(position) = position.filter(|position| *position > known.position) {
            self.store.pass_unwanted(&self.name, known.position, position, progress.filtered);
            known.position = position;
            known.passed_at.get_or_insert(self.clock.now().elapsed);
        }
        Ok(())
    }

    /// Saves progress in one transaction. A full disk does not make the sink get changes again that
    /// it has taken: only the saving is retried.
    pub(super) async fn save_all(
        &self,
        progress: SinkProgress,
        ends: &Ends<'_>,
    ) -> Result<Option<SinkRow>, StoreError> {
        let mut reported = false;
        loop {
            match self.store.save_progress(self.name.clone(), progress.clone()).await {
                Err(error) if error.is_transient() && ends.waits_for_disk => {
                    if !reported {
                        tracing::warn!(sink = %self.name, %error, "could not save what was delivered; retrying");
                        reported = true;
                    }
                    tokio::select! {
                        () = ends.finish.cancelled() => return Err(error),
                        () = tokio::time::sleep(DISK_WAIT) => {}
                    }
                }
                saved => return saved,
            }
        }
    }
}
