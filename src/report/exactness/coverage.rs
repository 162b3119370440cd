//! How complete the mirror is for a time of one list: since when it has everything, where gaps are,
//! until when it was read.
//!
//! If a time is not wholly known, a number of it is at least what was counted; if nothing was
//! counted, it is unknown, never zero.

use jiff::Timestamp;
use shopmirror_core::record::Route;

use super::Exactness;
use crate::store::{Gap, GapState, PollerRow};

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
}

impl BusinessChoice {
    pub(super) fn covers(&self, business: Option<&str>) -> bool {
        self.asked.is_none() || business.or(self.default.as_deref()) == self.asked.as_deref()
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
    /// Times of which records may be missing, the earliest first.
    pub gaps: Vec<(Timestamp, Timestamp)>,
}

impl Coverage {
    /// What was known at `now` of the records of a route.
    pub(in crate::report) fn of(
        route: Route,
        pollers: &[PollerRow],
        gaps: &[Gap],
        business: &BusinessChoice,
        now: Timestamp,
    ) -> Self {
        let own = |name: &str, of: Option<&str>| name == route.as_str() && business.covers(of);
        let pollers = || {
            pollers
                .iter()
                .filter(|row| own(&row.route, row.business.as_deref()))
        };
        let time = |text: &str| text.parse::<Timestamp>().ok();
        let mut gaps: Vec<(Timestamp, Timestamp)> = gaps
            .iter()
            .filter(|gap| own(&gap.route, gap.business.as_deref()))
            .filter(|gap| gap.state != GapState::Repaired)
            .filter_map(|gap| Some((time(&gap.from_at)?, time(&gap.to_at)?)))
            .collect();
        gaps.sort_unstable();
        // Since then another poller has read the same business, under its other name.
        let is_replaced = |row: &&PollerRow| {
            pollers().any(|other| {
                row.served_business.is_some()
                    && other.served_business == row.served_business
                    && other.last_success_at > row.last_success_at
            })
        };
        let current = pollers().filter(|row| !is_replaced(row) && !row.is_gone(pollers()));
        let read = current.filter_map(|row| time(&row.last_success_at));
        Self {
            route,
            read_at: read.map(|at| at.min(now)).min(),
            since: pollers()
                .filter_map(|row| time(row.complete_since.as_deref()?))
                .max(),
            gaps,
        }
    }

    /// How much is known of the records that were created from `from` until `to`, seen at `now`. A
    /// time that is not over is known if it was read up to some moment of it.
    pub(in crate::report) fn knows(&self, from: Timestamp, to: Timestamp, now: Timestamp) -> Known {
        let Some(read_at) = self
            .read_at
            .filter(|read_at| *read_at >= from && from < now)
        else {
            return Known::Not;
        };
        let to = if to > now { read_at } else { to };
        let before = self.since.map(|since| (Timestamp::MIN, since));
        let after = (read_at, Timestamp::MAX);
        let mut at = from;
        let mut is_partly_known = from == to;
        let mut is_whole = true;
        for (start, end) in before
            .into_iter()
            .chain(self.gaps.iter().copied())
            .chain([after])
        {
            let start = start.max(from);
            let end = end.min(to);
            if start < end {
                is_whole = false;
                is_partly_known |= start > at;
                at = at.max(end);
            }
        }
        match (is_whole, is_partly_known || at < to) {
            (true, _) => Known::Wholly,
            (false, true) => Known::Partly,
            (false, false) => Known::Not,
        }
    }
}

impl Known {
    /// What is known of two times together, or by two lists of one time.
    pub(in crate::report) fn with(self, other: Self) -> Self {
        if self == other { self } else { Self::Partly }
    }

    /// How sure a count of this time is; `can_only_grow` if what is missing could not make it less.
    pub(in crate::report) fn exactness(self, count: Option<f64>, can_only_grow: bool) -> Exactness {
        match self {
            Self::Wholly => Exactness::Exact,
            _ if can_only_grow && count.is_some_and(|count| count > 0.0) => Exactness::AtLeast,
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
            gaps: gaps.iter().map(|(from, to)| (at(from), at(to))).collect(),
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
        let day = |from: &str, to: &str| {
            known.knows(
                at(&format!("{from}T00:00")),
                at(&format!("{to}T00:00")),
                now,
            )
        };
        assert_eq!(day("02", "03"), Known::Not, "before the mirror began");
        assert_eq!(day("03", "04"), Known::Partly, "it began at noon");
        assert_eq!(day("04", "05"), Known::Wholly);
        assert_eq!(day("05", "06"), Known::Partly, "an hour is missing");
        assert_eq!(day("07", "08"), Known::Not, "two gaps meet in it");
        assert_eq!(day("10", "20"), Known::Wholly);
        assert_eq!(day("20", "21"), Known::Wholly, "today, up to now");
        assert_eq!(day("21", "22"), Known::Not, "tomorrow");
        assert_eq!(day("01", "11"), Known::Partly);
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
            };
            let found = Coverage::of(Route::Jobs, pollers, &[], &business, at("20T00:00"));
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
