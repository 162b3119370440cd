//! One round of a sink's work, planned and settled: pure but for the read that fills it.
//!
//! A round never holds two changes of one record, so that whatever a sink does at once keeps the
//! order per record. A change whose record has an open exception waits behind it.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::Duration;

use jiff::Timestamp;

use super::{Change, PendingDelivery, Progress, Verdict};
use crate::clock::stamp;
use crate::config::SinkFilter;
use crate::record::{Kind, field, same_meaning};
use crate::store::{Reader, StoreError};

/// Rows of the log looked at in one round.
const SCAN: usize = 512;
/// Past this many bytes of records a round takes no further change, so that memory is bounded by
/// the largest record and not by the batch.
const ROUND_BYTES: usize = 4 * 1024 * 1024;

/// What a round is read from.
pub(super) struct Scope<'a> {
    pub(super) sink: &'a str,
    pub(super) position: i64,
    pub(super) filter: &'a SinkFilter,
    pub(super) batch: usize,
    pub(super) now: &'a str,
    /// No attempt is planned for later than this.
    pub(super) latest: &'a str,
    /// Part of the batch is kept for what is new: several of what is due may be to blame themselves.
    pub(super) suspect: bool,
    /// Too much is parked: only what is due again is tried.
    pub(super) only_due: bool,
}

/// How a refused change goes on.
pub(super) struct Refusals<'a> {
    /// The wait after each refusal; past the last, the change is dead.
    pub(super) waits: &'a [Duration],
    /// Uniform in `0.0..1.0`, for the jitter.
    pub(super) chance: f64,
    pub(super) now: Timestamp,
}

impl Refusals<'_> {
    /// The exception as it stands after one more refusal.
    fn refused(
        &self,
        mut delivery: PendingDelivery,
        reason: &str,
        for_good: bool,
    ) -> PendingDelivery {
        delivery.attempts += 1;
        delivery.last_error = Some(reason.to_owned());
        let attempts = usize::try_from(delivery.attempts).unwrap_or(usize::MAX);
        match self.waits.get(attempts.saturating_sub(1)) {
            Some(wait) if !for_good => {
                let wait = wait.mul_f64(0.8 + 0.4 * self.chance);
                let due = self.now.checked_add(wait).unwrap_or(Timestamp::MAX);
                delivery.state = "retrying".to_owned();
                delivery.next_attempt_at = Some(stamp(due));
            }
            _ => {
                delivery.state = "dead".to_owned();
                delivery.next_attempt_at = None;
            }
        }
        delivery
    }
}

/// A row of the log after the position, in order.
enum Step {
    /// The sink did not ask for it.
    Pass,
    /// A change of its record is before it that is still open.
    Wait,
    /// To be handed over: an index into the changes of the round.
    Hand(usize),
}

/// What one round is made of.
pub(super) struct Round {
    due: Vec<PendingDelivery>,
    changes: Vec<Change>,
    steps: Vec<(i64, Step)>,
    waiting: Vec<PendingDelivery>,
    /// Exceptions whose change is no longer in the log.
    lost: Vec<i64>,
    more: bool,
    /// The scan came to the end of the log.
    exhausted: bool,
    next_due: Option<String>,
    now: String,
}

/// What a round came to.
pub(super) struct Settled {
    pub(super) progress: Progress,
    pub(super) fault: Option<(String, Option<Duration>)>,
    pub(super) more: bool,
    pub(super) next_due: Option<Duration>,
    /// The new changes tried, where the log holds no other to tell the endpoint's fault from theirs.
    pub(super) alone: Option<usize>,
}

impl Round {
    pub(super) fn read(reader: &Reader, scope: &Scope<'_>) -> Result<Self, StoreError> {
        let open = reader.open_deliveries(scope.sink)?;
        let blocked: HashSet<(String, String)> =
            open.iter().map(|d| (d.route.clone(), d.record_id.clone())).collect();
        let is_due = |d: &&PendingDelivery| {
            // An attempt that lies beyond any wait was planned while the clock was wrong.
            d.state == "retrying"
                && d.next_attempt_at
                    .as_deref()
                    .is_none_or(|at| at <= scope.now || at > scope.latest)
        };
        // Of one record only the oldest is tried: what comes behind it must not overtake it.
        let mut first = HashSet::new();
        let mut due: Vec<PendingDelivery> = open
            .iter()
            .filter(|d| d.record_id.is_empty() || first.insert((&d.route, &d.record_id)))
            .filter(is_due)
            .cloned()
            .collect();
        let room = if scope.suspect { scope.batch.div_ceil(2) } else { scope.batch };
        let mut more = due.len() > room;
        due.truncate(room);
        let next_due = open
            .iter()
            .filter(|d| d.state == "retrying")
            .filter_map(|d| d.next_attempt_at.clone())
            .filter(|at| at.as_str() > scope.now)
            .min();
        let (mut changes, mut lost, mut bytes) = (Vec::with_capacity(due.len()), Vec::new(), 0);
        let mut known = Vec::with_capacity(due.len());
        for delivery in due {
            if bytes >= ROUND_BYTES && !scope.suspect {
                more = true;
                break;
            }
            match reader.changes(&[delivery.seq])?.pop() {
                Some(change) => {
                    bytes += weight(&change);
                    changes.push(change);
                    known.push(delivery);
                }
                None => lost.push(delivery.seq),
            }
        }

        let mut round = Self {
            due: known,
            changes: Vec::new(),
            steps: Vec::new(),
            waiting: Vec::new(),
            lost,
            more,
            exhausted: false,
            next_due,
            now: scope.now.to_owned(),
        };
        if !scope.only_due {
            round.scan(reader, scope, &blocked, &mut changes, bytes)?;
        }
        round.changes = changes;
        Ok(round)
    }

    fn scan(
        &mut self,
        reader: &Reader,
        scope: &Scope<'_>,
        blocked: &HashSet<(String, String)>,
        changes: &mut Vec<Change>,
        mut bytes: usize,
    ) -> Result<(), StoreError> {
        let mut in_round: HashSet<(String, String)> =
            changes.iter().filter_map(record_key).collect();
        let mut full = false;
        let shown = reader.scan_after(scope.position, SCAN, |change| {
            let seq = change.seq;
            if !wants(scope.filter, &change) {
                self.steps.push((seq, Step::Pass));
                return ControlFlow::Continue(());
            }
            let key = record_key(&change);
            // What comes behind a suspect of its own record waits for it, and lets others be tried.
            let behind = |key| blocked.contains(key) || (scope.suspect && in_round.contains(key));
            if key.as_ref().is_some_and(behind) {
                self.waiting.push(new_exception(&change, "waiting", scope.now));
                self.steps.push((seq, Step::Wait));
                return ControlFlow::Continue(());
            }
            // Suspects are few and tried one by one, so that their size must not keep others out.
            let room = changes.len() < scope.batch && (bytes < ROUND_BYTES || scope.suspect);
            if !room || key.is_some_and(|key| !in_round.insert(key)) {
                full = true;
                return ControlFlow::Break(());
            }
            bytes += weight(&change);
            self.steps.push((seq, Step::Hand(changes.len())));
            changes.push(change);
            ControlFlow::Continue(())
        })?;
        self.exhausted = !full && shown < SCAN;
        self.more |= !self.exhausted;
        Ok(())
    }

    pub(super) fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// How many changes are handed over for the first time, or for as long as they hold the position.
    pub(super) fn fresh(&self) -> usize {
        self.changes.len() - self.due.len()
    }

    /// Turns the verdicts, one for each change, into what is saved.
    ///
    /// With `suspect` set, a change at fault that a later one passes is parked: the fault is its own,
    /// unless the destination asked for a wait.
    pub(super) fn settle(
        self,
        verdicts: &[Verdict],
        suspect: bool,
        refusals: &Refusals<'_>,
    ) -> Settled {
        let alone = Some(self.fresh()).filter(|fresh| self.exhausted && *fresh <= 1);
        let mut progress =
            Progress { at: self.now.clone(), settled: self.lost, ..Progress::default() };
        let mut fault: Option<(String, Option<Duration>)> = None;
        let mut note_fault = |reason: &str, retry_after: Option<Duration>| {
            let (_, asked) = fault.get_or_insert_with(|| (reason.to_owned(), None));
            *asked = (*asked).max(retry_after);
        };
        for (delivery, verdict) in self.due.iter().zip(verdicts) {
            match verdict {
                Verdict::Done => {
                    progress.delivered += 1;
                    progress.settled.push(delivery.seq);
                }
                Verdict::Refused { reason, for_good } => {
                    progress.put.push(refusals.refused(delivery.clone(), reason, *for_good));
                }
                Verdict::Fault { reason, retry_after } => {
                    if suspect && retry_after.is_none() && verdicts.contains(&Verdict::Done) {
                        progress.put.push(refusals.refused(delivery.clone(), reason, false));
                    } else {
                        note_fault(reason, *retry_after);
                    }
                }
                Verdict::Gone { reason } => {
                    progress.disable = true;
                    progress.fault = Some(reason.clone());
                }
            }
        }
        let is_done =
            |step: &Step| matches!(step, Step::Hand(index) if verdicts[*index] == Verdict::Done);
        let last_done = self.steps.iter().rposition(|(_, step)| is_done(step));
        let mut waiting = self.waiting.into_iter();
        for (place, (seq, step)) in self.steps.iter().enumerate() {
            // A change that something behind it has passed can no longer hold the position.
            let passed = last_done.is_some_and(|last| place < last);
            let mut held = false;
            match step {
                Step::Pass => {}
                Step::Wait => progress.put.extend(waiting.next()),
                Step::Hand(index) => {
                    let exception = new_exception(&self.changes[*index], "retrying", &self.now);
                    match &verdicts[*index] {
                        Verdict::Done => progress.delivered += 1,
                        Verdict::Refused { reason, for_good } => {
                            progress.put.push(refusals.refused(exception, reason, *for_good));
                        }
                        Verdict::Fault { reason, retry_after: None } if passed && suspect => {
                            progress.put.push(refusals.refused(exception, reason, false));
                        }
                        Verdict::Fault { reason, retry_after } => {
                            note_fault(reason, *retry_after);
                            held = true;
                        }
                        Verdict::Gone { reason } => {
                            progress.disable = true;
                            progress.fault = Some(reason.clone());
                            held = true;
                        }
                    }
                    if held && passed {
                        let mut exception =
                            new_exception(&self.changes[*index], "retrying", &self.now);
                        exception.next_attempt_at = Some(self.now.clone());
                        progress.put.push(exception);
                    }
                }
            }
            if held && !passed {
                break;
            }
            progress.position = Some(*seq);
        }
        let next_due = self.next_due.and_then(|at| {
            let at: Timestamp = at.parse().ok()?;
            Some(Duration::try_from(at.duration_since(refusals.now)).unwrap_or(Duration::ZERO))
        });
        // What was settled or parked may have made something else due.
        let stirred = !progress.put.is_empty() || !progress.settled.is_empty();
        let more = (self.more || stirred) && fault.is_none() && !progress.disable;
        Settled { progress, fault, more, next_due, alone }
    }
}

fn new_exception(change: &Change, state: &str, now: &str) -> PendingDelivery {
    PendingDelivery {
        seq: change.seq,
        route: change.route.as_str().to_owned(),
        record_id: change.record_id.clone().unwrap_or_default(),
        state: state.to_owned(),
        attempts: 0,
        next_attempt_at: None,
        last_error: None,
        since: now.to_owned(),
    }
}

fn weight(change: &Change) -> usize {
    change.body.len() + change.before.as_ref().map_or(0, String::len)
}

/// What keeps order: a gap belongs to no record and may pass any.
fn record_key(change: &Change) -> Option<(String, String)> {
    Some((change.route.as_str().to_owned(), change.record_id.clone()?))
}

/// Whether the sink asked for this change.
fn wants(filter: &SinkFilter, change: &Change) -> bool {
    filter.changes.contains(&change.kind)
        && filter.routes.contains(&change.route)
        && (change.kind == Kind::Gap
            || filter.fields.iter().all(|(name, wanted)| {
                field(&change.body, name)
                    .is_some_and(|found| same_meaning(found, &wanted.to_string()))
            }))
}
