//! Fills a destination again that has lost changes: a database restored from an older dump, or made anew.
//!
//! What it lost is handed over once more from the log, before anything new, so that the destination's
//! own account is right at every moment: after a crash it says where to go on. The sink's position and
//! counters stay as they are, since those changes were delivered and counted before.

use std::ops::ControlFlow;
use std::time::Duration;

use super::filter::wants;
use super::health::{Fault, Observed};
use super::room::{Share, large};
use super::round::{parked, weight};
use super::settle::Settlement;
use super::task_state::{Ends, TaskState};
use super::{Deliverer, LOOK_AGAIN};
use crate::clock::{Moment, stamp};
use crate::config;
use crate::record::{Change, Kind, Route};
use crate::sink::Verdict;
use crate::store::{Acknowledged, DeliveryState, Reader, SinkProgress, SinkState, StoreError};

/// Rows of the log looked through in one read.
const SCAN: usize = 4_096;
/// Bytes of records handed over at once, above which no further change is taken.
const BYTES: usize = 1024 * 1024;

/// What a destination is given again.
#[derive(Debug, Clone)]
pub(super) struct Refill {
    /// The rows after this one are done with when it is `to`.
    at: i64,
    to: i64,
    stored: i64,
}

impl Refill {
    /// The last row that the destination is known to have.
    pub(super) fn at(&self) -> i64 {
        self.at
    }
}

/// What is handed over at once.
struct Portion {
    changes: Vec<Change>,
    /// The last row that was looked at.
    upto: i64,
}

/// The changes of these rows, without those of records that were forgotten meanwhile.
fn unerased(reader: &Reader, seqs: &[i64]) -> Result<Vec<Change>, StoreError> {
    let mut changes = reader.changes(seqs)?;
    let mut failure = None;
    changes.retain(|change| match reader.is_erased(change.seq) {
        Ok(is_erased) => !is_erased,
        Err(error) => {
            failure = Some(error);
            false
        }
    });
    reader.add_jobs(&mut changes)?;
    failure.map_or(Ok(changes), Err)
}

impl Deliverer {
    /// Tells the sink what its destination must have.
    pub(super) async fn expect_stored(&mut self, known: &mut TaskState) -> Result<(), StoreError> {
        if self.sink.stored().is_none() {
            return Ok(());
        }
        let name = self.name.clone();
        let start = self.settings.start;
        let nothing_yet = known.row.delivered == 0;
        let position = known.position;
        let (acknowledged, began) = self
            .store
            .read(move |reader| {
                let began = match start {
                    _ if nothing_yet => position,
                    config::Start::Beginning => 0,
                    config::Start::At(time) => reader.position_at(&stamp(time))?,
                    config::Start::Now => position,
                };
                Ok((reader.acknowledged(&name)?, began))
            })
            .await?;
        known.acknowledged = acknowledged.unwrap_or(Acknowledged { after: began, upto: 0 });
        self.sink.expect_stored(known.acknowledged.upto);
        Ok(())
    }

    /// Notes what the destination has acknowledged, if it keeps an account of that.
    pub(super) fn note_stored(&self, known: &mut TaskState, progress: &mut SinkProgress) {
        let Some(upto) = self.sink.stored().filter(|_| known.refill.is_none()) else { return };
        if upto != known.acknowledged.upto {
            known.acknowledged.upto = upto;
            progress.acknowledged = Some(known.acknowledged);
        }
    }

    /// Hands over the next changes that the destination has lost; `None` if there are none, else how
    /// long to wait before the next call.
    pub(super) async fn refill(
        &mut self,
        known: &mut TaskState,
        ends: &Ends<'_>,
    ) -> Result<Option<Duration>, StoreError> {
        if let Some(held) = self.sink.take_lost() {
            self.begin_refill(known, held, ends).await?;
        }
        let Some(refill) = &known.refill else { return Ok(None) };
        if known.row.state == SinkState::Disabled || ends.finish.is_cancelled() {
            return Ok(Some(LOOK_AGAIN));
        }
        let mut share = Share::default();
        let mut portion = self.lost(refill).await?;
        let large = large(&portion.changes);
        if large > 0 {
            // Who waits for room has no large record in memory. Who has room waits for no long read.
            let seqs: Vec<i64> = portion.changes.drain(..).map(|change| change.seq).collect();
            portion.changes.shrink_to_fit();
            match self.take_room(large, ends).await {
                Some(taken) => share = taken,
                None => return Ok(Some(LOOK_AGAIN)),
            }
            portion.changes = self.store.read(move |reader| unerased(reader, &seqs)).await?;
        }
        let now = self.clock.now().wall;
        let verdicts = match portion.changes.as_slice() {
            [] => Vec::new(),
            changes => self.sink.deliver(changes, now, ends.cut).await,
        };
        drop(share);
        let moment = self.clock.now();
        let settlement = self.refilled(known, &portion, verdicts, moment);
        let wait = self.settled(known, settlement, moment, ends).await?;
        self.end_refill(known, ends).await?;
        Ok(Some(wait.unwrap_or_default()))
    }

    async fn begin_refill(
        &self,
        known: &mut TaskState,
        held: i64,
        ends: &Ends<'_>,
    ) -> Result<(), StoreError> {
        let (at, to) = (held.max(known.acknowledged.after), known.position);
        let there = self
            .store
            .read(move |reader| reader.count_changes(at, to, &Route::ALL, &Kind::ALL, &[]));
        let gone = (to - at - there.await?).max(0);
        known.refill = Some(Refill { at, to, stored: 0 });
        if at >= to {
            return Ok(());
        }
        let from = at + 1;
        let mut said = format!(
            "the database has the log up to change {held} only: {from} to {to} are stored before anything new"
        );
        if gone > 0 {
            said.push_str(&format!(
                "; {gone} of them are no longer in the log, which keeps the newest version of each record"
            ));
        }
        tracing::warn!(sink = %self.name, "{said}");
        let at = self.clock.now().stamp();
        let progress = SinkProgress { fault: Some(said), at, ..SinkProgress::default() };
        self.save(known, progress, ends).await
    }

    /// The next changes that the destination was given and may have lost. What is parked or dead it
    /// never took, and of a forgotten record it needs to know only that.
    async fn lost(&self, refill: &Refill) -> Result<Portion, StoreError> {
        let Refill { at, to, .. } = *refill;
        let (name, filter) = (self.name.clone(), self.settings.filter.clone());
        let most = self.sink.batch();
        let read = self.store.read_long(move |reader| {
            let mut portion = Portion { changes: Vec::new(), upto: at };
            let (mut bytes, mut full, mut failure) = (0, false, None);
            let shown = reader.scan_after(at, SCAN, |change| {
                if change.seq > to {
                    portion.upto = to;
                    return ControlFlow::Break(());
                }
                if wants(&filter, &change) {
                    let has_delivery = reader.has_delivery(&name, change.seq);
                    let is_erased = reader.is_erased(change.seq);
                    match has_delivery.and_then(|parked| Ok(parked || is_erased?)) {
                        Ok(true) => {}
                        Ok(false) if portion.changes.len() == most || bytes >= BYTES => {
                            full = true;
                            return ControlFlow::Break(());
                        }
                        Ok(false) => {
                            bytes += weight(&change);
                            portion.upto = change.seq;
                            portion.changes.push(change);
                            return ControlFlow::Continue(());
                        }
                        Err(error) => {
                            failure = Some(error);
                            return ControlFlow::Break(());
                        }
                    }
                }
                portion.upto = change.seq;
                ControlFlow::Continue(())
            })?;
            if let Some(error) = failure {
                return Err(error);
            }
            if !full && shown < SCAN {
                portion.upto = to;
            }
            Ok(portion)
        });
        read.await
    }

    /// Moves on behind what was stored. A change that is refused now is parked: it counts no longer
    /// as delivered.
    fn refilled(
        &self,
        known: &mut TaskState,
        portion: &Portion,
        verdicts: Vec<Verdict>,
        moment: Moment,
    ) -> Settlement {
        let mut progress = SinkProgress { at: moment.stamp(), ..SinkProgress::default() };
        let schedule = self.schedule(moment);
        let (mut fault, mut open, mut stored, mut cut) = (None, None, 0, false);
        for (change, verdict) in portion.changes.iter().zip(verdicts) {
            match verdict {
                Verdict::Done => stored += 1,
                Verdict::Refused { reason, .. } => {
                    let delivery = parked(change, DeliveryState::Retrying, &progress.at);
                    progress.put.push(schedule.refused(delivery, &reason, None));
                    progress.delivered -= 1;
                }
                Verdict::Fault { reason, retry_after } => {
                    fault.get_or_insert(Fault { reason, asked: retry_after });
                    open.get_or_insert(change.seq);
                }
                Verdict::Gone { reason } => {
                    fault.get_or_insert(Fault { reason, asked: None });
                    open.get_or_insert(change.seq);
                }
                Verdict::NotTried => _ = open.get_or_insert(change.seq),
                Verdict::CutShort => {
                    cut = true;
                    open.get_or_insert(change.seq);
                }
            }
        }
        if let Some(refill) = &mut known.refill {
            refill.at = open.map_or(portion.upto, |seq| seq - 1);
            refill.stored += stored;
        }
        let observed = match fault {
            _ if cut => None,
            Some(fault) => {
                Some(Observed::Failed { fault, delivered: stored > 0, uncompared: None })
            }
            None => Some(Observed::Responded),
        };
        Settlement { progress, observed, more: true, next_due: None }
    }

    /// Goes on with new changes when everything is stored again.
    async fn end_refill(&self, known: &mut TaskState, ends: &Ends<'_>) -> Result<(), StoreError> {
        let Some(Refill { stored, .. }) = known.refill.take_if(|refill| refill.at >= refill.to)
        else {
            return Ok(());
        };
        tracing::info!(sink = %self.name, stored, "the database has what it lacked");
        let at = self.clock.now().stamp();
        let mut progress = SinkProgress { at, ..SinkProgress::default() };
        self.note_stored(known, &mut progress);
        self.save(known, progress, ends).await
    }
}
