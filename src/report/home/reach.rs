//! What is known of the numbers of Home: as reports know it, for all businesses.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::record::Route;
use crate::report::completeness::{Cell, Exactness, Known, Lists, OLD};

impl Lists {
    /// How much is known of what came into these lists in a time.
    pub(super) fn knows(&self, routes: &[Route], from: Timestamp, to: Timestamp) -> Known {
        let asked = self.coverages.iter().filter(|list| routes.contains(&list.route));
        asked.map(|list| list.knows(from, to, self.now)).min().unwrap_or(Known::Not)
    }

    /// Why a number of these lists is unknown for a time, for the shop.
    pub(super) fn why(&self, routes: &[Route], from: Timestamp, zone: &TimeZone) -> String {
        let lists = || self.coverages.iter().filter(|list| routes.contains(&list.route));
        let since = lists().filter_map(|list| list.since).max().filter(|since| *since > from);
        if lists().any(|list| list.read_at.is_none()) {
            return "Not read yet.".to_owned();
        }
        since.map_or_else(
            || "Not all of it is known: see System.".to_owned(),
            |since| since.to_zoned(zone.clone()).strftime("Known from %-d %B %Y on.").to_string(),
        )
    }

    /// A number of the repairs that are open now: all, ready, overdue. A status change that is missing makes it
    /// too high or too low.
    pub(super) fn standing(&self, count: f64) -> Cell {
        let knows_states =
            self.is_linked && self.missing(Route::JobStatusChanges, self.now).is_empty();
        match self.knows_present(Route::Jobs) {
            Known::Not => Cell::unknown(),
            known if knows_states => known.count(count, true),
            _ => Cell::of(count.into(), Exactness::About),
        }
    }

    /// As [`Self::knows_standing`], but a list lacks what came since it was read.
    pub(super) fn knows_present(&self, route: Route) -> Known {
        let known = self.knows_standing(route, self.now);
        let read_at = self.of(route).and_then(|list| list.read_at);
        match read_at.is_some_and(|read_at| self.now.duration_since(read_at) > OLD) {
            true => known.min(Known::Partly),
            false => known,
        }
    }

    /// Since when every list is complete, for the shop.
    pub(super) fn complete_since(&self, zone: &TimeZone) -> String {
        if self.coverages.iter().any(|list| list.read_at.is_none()) {
            return "Not every list has been read so far".to_owned();
        }
        let Some(since) = self.coverages.iter().filter_map(|list| list.since).max() else {
            return "Complete from the first record on".to_owned();
        };
        since.to_zoned(zone.clone()).strftime("Complete since %-d %B %Y, %H:%M").to_string()
    }

    /// How many gaps were not repaired.
    pub(super) fn gaps(&self) -> usize {
        self.coverages.iter().map(|list| list.gaps.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::completeness::Coverage;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn list(route: Route, since: Option<&str>, gaps: &[(&str, &str)]) -> Coverage {
        let gaps = gaps.iter().map(|(from, to)| (at(from), at(to))).collect();
        Coverage { route, read_at: Some(at(NOW)), since: since.map(at), gaps }
    }

    fn seven(exactness: Exactness) -> Cell {
        Cell::of(7.0.into(), exactness)
    }

    const NOW: &str = "2026-12-01T10:00:00Z";

    fn reach(jobs: Coverage, changes: Coverage) -> Lists {
        Lists { coverages: vec![jobs, changes], is_linked: true, now: at(NOW) }
    }

    #[test]
    fn open_repairs_are_known_whole_after_half_a_year_or_if_the_first_page_held_all() {
        let of = |jobs: Coverage| reach(jobs, list(Route::JobStatusChanges, None, &[]));
        let open = |since, gaps: &[_]| of(list(Route::Jobs, since, gaps)).standing(7.0);
        assert_eq!(open(Some("2026-09-01T00:00:00Z"), &[]), seven(Exactness::AtLeast));
        assert_eq!(open(Some("2026-03-01T00:00:00Z"), &[]), seven(Exactness::Exact));
        assert_eq!(open(None, &[]), seven(Exactness::Exact));
        let gap = ("2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z");
        assert_eq!(open(None, &[gap]), seven(Exactness::AtLeast));
        let whole = of(list(Route::Jobs, None, &[]));
        assert_eq!(whole.complete_since(&TimeZone::UTC), "Complete from the first record on");
        let unread = of(Coverage { read_at: None, ..list(Route::Jobs, None, &[]) });
        assert_eq!(unread.complete_since(&TimeZone::UTC), "Not every list has been read so far");
        assert_eq!(unread.standing(0.0), Cell::unknown());
    }

    #[test]
    fn open_repairs_are_not_exact_without_all_status_changes_since_they_are_mirrored() {
        let jobs = || list(Route::Jobs, None, &[]);
        let changes = |gaps: &[_]| list(Route::JobStatusChanges, None, gaps);
        let gap = ("2026-11-10T00:00:00Z", "2026-11-12T00:00:00Z");
        assert_eq!(reach(jobs(), changes(&[gap])).standing(7.0), seven(Exactness::About));
        let unlinked = Lists { is_linked: false, ..reach(jobs(), changes(&[])) };
        assert_eq!(unlinked.standing(7.0), seven(Exactness::About));
        let old = Coverage { read_at: Some(at("2026-11-30T10:00:00Z")), ..changes(&[]) };
        assert_eq!(reach(jobs(), old).standing(7.0), seven(Exactness::About));
    }

    #[test]
    fn an_unknown_number_says_why() {
        let of = |coverage: Coverage| {
            let from = at("2026-12-01T00:00:00Z");
            let lists = Lists { coverages: vec![coverage], is_linked: true, now: at(NOW) };
            lists.why(&[Route::Jobs], from, &TimeZone::UTC)
        };
        let jobs = |since| list(Route::Jobs, since, &[]);
        assert_eq!(of(Coverage { read_at: None, ..jobs(None) }), "Not read yet.");
        assert_eq!(of(jobs(Some("2026-12-01T08:00:00Z"))), "Known from 1 December 2026 on.");
        assert_eq!(of(jobs(None)), "Not all of it is known: see System.");
    }
}
