//! One round of a sink's work, planned and settled: pure but for the read that fills it.
//!
//! A round never holds two changes of one record, so that whatever a sink does at once keeps the
//! order per record. A change whose record has an open exception waits behind it.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::Duration;

use jiff::Timestamp;

use super::{Change, Delivery, Progress, Verdict};
use crate::clock::stamp;
use crate::config::SinkFilter;
use crate::record::{Kind, field, same_meaning};
use crate::store::{Reader, StoreError};

/// Rows of the log looked at in one round.
const SCAN: usize = 512;

/// What a round is read from.
pub(super) struct Scope<'a> {
    pub(super) sink: &'a str,
    pub(super) position: i64,
    pub(super) taken: &'a HashSet<i64>,
    pub(super) filter: &'a SinkFilter,
    pub(super) batch: usize,
    pub(super) now: &'a str,
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
    fn refused(&self, mut delivery: Delivery, reason: &str, for_good: bool) -> Delivery {
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
    /// The sink did not ask for it, or has taken it already.
    Pass,
    /// An open exception of its record is before it.
    Wait,
    /// To be handed over: an index into the changes of the round.
    Hand(usize),
}

/// What one round is made of.
pub(super) struct Round {
    due: Vec<Delivery>,
    changes: Vec<Change>,
    steps: Vec<(i64, Step)>,
    waiting: Vec<Delivery>,
    /// Exceptions whose change is no longer in the log.
    lost: Vec<i64>,
    more: bool,
    next_due: Option<String>,
    now: String,
}

/// What a round came to.
pub(super) struct Settled {
    pub(super) progress: Progress,
    /// Delivered, but behind a change that is not.
    pub(super) taken: Vec<i64>,
    pub(super) fault: Option<(String, Option<Duration>)>,
    pub(super) more: bool,
    pub(super) next_due: Option<Duration>,
}

impl Round {
    pub(super) fn read(reader: &Reader, scope: &Scope<'_>) -> Result<Self, StoreError> {
        let open = reader.open_deliveries(scope.sink)?;
        let blocked: HashSet<(String, String)> =
            open.iter().map(|d| (d.route.clone(), d.record_id.clone())).collect();
        let is_due = |d: &&Delivery| {
            d.state == "retrying" && d.next_attempt_at.as_deref().is_none_or(|at| at <= scope.now)
        };
        let mut due: Vec<Delivery> =
            open.iter().filter(is_due).take(scope.batch).cloned().collect();
        let next_due = open
            .iter()
            .filter(|d| d.state == "retrying")
            .filter_map(|d| d.next_attempt_at.clone())
            .filter(|at| at.as_str() > scope.now)
            .min();
        let seqs: Vec<i64> = due.iter().map(|d| d.seq).collect();
        let mut changes = reader.changes(&seqs)?;
        let found: HashSet<i64> = changes.iter().map(|c| c.seq).collect();
        let lost = seqs.into_iter().filter(|seq| !found.contains(seq)).collect();
        due.retain(|d| found.contains(&d.seq));

        let mut round = Self {
            due,
            changes: Vec::new(),
            steps: Vec::new(),
            waiting: Vec::new(),
            lost,
            more: false,
            next_due,
            now: scope.now.to_owned(),
        };
        if !scope.only_due {
            round.scan(reader, scope, &blocked, &mut changes)?;
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
    ) -> Result<(), StoreError> {
        let mut in_round: HashSet<(String, String)> =
            changes.iter().filter_map(record_key).collect();
        let mut full = false;
        let shown = reader.scan_after(scope.position, SCAN, |change| {
            let seq = change.seq;
            if scope.taken.contains(&seq) || !wants(scope.filter, &change) {
                self.steps.push((seq, Step::Pass));
                return ControlFlow::Continue(());
            }
            let key = record_key(&change);
            if key.as_ref().is_some_and(|key| blocked.contains(key)) {
                self.waiting.push(new_exception(&change, "waiting", scope.now));
                self.steps.push((seq, Step::Wait));
                return ControlFlow::Continue(());
            }
            if changes.len() >= scope.batch || key.is_some_and(|key| !in_round.insert(key)) {
                full = true;
                return ControlFlow::Break(());
            }
            self.steps.push((seq, Step::Hand(changes.len())));
            changes.push(change);
            ControlFlow::Continue(())
        })?;
        self.more = full || shown == SCAN;
        Ok(())
    }

    pub(super) fn changes(&self) -> Vec<Change> {
        self.changes.clone()
    }

    /// Turns the verdicts, one for each change, into what is saved.
    ///
    /// With `suspect` set, a change at fault that a later one passes is parked: the fault is its own.
    pub(super) fn settle(
        self,
        verdicts: &[Verdict],
        suspect: bool,
        refusals: &Refusals<'_>,
    ) -> Settled {
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
                    if suspect && verdicts.contains(&Verdict::Done) {
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
        let mut taken = Vec::new();
        let mut held = false;
        let mut waiting = self.waiting.into_iter();
        for (seq, step) in &self.steps {
            let index = match step {
                Step::Hand(index) => *index,
                Step::Pass if held => continue,
                Step::Pass => {
                    progress.position = Some(*seq);
                    continue;
                }
                Step::Wait if held => continue,
                Step::Wait => {
                    progress.put.extend(waiting.next());
                    progress.position = Some(*seq);
                    continue;
                }
            };
            let change = &self.changes[index];
            let passed_by = || verdicts[index + 1..].contains(&Verdict::Done);
            match &verdicts[index] {
                Verdict::Done => {
                    progress.delivered += 1;
                    if held {
                        taken.push(*seq);
                    }
                }
                Verdict::Refused { reason, for_good } if !held => {
                    let exception = new_exception(change, "retrying", &self.now);
                    progress.put.push(refusals.refused(exception, reason, *for_good));
                }
                Verdict::Fault { reason, .. } if !held && suspect && passed_by() => {
                    let exception = new_exception(change, "retrying", &self.now);
                    progress.put.push(refusals.refused(exception, reason, false));
                }
                // Behind a change that is held, a refusal is asked for again in a later round.
                Verdict::Refused { .. } => continue,
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
            if !held {
                progress.position = Some(*seq);
            }
        }
        let more = self.more && !held && !progress.disable;
        let next_due = self.next_due.and_then(|at| {
            let at: Timestamp = at.parse().ok()?;
            Duration::try_from(at.duration_since(refusals.now)).ok()
        });
        let again =
            progress.put.iter().any(|d| d.state == "retrying") || !progress.settled.is_empty();
        Settled {
            progress,
            taken,
            fault,
            more,
            next_due: if again { Some(Duration::from_secs(1)) } else { next_due },
        }
    }
}

fn new_exception(change: &Change, state: &str, now: &str) -> Delivery {
    Delivery {
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
