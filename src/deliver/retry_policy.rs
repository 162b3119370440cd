//! From a verdict to what happens to a row: pure.

use std::time::Duration;

use jiff::Timestamp;
use shopmirror_core::clock::stamp;

use super::health::PAUSE;
use crate::sink::Verdict;
use crate::store::{QueueLane, QueueRow, RemovalReason, RowState};

/// Why a dead letter that was sent again is dead.
const SUPERSEDED: &str = "not sent again, because the sink has a newer version of the record: add \
     --all-versions to send it all the same";

/// What happens to a row of the queue after a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RowUpdate {
    /// It leaves the queue.
    Remove(RemovalReason),
    /// It stays in the queue, with something new about it.
    Keep(QueueRow),
    /// It stays as it is.
    Unchanged,
}

/// What is done after a failed attempt, and when it is repeated.
#[derive(Debug, Clone, Copy)]
pub(super) struct RetryPolicy<'a> {
    /// The wait after each refusal; after the last one, the row is dead.
    pub(super) retry: &'a [Duration],
    /// Whether a fault concerns all rows, so that their order stays.
    pub(super) keeps_order: bool,
    /// Uniform in `0.0..1.0`, for the jitter.
    pub(super) chance: f64,
    pub(super) now: Timestamp,
}

impl RetryPolicy<'_> {
    /// What happens to a row after this verdict; `None` if it was not sent, because the sink has a
    /// newer version of its record: a dead letter stays one, and what is sent once more leaves the
    /// queue.
    pub(super) fn update(&self, row: &QueueRow, verdict: Option<&Verdict>) -> RowUpdate {
        let Some(verdict) = verdict else {
            if row.lane != QueueLane::Change {
                return RowUpdate::Remove(RemovalReason::LeftOut);
            }
            return RowUpdate::Keep(QueueRow {
                state: RowState::Dead,
                due_at: None,
                last_error: Some(SUPERSEDED.to_owned()),
                last_error_quotation: None,
                ..row.clone()
            });
        };
        match verdict {
            Verdict::Done => RowUpdate::Remove(RemovalReason::Delivered),
            // What a replay sends once more was delivered before: nothing waits for it.
            Verdict::Refused { .. } if row.lane == QueueLane::Replay => {
                RowUpdate::Remove(RemovalReason::Refused)
            }
            Verdict::Refused { reason, for_good } => {
                let attempts = row.attempts + 1;
                let refused = usize::try_from(row.attempts).unwrap_or(usize::MAX);
                let wait = self.retry.get(refused).filter(|_| !for_good);
                let due_at = wait.map(|wait| self.after(wait.mul_f64(0.8 + 0.4 * self.chance)));
                let state = if due_at.is_some() {
                    RowState::Retrying
                } else {
                    RowState::Dead
                };
                RowUpdate::Keep(QueueRow {
                    state,
                    attempts,
                    due_at,
                    last_error: Some(reason.text.clone()),
                    last_error_quotation: reason.quotation.clone(),
                    ..row.clone()
                })
            }
            Verdict::Fault { .. } if self.keeps_order => RowUpdate::Unchanged,
            // The endpoint is to blame, so this is no attempt. Others go first all the same,
            // because a change that always fails would otherwise hold them up.
            Verdict::Fault {
                reason,
                retry_after,
                ..
            } => {
                let faults = row.faults + 1;
                let times = u32::try_from(faults).unwrap_or(u32::MAX);
                let wait = PAUSE.wait(times, self.chance, *retry_after);
                RowUpdate::Keep(QueueRow {
                    state: RowState::Retrying,
                    faults,
                    due_at: Some(self.after(wait)),
                    last_error: Some(reason.text.clone()),
                    last_error_quotation: reason.quotation.clone(),
                    ..row.clone()
                })
            }
            Verdict::Gone { .. } | Verdict::NotTried | Verdict::CutShort => RowUpdate::Unchanged,
        }
    }

    fn after(&self, wait: Duration) -> String {
        stamp(self.now.checked_add(wait).unwrap_or(Timestamp::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::FaultScope;
    use crate::store::fixtures::queue_row;

    fn policy(keeps_order: bool) -> RetryPolicy<'static> {
        const RETRY: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(100)];
        RetryPolicy {
            retry: &RETRY,
            keeps_order,
            chance: 0.5,
            now: Timestamp::UNIX_EPOCH,
        }
    }

    fn kept(update: RowUpdate) -> (RowState, i64, i64, Option<String>) {
        let RowUpdate::Keep(row) = update else {
            panic!("{update:?}")
        };
        (row.state, row.attempts, row.faults, row.due_at)
    }

    #[test]
    fn a_refused_change_is_tried_again_after_each_wait_and_is_dead_after_the_last() {
        let refused = |for_good| Verdict::Refused {
            reason: "answered 422".into(),
            for_good,
        };
        let fate = |attempts, for_good| {
            kept(policy(false).update(
                &queue_row(QueueLane::Change, 7, attempts),
                Some(&refused(for_good)),
            ))
        };
        let at = |text: &str| Some(text.to_owned());
        let first = at("1970-01-01T00:00:10.000000Z");
        assert_eq!(fate(0, false), (RowState::Retrying, 1, 0, first));
        assert_eq!(fate(1, false).3, at("1970-01-01T00:01:40.000000Z"));
        assert_eq!(fate(2, false), (RowState::Dead, 3, 0, None));
        assert_eq!(fate(0, true), (RowState::Dead, 1, 0, None));
        let replayed =
            policy(false).update(&queue_row(QueueLane::Replay, 7, 0), Some(&refused(false)));
        assert_eq!(replayed, RowUpdate::Remove(RemovalReason::Refused));
    }

    #[test]
    fn a_fault_is_no_attempt_and_keeps_the_order_where_the_sink_does() {
        let fault = |retry_after| Verdict::Fault {
            reason: "answered 503".into(),
            retry_after,
            scope: FaultScope::Endpoint,
        };
        let change = queue_row(QueueLane::Change, 7, 1);
        let (state, attempts, faults, _) = kept(policy(false).update(&change, Some(&fault(None))));
        assert_eq!((state, attempts, faults), (RowState::Retrying, 1, 1));
        let asked = fault(Some(Duration::from_secs(60)));
        let due_at = kept(policy(false).update(&change, Some(&asked))).3;
        assert_eq!(due_at.as_deref(), Some("1970-01-01T00:01:00.000000Z"));
        assert_eq!(
            policy(true).update(&change, Some(&fault(None))),
            RowUpdate::Unchanged
        );
    }
}
