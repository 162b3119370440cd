//! What became of rows and is not saved yet, and what the sink refused.
//!
//! Acknowledged rows are saved in groups, everything else at once: what changes the order of the
//! queue must be in the store before another row is read.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use shopmirror_core::record::{MadeOutcome, MadeRecord};

use super::Deliverer;
use super::pending::Pending;
use super::refusals::{Refusals, Refused};
use super::retry_policy::RowUpdate;
use crate::sink::{Reason, Verdict};
use crate::store::{
    Acknowledged, Feed, QueueLane, QueueRow, RemovalReason, RowState, Settlement, SinkRow,
    StoreError,
};

/// Acknowledged rows after which they are removed from the queue …
const GROUP: usize = 64;
/// … or this long after the first of them.
const SAVE_AFTER: Duration = Duration::from_millis(100);
/// Acknowledged rows that are still in the queue, at most.
const UNSAVED: usize = 2 * GROUP;

/// The outcomes of one sink that are not saved.
pub(super) struct Outcomes {
    deliverer: Arc<Deliverer>,
    unsaved: Settlement,
    /// When the first of the rows was acknowledged that are not saved.
    unsaved_since: Option<Duration>,
    /// The sink begins at a new place, and takes no call before its mark is saved.
    begins: bool,
    refusals: Refusals,
}

/// What was saved.
pub(super) struct Settled {
    /// The sink's row; `None` if another program has deleted it.
    pub(super) row: Option<SinkRow>,
    pub(super) rows: Vec<(QueueLane, i64)>,
    /// What there may be to do now.
    pub(super) pending: Pending,
}

impl Outcomes {
    pub(super) fn new(deliverer: Arc<Deliverer>) -> Self {
        Self {
            deliverer,
            unsaved: Settlement::default(),
            unsaved_since: None,
            begins: false,
            refusals: Refusals::default(),
        }
    }

    fn now(&self) -> Duration {
        self.deliverer.clock.now().elapsed
    }

    /// Whether nothing has to be saved.
    pub(super) fn is_empty(&self) -> bool {
        self.unsaved.is_empty()
    }

    /// Whether any acknowledged row is still in the queue.
    pub(super) fn has_unsaved(&self) -> bool {
        !self.unsaved.gone.is_empty()
    }

    /// Whether too many acknowledged rows are still unsaved to send another one.
    pub(super) fn is_full(&self) -> bool {
        self.unsaved.gone.len() >= UNSAVED
    }

    /// What the sink refused.
    pub(super) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// How long to wait until something has to be saved: not at all for what changes the order of
    /// the queue.
    pub(super) fn wait(&self, now: Duration) -> Option<Duration> {
        let Settlement {
            gone,
            kept,
            disable,
            last_error,
            ..
        } = &self.unsaved;
        let is_urgent = !kept.is_empty() || *disable || last_error.is_some() || self.begins;
        if is_urgent || gone.len() >= GROUP {
            return Some(Duration::ZERO);
        }
        let since = self.unsaved_since?;
        Some((since + SAVE_AFTER).saturating_sub(now))
    }

    /// What is acknowledged is saved before the next row goes.
    pub(super) fn hurry(&mut self) {
        self.unsaved_since = Some(Duration::ZERO);
    }

    /// Notes what the sink said about a change, and reports an endpoint that is gone.
    pub(super) fn hear(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Done => self.refusals.taken(),
            Verdict::Refused { reason, .. } => self.note_error(reason.clone()),
            Verdict::Gone { reason } => {
                tracing::error!(sink = %self.deliverer.name, "the endpoint is gone (410): the sink is disabled and keeps its changes; correct its url, then reload");
                self.note_error(reason.clone());
                self.unsaved.disable = true;
            }
            Verdict::Fault { .. } | Verdict::NotTried | Verdict::CutShort => {}
        }
    }

    /// Notes a fault, which is shown with the sink.
    pub(super) fn note_error(&mut self, reason: Reason) {
        self.unsaved.last_error = Some(reason.text);
        self.unsaved.last_error_quotation = reason.quotation;
    }

    /// Notes what happens to a row after its call.
    pub(super) fn add(&mut self, row: QueueRow, update: RowUpdate) {
        match update {
            RowUpdate::Remove(gone) => self.remove(row, gone),
            RowUpdate::Keep(kept) => {
                if kept.attempts > row.attempts {
                    self.refusals.add(&kept, self.now());
                }
                self.unsaved.kept.push(kept);
            }
            RowUpdate::Unchanged => {}
        }
    }

    /// Notes that a row leaves the queue.
    pub(super) fn remove(&mut self, row: QueueRow, reason: RemovalReason) {
        let now = self.now();
        self.unsaved.gone.push((row, reason));
        self.unsaved_since.get_or_insert(now);
    }

    /// What the sink is to remember, if that changed. If it has a new mark and took nothing, it
    /// begins at a new place.
    pub(super) fn remember(&mut self, mark: Option<String>, is_untried: bool, row: &SinkRow) {
        let Some(mark) = mark else {
            return;
        };
        let last = self.unsaved.mark.as_ref().or(row.mark.as_ref());
        if is_untried && last != Some(&mark) {
            self.begins = true;
        }
        self.unsaved.mark = Some(mark);
    }

    /// Notes what changes became in another workspace.
    pub(super) fn keep_made(&mut self, made: Vec<MadeRecord>) {
        for record in made {
            if record.outcome == MadeOutcome::Parked {
                tracing::warn!(
                    sink = %self.deliverer.name,
                    event_id = %record.event_id,
                    request_id = record.request_id,
                    "the other workspace parked a submission and made no record yet: set its form \
                     up there, then submit it again in its portal"
                );
            }
            self.unsaved.made.push(record);
        }
    }

    /// What a destination that keeps its own account has acknowledged.
    pub(super) fn acknowledged(&self, row: &SinkRow) -> Acknowledged {
        self.unsaved.acknowledged.unwrap_or(row.acknowledged)
    }

    /// Notes that the destination has the log up to this row.
    pub(super) fn acknowledge(&mut self, upto: i64, row: &SinkRow) {
        let before = self.acknowledged(row);
        if before.upto != upto {
            self.unsaved.acknowledged = Some(Acknowledged { upto, ..before });
        }
    }

    /// The changes after a row of the log that need no row of the queue.
    pub(super) fn done_after(&self, position: i64) -> HashSet<i64> {
        let mut done = HashSet::new();
        for (row, _) in &self.unsaved.gone {
            if row.lane == QueueLane::Change && row.seq > position {
                done.insert(row.seq);
            }
        }
        done
    }

    /// Saves what became of rows, and what moves the position with them; `None` if there is nothing
    /// to save.
    pub(super) async fn settle(
        &mut self,
        fed: Option<Feed>,
    ) -> Result<Option<Settled>, StoreError> {
        if self.is_empty() && fed.is_none() {
            return Ok(None);
        }
        let position = match &fed {
            Some(feed) => feed.after,
            None => i64::MAX,
        };
        let at = self.deliverer.clock.now().stamp();
        let name = self.deliverer.name.clone();
        let store = &self.deliverer.store;
        let settlement = Settlement {
            fed,
            ..self.unsaved.clone()
        };
        let row = store.settle(name, settlement, at).await?;
        let Settlement { gone, kept, .. } = std::mem::take(&mut self.unsaved);
        self.unsaved_since = None;
        self.begins = false;
        let mut settled = Settled {
            row,
            rows: Vec::with_capacity(gone.len() + kept.len()),
            pending: Pending::default(),
        };
        settled.pending.queue = !kept.is_empty();
        for row in gone.iter().map(|(row, _)| row).chain(&kept) {
            settled.rows.push(row.key());
            // There is room in the queue.
            settled.pending.log |= row.seq <= position;
            settled.pending.replay |= row.lane == QueueLane::Replay;
            // What waited for it is ready now, or it is due again.
            let was_tried = row.attempts + row.faults > 0 || row.state != RowState::Ready;
            settled.pending.queue |= was_tried;
        }
        Ok(Some(settled))
    }

    /// Logs the refusals of the last minute, or those that were not logged yet because the task
    /// ends.
    pub(super) fn report(&mut self, is_last: bool) {
        let now = self.now();
        let Some(Refused { count, dead, last }) = self.refusals.due(now, is_last) else {
            return;
        };
        let name = &self.deliverer.name;
        let reason = last.last_error.as_deref();
        if last.lane == QueueLane::Notice {
            tracing::warn!(sink = %name, count, dead, about = %last.record_id, reason,
                "the sink refused alerts or reports: correct the sink, see `shopmirror check --sink {name}`, then reload, and they are sent again");
        } else {
            tracing::warn!(sink = %name, count, dead, seq = last.seq, route = %last.route, reason,
                "the sink refused changes, the last one for this reason: see `shopmirror sinks {name} dead`");
        }
    }
}
