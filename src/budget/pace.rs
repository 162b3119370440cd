//! The hard side of the budget: governor's spacing and a log of what was sent in the last minute.
//!
//! Governor alone would let its burst through on top of a minute's refill, so the log has the last
//! word. Invariant: no span of [`SPAN`] ever holds more than the ceiling.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

/// The span the ceiling holds for: a minute, and half a second for what the network delays.
pub(super) const SPAN: Duration = Duration::from_millis(60_500);

/// What is added to every reading of the clock in here, so that requests from before the clock
/// was made have a time as well.
const SHIFT: Duration = Duration::from_millis(2 * 60_500);

/// Governor's view of the time: the last moment that was passed to the budget.
#[derive(Debug, Clone, Default)]
struct LastTime(Arc<AtomicU64>);

impl LastTime {
    fn set(&self, elapsed: Duration) {
        let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_max(nanos, Ordering::Relaxed);
    }
}

impl Clock for LastTime {
    type Instant = Duration;

    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

type Limiter = RateLimiter<NotKeyed, InMemoryState, LastTime, NoOpMiddleware<Duration>>;

/// Spacing and log under one ceiling.
#[derive(Debug)]
pub(super) struct Pace {
    last_time: LastTime,
    limiter: Limiter,
    ceiling: u32,
    /// When each request of the last [`SPAN`] was sent, oldest first; shifted by [`SHIFT`].
    sent: VecDeque<Duration>,
    /// Until when requests are spread over what is left of the log's room, because some were sent
    /// without spacing; shifted by [`SHIFT`].
    spread_until: Duration,
    /// Requests sent since the budget was made.
    total: u64,
}

impl Pace {
    pub(super) fn new(ceiling: u32, now: Duration) -> Self {
        let last_time = LastTime::default();
        last_time.set(now + SHIFT);
        let limiter = drained(ceiling, &last_time);
        let spread_until = Duration::ZERO;
        Self { last_time, limiter, ceiling, sent: VecDeque::new(), spread_until, total: 0 }
    }

    /// Requests that [`SPAN`] may hold.
    pub(super) fn ceiling(&self) -> u32 {
        self.ceiling
    }

    /// Changes the ceiling; the log of what was sent stays.
    pub(super) fn set_ceiling(&mut self, ceiling: u32, now: Duration) {
        if ceiling != self.ceiling {
            self.last_time.set(now + SHIFT);
            self.ceiling = ceiling;
            self.limiter = drained(ceiling, &self.last_time);
        }
    }

    /// Adds requests that an earlier process sent so long before `now`.
    pub(super) fn recall(&mut self, ages: &[Duration], now: Duration) {
        let shifted = now + SHIFT;
        let recent = ages.iter().filter(|age| **age < SPAN).map(|age| shifted - *age);
        self.sent.extend(recent);
        self.sent.make_contiguous().sort_unstable();
    }

    /// Counts one request as sent now, or says when to try again.
    pub(super) fn try_send(&mut self, now: Duration) -> Result<(), Duration> {
        self.has_room(now)?;
        let shifted = now + SHIFT;
        let spread_at = self.spread_at(shifted);
        if spread_at > shifted {
            return Err(spread_at - SHIFT);
        }
        self.last_time.set(shifted);
        match self.limiter.check() {
            Ok(()) => {
                if shifted < self.spread_until {
                    // What is spread leaves nothing to keep: requests sent at once afterwards would
                    // leave a pause in the minute after.
                    self.limiter = drained(self.ceiling, &self.last_time);
                    let _ = self.limiter.check();
                }
                self.count(shifted);
                Ok(())
            }
            Err(not_yet) => Err(now + not_yet.wait_time_from(shifted)),
        }
    }

    /// As [`Self::try_send`], but only the ceiling bounds it. The requests after it are spread, so
    /// that the minute does not end with a pause.
    pub(super) fn try_send_unspaced(&mut self, now: Duration) -> Result<(), Duration> {
        self.has_room(now)?;
        self.spread_until = now + SHIFT + SPAN;
        self.count(now + SHIFT);
        Ok(())
    }

    /// Says when the oldest request leaves the log, if the log is full.
    fn has_room(&mut self, now: Duration) -> Result<(), Duration> {
        self.forget(now);
        let held = self.sent.len();
        if held < self.ceiling as usize {
            return Ok(());
        }
        Err(self.sent[held - self.ceiling as usize] + SPAN - SHIFT)
    }

    fn count(&mut self, shifted: Duration) {
        self.sent.push_back(shifted);
        self.total += 1;
    }

    /// The time of the next request if the log's room is to last until its oldest request leaves.
    fn spread_at(&self, shifted: Duration) -> Duration {
        let (Some(oldest), Some(newest)) = (self.sent.front(), self.sent.back()) else {
            return shifted;
        };
        if shifted >= self.spread_until {
            return shifted;
        }
        let room = (self.ceiling as usize).saturating_sub(self.sent.len());
        let until = (*oldest + SPAN).saturating_sub(*newest);
        *newest + until / u32::try_from(room + 1).unwrap_or(u32::MAX)
    }

    /// Requests a minute while requests are spread because some were sent without spacing; the
    /// ceiling otherwise.
    pub(super) fn granted(&self, now: Duration) -> f64 {
        let ceiling = f64::from(self.ceiling);
        let shifted = now + SHIFT;
        let Some(newest) = self.sent.back().filter(|_| shifted < self.spread_until) else {
            return ceiling;
        };
        let slot = self.spread_at(shifted).saturating_sub(*newest).as_secs_f64();
        ceiling.min(SPAN.as_secs_f64() / slot.max(1e-3))
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

    fn forget(&mut self, now: Duration) {
        while self.sent.front().is_some_and(|at| *at + SPAN <= now + SHIFT) {
            self.sent.pop_front();
        }
    }
}

/// A limiter that spreads `ceiling` requests over [`SPAN`] and starts with one request, so that a
/// process that is restarted again and again sends no bursts.
fn drained(ceiling: u32, last_time: &LastTime) -> Limiter {
    let ceiling = ceiling.max(1);
    let burst = NonZeroU32::new((ceiling / 15).clamp(1, 20)).unwrap_or(NonZeroU32::MIN);
    let quota = Quota::with_period(SPAN / ceiling)
        .unwrap_or_else(|| Quota::per_second(NonZeroU32::MAX))
        .allow_burst(burst);
    let limiter = RateLimiter::direct_with_clock(quota, last_time.clone());
    for _ in 1..burst.get() {
        let taken = limiter.check();
        debug_assert!(taken.is_ok(), "a new limiter holds its whole burst");
    }
    limiter
}
