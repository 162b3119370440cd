//! How fast a replay goes: pure.

use std::time::Duration;

/// How many changes may be handed over now: no more per second than asked for, and not in tiny rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pace {
    rate: f64,
    at: Duration,
    saved: f64,
}

impl Pace {
    pub(super) fn new(rate: f64, at: Duration) -> Self {
        Self { rate, at, saved: 0.0 }
    }

    /// Takes up to `most`; the error is the wait until there are enough.
    pub(super) fn take(&mut self, now: Duration, most: usize) -> Result<usize, Duration> {
        let most = u32::try_from(most).map_or(f64::MAX, f64::from);
        // Half a second's worth at once; no more than a second's worth is saved up.
        let enough = (self.rate / 2.0).clamp(1.0, most.max(1.0));
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.at = now;
        self.saved = (self.saved + passed * self.rate).min(self.rate.max(1.0));
        if self.saved + 1e-6 < enough {
            return Err(Duration::from_secs_f64((enough - self.saved) / self.rate));
        }
        let taken = self.saved.min(most).floor().max(1.0);
        self.saved -= taken;
        Ok(taken as usize)
    }

    /// Gives back what was taken and not used.
    pub(super) fn give_back(&mut self, changes: usize) {
        self.saved += u32::try_from(changes).map_or(0.0, f64::from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_changes_per_second_are_taken_than_asked_for() {
        for rate in [0.1, 1.0, 10.0, 333.0, 5_000.0] {
            let mut pace = Pace::new(rate, Duration::ZERO);
            let (mut now, mut taken, mut rounds) = (Duration::ZERO, 0, 0);
            while now < Duration::from_secs(100) {
                match pace.take(now, 64) {
                    Ok(changes) => {
                        taken += changes;
                        rounds += 1;
                    }
                    Err(wait) => now += wait,
                }
                let most = rate * now.as_secs_f64() + 1.0;
                assert!(taken as f64 <= most, "{taken} after {now:?} at {rate}");
            }
            assert!(taken as f64 >= rate * 100.0 * 0.98 - 1.0, "{taken} at {rate}");
            assert!(rounds <= taken && rounds <= 210.max(taken / 60), "{rounds} rounds at {rate}");
        }
    }
}
