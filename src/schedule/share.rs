//! Shares the budget among the pollers: the square-root law between bounds.

/// What one poller brings to the division. Times are seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim {
    /// The square root of weight times arrivals a second.
    pub(super) root: f64,
    /// Its guaranteed longest interval.
    pub(super) longest: f64,
    /// The shortest interval allowed.
    pub(super) shortest: f64,
    /// The interval that a running import needs.
    pub(super) import: Option<f64>,
}

/// The interval of polling in turn with `budget` polls a second, none above its own maximum if
/// the budget allows that.
pub(super) fn in_turn(longest: &[f64], budget: f64) -> f64 {
    let even = longest.len().max(1) as f64 / budget;
    if longest.iter().map(|longest| 1.0 / longest).sum::<f64>() > budget {
        return even;
    }
    let (mut low, mut high) = (even, even);
    let load = |turn: f64| longest.iter().map(|longest| 1.0 / longest.min(turn)).sum::<f64>();
    while load(high) > budget * (1.0 + 1e-12) && high < 1e9 {
        high *= 2.0;
    }
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if load(middle) > budget { low = middle } else { high = middle }
    }
    high
}

/// Intervals that use the whole budget as far as the shortest intervals allow: each proportional
/// to one over the root, none above its longest.
pub(super) fn intervals(claims: &mut [Claim], budget: f64) -> Vec<f64> {
    tighten_imports(claims, budget);
    let mut bound = vec![None; claims.len()];
    loop {
        let (mut left, mut roots) = (budget, 0.0);
        for (claim, bound) in claims.iter().zip(&bound) {
            match bound {
                Some(interval) => left -= 1.0 / interval,
                None => roots += claim.root,
            }
        }
        let share =
            |claim: &Claim| if left > 0.0 { roots / (left * claim.root) } else { f64::INFINITY };
        let free = |place: usize, bound: &[Option<f64>]| bound[place].is_none();
        // First those that would get too little, since that takes from the others; then those that
        // would get more than they may use.
        let slow: Vec<usize> = (0..claims.len())
            .filter(|&i| free(i, &bound) && share(&claims[i]) > claims[i].longest * (1.0 + 1e-12))
            .collect();
        let fast: Vec<usize> = (0..claims.len())
            .filter(|&i| free(i, &bound) && share(&claims[i]) < claims[i].shortest * (1.0 - 1e-12))
            .collect();
        if slow.is_empty() && fast.is_empty() {
            return claims
                .iter()
                .zip(&bound)
                .map(|(claim, bound)| bound.unwrap_or_else(|| share(claim)))
                .collect();
        }
        if slow.is_empty() {
            fast.iter().for_each(|&place| bound[place] = Some(claims[place].shortest));
        } else {
            slow.iter().for_each(|&place| bound[place] = Some(claims[place].longest));
        }
    }
}

/// Lowers the longest interval of running imports to what each needs, or, if the budget is short,
/// to what it allows in proportion to their speeds: a poll more than needed for one is lost to
/// another.
fn tighten_imports(claims: &mut [Claim], budget: f64) {
    let others: f64 = claims.iter().filter(|c| c.import.is_none()).map(|c| 1.0 / c.longest).sum();
    let needed: f64 = claims.iter().filter_map(|c| c.import).map(|import| 1.0 / import).sum();
    let left = (budget - others).max(budget * 1e-3);
    let stretch = (needed / left).max(1.0);
    for claim in claims {
        if let Some(import) = claim.import {
            claim.longest = claim.longest.min((import * stretch).max(claim.shortest));
        }
    }
}
