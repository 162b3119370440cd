//! The hard side of the budget: a limiter that spaces requests, and above it a log of what was sent
//! in the last minute, which has the last word.
//!
//! Invariants: no [`SPAN`] ever holds more than the ceiling, and two requests are at least a slot
//! apart unless they are sent unspaced. So a later process that knows no more than the ceiling
//! knows the most that this one can have sent.

use std::collections::VecDeque;
use std::time::Duration;

use super::limiter::Limiter;
use crate::clock::KEY_MINUTE;

/// The span the ceiling holds for.
pub(super) const SPAN: Duration = KEY_MINUTE;

/// What is added to every reading of the clock in here, so that requests from before the clock
/// was made have a time as well.
const SHIFT: Duration = Duration::from_secs(120);

/// What evenly spaced requests may differ by.
const ROUNDING: Duration = Duration::from_millis(1);

/// Limiter and log under one ceiling.
#[derive(Debug)]
pub(super) struct Pace {
    ceiling: u32,
    limiter: Limiter,
    /// When each request of the last [`SPAN`] was sent, oldest first; shifted by [`SHIFT`].
    sent: VecDeque<Duration>,
    /// Requests sent since the budget was made.
    total: u64,
}

impl Pace {
    /// A log that holds nothing yet.
    pub(super) fn new(ceiling: u32) -> Self {
        Self {
            ceiling,
            limiter: Limiter::new(SPAN / ceiling, None),
            sent: VecDeque::new(),
            total: 0,
        }
    }

    /// Requests that [`SPAN`] may hold.
    pub(super) fn ceiling(&self) -> u32 {
        self.ceiling
    }

    /// Changes the ceiling; the log of what was sent stays.
    pub(super) fn set_ceiling(&mut self, ceiling: u32) {
        self.ceiling = ceiling;
    }

    /// Adds requests of an earlier process, by how long before `now` each was sent.
    pub(super) fn recall(&mut self, ages: &[Duration], now: Duration) {
        for age in ages {
            if *age < SPAN {
                self.sent.push_back(now + SHIFT - *age);
            }
        }
        self.sent.make_contiguous().sort_unstable();
    }

    /// How long before `now` each request of the last [`SPAN`] was sent.
    pub(super) fn ages(&self, now: Duration) -> impl Iterator<Item = Duration> {
        let shifted = now + SHIFT;
        self.sent
            .iter()
            .map(move |at| shifted.saturating_sub(*at))
            .filter(|age| *age < SPAN)
    }

    /// Sends a request now, at least `spacing` and a slot after the newest one; else says when the
    /// log may have room, or when the limiter has a request.
    pub(super) fn take(&mut self, spacing: Duration, now: Duration) -> Result<(), Duration> {
        self.check_room(now)?;
        let interval = spacing.max(self.slot());
        let newest = self.sent.back().copied();
        self.limiter
            .take(interval, newest, now + SHIFT)
            .map_err(|free_at| free_at.saturating_sub(SHIFT))?;
        self.count(now);
        Ok(())
    }

    /// Sends a request now, however close to the newest one; else says when the log has room.
    pub(super) fn take_unspaced(&mut self, now: Duration) -> Result<(), Duration> {
        self.check_room(now)?;
        self.count(now);
        Ok(())
    }

    /// Whether the log has room for a request; else when enough of it is older than [`SPAN`].
    fn check_room(&self, now: Duration) -> Result<(), Duration> {
        let Some(last_to_leave) = self.sent.len().checked_sub(self.ceiling as usize) else {
            return Ok(());
        };
        let room_at = (self.sent[last_to_leave] + SPAN).saturating_sub(SHIFT);
        if room_at > now { Err(room_at) } else { Ok(()) }
    }

    /// Counts a request as sent now.
    fn count(&mut self, now: Duration) {
        let shifted = now + SHIFT;
        while self.sent.front().is_some_and(|at| *at + SPAN <= shifted) {
            self.sent.pop_front();
        }
        self.sent.push_back(shifted);
        self.total += 1;
    }

    /// The time from the last request to the next slot: after requests without spacing the others
    /// are spread over what is left of the log's room, so that it does not end with a pause.
    fn slot(&self) -> Duration {
        let slot = SPAN / self.ceiling;
        let (Some(oldest), Some(newest)) = (self.sent.front(), self.sent.back()) else {
            return slot;
        };
        let room = self
            .ceiling
            .saturating_sub(u32::try_from(self.sent.len()).unwrap_or(u32::MAX));
        let spread = (*oldest + SPAN).saturating_sub(*newest) / (room + 1);
        slot.max(spread.saturating_sub(ROUNDING))
    }

    /// Requests a minute that the slots allow.
    pub(super) fn granted(&self) -> f64 {
        f64::from(self.ceiling).min(SPAN.as_secs_f64() / self.slot().as_secs_f64())
    }

    /// How many requests were sent in the `span` before `now`.
    pub(super) fn sent_within(&self, span: Duration, now: Duration) -> usize {
        let from = now + SHIFT - span.min(SHIFT);
        self.sent.len() - self.sent.partition_point(|at| *at <= from)
    }

    /// Requests sent since the start.
    pub(super) fn total(&self) -> u64 {
        self.total
    }
}
