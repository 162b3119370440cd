//! What a sink refused: when a line of the log says so, and whether it refuses everything. Pure.
//!
//! The first refusal is logged at once, the others together, at most once per minute. Each of them
//! is in the store; only the lines of the log are bounded.

use std::time::Duration;

use crate::store::{QueueRow, RowState};

/// The shortest time between two lines of one sink.
const REPORT_EVERY: Duration = Duration::from_secs(60);
/// A sink refuses everything once it has refused this many changes in a row …
const MANY: u32 = 20;
/// … or all that it was given for this long.
const LONG: Duration = Duration::from_secs(15 * 60);

/// What one line of the log says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    /// Refusals since the last line.
    pub(super) count: u64,
    /// Those after which the change is not tried again.
    pub(super) dead: u64,
    /// The last of them.
    pub(super) last: QueueRow,
}

/// The refusals of a sink. Times are those of [`shopmirror_core::clock::Moment::elapsed`].
#[derive(Debug, Default)]
pub(super) struct Refusals {
    unreported: Option<Refused>,
    /// When the next line may be written.
    next_at: Option<Duration>,
    /// Refusals since the sink took something, and when the first of them was.
    in_a_row: u32,
    since: Option<Duration>,
}

impl Refusals {
    pub(super) fn add(&mut self, row: &QueueRow, now: Duration) {
        let report = self.unreported.get_or_insert_with(|| Refused {
            count: 0,
            dead: 0,
            last: row.clone(),
        });
        report.count += 1;
        if row.state == RowState::Dead {
            report.dead += 1;
        }
        report.last = row.clone();
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.since.get_or_insert(now);
    }

    /// The sink took something.
    pub(super) fn taken(&mut self) {
        self.in_a_row = 0;
        self.since = None;
    }

    /// Whether the sink refuses everything.
    pub(super) fn are_all(&self, now: Duration) -> bool {
        let is_long = self
            .since
            .is_some_and(|since| now.saturating_sub(since) >= LONG);
        self.in_a_row >= MANY || self.in_a_row > 1 && is_long
    }

    /// How long to wait for the next line; `None` if there is nothing to say.
    pub(super) fn wait(&self, now: Duration) -> Option<Duration> {
        self.unreported.as_ref()?;
        Some(
            self.next_at
                .map_or(Duration::ZERO, |at| at.saturating_sub(now)),
        )
    }

    /// The line that is due, or what is not said yet because the task ends.
    pub(super) fn due(&mut self, now: Duration, is_last: bool) -> Option<Refused> {
        if !is_last && !self.wait(now)?.is_zero() {
            return None;
        }
        self.next_at = Some(now + REPORT_EVERY);
        self.unreported.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::QueueLane;

    fn letter(seq: i64) -> QueueRow {
        QueueRow {
            lane: QueueLane::Change,
            seq,
            route: "leads".into(),
            record_id: seq.to_string(),
            state: RowState::Dead,
            attempts: 1,
            faults: 0,
            due_at: None,
            last_error: Some("answered 422".into()),
            last_error_quotation: None,
            since: "2026-01-01T00:00:00.000000Z".into(),
            only_if_newest: false,
        }
    }

    #[test]
    fn a_thousand_refusals_in_ten_minutes_are_reported_ten_times_and_none_is_left_out() {
        let mut refusals = Refusals::default();
        let (mut reports, mut counted) = (0, 0);
        let mut now = Duration::ZERO;
        for seq in 1..=1000 {
            refusals.add(&letter(seq), now);
            while let Some(said) = refusals.due(now, false) {
                reports += 1;
                counted += said.count;
                assert_eq!((said.last.seq, said.dead), (seq, said.count));
            }
            now += Duration::from_millis(600);
        }
        assert_eq!(
            (
                reports,
                counted + refusals.due(now, true).map_or(0, |said| said.count)
            ),
            (10, 1000)
        );
        assert_eq!(refusals.wait(now), None);
    }

    #[test]
    fn a_sink_refuses_everything_after_twenty_in_a_row_or_a_quarter_of_an_hour() {
        let mut refusals = Refusals::default();
        (1..20).for_each(|seq| refusals.add(&letter(seq), Duration::ZERO));
        assert!(!refusals.are_all(Duration::from_secs(899)));
        assert!(refusals.are_all(Duration::from_secs(900)));
        refusals.add(&letter(20), Duration::ZERO);
        assert!(refusals.are_all(Duration::ZERO));
        refusals.taken();
        refusals.add(&letter(21), Duration::from_secs(1));
        assert!(
            !refusals.are_all(Duration::from_secs(5_000)),
            "one change is not everything"
        );
    }
}
