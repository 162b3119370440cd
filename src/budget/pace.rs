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

/// Governor's view of the time: the last moment the budget was told.
#[derive(Debug, Clone, Default)]
struct Told(Arc<AtomicU64>);

impl Told {
    fn set(&self, elapsed: Duration) {
        let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_max(nanos, Ordering::Relaxed);
    }
}

impl Clock for Told {
    type Instant = Duration;

    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

type Limiter = RateLimiter<NotKeyed, InMemoryState, Told, NoOpMiddleware<Duration>>;

/// Spacing and log under one ceiling.
#[derive(Debug)]
pub(super) struct Pace {
    told: Told,
    limiter: Limiter,
    ceiling: u32,
    /// When each request of the last [`SPAN`] was sent, oldest first.
    sent: VecDeque<Duration>,
    /// Requests sent since the budget was made.
    total: u64,
}

impl Pace {
    pub(super) fn new(ceiling: u32, now: Duration) -> Self {
        let told = Told::default();
        told.set(now);
        let limiter = drained(ceiling, &told);
        Self { told, limiter, ceiling, sent: VecDeque::new(), total: 0 }
    }

    /// Requests that [`SPAN`] may hold.
    pub(super) fn ceiling(&self) -> u32 {
        self.ceiling
    }

    /// Changes the ceiling; the log of what was sent stays.
    pub(super) fn set_ceiling(&mut self, ceiling: u32, now: Duration) {
        if ceiling != self.ceiling {
            self.told.set(now);
            self.ceiling = ceiling;
            self.limiter = drained(ceiling, &self.told);
        }
    }

    /// Counts one request as sent now, or says when to ask again.
    pub(super) fn try_send(&mut self, now: Duration) -> Result<(), Duration> {
        self.told.set(now);
        self.forget(now);
        let held = self.sent.len();
        if held >= self.ceiling as usize {
            let leaves = self.sent[held - self.ceiling as usize];
            return Err(leaves + SPAN);
        }
        match self.limiter.check() {
            Ok(()) => {
                self.sent.push_back(now);
                self.total += 1;
                Ok(())
            }
            Err(not_yet) => Err(now + not_yet.wait_time_from(now)),
        }
    }

    /// How many requests were sent in the `span` before `now`.
    pub(super) fn sent_within(&self, span: Duration, now: Duration) -> usize {
        let from = now.saturating_sub(span);
        if now < span {
            return self.sent.len();
        }
        self.sent.len() - self.sent.partition_point(|at| *at <= from)
    }

    /// Requests sent since the start.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// How many more requests the log has room for.
    pub(super) fn room(&mut self, now: Duration) -> usize {
        self.forget(now);
        (self.ceiling as usize).saturating_sub(self.sent.len())
    }

    fn forget(&mut self, now: Duration) {
        while self.sent.front().is_some_and(|at| *at + SPAN <= now) {
            self.sent.pop_front();
        }
    }
}

/// A limiter that spreads `ceiling` requests over [`SPAN`] and starts with one request at hand, so
/// that a process that is restarted again and again never sprints.
fn drained(ceiling: u32, told: &Told) -> Limiter {
    let ceiling = ceiling.max(1);
    let burst = NonZeroU32::new((ceiling / 15).clamp(1, 20)).unwrap_or(NonZeroU32::MIN);
    let quota = Quota::with_period(SPAN / ceiling)
        .unwrap_or_else(|| Quota::per_second(NonZeroU32::MAX))
        .allow_burst(burst);
    let limiter = RateLimiter::direct_with_clock(quota, told.clone());
    for _ in 1..burst.get() {
        let taken = limiter.check();
        debug_assert!(taken.is_ok(), "a new limiter holds its whole burst");
    }
    limiter
}
