//! Decides when dead letters are reported in the log of the daemon: the first one at once, the others
//! together, at most once per minute. Pure.
//!
//! Every dead letter is in the store and in `dead SINK list`; only the lines of the log are bounded.

use std::time::Duration;

use crate::store::PendingDelivery;

/// The shortest time between two reports of one sink.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// What one line of the log says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeadReport {
    /// How many changes became dead letters since the last report.
    pub(super) count: u64,
    /// The last of them.
    pub(super) last: PendingDelivery,
}

/// The dead letters that are not reported yet.
#[derive(Debug, Default)]
pub(super) struct DeadLog {
    unreported: Option<DeadReport>,
    /// When the next report may be made; times are those of [`crate::clock::Moment::elapsed`].
    next_at: Option<Duration>,
}

impl DeadLog {
    pub(super) fn add(&mut self, letter: &PendingDelivery) {
        let count = self.unreported.as_ref().map_or(0, |report| report.count) + 1;
        self.unreported = Some(DeadReport { count, last: letter.clone() });
    }

    /// How long to wait for the next report; `None` if there is nothing to report.
    pub(super) fn wait(&self, now: Duration) -> Option<Duration> {
        self.unreported.as_ref()?;
        Some(self.next_at.map_or(Duration::ZERO, |at| at.saturating_sub(now)))
    }

    /// The report that is due.
    pub(super) fn due(&mut self, now: Duration) -> Option<DeadReport> {
        if !self.wait(now)?.is_zero() {
            return None;
        }
        self.next_at = Some(now + REPORT_EVERY);
        self.unreported.take()
    }

    /// What is not reported yet, because the task ends.
    pub(super) fn rest(&mut self) -> Option<DeadReport> {
        self.unreported.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::DeliveryState;

    fn letter(seq: i64) -> PendingDelivery {
        PendingDelivery {
            seq,
            route: "leads".into(),
            record_id: seq.to_string(),
            state: DeliveryState::Dead,
            attempts: 1,
            next_attempt_at: None,
            last_error: Some("answered 422".into()),
            since: "2026-01-01T00:00:00.000000Z".into(),
            only_if_newest: false,
        }
    }

    #[test]
    fn a_thousand_dead_letters_in_ten_minutes_are_reported_eleven_times_and_none_is_left_out() {
        let mut log = DeadLog::default();
        let (mut reports, mut counted) = (0, 0);
        let mut now = Duration::ZERO;
        for seq in 1..=1000 {
            log.add(&letter(seq));
            while let Some(report) = log.due(now) {
                reports += 1;
                counted += report.count;
                assert_eq!(report.last.seq, seq);
            }
            now += Duration::from_millis(600);
        }
        assert_eq!((reports, counted + log.rest().map_or(0, |report| report.count)), (10, 1000));
        assert_eq!(log.wait(now), None);
    }
}
