//! Governor's limiter, on the budget's own time.
//!
//! It grants one request each interval and never a burst: with a burst, a minute could hold the
//! rate and the burst together. A limiter cannot be changed, and forgets everything with its
//! process, so another one is created whenever the interval or the newest request differs from what
//! it knows. It begins with the newest request, not with a full burst.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

/// Spaces requests evenly.
#[derive(Debug)]
pub(super) struct Limiter {
    governor: RateLimiter<NotKeyed, InMemoryState, SetClock, NoOpMiddleware<Duration>>,
    interval: Duration,
    /// When the newest request was sent that the limiter has counted.
    newest: Option<Duration>,
}

impl Limiter {
    /// A limiter that grants a request `interval` after the newest one, or at once if there is
    /// none.
    pub(super) fn new(interval: Duration, newest: Option<Duration>) -> Self {
        let period = interval.max(Duration::from_nanos(1));
        let quota = Quota::with_period(period).expect("the period is not zero");
        let clock = SetClock::default();
        clock.set(newest.unwrap_or_default());
        let governor = RateLimiter::direct_with_clock(quota, clock);
        if newest.is_some() {
            governor.check().expect("a new limiter grants a request");
        }
        Self {
            governor,
            interval,
            newest,
        }
    }

    /// Takes a request `now`, `interval` after the newest one of all; else says when there is one
    /// to take.
    pub(super) fn take(
        &mut self,
        interval: Duration,
        newest: Option<Duration>,
        now: Duration,
    ) -> Result<(), Duration> {
        if interval != self.interval || newest != self.newest {
            *self = Self::new(interval, newest);
        }
        self.governor.clock().set(now);
        match self.governor.check() {
            Ok(()) => {
                self.newest = Some(now);
                Ok(())
            }
            Err(refusal) => Err(refusal.earliest_possible()),
        }
    }
}

/// A clock that shows the time it was set to, in nanoseconds: the budget's time comes in with each
/// call, and a test or a simulation decides how it passes.
#[derive(Debug, Default)]
struct SetClock(AtomicU64);

impl SetClock {
    fn set(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.store(nanos, Ordering::Relaxed);
    }
}

impl Clock for SetClock {
    type Instant = Duration;

    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_and_burst_together_never_exceed_the_limit_in_any_minute() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let limit = random.u32(1..=1000);
            let interval = super::super::SPAN / limit;
            let mut limiter = Limiter::new(interval, None);
            let mut newest = None;
            let mut now = Duration::ZERO;
            let mut sent: Vec<Duration> = Vec::new();
            while sent.len() < 4 * limit as usize {
                match limiter.take(interval, newest, now) {
                    Ok(()) => {
                        newest = Some(now);
                        sent.push(now);
                    }
                    Err(until) => now = until,
                }
                // Now and then nothing is asked for: that must not be saved up for a burst.
                if random.u32(..20) == 0 {
                    now += Duration::from_secs(90).mul_f64(random.f64().powi(3));
                }
            }
            let minute = Duration::from_secs(60);
            let mut first = 0;
            for (last, at) in sent.iter().enumerate() {
                while sent[first] + minute <= *at {
                    first += 1;
                }
                let count = last - first + 1;
                assert!(count <= limit as usize, "seed {seed}: {count} of {limit}");
            }
        }
    }

    #[test]
    fn a_changed_interval_counts_from_the_newest_request_and_brings_no_burst() {
        let seconds = Duration::from_secs;
        let mut limiter = Limiter::new(seconds(10), None);
        assert_eq!(limiter.take(seconds(10), None, seconds(100)), Ok(()));
        let newest = Some(seconds(100));
        for (interval, free_at) in [(10, 110), (4, 104), (30, 130), (7, 107)] {
            let result = limiter.take(seconds(interval), newest, seconds(102));
            assert_eq!(result, Err(seconds(free_at)));
        }
        assert_eq!(limiter.take(seconds(7), newest, seconds(107)), Ok(()));
    }

    #[test]
    fn a_new_limiter_continues_from_what_an_earlier_process_sent() {
        let seconds = Duration::from_secs;
        let mut limiter = Limiter::new(seconds(10), Some(seconds(118)));
        let newest = Some(seconds(118));
        let result = limiter.take(seconds(10), newest, seconds(120));
        assert_eq!(result, Err(seconds(128)));
    }
}
