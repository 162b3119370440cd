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
    pub(super) needed: Option<f64>,
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
    shorten_followed(claims, budget);
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
    let mut corners = Vec::with_capacity(2 * claims.len());
    for claim in claims {
        corners.push(1.0 / (claim.longest * claim.root));
        corners.push(1.0 / (claim.shortest * claim.root));
    }
    corners.sort_by(f64::total_cmp);
    let above = corners.partition_point(|corner| polls_per_second(claims, *corner) < budget);
    // No factor uses fewer polls than the longest intervals do, or more than the shortest.
    let Some(high) = corners.get(above).copied() else {
        return corners.last().copied().unwrap_or(1.0);
    };
    if above == 0 {
        return high;
    }
    let low = corners[above - 1];
    let polls_low = polls_per_second(claims, low);
    let polls_high = polls_per_second(claims, high);
    low + (high - low) * (budget - polls_low) / (polls_high - polls_low)
}

/// Polls a second of all claims at this factor.
fn polls_per_second(claims: &[Claim], factor: f64) -> f64 {
    claims
        .iter()
        .map(|claim| 1.0 / claim.interval(factor))
        .sum()
}

/// Lowers the longest interval of those that must be followed to what each needs, or, if the budget
/// is short, to what it allows in proportion: a poll more than needed for one is lost to another.
fn shorten_followed(claims: &mut [Claim], budget: f64) {
    let mut needed = 0.0;
    let mut others = 0.0;
    for claim in &*claims {
        match claim.needed {
            Some(interval) => needed += 1.0 / interval,
            None => others += 1.0 / claim.longest,
        }
    }
    let left = (budget - others).max(budget * 1e-3);
    let stretch = f64::max(needed / left, 1.0);
    for claim in claims {
        if let Some(interval) = claim.needed {
            let granted = (interval * stretch).max(claim.shortest);
            claim.longest = claim.longest.min(granted);
        }
    }
}
