//! Rounds: hands a batch over, or compares changes one by one, and settles what comes of it.

use std::time::Duration;

use jiff::Timestamp;

use super::health::{Attempt, Comparing};
use super::reading::ReadLimits;
use super::room::Share;
use super::round::Round;
use super::settle::{RetrySchedule, Settlement, settle};
use super::task_state::{Ends, TaskState};
use super::{Deliverer, Wakes};
use crate::clock::Moment;
use crate::sink::{Sink, Verdict};
use crate::store::StoreError;

impl Deliverer {
    /// Hands over what is due again and what is new. Returns how long to wait before the next call;
    /// `None` if only new changes or an operator bring more work.
    pub(super) async fn exchange(
        &mut self,
        known: &mut TaskState,
        comparing: Comparing,
        wakes: &mut Wakes,
        ends: &Ends<'_>,
    ) -> Result<Option<Duration>, StoreError> {
        if let Some(wait) = self.refill(known, ends).await? {
            return Ok(Some(wait));
        }
        let attempt = known.health.attempt(comparing);
        if attempt == Attempt::Batch
            && let Sink::Windowed(sink) = &self.sink
        {
            let wait = self.flow(sink, known, wakes, ends).await?;
            self.hold(known).await?;
            return Ok(wait);
        }
        self.round(known, attempt, ends).await
    }

    /// One round: one batch, or changes that are compared.
    async fn round(
        &mut self,
        known: &mut TaskState,
        attempt: Attempt,
        ends: &Ends<'_>,
    ) -> Result<Option<Duration>, StoreError> {
        let (mut share, mut ends_at_large) = (Share::default(), false);
        let (row, round) = loop {
            let wanted = ReadLimits {
                after: known.position,
                attempt,
                most: self.sink.batch(),
                several: !self.sink.can_fail_for_one(),
                under_way: std::collections::HashSet::new(),
                room: share.bytes,
                ends_at_large,
            };
            let read = self.read(wanted).await?;
            let Some(large) = read.1.as_ref().and_then(|round| round.lacks_room) else {
                break read;
            };
            drop(share);
            // Small records in front of a large one go while it has to wait.
            match self.room.try_take(large) {
                Some(taken) => (share, ends_at_large) = (taken, false),
                None if !ends_at_large => (share, ends_at_large) = (Share::default(), true),
                None => match self.take_room(large, ends).await {
                    Some(taken) => share = taken,
                    None => return Ok(None),
                },
            }
        };
        let moved = row.is_some_and(|row| known.adopt(row));
        let Some(round) = round else { return Ok(moved.then_some(Duration::ZERO)) };
        if round.flood {
            known.flooded = true;
            self.hold(known).await?;
            return Ok(Some(Duration::ZERO));
        }
        let pause = known.health.pause(self.clock.now().elapsed);
        let enough = known.health.ends_with_more_than();
        if pause.is_some() && enough.is_some_and(|tried| round.fresh() <= tried) {
            return Ok(pause);
        }
        if let Some(wait) = self.lingering(&round, attempt) {
            return Ok(Some(wait));
        }
        let tried = self.hand_over(&round, attempt, ends).await;
        drop(share);
        let moment = self.clock.now();
        let settlement = settle(round, attempt, &tried, &self.schedule(moment));
        self.settled(known, settlement, moment, ends).await
    }

    /// How much longer a batch that is not full waits for more changes.
    fn lingering(&self, round: &Round, attempt: Attempt) -> Option<Duration> {
        let Sink::Batched(sink) = &self.sink else { return None };
        let linger = sink.linger();
        if linger.is_zero() || attempt != Attempt::Batch || round.more || round.due > 0 {
            return None;
        }
        let oldest = round.changes.first()?.observed_at.parse().ok()?;
        left_of(linger, oldest, self.clock.now().wall)
    }

    pub(super) fn schedule(&self, moment: Moment) -> RetrySchedule<'_> {
        RetrySchedule { waits: &self.settings.retry, chance: fastrand::f64(), now: moment.wall }
    }

    /// Saves and reports what was settled, and learns from it.
    pub(super) async fn settled(
        &self,
        known: &mut TaskState,
        settlement: Settlement,
        moment: Moment,
        ends: &Ends<'_>,
    ) -> Result<Option<Duration>, StoreError> {
        let Settlement { mut progress, observed, more, next_due } = settlement;
        if let Some(observed) = &observed {
            self.report(known, observed, &mut progress);
        }
        self.note_stored(known, &mut progress);
        self.save(known, progress, ends).await?;
        if let Some(observed) = observed {
            known.health.observe(observed, moment.elapsed, fastrand::f64());
        }
        let pause = known.health.pause(moment.elapsed);
        Ok(pause.or(more.then_some(Duration::ZERO)).or(next_due))
    }

    /// Hands the changes over, all at once or one by one to compare them. Returns the verdicts in
    /// the order of the attempts, each with the index of its change.
    async fn hand_over(
        &mut self,
        round: &Round,
        attempt: Attempt,
        ends: &Ends<'_>,
    ) -> Vec<(usize, Verdict)> {
        let changes = &round.changes;
        if changes.is_empty() {
            return Vec::new();
        }
        if !attempt.compares() {
            let verdicts = self.sink.deliver(changes, self.clock.now().wall, ends.cut).await;
            return verdicts.into_iter().enumerate().collect();
        }
        let mut tried = Vec::with_capacity(changes.len());
        for index in attempt.order(changes.len()) {
            let one = std::slice::from_ref(&changes[index]);
            let verdicts = self.sink.deliver(one, self.clock.now().wall, ends.cut).await;
            tried.extend(verdicts.into_iter().map(|verdict| (index, verdict)));
            if let Some((_, Verdict::Fault { retry_after: Some(_), .. })) = tried.last() {
                // The endpoint asks for a wait: nothing more is sent before it is over.
                break;
            }
        }
        tried
    }
}

/// What is left of the time that a batch waits for more changes after its oldest one.
fn left_of(linger: Duration, oldest: Timestamp, now: Timestamp) -> Option<Duration> {
    let until = oldest.checked_add(linger).ok()?;
    let left = Duration::try_from(until.duration_since(now)).ok()?;
    // More than all of it is left if the clock was ahead when the change was stored. Nobody knows how
    // long ago that was, so the batch waits no longer.
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
        for ahead in ["2026-03-01T11:59:59Z", "2026-03-01T11:00:00Z", "2016-03-01T12:00:00Z"] {
            assert_eq!(left(ahead), None, "{ahead}");
        }
    }
}
