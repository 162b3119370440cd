//! The longest interval after which a page still shows everything that arrived.
//!
//! Arrivals at an unknown rate with a Gamma posterior are negative-binomial; the bound keeps the
//! chance that a window overflows at [`RISK`] a poll. Nothing here knows pollers or time of day:
//! intervals are measured in expected arrivals.

/// The accepted chance that one poll finds more than its page can show.
pub(super) const RISK: f64 = 1e-6;
/// Records of a page kept for overlap: one to prove contiguity and two for ties in a new order.
const GUARD: u32 = 3;

/// The first count of arrivals that a page of `limit` cannot be trusted to show.
pub(super) fn capacity(limit: u32) -> f64 {
    f64::from(limit.saturating_sub(GUARD).max(1))
}

/// An upper bound of `ln P(N ≥ count)` for a negative-binomial count with the given shape and
/// mean (Chernoff); cheap, and never below the truth.
pub(super) fn ln_tail_bound(shape: f64, mean: f64, count: f64) -> f64 {
    if mean >= count {
        return 0.0;
    }
    if mean <= 0.0 {
        return f64::NEG_INFINITY;
    }
    let joint = (count + shape) * ((count - mean) / (mean + shape)).ln_1p();
    -(count * (count / mean).ln() - joint).max(0.0)
}

/// `P(N ≥ count)` for a negative-binomial count with the given shape and mean.
pub(super) fn tail(shape: f64, mean: f64, count: f64) -> f64 {
    if mean <= 0.0 {
        return 0.0;
    }
    // Below the mean the sum of the head converges sooner than that of the tail.
    if mean >= count {
        return (1.0 - sum_down(shape, mean, count - 1.0)).clamp(0.0, 1.0);
    }
    sum_up(shape, mean, count).clamp(0.0, 1.0)
}

fn ln_probability(shape: f64, mean: f64, k: f64) -> f64 {
    ln_gamma(shape + k) - ln_gamma(shape) - ln_gamma(k + 1.0)
        + shape * (shape / (shape + mean)).ln()
        + k * (mean / (shape + mean)).ln()
}

fn sum_up(shape: f64, mean: f64, from: f64) -> f64 {
    let odds = mean / (shape + mean);
    let mut k = from;
    let mut term = ln_probability(shape, mean, k).exp();
    let mut sum = term;
    for _ in 0..10_000 {
        term *= odds * (shape + k) / (k + 1.0);
        k += 1.0;
        sum += term;
        if term <= sum * 1e-9 {
            break;
        }
    }
    sum
}

fn sum_down(shape: f64, mean: f64, from: f64) -> f64 {
    let odds = mean / (shape + mean);
    let mut k = from;
    let mut term = ln_probability(shape, mean, k).exp();
    let mut sum = term;
    while k > 0.0 {
        term *= k / (odds * (shape + k - 1.0));
        k -= 1.0;
        sum += term;
        if term <= sum * 1e-12 {
            break;
        }
    }
    sum
}

/// The largest mean with `P(N ≥ count) ≤ risk`.
pub(super) fn safe_mean(shape: f64, count: f64, risk: f64) -> f64 {
    bisect(0.0, count, |mean| tail(shape, mean, count) <= risk)
}

/// A lower bound of [`safe_mean`] that costs a fraction of it.
pub(super) fn safe_mean_bound(shape: f64, count: f64, risk: f64) -> f64 {
    let ln_risk = risk.ln();
    bisect(0.0, count, |mean| ln_tail_bound(shape, mean, count) <= ln_risk)
}

/// The largest value for which `holds`, which must hold at `low` and stop holding only once.
fn bisect(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> f64 {
    while high - low > 1e-3 * (high + 1e-3) {
        let middle = f64::midpoint(low, high);
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}

/// Arrivals to expect behind a page that overflowed: the mean of a Poisson count given that it
/// reached `count`.
pub(super) fn censored_mean(mean: f64, count: f64) -> f64 {
    // A Poisson count is the negative-binomial one of endless shape.
    let shape = 1e7;
    let reached = tail(shape, mean, count);
    if reached < 1e-12 {
        return count * 1.02;
    }
    (mean * tail(shape, mean, count - 1.0) / reached).max(count)
}

/// Lanczos' approximation of ln Γ for positive arguments.
fn ln_gamma(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        return (std::f64::consts::PI / (std::f64::consts::PI * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let t = x + 7.5;
    let mut series = 0.999_999_999_999_809_9;
    for (i, coefficient) in COEFFICIENTS.iter().enumerate() {
        series += coefficient / (x + i as f64 + 1.0);
    }
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + series.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_poisson_bounds_of_the_literature_are_met() {
        // Largest safe mean for a page of 50 and of 100 at three risks.
        for (count, risk, expected) in [
            (50.0, 1e-3, 31.0),
            (50.0, 1e-6, 23.3),
            (50.0, 1e-9, 18.5),
            (100.0, 1e-3, 71.9),
            (100.0, 1e-6, 59.4),
            (100.0, 1e-9, 51.1),
        ] {
            let mean = safe_mean(1e7, count, risk);
            assert!((mean - expected).abs() < 0.15, "{count} at {risk}: {mean} not {expected}");
        }
    }

    #[test]
    fn an_unknown_rate_makes_the_bound_cautious() {
        // Hours at 10 an hour after so many records, limit 100.
        for (records, expected) in
            [(2.0, 1.1), (10.0, 2.7), (30.0, 4.0), (100.0, 5.1), (1000.0, 5.8)]
        {
            let hours = safe_mean(records, 100.0, RISK) / 10.0;
            assert!((hours - expected).abs() < 0.1, "{records}: {hours} not {expected}");
        }
    }

    #[test]
    fn the_cheap_bound_is_never_above_the_true_one() {
        for shape in [0.5, 1.0, 4.0, 30.0, 500.0] {
            for count in [1.0, 7.0, 47.0, 97.0] {
                let cheap = safe_mean_bound(shape, count, RISK);
                let exact = safe_mean(shape, count, RISK);
                assert!(cheap <= exact * 1.002 + 1e-3, "{shape} {count}: {cheap} above {exact}");
            }
        }
    }

    #[test]
    fn a_page_that_overflowed_is_no_count_of_a_hundred() {
        assert!(censored_mean(1.0, 100.0) >= 100.0);
        assert!((censored_mean(300.0, 100.0) - 300.0).abs() < 1.0);
        assert!(censored_mean(100.0, 100.0) > 105.0);
    }
}
