//! The arrival rate of one poller: a Gamma posterior over the week's profile, with forgetting.
//!
//! Two memories run side by side. The slow one gives the rate; the fast one notices within a poll
//! or two that a burst has begun or ended, and starts over when a page surprises it. A page that
//! overflowed is censored data: it says "at least so many", never "a hundred".

use jiff::Timestamp;

use super::overflow;
use super::profile::Profile;

/// Arrivals for which the profile counts in the slow memory.
const SLOW_PRIOR: f64 = 2.0;
/// Arrivals below which the fast memory has nothing to say of a burst.
const BURST_ARRIVALS: f64 = 3.0;
/// Seconds after which an observation counts for 1/e.
const FAST_MEMORY_S: f64 = 120.0;
const SLOW_MEMORY_S: std::ops::RangeInclusive<f64> = 300.0..=3600.0;
/// Arrivals the slow memory is to hold when the rate allows it.
const SLOW_ARRIVALS: f64 = 60.0;
/// Evidence beyond which the profile is believed no better.
const MOST_EVIDENCE: f64 = 200.0;

/// What arrived beside what the profile expected.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Memory {
    pub(super) arrivals: f64,
    pub(super) expected: f64,
}

impl Memory {
    fn fade(&mut self, span: f64, memory: f64) {
        let keep = (-span / memory).exp();
        self.arrivals *= keep;
        self.expected *= keep;
    }

    fn add(&mut self, arrivals: f64, expected: f64) {
        self.arrivals += arrivals;
        self.expected += expected;
    }
}

/// A multiple of the profile's rate, and how well it is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Level {
    /// Times the profile's rate.
    pub(super) factor: f64,
    /// The shape of the Gamma posterior.
    pub(super) shape: f64,
}

/// What a page told about arrivals.
#[derive(Debug, Clone, Copy)]
pub(super) enum Arrivals {
    /// So many, exactly.
    Count(f64),
    /// At least so many, in the last `window` seconds when the page shows its own span.
    AtLeast { count: f64, window: Option<f64> },
}

/// The estimate.
#[derive(Debug, Clone)]
pub(super) struct Rate {
    pub(super) profile: Profile,
    pub(super) slow: Memory,
    pub(super) fast: Memory,
}

impl Rate {
    pub(super) fn new() -> Self {
        Self { profile: Profile::new(), slow: Memory::default(), fast: Memory::default() }
    }

    /// Learns from a page read at `wall` that follows the one before by `span` seconds; gives the
    /// arrivals it stands for.
    pub(super) fn observe(&mut self, arrivals: Arrivals, wall: Timestamp, span: f64) -> f64 {
        let expected = self.profile.expected_before(wall, span);
        let (count, seen_expected, total) = match arrivals {
            Arrivals::Count(count) => (count, expected, count),
            Arrivals::AtLeast { count, window: Some(window) } => {
                let window = window.clamp(span / 100.0, span);
                let seen = self.profile.expected_before(wall, window);
                (count, seen, count.max(self.slow_level().factor * (expected - seen) + count))
            }
            Arrivals::AtLeast { count, window: None } => {
                let burst = self.fast_level().map_or(0.0, |fast| fast.factor);
                let level = self.slow_level().factor.max(burst);
                let total = overflow::censored_mean(level * expected, count);
                (total, expected, total)
            }
        };
        let foreseen = seen_expected * self.level();
        self.fade(span);
        if count > foreseen + 4.0 * foreseen.sqrt() + BURST_ARRIVALS {
            self.fast = Memory::default();
        }
        self.slow.add(count, seen_expected);
        self.fast.add(count, seen_expected);
        self.profile.observe(total, wall, span);
        total
    }

    /// Lets what was seen fade by `span` seconds.
    pub(super) fn fade(&mut self, span: f64) {
        let rate = if self.slow.arrivals > 1.0 {
            // The memory's own rate, so that a busy poller follows sooner than a quiet one.
            self.slow.arrivals / SLOW_MEMORY_S.end()
        } else {
            0.0
        };
        let memory =
            (SLOW_ARRIVALS / rate.max(1e-9)).clamp(*SLOW_MEMORY_S.start(), *SLOW_MEMORY_S.end());
        self.slow.fade(span, memory);
        self.fast.fade(span, FAST_MEMORY_S);
    }

    pub(super) fn slow_level(&self) -> Level {
        let shape = SLOW_PRIOR + self.slow.arrivals;
        let evidence = self.profile.evidence().min(MOST_EVIDENCE);
        Level {
            factor: shape / (SLOW_PRIOR + self.slow.expected),
            shape: shape * evidence / (shape + evidence),
        }
    }

    /// The level of a burst that is under way, if one is.
    pub(super) fn fast_level(&self) -> Option<Level> {
        let Memory { arrivals, expected } = self.fast;
        let factor = arrivals / expected.max(1e-12);
        let burst = arrivals >= BURST_ARRIVALS && factor > self.slow_level().factor;
        burst.then_some(Level { factor, shape: arrivals })
    }

    /// The level to plan with: the slow one, unless the fast one contradicts it.
    pub(super) fn level(&self) -> f64 {
        let slow = self.slow_level().factor;
        let Memory { arrivals, expected } = self.fast;
        if expected <= 0.0 {
            return slow;
        }
        let least = (arrivals - 2.0 * arrivals.sqrt()) / expected;
        let most = (arrivals + 2.0 * (arrivals + 1.0).sqrt() + 2.0) / expected;
        slow.max(least).min(most)
    }

    /// The rate a second at `wall`.
    pub(super) fn now(&self, wall: Timestamp) -> f64 {
        self.level() * self.profile.rate(wall)
    }

    /// Seconds from `wall` until the profile expects `arrivals`, at most `longest`.
    pub(super) fn time_to_expect(&self, arrivals: f64, wall: Timestamp, longest: f64) -> f64 {
        let (mut left, mut time) = (arrivals, 0.0);
        for (rate, span) in self.profile.ahead(wall) {
            if rate * span >= left {
                time += left / rate;
                break;
            }
            left -= rate * span;
            time += span;
            if time >= longest {
                break;
            }
        }
        time.min(longest)
    }

    /// Seconds from `wall` until the records that arrive have waited `cost` record-seconds in
    /// all, at most `longest`: the renewal point of the Whittle index for a changing rate.
    pub(super) fn time_to_wait(&self, cost: f64, wall: Timestamp, longest: f64) -> f64 {
        let level = self.level();
        let (mut waited, mut backlog, mut time) = (0.0, 0.0, 0.0);
        for (rate, span) in self.profile.ahead(wall) {
            let rate = rate * level;
            let after = waited + backlog * span + rate * span * span / 2.0;
            if after >= cost {
                let root = (backlog * backlog + 2.0 * rate * (cost - waited)).sqrt();
                time += (root - backlog) / rate;
                break;
            }
            waited = after;
            backlog += rate * span;
            time += span;
            if time >= longest {
                break;
            }
        }
        time.min(longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn wall(seconds: f64) -> Timestamp {
        Timestamp::from_second(1_700_000_000).unwrap() + Duration::from_secs_f64(seconds)
    }

    #[test]
    fn a_steady_rate_is_learned() {
        let mut rate = Rate::new();
        for poll in 1..=240 {
            let arrivals = if poll % 3 == 0 { 1.0 } else { 0.0 };
            rate.observe(Arrivals::Count(arrivals), wall(f64::from(poll) * 60.0), 60.0);
        }
        let per_hour = rate.now(wall(240.0 * 60.0)) * 3600.0;
        assert!((17.0..23.0).contains(&per_hour), "{per_hour}");
    }

    #[test]
    fn a_burst_is_noticed_after_one_poll() {
        let mut rate = Rate::new();
        for poll in 1..=240 {
            rate.observe(Arrivals::Count(0.0), wall(f64::from(poll) * 60.0), 60.0);
        }
        let before = rate.now(wall(240.0 * 60.0));
        rate.observe(Arrivals::Count(50.0), wall(241.0 * 60.0), 60.0);
        let after = rate.now(wall(241.0 * 60.0));
        assert!(after > 20.0 * before && after > 0.2, "{before} then {after} a second");
    }

    #[test]
    fn an_overflow_raises_the_rate_beyond_the_page() {
        let mut rate = Rate::new();
        let arrivals = Arrivals::AtLeast { count: 100.0, window: Some(6.0) };
        rate.observe(arrivals, wall(60.0), 60.0);
        let fast = rate.fast_level().unwrap().factor * rate.profile.rate(wall(60.0));
        assert!(fast > 5.0, "a hundred in six seconds, not {fast} a second");
    }
}
