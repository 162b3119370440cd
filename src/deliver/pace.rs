//! How fast changes are sent: pure.

use std::time::Duration;

/// A rate that is never exceeded. Up to a second's worth is saved up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pace {
    rate: f64,
    at: Duration,
    saved: f64,
}

impl Pace {
    /// The first one may go at once.
    pub(super) fn new(rate: f64, at: Duration) -> Self {
        Self {
            rate,
            at,
            saved: 1.0,
        }
    }

    /// How many may go now, up to `most`; the error is the wait until the next one may.
    pub(super) fn allows(&mut self, now: Duration, most: usize) -> Result<usize, Duration> {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.at = now;
        self.saved = (self.saved + passed * self.rate).min(self.rate.max(1.0));
        if self.saved + 1e-6 < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - self.saved) / self.rate));
        }
        Ok(most.min((self.saved + 1e-6) as usize))
    }

    /// Consumes permits.
    pub(super) fn take(&mut self, count: usize) {
        self.saved -= u32::try_from(count).map_or(f64::MAX, f64::from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_go_per_second_than_asked_for() {
        for rate in [0.1, 1.0, 10.0, 333.0, 5_000.0] {
            let mut pace = Pace::new(rate, Duration::ZERO);
            let (mut now, mut taken) = (Duration::ZERO, 0);
            while now < Duration::from_secs(100) {
                match pace.allows(now, 64) {
                    Ok(changes) => {
                        pace.take(changes);
                        taken += changes;
                    }
                    Err(wait) => now += wait,
                }
                let most = rate * now.as_secs_f64() + 1.0 + 1e-3;
                assert!(taken as f64 <= most, "{taken} after {now:?} at {rate}");
            }
            assert!(
                taken as f64 >= rate * 100.0 * 0.98 - 1.0,
                "{taken} at {rate}"
            );
        }
    }
}
