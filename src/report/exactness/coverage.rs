//! How complete the mirror is for a time of one list: since when it has everything, where gaps are,
//! until when it was read.
//!
//! If a time is not wholly known, a number of it is at least what was counted; if nothing was
//! counted, it is unknown, never zero.

use jiff::{SignedDuration, Timestamp};
use shopmirror_core::record::Route;

use super::Exactness;
use crate::report::head::Missing;
use crate::store::{CompleteImport, Gap, GapState, PollerRow};

/// A list that was not read for longer than this is named, and does not show how things are now.
pub(super) const OLD: SignedDuration = SignedDuration::from_mins(10);

/// How much of a time is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::report) enum Known {
    /// Unknown; some records may have been seen by chance.
    Not,
    /// Those of a part of it.
    Partly,
    /// Every record that was created in it.
    Wholly,
}

/// Which records are asked for: those of all businesses, or of one.
#[derive(Debug, Clone, Default)]
pub(in crate::report) struct BusinessChoice {
    /// The one that is asked for.
    pub asked: Option<String>,
    /// The one that answers for the workspace default, if a response has named it.
    pub default: Option<String>,
    /// The routes of which the records of every business are read, whatever is asked for.
    pub every: Vec<Route>,
}

impl BusinessChoice {
    /// Whether a list of the route `name` and of this business is one of `route` that is asked for.
    pub(super) fn covers(&self, route: Route, name: &str, business: Option<&str>) -> bool {
        if name != route.as_str() {
            return false;
        }
        self.asked.is_none()
            || self.every.contains(&route)
            || business.or(self.default.as_deref()) == self.asked.as_deref()
    }
}

/// What is known of the records of one route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::report) struct Coverage {
    /// The route.
    pub route: Route,
    /// Up to when it was read of every business; `None` if never.
    pub read_at: Option<Timestamp>,
    /// Since when it is complete; `None` if its first page held the whole list.
    pub since: Option<Timestamp>,
    /// Whether the records since then are complete because the operator says so of an import.
    pub is_by_import: bool,
    /// Times of which records may be missing, the earliest first.
    pub gaps: Vec<(Timestamp, Timestamp)>,
    /// Imports that no page showed whole.
    pub imports: Vec<PartlySeenImport>,
}

/// An import of older records, of which some may be missing until the operator accepts its gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::report) struct PartlySeenImport {
    /// The oldest date that was shown of it.
    pub from: Timestamp,
    /// Until when its missed records may have been created.
    pub until: Timestamp,
    /// Whether they may be older than what was shown.
    pub may_be_older: bool,
}

impl PartlySeenImport {
    fn of_gap(gap: &Gap) -> Option<Self> {
        if !gap.is_unsettled() {
            return None;
        }
        Some(Self {
            from: time(gap.imported_from.as_ref()?)?,
            until: time(&gap.to_at)?,
            may_be_older: gap.import_may_be_older,
        })
    }

    /// The time of which records may be missing.
    fn unsure(&self) -> (Timestamp, Timestamp) {
        let from = if self.may_be_older {
            Timestamp::MIN
        } else {
            self.from
        };
        (from, self.until)
    }
}

impl Coverage {
    /// What was known at `now` of the records of a route.
    pub(in crate::report) fn of(
        route: Route,
        pollers: &[PollerRow],
        gaps: &[Gap],
        complete_imports: &[CompleteImport],
        business: &BusinessChoice,
        now: Timestamp,
    ) -> Self {
        let mut unsure = Vec::new();
        let mut imports = Vec::new();
        for gap in gaps {
            let is_own = business.covers(route, &gap.route, gap.business.as_deref());
            if !is_own || gap.state == GapState::Repaired {
                continue;
            }
            if let (Some(from), Some(to)) = (time(&gap.from_at), time(&gap.to_at)) {
                unsure.push((from, to));
            }
            imports.extend(PartlySeenImport::of_gap(gap));
        }
        unsure.sort_unstable();
        let mut own = Vec::new();
        for row in pollers {
            if business.covers(route, &row.route, row.business.as_deref()) {
                own.push(row);
            }
        }
        let mut read = Vec::new();
        let mut since = None;
        for row in &own {
            since = since.max(complete_since(row, complete_imports));
            if !is_replaced(row, &own) && !row.is_gone(own.iter().copied()) {
                read.extend(time(&row.last_success_at));
            }
        }
        Self {
            route,
            read_at: read.into_iter().min().map(|at| at.min(now)),
            since: since.map(|(since, _)| since),
            is_by_import: since.is_some_and(|(_, is_by_import)| is_by_import),
            gaps: unsure,
            imports,
        }
    }

    /// How much is known of the records that were created from `from` until `to`, or until `as_of`
    /// if that is earlier.
    pub(in crate::report) fn knows(
        &self,
        from: Timestamp,
        to: Timestamp,
        as_of: Timestamp,
    ) -> Known {
        let Some(read_at) = self.read_at else {
            return Known::Not;
        };
        if read_at < from || as_of < from {
            return Known::Not;
        }
        // Of a time that is not over, rows of one business may be newer than the last page of another
        // one. A gap among them counts.
        let shown_until = to.min(as_of);
        let mut to = shown_until;
        // The lists are read in turn: as of a moment means some minutes before it for some.
        if read_at < to && as_of.duration_since(read_at) <= OLD && to == as_of {
            to = read_at;
        }
        let mut unsure = self.gaps.clone();
        if let Some(since) = self.since {
            unsure.push((Timestamp::MIN, since));
        }
        for import in &self.imports {
            unsure.push(import.unsure());
        }
        unsure.push((read_at, Timestamp::MAX));
        unsure.sort_unstable();
        let mut at = from;
        let mut is_partly_known = from == to;
        let mut is_whole = true;
        for (start, end) in &self.gaps {
            is_whole &= (*start).max(from) >= (*end).min(shown_until);
        }
        for (start, end) in unsure {
            let start = start.max(from);
            let end = end.min(to);
            if start < end {
                is_whole = false;
                is_partly_known |= start > at;
                at = at.max(end);
            }
        }
        if is_whole {
            Known::Wholly
        } else if is_partly_known || at < to {
            Known::Partly
        } else {
            Known::Not
        }
    }
}

/// Since when the list of a poller is complete, and whether by an import; `None` if its first page
/// held the whole list.
fn complete_since(row: &PollerRow, imports: &[CompleteImport]) -> Option<(Timestamp, bool)> {
    let since = time(row.complete_since.as_deref()?)?;
    match imports.iter().find(|import| import.is_of(row)) {
        Some(import) if import.since < since => Some((import.since, true)),
        _ => Some((since, false)),
    }
}

/// Whether another poller has read the same business since then, under its other name.
fn is_replaced(row: &PollerRow, pollers: &[&PollerRow]) -> bool {
    if row.served_business.is_none() {
        return false;
    }
    pollers.iter().any(|other| {
        other.served_business == row.served_business && other.last_success_at > row.last_success_at
    })
}

/// A moment of the store; `None` if its text is none.
pub(super) fn time(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

impl Known {
    /// What is known of two times together, or by two lists of one time.
    pub(in crate::report) fn with(self, other: Self) -> Self {
        if self == other { self } else { Self::Partly }
    }

    /// How sure a number of this time is.
    pub(super) fn exactness(self, number: Option<f64>, missing: Missing) -> Exactness {
        if self == Self::Wholly {
            return Exactness::Exact;
        }
        match (missing, number) {
            (Missing::More, Some(number)) if number > 0.0 => Exactness::AtLeast,
            (Missing::Sample, Some(_)) => Exactness::About,
            _ => Exactness::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(day: &str) -> Timestamp {
        format!("2026-03-{day}:00Z").parse().unwrap()
    }

    fn coverage(since: Option<&str>, read_at: &str, gaps: &[(&str, &str)]) -> Coverage {
        Coverage {
            route: Route::Jobs,
            read_at: Some(at(read_at)),
            since: since.map(at),
            is_by_import: false,
            gaps: gaps.iter().map(|(from, to)| (at(from), at(to))).collect(),
            imports: Vec::new(),
        }
    }

    #[test]
    fn a_day_is_known_from_the_start_of_the_mirror_to_its_last_reading_but_for_gaps() {
        let gaps = [
            ("05T10:00", "05T11:00"),
            ("06T12:00", "07T12:00"),
            ("07T12:00", "09T01:00"),
        ];
        let known = coverage(Some("03T12:00"), "20T08:00", &gaps);
        let now = at("20T08:01");
        let at_noon = at("20T12:00");
        let seen = |from: &str, to: &str, as_of| {
            known.knows(
                at(&format!("{from}T00:00")),
                at(&format!("{to}T00:00")),
                as_of,
            )
        };
        let day = |from: &str, to: &str| seen(from, to, now);
        assert_eq!(day("02", "03"), Known::Not, "before the mirror began");
        assert_eq!(day("03", "04"), Known::Partly, "it began at noon");
        assert_eq!(day("04", "05"), Known::Wholly);
        assert_eq!(day("05", "06"), Known::Partly, "an hour is missing");
        assert_eq!(day("07", "08"), Known::Not, "two gaps meet in it");
        assert_eq!(day("10", "20"), Known::Wholly);
        assert_eq!(day("20", "21"), Known::Wholly, "today, up to now");
        assert_eq!(
            seen("20", "21", at_noon),
            Known::Partly,
            "another list was read four hours later"
        );
        assert_eq!(day("21", "22"), Known::Not, "tomorrow");
        assert_eq!(day("01", "11"), Known::Partly);
    }

    #[test]
    fn a_list_of_which_every_business_is_read_is_known_as_far_as_each_of_them() {
        let poller = |business: &str, read: &str| PollerRow {
            route: "customers".to_owned(),
            business: Some(business.to_owned()),
            last_success_at: at(read).to_string(),
            ..PollerRow::default()
        };
        let pollers = [poller("8", "19T00:00"), poller("9", "18T00:00")];
        let read_at = |every: &[Route]| {
            let business = BusinessChoice {
                asked: Some("8".to_owned()),
                default: None,
                every: every.to_vec(),
            };
            let now = at("20T00:00");
            Coverage::of(Route::Customers, &pollers, &[], &[], &business, now).read_at
        };
        assert_eq!(read_at(&[]), Some(at("19T00:00")));
        assert_eq!(read_at(&[Route::Customers]), Some(at("18T00:00")));
    }

    #[test]
    fn a_gap_in_one_business_counts_at_once_though_another_one_was_not_read_since() {
        let gaps = [("20T08:00", "20T08:02")];
        let known = coverage(None, "20T07:59", &gaps);
        let today = |now| known.knows(at("20T00:00"), at("21T00:00"), at(now));
        assert_eq!(today("20T08:02"), Known::Partly);
        assert_eq!(today("20T07:59"), Known::Wholly, "before the gap");
    }

    #[test]
    fn an_import_that_no_page_showed_whole_makes_the_days_unsure_to_which_it_may_reach() {
        let import = |may_be_older| Coverage {
            imports: vec![PartlySeenImport {
                from: at("05T12:00"),
                until: at("20T07:00"),
                may_be_older,
            }],
            ..coverage(None, "20T08:00", &[("20T06:00", "20T07:00")])
        };
        let day = |import: &Coverage, from: &str, to: &str| {
            import.knows(
                at(&format!("{from}T00:00")),
                at(&format!("{to}T00:00")),
                at("20T08:01"),
            )
        };
        let ends = import(false);
        assert_eq!(day(&ends, "04", "05"), Known::Wholly);
        assert_eq!(day(&ends, "05", "06"), Known::Partly);
        assert_eq!(day(&ends, "10", "11"), Known::Not);
        assert_eq!(day(&ends, "20", "21"), Known::Partly);
        let open = import(true);
        assert_eq!(day(&open, "04", "05"), Known::Not);
        assert_eq!(day(&open, "20", "21"), Known::Partly);
    }

    #[test]
    fn the_coverage_of_several_businesses_is_what_all_of_them_know() {
        let poller = |business: Option<&str>, since: Option<&str>, read: &str| PollerRow {
            route: "jobs".to_owned(),
            business: business.map(str::to_owned),
            first_polled_at: at("01T00:00").to_string(),
            complete_since: since.map(|since| at(since).to_string()),
            last_success_at: at(read).to_string(),
            page_limit: 100,
            served_business: business.is_none().then(|| "1".to_owned()),
            ..PollerRow::default()
        };
        let pollers = [
            poller(None, Some("02T00:00"), "18T00:00"),
            poller(Some("2"), None, "19T00:00"),
            poller(Some("closed"), None, "11T00:00"),
        ];
        let of = |pollers: &[PollerRow], asked: Option<&str>| {
            let business = BusinessChoice {
                asked: asked.map(str::to_owned),
                default: Some("1".to_owned()),
                every: Vec::new(),
            };
            let now = at("20T00:00");
            let found = Coverage::of(Route::Jobs, pollers, &[], &[], &business, now);
            (found.since, found.read_at)
        };
        let coverage = |asked| of(&pollers, asked);
        let since = Some(at("02T00:00"));
        assert_eq!(coverage(None), (since, Some(at("18T00:00"))));
        assert_eq!(coverage(Some("1")), (since, Some(at("18T00:00"))));
        assert_eq!(coverage(Some("2")), (None, Some(at("19T00:00"))));
        assert_eq!(coverage(Some("3")), (None, None), "no poller reads it");

        let mut renamed = [
            pollers[0].clone(),
            poller(Some("1"), Some("02T00:00"), "19T00:00"),
        ];
        renamed[1].served_business = Some("1".to_owned());
        assert_eq!(
            of(&renamed, Some("1")),
            (since, Some(at("19T00:00"))),
            "the other name is gone"
        );
    }
}
