//! Send: the oldest due row of each record, as many at a time as the sink takes.
//!
//! The sender owns the rows that were read ahead, the calls in flight, and what is known about the
//! endpoint. It writes nothing: what becomes of a row is the task's business.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use shopmirror_core::clock::Moment;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::Deliverer;
use super::call::{Ahead, Call, Ended};
use super::forbidden::Forbidden;
use super::health::{Fault, Health};
use super::owed::Owed;
use super::pace::Pace;
use super::pending::Pending;
use crate::sink::{FaultScope, Reason, Sink, Verdict};
use crate::store::{QueueLane, QueueRow, StoreError};
use crate::text::escape;

/// Rows read ahead, and the number below which more are read.
const AHEAD: usize = 256;
const LOW: usize = 64;
/// Bytes of records read ahead, above which nothing more is read.
const AHEAD_BYTES: usize = 512 * 1024;
/// How often one change may have its sink wait: after that it waits alone.
const MAX_THROTTLES: i64 = 8;

/// The rows of one sink that go next, and those in flight.
pub(super) struct Sender {
    deliverer: Arc<Deliverer>,
    /// Sinks that take a call now.
    idle: Vec<Box<dyn Sink>>,
    calls: JoinSet<Ended>,
    /// Rows that go next, in their order.
    ahead: VecDeque<Ahead>,
    /// When the next row that was tried is due.
    next_due: Option<Duration>,
    /// Rows that are in flight, or whose outcome is not saved.
    in_flight: HashSet<(QueueLane, i64)>,
    /// The records of rows that are in flight.
    records: HashSet<(String, String)>,
    health: Health,
    throttled: Option<Throttled>,
    forbidden: Forbidden,
    pace: Option<Pace>,
    /// Ends the wait for room in memory.
    ending: CancellationToken,
    /// Cuts short what is in flight.
    cut: CancellationToken,
}

/// The row for which the endpoint last asked for a wait, and when that is over.
#[derive(Debug, Clone, Copy)]
struct Throttled {
    row: (QueueLane, i64),
    until: Duration,
    /// The endpoint took or refused another row after that.
    others_passed: bool,
}

/// What the sender has to know of the others before it begins calls.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    /// The queue was filled from the log up to this row.
    pub(super) upto: i64,
    /// Whether too many acknowledged rows are unsaved to send another one.
    pub(super) is_full: bool,
    /// Whether any acknowledged row is still in the queue.
    pub(super) has_unsaved: bool,
    /// Whether more rows may follow at once.
    pub(super) is_more: bool,
}

/// What came of an attempt to begin calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Started {
    /// How long to wait for more, if time alone brings it.
    pub(super) wait: Option<Duration>,
    /// The next row goes only once what was acknowledged is saved.
    pub(super) must_save: bool,
}

/// Rows that were read from the queue.
#[derive(Default)]
struct Next {
    rows: Vec<Ahead>,
    /// Rows whose change is no longer in the log.
    vanished: Vec<QueueRow>,
    /// There may be more that are due.
    is_cut: bool,
    next_due: Option<QueueRow>,
}

/// What a look into the queue came to.
#[derive(Default)]
pub(super) struct Read {
    pub(super) pending: Pending,
    /// Rows whose change is no longer in the log.
    pub(super) vanished: Vec<QueueRow>,
}

/// The rows of the next call.
enum Batch {
    Rows(Vec<Ahead>),
    /// A batch that is not full waits.
    Later(Duration),
    /// Whether the sink has a newer version is known once all acknowledged rows are saved.
    AfterSave,
}

impl Sender {
    pub(super) fn new(
        deliverer: Arc<Deliverer>,
        sinks: Vec<Box<dyn Sink>>,
        ending: CancellationToken,
        cut: CancellationToken,
    ) -> Self {
        let now = deliverer.clock.now().elapsed;
        let pace = deliverer.settings.rate.map(|rate| Pace::new(rate, now));
        Self {
            deliverer,
            idle: sinks,
            calls: JoinSet::new(),
            ahead: VecDeque::new(),
            next_due: None,
            in_flight: HashSet::new(),
            records: HashSet::new(),
            health: Health::default(),
            throttled: None,
            forbidden: Forbidden::default(),
            pace,
            ending,
            cut,
        }
    }

    /// Whether few rows are ahead.
    pub(super) fn is_low(&self) -> bool {
        self.ahead.len() < LOW && self.bytes_ahead() < AHEAD_BYTES / 2
    }

    /// How many rows more may be ahead, and how many bytes of records.
    pub(super) fn room(&self) -> (usize, usize) {
        let rows = AHEAD.saturating_sub(self.ahead.len());
        (rows, AHEAD_BYTES.saturating_sub(self.bytes_ahead()))
    }

    /// Takes changes that follow those that are ahead.
    pub(super) fn add(&mut self, mut rows: Vec<Ahead>) {
        rows.retain(|ahead| !self.in_flight.contains(&ahead.row.key()));
        if rows.is_empty() {
            return;
        }
        self.ahead.extend(rows);
        self.sort();
    }

    fn sort(&mut self) {
        self.ahead
            .make_contiguous()
            .sort_by_key(|ahead| (ahead.row.faults, ahead.row.lane, ahead.row.seq));
    }

    /// Whether no call is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.calls.is_empty()
    }

    /// Whether no row is in flight or unsaved.
    pub(super) fn has_settled(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// What is known about the endpoint.
    pub(super) fn health(&self) -> &Health {
        &self.health
    }

    /// Ends a pause because an operator asks for it, and reads the rows ahead again.
    pub(super) fn look_again(&mut self, now: Duration) {
        self.ahead.clear();
        self.health.end_pause(now);
    }

    /// Ends a pause.
    pub(super) fn end_pause(&mut self, now: Duration) {
        self.health.end_pause(now);
    }

    fn bytes_ahead(&self) -> usize {
        self.ahead.iter().map(Ahead::bytes_read).sum()
    }

    /// Whether rows may be due that are not ahead, and there is use for them.
    pub(super) fn may_read(&self, pending: Pending, now: Duration) -> bool {
        if self.health.pause(now).is_some() {
            return false;
        }
        let is_due = match self.next_due {
            Some(at) => now >= at,
            None => false,
        };
        is_due || pending.queue && self.is_low()
    }

    /// Reads rows of lanes up to `lane` that are due.
    pub(super) async fn read_ahead(&mut self, lane: QueueLane) -> Result<Read, StoreError> {
        let now = self.deliverer.clock.now();
        let next = self.next_rows(lane, now).await?;
        let mut read = Read {
            vanished: next.vanished,
            ..Read::default()
        };
        read.pending.queue = next.is_cut;
        self.next_due = None;
        if let Some(row) = next.next_due
            && let Some(at) = &row.due_at
            && let Some(left) = left_until(at, now.wall)
        {
            self.next_due = Some(now.elapsed + left);
            // It was planned while the clock was ahead.
            let longest = self.deliverer.longest_wait(row.attempts, row.faults);
            read.pending.operator = left > longest;
        }
        for row in &read.vanished {
            self.in_flight.insert(row.key());
        }
        self.ahead.extend(next.rows);
        self.sort();
        Ok(read)
    }

    async fn next_rows(&self, lane: QueueLane, now: Moment) -> Result<Next, StoreError> {
        let mut present: HashSet<(QueueLane, i64)> = self.in_flight.clone();
        present.extend(self.ahead.iter().map(|ahead| ahead.row.key()));
        let name = self.deliverer.name.clone();
        let mut bytes = self.bytes_ahead();
        let read = self.deliverer.store.read(move |reader| {
            let at = now.stamp();
            let limit = AHEAD + present.len();
            let (rows, is_cut) = reader.next_rows(&name, lane, &at, limit)?;
            let mut next = Next {
                is_cut,
                next_due: reader.next_due(&name, &at)?,
                ..Next::default()
            };
            for row in rows {
                if present.contains(&row.key()) {
                    continue;
                }
                if next.rows.len() >= AHEAD || bytes >= AHEAD_BYTES {
                    next.is_cut = true;
                    break;
                }
                match Ahead::read(reader, &row)? {
                    Some(ahead) => {
                        bytes += ahead.bytes_read();
                        next.rows.push(ahead);
                    }
                    None => next.vanished.push(row),
                }
            }
            Ok(next)
        });
        read.await
    }

    /// Begins as many calls as the sink, its health and its rate allow.
    pub(super) fn start(&mut self, terms: Terms) -> Started {
        let mut started = Started::default();
        while !terms.is_full && !self.cut.is_cancelled() {
            let now = self.deliverer.clock.now();
            let is_paused = self.health.pause(now.elapsed).is_some();
            if is_paused || self.health.is_careful() && !self.calls.is_empty() {
                break;
            }
            started.wait = self.rate_wait(now.elapsed);
            if started.wait.is_some() {
                break;
            }
            let Some(sink) = self.idle.pop() else {
                break;
            };
            let batch = match self.batch(&*sink, terms, now.wall) {
                Batch::Rows(rows) if !rows.is_empty() => rows,
                none => {
                    self.idle.push(sink);
                    match none {
                        Batch::Rows(_) => {}
                        Batch::Later(wait) => started.wait = Some(wait),
                        Batch::AfterSave => started.must_save = true,
                    }
                    break;
                }
            };
            if let Some(pace) = &mut self.pace {
                pace.take(1);
            }
            self.call(sink, batch, terms.upto);
        }
        started
    }

    /// How long the next row waits for the rate of the sink, or because its endpoint asked for a
    /// wait.
    pub(super) fn rate_wait(&mut self, now: Duration) -> Option<Duration> {
        if self.ahead.is_empty() {
            return None;
        }
        let mut wait = self.health.spacing(now);
        if let Some(pace) = &mut self.pace
            && let Err(left) = pace.allows(now, 1)
        {
            wait = wait.max(Some(left));
        }
        wait
    }

    /// Takes the rows of the next call.
    fn batch(&mut self, sink: &dyn Sink, terms: Terms, now: Timestamp) -> Batch {
        let keeps_order = sink.keeps_order();
        let most = if self.health.is_well() || keeps_order {
            sink.batch()
        } else {
            1
        };
        let mut chosen: Vec<usize> = Vec::new();
        let mut records: HashSet<(&str, &str)> = HashSet::new();
        for (index, ahead) in self.ahead.iter().enumerate() {
            if let Some((route, id)) = ahead.row.record() {
                let is_in_flight = self.records.contains(&(route.to_owned(), id.to_owned()));
                if is_in_flight || !keeps_order && records.contains(&(route, id)) {
                    continue;
                }
            }
            if ahead.row.only_if_newest && terms.has_unsaved {
                if chosen.is_empty() {
                    return Batch::AfterSave;
                }
                break;
            }
            if let Some(first) = chosen.first() {
                let first = &self.ahead[*first];
                let fits = first.row.lane == ahead.row.lane && first.is_small() && ahead.is_small();
                if !fits {
                    break;
                }
            }
            records.extend(ahead.row.record());
            chosen.push(index);
            if chosen.len() == most || !ahead.is_small() {
                break;
            }
        }
        let is_complete = chosen.len() >= most || terms.is_more;
        if let Some(first) = chosen.first()
            && !is_complete
            && let Some(left) = lingers(sink.linger(), &self.ahead[*first], now)
        {
            return Batch::Later(left);
        }
        let mut taken = Vec::with_capacity(chosen.len());
        for index in chosen.into_iter().rev() {
            taken.extend(self.ahead.remove(index));
        }
        taken.reverse();
        Batch::Rows(taken)
    }

    /// Begins a call.
    fn call(&mut self, sink: Box<dyn Sink>, batch: Vec<Ahead>, upto: i64) {
        for Ahead { row, .. } in &batch {
            self.in_flight.insert(row.key());
            self.records.extend(owned_record(row));
        }
        let call = Call {
            deliverer: Arc::clone(&self.deliverer),
            sink,
            batch,
            upto,
            ending: self.ending.clone(),
            cut: self.cut.clone(),
        };
        self.calls.spawn(call.run());
    }

    /// Waits for a call to end; `None` if none is in flight.
    pub(super) async fn next_ended(&mut self) -> Option<Result<Ended, JoinError>> {
        self.calls.join_next().await
    }

    /// Takes a call back that has ended: other versions of its records may go.
    pub(super) fn take_back(&mut self, ended: Result<Ended, JoinError>) -> Ended {
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        for (row, _) in &ended.rows {
            if let Some(record) = owned_record(row) {
                self.records.remove(&record);
            }
        }
        ended
    }

    /// A sink that takes the next call.
    pub(super) fn put_idle(&mut self, sink: Box<dyn Sink>) {
        self.idle.push(sink);
    }

    /// Tells each idle sink where it stopped, and what its destination must have.
    pub(super) fn resume(&mut self, mark: Option<&str>, upto: i64) {
        for sink in &mut self.idle {
            sink.resume(mark);
            sink.use_owed(Arc::new(Owed(Arc::clone(&self.deliverer))));
            if sink.stored().is_some() {
                sink.expect_stored(upto);
            }
        }
    }

    /// A row that stays in the queue: those behind it wait in the store from now on.
    pub(super) fn hold_back(&mut self, row: &QueueRow) {
        let Some(record) = row.record() else {
            return;
        };
        self.ahead
            .retain(|ahead| ahead.row.record() != Some(record));
    }

    /// A row that was not tried: it is read again in its place.
    pub(super) fn put_back(&mut self, row: &QueueRow) {
        self.in_flight.remove(&row.key());
        self.ahead.clear();
    }

    /// Reads again what is ahead.
    pub(super) fn clear_ahead(&mut self) {
        self.ahead.clear();
    }

    /// What became of these rows is saved.
    pub(super) fn settled(&mut self, rows: &[(QueueLane, i64)]) {
        for key in rows {
            self.in_flight.remove(key);
        }
    }

    /// The verdict with the right owner: what is forbidden to one change while others pass is that
    /// change's refusal.
    pub(super) fn attributed(
        &mut self,
        row: &QueueRow,
        verdict: Verdict,
        keeps_order: bool,
    ) -> Verdict {
        match verdict {
            Verdict::Done => {
                self.forbidden.taken(row);
                Verdict::Done
            }
            Verdict::Fault {
                reason,
                scope: FaultScope::Forbidden,
                ..
            } if !keeps_order && self.forbidden.is_own_fault(row) => Verdict::Refused {
                reason: Reason {
                    text: format!("only {}, while others pass: {}", named(row), reason.text),
                    ..reason
                },
                for_good: false,
            },
            other => other,
        }
    }

    /// Learns from a verdict about the endpoint, and logs when it fails or takes changes again.
    /// Returns the reason of a fault that is the first one of the endpoint or of the change.
    pub(super) fn learn(
        &mut self,
        row: &QueueRow,
        verdict: &Verdict,
        keeps_order: bool,
    ) -> Option<Reason> {
        let now = self.deliverer.clock.now().elapsed;
        let name = self.deliverer.name.clone();
        match verdict {
            Verdict::Done | Verdict::Refused { .. } => {
                if let Some(throttled) = &mut self.throttled {
                    throttled.others_passed = true;
                }
                if self.health.responded(now) {
                    tracing::warn!(sink = %name, "the sink takes changes again");
                }
                None
            }
            Verdict::Fault {
                reason,
                retry_after,
                scope,
            } => {
                if let Some(wait) = retry_after {
                    let is_second = self.throttles(row, now + *wait, now);
                    let is_common = *scope == FaultScope::Limit || is_second;
                    let is_own = !is_common || row.faults > MAX_THROTTLES;
                    if is_own && !keeps_order {
                        return Some(reason.clone()).filter(|_| row.faults == 0);
                    }
                }
                let was_well = self.health.is_well();
                if was_well {
                    tracing::warn!(sink = %name, reason = reason.text, "delivery failed; changes are kept and will be retried");
                }
                let fault = Fault {
                    reason: reason.clone(),
                    asked: *retry_after,
                    is_first: row.faults == 0,
                };
                self.health.failed(fault, now, fastrand::f64());
                was_well.then(|| reason.clone())
            }
            Verdict::Gone { .. } | Verdict::NotTried | Verdict::CutShort => None,
        }
    }

    /// Notes that the endpoint asked for a wait until then; returns whether it did so for another
    /// row, too, whose wait is not over or after which no other was taken. A 503 is its record's
    /// while others are taken: only a second one shows that the endpoint means all of them.
    fn throttles(&mut self, row: &QueueRow, until: Duration, now: Duration) -> bool {
        let this = Throttled {
            row: row.key(),
            until,
            others_passed: false,
        };
        match self.throttled.replace(this) {
            Some(before) => before.row != this.row && (now < before.until || !before.others_passed),
            None => false,
        }
    }

    /// How long to wait until a row that was tried is due, or a pause is over.
    pub(super) fn wait(&self, now: Duration) -> Option<Duration> {
        let mut wait = self.health.pause(now);
        if let Some(at) = self.next_due
            && at > now
        {
            let left = at - now;
            wait = Some(wait.map_or(left, |pause| pause.min(left)));
        }
        wait
    }
}

fn owned_record(row: &QueueRow) -> Option<(String, String)> {
    let (route, id) = row.record()?;
    Some((route.to_owned(), id.to_owned()))
}

/// What a row is about, for people: `lead 1014`.
fn named(row: &QueueRow) -> String {
    if row.record().is_none() {
        return "this one".to_owned();
    }
    let noun = row.route.trim_end_matches('s').replace('_', " ");
    format!("{noun} {}", escape::cell(&row.record_id, 40))
}

/// How long until this time of the wall clock.
fn left_until(due: &str, now: Timestamp) -> Option<Duration> {
    let due: Timestamp = due.parse().ok()?;
    Some(Duration::try_from(due.duration_since(now)).unwrap_or_default())
}

/// How much longer a batch that is not full waits for more changes after its oldest one.
fn lingers(linger: Duration, oldest: &Ahead, now: Timestamp) -> Option<Duration> {
    let is_new = oldest.row.lane == QueueLane::Change && oldest.row.attempts == 0;
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
