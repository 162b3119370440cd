//! What the mirror can know: since when each list is complete, and where records may have been missed.

use jiff::{SignedDuration, Timestamp};

use super::span::Span;
use crate::record::Route;
use crate::store::{GapState, Reader, StoreError};

/// After this time a mirror has seen every repair that is still open: something happened to it.
const SETTLED: SignedDuration = SignedDuration::from_hours(180 * 24);

/// What is known of each list.
pub(super) struct Reach {
    since: Vec<(Route, Timestamp)>,
    holes: Vec<(Route, Span)>,
}

impl Reach {
    pub(super) fn read(reader: &Reader) -> Result<Self, StoreError> {
        let since = reader.pollers()?.into_iter().filter_map(|poller| {
            Some((poller.route.parse().ok()?, poller.first_polled_at.parse().ok()?))
        });
        let holes = reader.gaps()?.into_iter().filter(|gap| gap.state != GapState::Repaired);
        let holes = holes.filter_map(|gap| {
            let span = Span { from: gap.from_at.parse().ok()?, to: gap.to_at.parse().ok()? };
            Some((gap.route.parse().ok()?, span))
        });
        Ok(Self { since: since.collect(), holes: holes.collect() })
    }

    /// Since when these lists are complete; `None` if one was never read.
    pub(super) fn since(&self, routes: &[Route]) -> Option<Timestamp> {
        let each = routes.iter().map(|route| {
            let of_route = self.since.iter().filter(|(known, _)| known == route);
            of_route.map(|(_, since)| *since).max()
        });
        each.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// Whether everything of these lists is known that was made in this time.
    pub(super) fn covers(&self, routes: &[Route], span: Span) -> bool {
        let is_in = |hole: &Span| hole.from < span.to && hole.to > span.from;
        let is_whole = self.since(routes).is_some_and(|since| since <= span.from);
        is_whole && !self.holes.iter().any(|(route, hole)| routes.contains(route) && is_in(hole))
    }

    /// As [`Self::covers`], for the time up to now.
    pub(super) fn covers_since(
        &self,
        routes: &[Route],
        now: Timestamp,
        ago: SignedDuration,
    ) -> bool {
        now.checked_sub(ago).is_ok_and(|from| self.covers(routes, Span { from, to: now }))
    }

    /// Whether the mirror has run for so long at this time that it knew every open repair.
    pub(super) fn is_settled(&self, at: Timestamp) -> bool {
        self.since(&[Route::Jobs]).is_some_and(|since| at.duration_since(since) >= SETTLED)
    }

    /// How many gaps were not repaired.
    pub(super) fn holes(&self) -> usize {
        self.holes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_before_the_mirror_began_or_in_a_gap_is_not_known_whole() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let span = |from, to| Span { from: at(from), to: at(to) };
        let reach = Reach {
            since: vec![
                (Route::Jobs, at("2026-03-01T10:00:00Z")),
                (Route::Leads, at("2026-03-02T10:00:00Z")),
            ],
            holes: vec![(Route::Leads, span("2026-03-05T01:00:00Z", "2026-03-05T02:00:00Z"))],
        };
        let both = [Route::Jobs, Route::Leads];
        assert_eq!(reach.since(&both), Some(at("2026-03-02T10:00:00Z")));
        assert_eq!(reach.since(&[Route::Payments]), None);
        let first = span("2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z");
        assert!(!reach.covers(&[Route::Jobs], first));
        let with_gap = span("2026-03-05T00:00:00Z", "2026-03-06T00:00:00Z");
        assert!(reach.covers(&[Route::Jobs], with_gap) && !reach.covers(&both, with_gap));
        let next = span("2026-03-06T00:00:00Z", "2026-03-07T00:00:00Z");
        assert!(reach.covers(&both, next) && !reach.covers(&[Route::Payments], next));
        assert!(!reach.is_settled(at("2026-03-06T00:00:00Z")));
        assert!(reach.is_settled(at("2026-09-01T00:00:00Z")));
    }
}
