//! Shares the budget among the pollers: the square-root law between bounds.

/// What one poller brings to the division. Times are seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim {
    /// The square root of arrivals a second.
    pub(super) root: f64,
    /// The longest interval allowed.
    pub(super) longest: f64,
    /// The shortest interval allowed.
    pub(super) shortest: f64,
    /// The interval that it needs if it must be followed.
    pub(super) followed: Option<f64>,
}

impl Claim {
    /// The interval at `factor` polls a second for each unit of root.
    fn interval(&self, factor: f64) -> f64 {
        (1.0 / (factor * self.root))
            .min(self.longest)
            .max(self.shortest)
    }
}

/// Intervals that use the whole budget as far as the shortest intervals allow: each proportional
/// to one over the root, none above its longest.
pub(super) fn intervals(claims: &mut [Claim], budget: f64) -> Vec<f64> {
    tighten(claims, budget);
    let factor = factor(claims, budget);
    claims.iter().map(|claim| claim.interval(factor)).collect()
}

/// The interval of polling in turn with `budget` polls a second, as far as the bounds of each allow
/// it. All claims have the root 1.
pub(super) fn in_turn(claims: &[Claim], budget: f64) -> f64 {
    1.0 / factor(claims, budget)
}

/// Polls a second for each unit of root, so that all use `budget` polls a second. Their sum is a
/// straight line between the factors at which a claim reaches one of its bounds.
fn factor(claims: &[Claim], budget: f64) -> f64 {
    let polls = |factor: f64| {
        claims
            .iter()
            .map(|claim| 1.0 / claim.interval(factor))
            .sum::<f64>()
    };
    let corners = |claim: &Claim| [claim.longest, claim.shortest].map(|b| 1.0 / (b * claim.root));
    let mut corners: Vec<f64> = claims.iter().flat_map(corners).collect();
    corners.sort_by(f64::total_cmp);
    let above = corners.partition_point(|corner| polls(*corner) < budget);
    match (
        above.checked_sub(1).map(|below| corners[below]),
        corners.get(above),
    ) {
        (Some(low), Some(high)) => {
            low + (high - low) * (budget - polls(low)) / (polls(*high) - polls(low))
        }
        // No factor uses more than the longest or the shortest intervals do.
        (low, high) => low.or(high.copied()).unwrap_or(1.0),
    }
}

/// Lowers the longest interval of those that must be followed to what each needs, or, if the budget
/// is short, to what it allows in proportion: a poll more than needed for one is lost to another.
fn tighten(claims: &mut [Claim], budget: f64) {
    let others = claims.iter().filter(|claim| claim.followed.is_none());
    let left = (budget - others.map(|claim| 1.0 / claim.longest).sum::<f64>()).max(budget * 1e-3);
    let needed: f64 = claims
        .iter()
        .filter_map(|claim| claim.followed)
        .map(f64::recip)
        .sum();
    let stretch = (needed / left).max(1.0);
    for claim in claims {
        if let Some(every) = claim.followed {
            claim.longest = claim.longest.min((every * stretch).max(claim.shortest));
        }
    }
}
