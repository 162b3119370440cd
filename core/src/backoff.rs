//! How long to wait after a failure: exponential with full jitter, and never less than asked for.
//!
//! Pure: the caller brings the randomness and does the waiting.

use std::time::Duration;

/// A growing wait with a first step and a cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The longest first wait.
    pub base: Duration,
    /// The longest wait of all.
    pub cap: Duration,
}

impl Backoff {
    /// The wait after failure number `failures` (1 for the first): uniform between a tenth of the
    /// step and the step, where the step doubles up to the cap, and at least `at_least`.
    ///
    /// `chance` is uniform in `0.0..1.0`. The floor of a tenth keeps a run of low draws from
    /// becoming a burst.
    #[must_use]
    pub fn wait(&self, failures: u32, chance: f64, at_least: Option<Duration>) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let step = self.base.saturating_mul(1 << doublings).min(self.cap);
        let drawn = step.mul_f64(0.1 + 0.9 * chance.clamp(0.0, 1.0));
        drawn.max(at_least.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff {
        base: Duration::from_secs(2),
        cap: Duration::from_secs(300),
    };

    #[test]
    fn the_wait_doubles_to_the_cap_and_stays_there() {
        let longest = |failures| BACKOFF.wait(failures, 1.0, None);
        assert_eq!(longest(1), Duration::from_secs(2));
        assert_eq!(longest(3), Duration::from_secs(8));
        assert_eq!(longest(40), Duration::from_secs(300));
        assert_eq!(longest(u32::MAX), Duration::from_secs(300));
    }

    #[test]
    fn it_is_never_shorter_than_the_server_asked() {
        let asked = Some(Duration::from_secs(90));
        assert_eq!(BACKOFF.wait(1, 0.0, asked), Duration::from_secs(90));
    }
}
