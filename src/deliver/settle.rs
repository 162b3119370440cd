//! Decides what becomes of each change that a round handed over: pure.
//!
//! A change is delivered, parked with its next attempt, dead, or kept at the position. A fault is the
//! change's own only if the endpoint took another change of the same round, or if a healthy endpoint
//! was given nothing but changes that were to blame before.

use std::time::Duration;

use jiff::Timestamp;

use super::health::{Attempt, Fault, Observed};
use super::round::{LogRow, Round};
use crate::clock::stamp;
use crate::sink::Verdict;
use crate::store::{DeliveryState, PendingDelivery, SinkProgress};

/// When a refused change is tried again.
#[derive(Debug, Clone, Copy)]
pub(super) struct RetrySchedule<'a> {
    /// The wait after each refusal; after the last one, the change is dead.
    pub(super) waits: &'a [Duration],
    /// Uniform in `0.0..1.0`, for the jitter.
    pub(super) chance: f64,
    pub(super) now: Timestamp,
}

impl RetrySchedule<'_> {
    /// The delivery after one more refusal; the next attempt is not before `asked`.
    pub(super) fn refused(
        &self,
        mut delivery: PendingDelivery,
        reason: &str,
        asked: Option<Duration>,
    ) -> PendingDelivery {
        delivery.attempts += 1;
        delivery.last_error = Some(reason.to_owned());
        let attempts = usize::try_from(delivery.attempts).unwrap_or(usize::MAX);
        let Some(wait) = self.waits.get(attempts.saturating_sub(1)) else {
            return dead(delivery);
        };
        let wait = wait.mul_f64(0.8 + 0.4 * self.chance).max(asked.unwrap_or_default());
        let due = self.now.checked_add(wait).unwrap_or(Timestamp::MAX);
        delivery.state = DeliveryState::Retrying;
        delivery.next_attempt_at = Some(stamp(due));
        delivery
    }

    pub(super) fn refused_for_good(
        &self,
        mut delivery: PendingDelivery,
        reason: &str,
    ) -> PendingDelivery {
        delivery.attempts += 1;
        delivery.last_error = Some(reason.to_owned());
        dead(delivery)
    }
}

fn dead(mut delivery: PendingDelivery) -> PendingDelivery {
    delivery.state = DeliveryState::Dead;
    delivery.next_attempt_at = None;
    delivery
}

/// What becomes of one change.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fate {
    Delivered,
    /// It was refused: it is parked or dead.
    Refused(PendingDelivery),
    /// It is handed over again.
    Kept,
}

/// The result of a round.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Settlement {
    /// What is saved.
    pub(super) progress: SinkProgress,
    /// What the round showed about the endpoint; `None` if a stop cut the round short.
    pub(super) observed: Option<Observed>,
    /// There is more to hand over at once, if the endpoint is healthy.
    pub(super) more: bool,
    /// The wait until the next delivery becomes due.
    pub(super) next_due: Option<Duration>,
}

/// Decides what becomes of the changes of `round`. `tried` holds the verdicts in the order in which
/// the changes were handed over, by index; changes that are not in it were not handed over.
pub(super) fn settle(
    round: Round,
    attempt: Attempt,
    tried: &[(usize, Verdict)],
    schedule: &RetrySchedule<'_>,
) -> Settlement {
    let ruling = rule(&round, attempt, tried, schedule);
    let delivered = ruling.fates.iter().filter(|fate| **fate == Fate::Delivered).count();
    let uncompared =
        Some(round.fresh()).filter(|fresh| attempt.compares() && round.at_end && *fresh <= 1);
    let observed = match (ruling.gone, ruling.fault) {
        _ if ruling.unfinished => None,
        (Some(reason), _) => Some(Observed::Gone { reason }),
        (None, Some(fault)) => {
            Some(Observed::Failed { fault, delivered: delivered > 0, uncompared })
        }
        (None, None) if tried.is_empty() => Some(Observed::Nothing),
        (None, None) => Some(Observed::Responded),
    };
    let healthy = matches!(observed, Some(Observed::Nothing | Observed::Responded));
    // A sink may leave the rest of a batch for the next one.
    let is_left = ruling.fates.contains(&Fate::Kept);
    let (more, next_due) =
        (round.more || is_left, wait_until(round.next_due.as_deref(), schedule.now));
    let mut progress = SinkProgress { at: round.now.clone(), ..SinkProgress::default() };
    if let Some(Observed::Gone { reason }) = &observed {
        progress.fault = Some(reason.clone());
        progress.disable = true;
    }
    let mut handed = round.deliveries.into_iter().zip(ruling.fates);
    settle_due(handed.by_ref().take(round.due), &mut progress);
    progress.skipped += i64::try_from(round.vanished.len()).unwrap_or(i64::MAX);
    progress.settled.extend(round.vanished);
    progress.put.extend(round.superseded);
    settle_new(round.rows, handed.collect(), &mut progress);
    // What was settled or parked may have made another change due.
    let stirred = !progress.put.is_empty() || !progress.settled.is_empty();
    Settlement { progress, observed, more: (more || stirred) && healthy, next_due }
}

/// Whether an earlier attempt at the change was refused, or was the change's own fault.
fn was_to_blame(delivery: &PendingDelivery) -> bool {
    delivery.attempts > 0
}

/// What the verdicts of a round say.
struct Ruling {
    /// For each change.
    fates: Vec<Fate>,
    fault: Option<Fault>,
    gone: Option<String>,
    unfinished: bool,
}

fn rule(
    round: &Round,
    attempt: Attempt,
    tried: &[(usize, Verdict)],
    schedule: &RetrySchedule<'_>,
) -> Ruling {
    let any_done = tried.iter().any(|(_, verdict)| *verdict == Verdict::Done);
    let only_blamed = attempt == Attempt::Batch && round.deliveries.iter().all(was_to_blame);
    let mut took_another = false;
    let mut ruling = Ruling {
        fates: vec![Fate::Kept; round.deliveries.len()],
        fault: None,
        gone: None,
        unfinished: false,
    };
    for (index, verdict) in tried {
        let delivery = &round.deliveries[*index];
        let own_fault = if attempt.compares() {
            took_another
        } else {
            only_blamed || (any_done && was_to_blame(delivery))
        };
        match verdict {
            Verdict::Done => {
                took_another = true;
                ruling.fates[*index] = Fate::Delivered;
            }
            Verdict::Refused { reason, for_good: false } => {
                ruling.fates[*index] =
                    Fate::Refused(schedule.refused(delivery.clone(), reason, None));
            }
            Verdict::Refused { reason, for_good: true } => {
                ruling.fates[*index] =
                    Fate::Refused(schedule.refused_for_good(delivery.clone(), reason));
            }
            Verdict::Fault { reason, retry_after } if own_fault => {
                ruling.fates[*index] =
                    Fate::Refused(schedule.refused(delivery.clone(), reason, *retry_after));
            }
            Verdict::Fault { reason, retry_after } => {
                let fault = ruling
                    .fault
                    .get_or_insert_with(|| Fault { reason: reason.clone(), asked: None });
                fault.asked = fault.asked.max(*retry_after);
            }
            Verdict::Gone { reason } => ruling.gone = Some(reason.clone()),
            Verdict::NotTried => {}
            Verdict::CutShort => ruling.unfinished = true,
        }
    }
    ruling
}

/// Due deliveries are settled, or stored with their next attempt.
fn settle_due(handed: impl Iterator<Item = (PendingDelivery, Fate)>, progress: &mut SinkProgress) {
    for (delivery, fate) in handed {
        match fate {
            Fate::Delivered => {
                progress.delivered += 1;
                progress.settled.push(delivery);
            }
            Fate::Refused(refused) => progress.put.push(refused),
            Fate::Kept => {}
        }
    }
}

/// New changes move the position up to the first one that is kept. One that a later change has
/// passed cannot hold the position: it is parked and due at once.
fn settle_new(
    rows: Vec<(i64, LogRow)>,
    handed: Vec<(PendingDelivery, Fate)>,
    progress: &mut SinkProgress,
) {
    let last = last_answered(&rows, &handed);
    let mut handed = handed.into_iter();
    for (place, (seq, row)) in rows.into_iter().enumerate() {
        let is_passed = last.is_some_and(|last| place < last);
        match row {
            LogRow::Unwanted(rows) => progress.filtered += rows,
            LogRow::Delivered => progress.delivered += 1,
            LogRow::Behind(delivery) | LogRow::Refused(delivery) | LogRow::Erased(delivery) => {
                progress.put.push(delivery);
            }
            LogRow::Spared(delivery) if is_passed => progress.put.push(delivery),
            LogRow::Spared(_) => return,
            LogRow::Handed => match handed.next() {
                Some((_, Fate::Delivered)) => progress.delivered += 1,
                Some((_, Fate::Refused(refused))) => progress.put.push(refused),
                Some((delivery, Fate::Kept)) if is_passed => progress.put.push(delivery),
                Some((_, Fate::Kept)) | None => return,
            },
        }
        progress.position = Some(seq);
    }
}

/// The place of the last row that was delivered in this round, or delivered or refused before it.
fn last_answered(rows: &[(i64, LogRow)], handed: &[(PendingDelivery, Fate)]) -> Option<usize> {
    let mut fates = handed.iter().map(|(_, fate)| fate);
    let answered = rows.iter().map(|(_, row)| match row {
        LogRow::Handed => fates.next() == Some(&Fate::Delivered),
        row => matches!(row, LogRow::Delivered | LogRow::Refused(_)),
    });
    answered.enumerate().filter(|(_, answered)| *answered).last().map(|(place, _)| place)
}

pub(super) fn wait_until(due: Option<&str>, now: Timestamp) -> Option<Duration> {
    let due: Timestamp = due?.parse().ok()?;
    Some(Duration::try_from(due.duration_since(now)).unwrap_or_default())
}
