//! The largest burst a poller has shown, and the interval that survives another like it.
//!
//! Arrivals are bounded by a curve σ + ρT: σ is the most that ever came beyond the expected, let
//! go of over weeks. When σ fills the page no interval is safe by that bound; then the interval
//! shrinks in proportion to how badly the burst overflowed.

use super::overflow;

/// Seconds in which a remembered burst loses half of its size.
const HALF_LIFE_S: f64 = 7.0 * 86_400.0;

/// A burst, by the records beyond the expected and the interval they came in.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Burst {
    pub(super) size: f64,
    pub(super) span: f64,
}

impl Burst {
    /// Learns from `arrivals` in `span` seconds where `expected` were expected.
    pub(super) fn observe(&mut self, arrivals: f64, expected: f64, span: f64) {
        self.fade(span);
        let excess = arrivals - expected;
        // Chance alone brings three deviations often enough over a year of polls.
        let surprising = excess > 3.0 + 4.0 * expected.sqrt();
        if surprising && excess > self.size {
            *self = Self { size: excess, span };
        }
    }

    /// Lets the memory fade by `span` seconds.
    pub(super) fn fade(&mut self, span: f64) {
        self.size *= (-span / HALF_LIFE_S).exp2();
    }

    /// The longest interval, in seconds, that survives the burst at `rate` a second if it comes no
    /// faster than it did; unbounded when no burst is known.
    pub(super) fn safe_interval(&self, limit: u32, rate: f64) -> f64 {
        let capacity = overflow::capacity(limit);
        if self.size < 1.0 {
            f64::INFINITY
        } else if self.size < capacity {
            // Asked twice in the time it took, no burst that is no larger is seen too late.
            ((capacity - self.size) / rate.max(1e-12)).max(self.span / 2.0)
        } else {
            self.span * capacity / (2.0 * self.size)
        }
    }

    /// Whether a burst was seen that no interval is safe from if it comes at once.
    pub(super) fn fills_page(&self, limit: u32) -> bool {
        self.size >= overflow::capacity(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_shortens_the_interval_and_is_forgotten() {
        let mut burst = Burst::default();
        assert!(burst.safe_interval(100, 0.01).is_infinite());
        burst.observe(60.0, 1.0, 30.0);
        let interval = burst.safe_interval(100, 0.01);
        assert!((interval - 3800.0).abs() < 1.0, "{interval}");
        burst.observe(300.0, 1.0, 60.0);
        assert!(burst.fills_page(100));
        assert!(burst.safe_interval(100, 0.01) < 10.0);
        burst.fade(10.0 * 7.0 * 86_400.0);
        assert!(burst.safe_interval(100, 0.01) > 9000.0);
    }

    #[test]
    fn a_burst_that_just_fits_a_page_claims_no_more_than_one_that_just_does_not() {
        let capacity = overflow::capacity(100);
        let interval = |size: f64| Burst { size, span: 60.0 }.safe_interval(100, 0.2);
        for below in [0.01, 0.1, 1.0] {
            assert!(interval(capacity - below) >= interval(capacity), "{below} below");
        }
        assert!((interval(capacity - 1e-9) - interval(capacity)).abs() < 0.01);
    }

    #[test]
    fn chance_is_no_burst() {
        let mut burst = Burst::default();
        burst.observe(40.0, 30.0, 60.0);
        assert!(burst.safe_interval(100, 0.5).is_infinite());
    }
}
