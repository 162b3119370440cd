//! How a request budget is shared among pollers for the least mean delay.
//!
//! Each poller is due when its index w·λ·τ²/2 reaches one threshold ν common to all; this finds
//! the ν at which the pollers together use the budget. That is the square-root allocation.

/// One poller as the allocation sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim {
    /// Weight times arrivals a second in the busy hours.
    pub(super) pull: f64,
    /// The shortest and the longest interval in seconds.
    pub(super) shortest: f64,
    pub(super) longest: f64,
}

impl Claim {
    fn polls_a_second(&self, threshold: f64) -> f64 {
        let interval = (2.0 * threshold / self.pull.max(1e-12)).sqrt();
        1.0 / interval.max(self.shortest).min(self.longest)
    }
}

/// The threshold at which `claims` use `polls_a_second`; infinite when even the longest intervals
/// use more.
pub(super) fn threshold(claims: &[Claim], polls_a_second: f64) -> f64 {
    let used = |threshold: f64| -> f64 {
        claims.iter().map(|claim| claim.polls_a_second(threshold)).sum()
    };
    if used(f64::MAX / 4.0) >= polls_a_second {
        return f64::INFINITY;
    }
    // The square-root law itself, without bounds, is the place to start from.
    let roots: f64 = claims.iter().map(|claim| claim.pull.max(1e-12).sqrt()).sum();
    let mut high = (roots / polls_a_second).powi(2) / 2.0;
    let mut low = high;
    while used(high) > polls_a_second {
        high *= 4.0;
    }
    while low > 1e-12 && used(low) < polls_a_second {
        low /= 4.0;
    }
    for _ in 0..30 {
        let middle = f64::midpoint(low, high);
        if used(middle) > polls_a_second { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_bounds_it_is_the_square_root_allocation() {
        let claims: Vec<Claim> = [20.0, 12.0, 30.0, 25.0, 120.0, 2.0]
            .map(|rate| Claim { pull: rate / 3600.0, shortest: 0.0, longest: 1e9 })
            .to_vec();
        let threshold = threshold(&claims, 0.5);
        let (mut delay, mut arrivals) = (0.0, 0.0);
        for claim in &claims {
            delay += claim.pull / claim.polls_a_second(threshold) / 2.0;
            arrivals += claim.pull;
        }
        assert!((delay / arrivals - 4.53).abs() < 0.01, "mean delay {}", delay / arrivals);
    }

    #[test]
    fn bounds_are_kept_and_the_rest_is_shared() {
        let claims = [
            Claim { pull: 1.0, shortest: 10.0, longest: 60.0 },
            Claim { pull: 0.01, shortest: 1.0, longest: 60.0 },
        ];
        let threshold = threshold(&claims, 0.2);
        let rates: Vec<f64> = claims.iter().map(|c| c.polls_a_second(threshold)).collect();
        assert!((rates[0] - 0.1).abs() < 1e-6 && (rates[1] - 0.1).abs() < 1e-3, "{rates:?}");
        assert!(super::threshold(&claims, 0.01).is_infinite());
        assert!(super::threshold(&claims, 5.0) < 1e-6);
    }
}
