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

    /// A number of the repairs that stood in some way at a time: open, ready, overdue.
    pub(super) fn standing(&self, count: f64, at: Timestamp) -> Cell {
        match (self.knows_present(Route::Jobs, at), self.knows_states(at)) {
            (Known::Not, _) => Cell::unknown(),
            (known, Known::Wholly) => known.count(count, true),
            (_, Known::Not) if at < self.now => Cell::unknown(),
            _ => Cell::of(count.into(), Exactness::About),
        }
    }

    /// As [`Self::knows_standing`], but a list lacks what came since it was read.
    pub(super) fn knows_present(&self, route: Route, at: Timestamp) -> Known {
        let known = self.knows_standing(route, at);
        let read_at = self.of(route).and_then(|list| list.read_at);
        match read_at.is_some_and(|read_at| at.duration_since(read_at) > OLD) {
            true => known.min(Known::Partly),
            false => known,
        }
    }

    /// How much was known at a time of the states of the mirrored repairs: without the status changes of some
    /// time the number of open ones is too high, or too low. None is known inside of that time.
    fn knows_states(&self, at: Timestamp) -> Known {
        let changes = self.of(Route::JobStatusChanges).filter(|_| self.is_linked);
        if changes.is_none_or(|changes| changes.since.is_some_and(|since| at < since)) {
            return Known::Not;
        }
        let missing = self.missing(Route::JobStatusChanges, at);
        match missing.iter().map(|(_, to)| *to).max() {
            None => Known::Wholly,
            Some(to) if to < at => Known::Partly,
            Some(_) => Known::Not,
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
        let begin = "2026-03-01T10:00:00Z";
        let changes = || list(Route::JobStatusChanges, None, &[]);
        let of = |since| reach(list(Route::Jobs, since, &[]), changes());
        let open = |day: &str| of(Some(begin)).standing(7.0, at(day));
        assert_eq!(open("2026-02-28T00:00:00Z"), Cell::unknown());
        assert_eq!(open("2026-03-02T00:00:00Z"), seven(Exactness::AtLeast));
        assert_eq!(open("2026-09-01T00:00:00Z"), seven(Exactness::Exact));
        let whole = of(None);
        assert_eq!(whole.standing(7.0, at(begin)), seven(Exactness::Exact));
        assert_eq!(whole.complete_since(&TimeZone::UTC), "Complete from the first record on");
        let unread = Coverage { read_at: None, ..list(Route::Jobs, None, &[]) };
        let unread = reach(unread, changes());
        assert_eq!(unread.complete_since(&TimeZone::UTC), "Not every list has been read so far");
        assert_eq!(unread.standing(0.0, at(NOW)), Cell::unknown());
        let gap = [("2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z")];
        let missed = reach(list(Route::Jobs, None, &gap), changes());
        assert_eq!(missed.standing(7.0, at(NOW)), seven(Exactness::AtLeast));
    }

    #[test]
    fn open_repairs_are_not_exact_without_all_status_changes_since_they_are_mirrored() {
        let jobs = || list(Route::Jobs, None, &[]);
        let gap = ("2026-11-10T00:00:00Z", "2026-11-12T00:00:00Z");
        let missed = reach(jobs(), list(Route::JobStatusChanges, None, &[gap]));
        let open = |day: &str| missed.standing(7.0, at(&format!("2026-11-{day}T12:00:00Z")));
        assert_eq!(open("09"), seven(Exactness::Exact));
        assert_eq!(open("11"), Cell::unknown());
        assert_eq!(open("13"), seven(Exactness::About));
        assert_eq!(missed.standing(7.0, at(NOW)), seven(Exactness::About));

        let unlinked =
            Lists { is_linked: false, ..reach(jobs(), list(Route::JobStatusChanges, None, &[])) };
        assert_eq!(unlinked.standing(7.0, at("2026-11-09T00:00:00Z")), Cell::unknown());
        assert_eq!(unlinked.standing(7.0, at(NOW)), seven(Exactness::About));

        let read_at = Some(at("2026-11-30T10:00:00Z"));
        let old = Coverage { read_at, ..list(Route::JobStatusChanges, None, &[]) };
        let old = reach(jobs(), old);
        assert_eq!(old.standing(7.0, at("2026-11-30T00:00:00Z")), seven(Exactness::Exact));
        assert_eq!(old.standing(7.0, at("2026-12-01T00:00:00Z")), Cell::unknown());
        assert_eq!(old.standing(7.0, at(NOW)), seven(Exactness::About));
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
