//! Send: hands over the oldest due row of each record, as many at a time as the sink takes.

use std::collections::HashSet;
use std::time::Duration;

use jiff::Timestamp;
use shopmirror_core::record::Change;
use tokio::task::JoinError;

use super::health::Fault;
use super::outcome::{Fate, Rules};
use super::resend::is_superseded;
use super::room::SMALL;
use super::task::Task;
use crate::sink::{Sink, Verdict};
use crate::store::{
    Acknowledged, Gone, Lane, Outcomes, QueueRow, Reader, RowState, SinkState, StoreError,
};

/// Rows read ahead, and the number below which more are read.
const AHEAD: usize = 256;
const LOW: usize = 64;
/// Bytes of records read ahead, above which nothing more is read.
const AHEAD_BYTES: usize = 512 * 1024;
/// Acknowledged rows after which they are removed from the queue …
const GROUP: usize = 64;
/// … or this long after the first of them.
const SAVE_AFTER: Duration = Duration::from_millis(100);
/// Acknowledged rows that are still in the queue, at most.
const UNSAVED: usize = 2 * GROUP;
/// How often one change may have its sink wait.
const MAX_TOLD: i64 = 8;

/// A row that was read and not handed over yet.
pub(super) struct Ahead {
    row: QueueRow,
    /// Bytes of its record.
    bytes: usize,
    /// `None` for a large record, which is read only when there is room for it.
    change: Option<Change>,
}

/// A call that has ended.
pub(super) struct Call {
    sink: Box<dyn Sink>,
    rows: Vec<QueueRow>,
    /// One for each row; `None` if it was not sent, because the sink has a newer version of the
    /// record.
    verdicts: Vec<Option<Verdict>>,
}

/// Rows that were read from the queue.
#[derive(Default)]
struct Next {
    rows: Vec<Ahead>,
    /// Rows whose change is no longer in the log.
    vanished: Vec<QueueRow>,
    /// There may be more that are due.
    is_cut: bool,
    next_due: Option<String>,
}

impl Task {
    /// Whether few rows are at hand.
    pub(super) fn is_low(&self) -> bool {
        self.ahead.len() < LOW && self.bytes_ahead() < AHEAD_BYTES / 2
    }

    fn bytes_ahead(&self) -> usize {
        self.ahead
            .iter()
            .filter(|ahead| ahead.change.is_some())
            .map(|ahead| ahead.bytes)
            .sum()
    }

    /// How long to wait until rows are saved: not at all for what changes the order of the queue,
    /// or if so many are acknowledged that none is handed over before they are saved.
    pub(super) fn save_wait(&self, now: Duration) -> Option<Duration> {
        let Outcomes {
            gone,
            kept,
            disable,
            last_error,
            ..
        } = &self.outcomes;
        if !kept.is_empty() || *disable || last_error.is_some() || gone.len() >= GROUP {
            return Some(Duration::ZERO);
        }
        self.unsaved_since
            .map(|since| (since + SAVE_AFTER).saturating_sub(now))
    }

    /// Whether rows may be due that are not at hand, and there is use for them.
    pub(super) fn may_read(&self, now: Duration) -> bool {
        let is_due = self.next_due.is_some_and(|at| now >= at);
        let is_open = self.row.state != SinkState::Disabled && self.health.pause(now).is_none();
        (self.look && self.is_low() || is_due) && is_open
    }

    /// Reads rows that are due, if few are at hand and there may be some.
    pub(super) async fn read_ahead(&mut self) -> Result<(), StoreError> {
        let now = self.it.clock.now();
        if !self.may_read(now.elapsed) {
            return Ok(());
        }
        let known: HashSet<(Lane, i64)> = self
            .ahead
            .iter()
            .map(|ahead| ahead.row.key())
            .chain(self.in_hand.clone())
            .collect();
        let at = now.stamp();
        let lanes = if self.feeding.refill.is_some() {
            Lane::Refill
        } else {
            Lane::Replay
        };
        let (name, at_hand) = (self.it.name.clone(), self.bytes_ahead());
        let read = self.it.store.read(move |reader| {
            let limit = AHEAD + known.len();
            let (mut rows, is_cut) = reader.next_rows(&name, lanes, &at, limit)?;
            let mut next = Next {
                is_cut,
                ..Next::default()
            };
            rows.retain(|row| !known.contains(&row.key()));
            let mut bytes = at_hand;
            for row in rows {
                if next.rows.len() >= AHEAD || bytes >= AHEAD_BYTES {
                    next.is_cut = true;
                    break;
                }
                match read_row(reader, &row)? {
                    None => next.vanished.push(row),
                    Some((size, change)) => {
                        bytes += change.as_ref().map_or(0, |_| size);
                        next.rows.push(Ahead {
                            row,
                            bytes: size,
                            change,
                        });
                    }
                }
            }
            next.next_due = reader.next_due(&name, &at)?;
            Ok(next)
        });
        let next = read.await?;
        self.look = next.is_cut;
        self.next_due = next.next_due.and_then(|due| {
            let due: Timestamp = due.parse().ok()?;
            let left = Duration::try_from(due.duration_since(now.wall)).unwrap_or_default();
            Some(now.elapsed + left)
        });
        // Planned while the clock was ahead.
        let latest = now.elapsed + self.longest_wait();
        self.is_woken |= self.next_due.is_some_and(|due| due > latest);
        for row in next.vanished {
            self.in_hand.insert(row.key());
            self.gone(row, Gone::LeftOut);
        }
        self.ahead.extend(next.rows);
        self.ahead
            .make_contiguous()
            .sort_by_key(|a| (a.row.faults, a.row.lane, a.row.seq));
        Ok(())
    }

    fn gone(&mut self, row: QueueRow, gone: Gone) {
        self.outcomes.gone.push((row, gone));
        self.unsaved_since
            .get_or_insert(self.it.clock.now().elapsed);
    }

    /// Begins as many calls as the sink, its health and its rate allow. Returns how long to wait
    /// for more, if time alone brings it.
    pub(super) fn start(&mut self) -> Option<Duration> {
        while self.row.state != SinkState::Disabled
            && self.outcomes.gone.len() < UNSAVED
            && !self.cut.is_cancelled()
        {
            let is_paused = self.health.pause(self.now()).is_some();
            if is_paused || self.health.is_careful() && !self.calls.is_empty() {
                return None;
            }
            if let Some(wait) = self.rate_wait() {
                return Some(wait);
            }
            let sink = self.idle.pop()?;
            match self.batch(&*sink) {
                Ok(batch) if !batch.is_empty() => {
                    if let Some(pace) = &mut self.pace {
                        pace.take(1);
                    }
                    self.call(sink, batch);
                }
                none => {
                    self.idle.push(sink);
                    return none.err();
                }
            }
        }
        None
    }

    /// How long the next row waits for the rate of the sink, or because its endpoint asked for a
    /// wait.
    pub(super) fn rate_wait(&mut self) -> Option<Duration> {
        let now = self.now();
        let rate = self
            .pace
            .as_mut()
            .and_then(|pace| pace.allows(now, 1).err());
        rate.max(self.health.spacing(now))
            .filter(|_| !self.ahead.is_empty())
    }

    /// Takes the rows of the next call; the error is how long a batch that is not full waits.
    fn batch(&mut self, sink: &dyn Sink) -> Result<Vec<Ahead>, Duration> {
        let keeps_order = sink.keeps_order();
        let most = if self.health.is_well() || keeps_order {
            sink.batch()
        } else {
            1
        };
        let mut chosen: Vec<usize> = Vec::new();
        let mut records: HashSet<(&str, &str)> = HashSet::new();
        for (index, ahead) in self.ahead.iter().enumerate() {
            let record = ahead.row.record();
            let is_taken = record.is_some_and(|(route, id)| {
                self.records.contains(&(route.to_owned(), id.to_owned()))
                    || !keeps_order && records.contains(&(route, id))
            });
            if is_taken {
                continue;
            }
            if ahead.row.only_if_newest && !self.outcomes.gone.is_empty() {
                // Whether the sink has a newer version is known once all of these are saved.
                self.unsaved_since = Some(Duration::ZERO);
                break;
            }
            let first = chosen.first().map(|first| &self.ahead[*first]);
            // A notice, and a record for which there must be room, go alone.
            let fits = first.is_none_or(|first| {
                first.row.lane == ahead.row.lane && is_small(first) && is_small(ahead)
            });
            if !fits {
                break;
            }
            records.extend(record);
            chosen.push(index);
            if chosen.len() == most || !is_small(ahead) {
                break;
            }
        }
        let is_complete = chosen.len() >= most || self.look || self.may_feed();
        if let Some(first) = chosen.first().map(|first| &self.ahead[*first])
            && !is_complete
            && let Some(left) = lingers(sink.linger(), first, self.it.clock.now().wall)
        {
            return Err(left);
        }
        let from_last = chosen
            .into_iter()
            .rev()
            .filter_map(|index| self.ahead.remove(index));
        let mut taken: Vec<Ahead> = from_last.collect();
        taken.reverse();
        Ok(taken)
    }

    /// Begins a call. A large record is read once there is room for it.
    fn call(&mut self, mut sink: Box<dyn Sink>, batch: Vec<Ahead>) {
        for Ahead { row, .. } in &batch {
            self.in_hand.insert(row.key());
            self.records.extend(
                row.record()
                    .map(|(route, id)| (route.to_owned(), id.to_owned())),
            );
        }
        let rows: Vec<QueueRow> = batch.iter().map(|ahead| ahead.row.clone()).collect();
        let (store, room, clock) = (
            self.it.store.clone(),
            self.it.room.clone(),
            self.it.clock.clone(),
        );
        let (ending, cut) = (self.ending.clone(), self.cut.clone());
        let (name, filter) = (self.it.name.clone(), self.it.settings.filter.clone());
        let upto = self.row.position;
        self.calls.spawn(async move {
            let handed = async {
                let mut superseded = vec![false; rows.len()];
                if rows.iter().any(|row| row.only_if_newest) {
                    let rows = rows.clone();
                    let read = store.read(move |reader| {
                        let is_old = |row: &QueueRow| {
                            Ok(row.only_if_newest
                                && is_superseded(reader, &name, Some(&filter), upto, row)?)
                        };
                        rows.iter().map(is_old).collect()
                    });
                    superseded = read.await?;
                }
                let (mut changes, mut permit) = (Vec::with_capacity(rows.len()), None);
                let current = batch
                    .into_iter()
                    .zip(&superseded)
                    .filter(|(_, is_old)| !**is_old);
                for (Ahead { row, bytes, change }, _) in current {
                    if change.is_some() {
                        changes.extend(change);
                    } else {
                        permit = ending.run_until_cancelled(room.take(bytes)).await;
                        if permit.is_some() {
                            changes.extend(store.read(move |r| change_of(r, &row)).await?);
                        }
                    }
                }
                let given = superseded.iter().filter(|is_old| !**is_old).count();
                let verdicts = if given > 0 && changes.len() == given {
                    sink.hand_over(&changes, clock.now().wall, &cut).await
                } else {
                    vec![Verdict::NotTried; given]
                };
                drop((changes, permit));
                let mut verdicts = verdicts.into_iter();
                let of_row =
                    |is_old: bool| (!is_old).then(|| verdicts.next().unwrap_or(Verdict::NotTried));
                Ok(superseded.into_iter().map(of_row).collect())
            };
            let verdicts = handed.await.unwrap_or_else(|error: StoreError| {
                // It is tried again after a pause.
                let reason = format!("reading the change: {error}");
                vec![
                    Some(Verdict::Fault {
                        reason,
                        retry_after: None
                    });
                    rows.len()
                ]
            });
            Call {
                sink,
                rows,
                verdicts,
            }
        });
    }

    /// Takes in what became of a call.
    pub(super) fn ended(&mut self, ended: Result<Call, JoinError>) {
        let call = ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        let Call {
            mut sink,
            rows,
            verdicts,
        } = call;
        let moment = self.it.clock.now();
        let retry = self.it.settings.retry.clone();
        let rules = Rules {
            retry: &retry,
            keeps_order: sink.keeps_order(),
            chance: fastrand::f64(),
            now: moment.wall,
        };
        for (row, verdict) in rows.into_iter().zip(verdicts) {
            if let Some((route, id)) = row.record() {
                self.records.remove(&(route.to_owned(), id.to_owned()));
            }
            let fate = rules.fate(&row, verdict.as_ref());
            if let Some(verdict) = verdict {
                self.note(&row, verdict, moment.elapsed);
            }
            match fate {
                Fate::Gone(gone) => self.gone(row, gone),
                Fate::Kept(kept) => {
                    // Those behind it wait in the store from now on.
                    self.ahead.retain(|ahead| {
                        ahead.row.record() != kept.record() || ahead.row.record().is_none()
                    });
                    if kept.attempts > row.attempts {
                        self.refusals.add(&kept, moment.elapsed);
                    }
                    self.outcomes.kept.push(kept);
                }
                Fate::Untouched => {
                    // It is read again in its place.
                    self.in_hand.remove(&row.key());
                    self.ahead.clear();
                    self.look = true;
                }
            }
        }
        self.outcomes.mark = sink.mark().or(self.outcomes.mark.take());
        if let Some(held) = sink.take_lost() {
            self.begin_refill(held);
        }
        if let Some(upto) = sink.stored()
            && self.feeding.refill.is_none()
            && self.acknowledged().upto != upto
        {
            self.outcomes.acknowledged = Some(Acknowledged {
                upto,
                ..self.acknowledged()
            });
        }
        self.idle.push(sink);
    }

    /// Learns from a verdict about the endpoint, and says when it fails or takes changes again.
    fn note(&mut self, row: &QueueRow, verdict: Verdict, now: Duration) {
        let name = &self.it.name;
        let has_responded = matches!(verdict, Verdict::Done | Verdict::Refused { .. });
        if has_responded && self.health.responded(now) {
            tracing::info!(sink = %name, "the sink takes changes again");
        }
        match verdict {
            Verdict::Done => self.refusals.taken(),
            Verdict::Refused { reason, .. } => self.outcomes.last_error = Some(reason),
            // The same change is told so again, and waits alone. Where several are told so in turn,
            // each has its sink wait a few times.
            Verdict::Fault {
                retry_after: Some(_),
                ..
            } if self.told_to_wait == Some(row.key()) || row.faults > MAX_TOLD => {}
            Verdict::Fault {
                reason,
                retry_after,
            } => {
                if retry_after.is_some() {
                    self.told_to_wait = Some(row.key());
                }
                if self.health.is_well() {
                    tracing::warn!(sink = %name, reason, "delivery failed; changes are kept and will be retried");
                    self.outcomes.last_error = Some(reason.clone());
                }
                let fault = Fault {
                    reason,
                    asked: retry_after,
                    is_first: row.faults == 0,
                };
                self.health.failed(fault, now, fastrand::f64());
            }
            Verdict::Gone { reason } => {
                tracing::error!(sink = %name, "the endpoint is gone (410): the sink is disabled and keeps its changes; correct its url, then reload");
                self.outcomes.last_error = Some(reason);
                self.outcomes.disable = true;
            }
            Verdict::NotTried | Verdict::CutShort => {}
        }
    }

    /// Saves what became of rows.
    pub(super) async fn save(&mut self) -> Result<(), StoreError> {
        if self.outcomes.is_empty() {
            return Ok(());
        }
        let at = self.it.clock.now().stamp();
        let saved = self
            .it
            .store
            .settle(self.it.name.clone(), self.outcomes.clone(), at)
            .await?;
        let Outcomes { gone, kept, .. } = std::mem::take(&mut self.outcomes);
        self.unsaved_since = None;
        self.feeding.look |= !gone.is_empty() || !kept.is_empty();
        for row in gone.iter().map(|(row, _)| row).chain(&kept) {
            self.in_hand.remove(&row.key());
            self.feeding.look_for_replay |= row.lane == Lane::Replay;
            // What waited for it is ready now, or it is due again.
            self.look |= row.attempts + row.faults > 0 || row.state != RowState::Ready;
        }
        self.look |= !kept.is_empty();
        self.adopt(saved).await
    }
}

fn is_small(ahead: &Ahead) -> bool {
    ahead.row.lane != Lane::Notice && ahead.change.is_some()
}

/// The size of a row's record, with the record unless it is large; `None` if it is no longer there.
fn read_row(
    reader: &Reader,
    row: &QueueRow,
) -> Result<Option<(usize, Option<Change>)>, StoreError> {
    let Some(bytes) = reader.weight(row.lane, row.seq)? else {
        return Ok(None);
    };
    if bytes > SMALL {
        return Ok(Some((bytes, None)));
    }
    Ok(change_of(reader, row)?.map(|change| (bytes, Some(change))))
}

fn change_of(reader: &Reader, row: &QueueRow) -> Result<Option<Change>, StoreError> {
    if row.lane == Lane::Notice {
        return reader.notice(row.seq);
    }
    let mut changes = reader.changes(&[row.seq])?;
    reader.add_jobs(&mut changes)?;
    Ok(changes.pop())
}

/// How much longer a batch that is not full waits for more changes after its oldest one.
fn lingers(linger: Duration, oldest: &Ahead, now: Timestamp) -> Option<Duration> {
    let is_new = oldest.row.lane == Lane::Change && oldest.row.attempts == 0;
    let change = oldest.change.as_ref().filter(|_| is_new)?;
    left_of(linger, change.observed_at.parse().ok()?, now)
}

/// What is left of the time that a batch waits for more changes after its oldest one.
fn left_of(linger: Duration, oldest: Timestamp, now: Timestamp) -> Option<Duration> {
    let until = oldest.checked_add(linger).ok()?;
    let left = Duration::try_from(until.duration_since(now)).ok()?;
    // More than all of it is left if the clock was ahead when the change was stored. How long ago
    // that was is unknown, so the batch waits no longer.
    (!left.is_zero() && left <= linger).then_some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_waits_until_its_oldest_change_is_old_enough_and_never_for_a_clock_that_was_ahead() {
        let linger = Duration::from_secs(60);
        let oldest: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let left = |now: &str| left_of(linger, oldest, now.parse().unwrap()).map(|d| d.as_secs());
        assert_eq!(left("2026-03-01T12:00:00Z"), Some(60));
        assert_eq!(left("2026-03-01T12:00:45Z"), Some(15));
        assert_eq!(left("2026-03-01T12:01:00Z"), None);
        assert_eq!(left("2026-04-01T00:00:00Z"), None);
        for ahead in [
            "2026-03-01T11:59:59Z",
            "2026-03-01T11:00:00Z",
            "2016-03-01T12:00:00Z",
        ] {
            assert_eq!(left(ahead), None, "{ahead}");
        }
    }
}
