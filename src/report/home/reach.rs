//! What is known of the numbers of Home: as reports know it, for all businesses.

use jiff::{SignedDuration, Timestamp};

use super::span::Span;
use crate::record::Route;
use crate::report::completeness::{BusinessChoice, Coverage, Known};
use crate::store::{Reader, StoreError};

/// Since when every list is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompleteSince {
    /// A list was never read.
    NotYet,
    /// From the first record on.
    Always,
    /// Since this time.
    Time(Timestamp),
}

/// What is known of each list.
pub(super) struct Reach {
    lists: Vec<Coverage>,
    now: Timestamp,
}

impl Reach {
    pub(super) fn read(reader: &Reader, now: Timestamp) -> Result<Self, StoreError> {
        let (pollers, gaps) = (reader.pollers()?, reader.gaps()?);
        let all = BusinessChoice::default();
        let of = |route: Route| Coverage::of(route, &pollers, &gaps, &all, now);
        Ok(Self { lists: Route::ALL.into_iter().map(of).collect(), now })
    }

    /// How much is known of what came into these lists in a time.
    pub(super) fn knows(&self, routes: &[Route], span: Span) -> Known {
        let asked = self.lists.iter().filter(|list| routes.contains(&list.route));
        asked.map(|list| list.knows(span.from, span.to, self.now)).min().unwrap_or(Known::Not)
    }

    /// As [`Self::knows`], for the time up to now.
    pub(super) fn knows_since(&self, routes: &[Route], ago: SignedDuration) -> Known {
        let from = self.now.checked_sub(ago).unwrap_or(Timestamp::MIN);
        // Up to the last reading, as today is.
        self.knows(routes, Span { from, to: Timestamp::MAX })
    }

    /// How much was known at a time of the repairs that were open then.
    pub(super) fn knows_open(&self, at: Timestamp) -> Known {
        let jobs = self.lists.iter().find(|list| list.route == Route::Jobs);
        jobs.map_or(Known::Not, |jobs| jobs.knows_standing(at))
    }

    pub(super) fn complete_since(&self) -> CompleteSince {
        if self.lists.iter().any(|list| list.read_at.is_none()) {
            return CompleteSince::NotYet;
        }
        let latest = self.lists.iter().filter_map(|list| list.since).max();
        latest.map_or(CompleteSince::Always, CompleteSince::Time)
    }

    /// How many gaps were not repaired.
    pub(super) fn gaps(&self) -> usize {
        self.lists.iter().map(|list| list.gaps.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_repairs_are_known_whole_after_half_a_year_or_if_the_first_page_held_all() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let (begin, now) = (at("2026-03-01T10:00:00Z"), at("2026-12-01T10:00:00Z"));
        let jobs = Coverage {
            route: Route::Jobs,
            read_at: Some(now),
            since: Some(begin),
            behind: Vec::new(),
            gaps: Vec::new(),
        };
        let reach = |jobs: Coverage| Reach { lists: vec![jobs], now };
        let known = |day: &str| reach(jobs.clone()).knows_open(at(day));
        assert_eq!(known("2026-02-28T00:00:00Z"), Known::Not);
        assert_eq!(known("2026-03-02T00:00:00Z"), Known::Partly);
        assert_eq!(known("2026-09-01T00:00:00Z"), Known::Wholly);
        let whole = reach(Coverage { since: None, ..jobs.clone() });
        assert_eq!(whole.knows_open(begin), Known::Wholly);
        assert_eq!(whole.complete_since(), CompleteSince::Always);
        let unread = reach(Coverage { read_at: None, ..jobs });
        assert_eq!(unread.complete_since(), CompleteSince::NotYet);
        assert_eq!(unread.knows_open(now), Known::Not);
    }
}
