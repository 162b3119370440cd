//! What is known of the lists that a report reads, for each time that its columns count.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use shopmirror_core::clock::second;
use shopmirror_core::contiguity::Order;
use shopmirror_core::record::Route;

use super::coverage::{BusinessChoice, Coverage, Known, OLD};
use super::gone;
use super::standing::{JobLists, Unseen};
use crate::report::head::{CountedTime, Report};
use crate::report::uses::Uses;
use crate::store::{Reader, ReportDay, StoreError};

/// After this long every open record has been seen at least once, because it was changed.
pub(super) const SETTLED: SignedDuration = SignedDuration::from_hours(180 * 24);

/// What is known of the lists that a report reads.
pub(in crate::report) struct Knowledge {
    /// Each list.
    pub(in crate::report) coverages: Vec<Coverage>,
    /// The routes whose records name their job, as far as there are records.
    pub(in crate::report) linked: Vec<Route>,
    /// When jobs that are not in the mirror were completed in these days, the earliest first.
    pub(in crate::report) unknown_jobs: Vec<String>,
    /// Notes about records that are gone from their list.
    pub(in crate::report) gone: Vec<String>,
    /// The days that the report counts.
    pub(in crate::report) days: Vec<ReportDay>,
    /// The routes whose lists do not show an old record again after an edit, as far as is known.
    pub(in crate::report) hiding_edits: Vec<Route>,
    /// What may have happened to repairs unseen.
    pub(in crate::report) unseen: Unseen,
    /// The time of the question.
    pub(in crate::report) now: Timestamp,
}

impl Knowledge {
    /// What the mirror knows now of these routes; the completions of unknown jobs are left out. With
    /// jobs among them it makes the table `unheard` of the connection.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(in crate::report) fn read(
        reader: &Reader,
        routes: &[Route],
        business: &BusinessChoice,
        days: Vec<ReportDay>,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let pollers = reader.pollers()?;
        let gaps = reader.gaps()?;
        let imports = reader.complete_imports()?;
        let gone = gone::notes(reader, routes, &pollers, business, &days)?;
        let mut coverages = Vec::with_capacity(routes.len());
        for route in routes {
            coverages.push(Coverage::of(
                *route, &pollers, &gaps, &imports, business, now,
            ));
        }
        let mut hiding_edits = Vec::new();
        for row in &pollers {
            for route in routes {
                let is_own = business.covers(*route, &row.route, row.business.as_deref());
                if is_own && row.profile.order.order() != Order::ByChange {
                    hiding_edits.push(*route);
                }
            }
        }
        let unlinked = reader.unlinked_routes()?;
        let mut linked = vec![Route::JobStatusChanges, Route::Payments];
        linked.retain(|route| !unlinked.contains(route));
        let mut known = Self {
            coverages,
            linked,
            unknown_jobs: Vec::new(),
            gone,
            days,
            hiding_edits,
            unseen: Unseen::default(),
            now,
        };
        let is_linked = known.linked.contains(&Route::JobStatusChanges);
        if let Some(jobs) = known.of(Route::Jobs) {
            let lists = JobLists {
                pollers: &pollers,
                gaps: &gaps,
                business,
                jobs,
                changes: known.of(Route::JobStatusChanges).filter(|_| is_linked),
                now,
            };
            known.unseen = Unseen::read(reader, &lists)?;
        }
        Ok(known)
    }

    pub(super) fn of(&self, route: Route) -> Option<&Coverage> {
        self.coverages.iter().find(|known| known.route == route)
    }

    /// How much is known of the records of a list that are open now, such as repairs. One from
    /// before the mirror began, or from a gap, is missing if it did not change since; after half a
    /// year there is hardly one. A list that was read earlier than the others lacks the newer ones.
    pub(super) fn knows_standing(&self, route: Route, as_of: Timestamp) -> Known {
        let Some(list) = self.of(route) else {
            return Known::Not;
        };
        let Some(read_at) = list.read_at else {
            return Known::Not;
        };
        if as_of.duration_since(read_at) > OLD {
            return Known::Partly;
        }
        let gaps = list.gaps.iter().map(|(_, to)| *to);
        for missing_until in gaps.chain(list.since) {
            if self.now.duration_since(missing_until) < SETTLED {
                return Known::Partly;
            }
        }
        Known::Wholly
    }

    /// Whether status changes or payments of the mirrored jobs may be missing, so that the current
    /// state of these jobs is not sure. What was missed half a year ago hardly matters.
    pub(super) fn lacks(&self, route: Route, as_of: Timestamp) -> bool {
        if !self.linked.contains(&route) {
            return true;
        }
        let Some(list) = self.of(route) else {
            return true;
        };
        let Some(read_at) = list.read_at else {
            return true;
        };
        if as_of.duration_since(read_at) > OLD {
            return true;
        }
        let jobs_since = self.of(Route::Jobs).and_then(|jobs| jobs.since);
        for (_, to) in &list.gaps {
            let is_before_jobs = jobs_since.is_some_and(|since| *to <= since);
            if !is_before_jobs && self.now.duration_since(*to) < SETTLED {
                return true;
            }
        }
        false
    }

    /// The moment that numbers of these lists are about: when one of them was last read. A list
    /// that was read long before the others does not know it.
    pub(in crate::report) fn as_of(&self, routes: &[Route]) -> Timestamp {
        let lists = routes.iter().filter_map(|route| self.of(*route));
        let read = lists.filter_map(|list| list.read_at);
        read.max().unwrap_or(self.now)
    }

    /// The same, if it is so long ago that a number must say it.
    pub(in crate::report) fn stands_still_since(&self, routes: &[Route]) -> Option<Timestamp> {
        let as_of = self.as_of(routes);
        (self.now.duration_since(as_of) > OLD).then_some(as_of)
    }

    /// Whether status changes or payments of the mirrored jobs are missing that matter now.
    pub(super) fn lacks_states(&self, uses: &Uses) -> bool {
        let as_of = self.as_of(&uses.routes);
        uses.states && self.lacks(Route::JobStatusChanges, as_of)
            || uses.paid_sums && self.lacks(Route::Payments, as_of)
    }

    /// How much is known of all that a column adds up.
    pub(super) fn whole_of(&self, report: &Report, uses: &Uses, column: &str) -> Known {
        let as_of = self.as_of(&uses.routes);
        self.periods_of(&report.counted_routes(column), as_of).whole
    }

    /// What all of the routes know of each day, week or month, and of all of them together.
    pub(super) fn periods_of(
        &self,
        routes: &[(Route, CountedTime)],
        as_of: Timestamp,
    ) -> PeriodsKnown<'_> {
        let mut periods = HashMap::new();
        for days in self.days.chunk_by(|a, b| a.period == b.period) {
            let known = self.knows_all(routes, days, as_of);
            periods.insert(days[0].period.as_str(), known);
        }
        PeriodsKnown {
            periods,
            whole: self.knows_all(routes, &self.days, as_of),
        }
    }

    /// How many of the repairs that were completed in each day, week or month may have been opened
    /// again unseen.
    pub(super) fn reopened(&self) -> Reopened<'_> {
        let mut periods = HashMap::new();
        for days in self.days.chunk_by(|a, b| a.period == b.period) {
            let most = self.unseen.reopened_after(days[0].from);
            periods.insert(days[0].period.as_str(), most);
        }
        let from = self.days.first().map_or(Timestamp::MIN, |day| day.from);
        Reopened {
            periods,
            whole: self.unseen.reopened_after(from),
        }
    }

    /// What all of the routes know of these days. What is to come does not make the days before it
    /// unknown.
    fn knows_all(
        &self,
        routes: &[(Route, CountedTime)],
        days: &[ReportDay],
        as_of: Timestamp,
    ) -> Known {
        let mut all: Option<Known> = None;
        for (index, day) in days.iter().enumerate() {
            if index > 0 && day.from >= self.now {
                break;
            }
            let mut known = Known::Wholly;
            for (route, time) in routes {
                known = known.min(self.knows(*route, *time, (day.from, day.to), as_of));
            }
            all = Some(match all {
                Some(before) => before.with(known),
                None => known,
            });
        }
        all.unwrap_or(Known::Wholly)
    }

    fn knows(
        &self,
        route: Route,
        time: CountedTime,
        (from, to): (Timestamp, Timestamp),
        as_of: Timestamp,
    ) -> Known {
        if route == Route::JobStatusChanges && !self.linked.contains(&route) {
            return Known::Not;
        }
        let Some(coverage) = self.of(route) else {
            return Known::Not;
        };
        let known = match time {
            CountedTime::Period => coverage.knows(from, to, as_of),
            CountedTime::Before => {
                let before = coverage.knows(Timestamp::MIN, to, as_of);
                before.min(coverage.knows(from, to, as_of))
            }
            CountedTime::After => coverage.knows(from, Timestamp::MAX, as_of),
            CountedTime::Standing => self.knows_standing(route, as_of),
            CountedTime::Stood => {
                // After half a year there is hardly one that was not seen.
                let begin = to.min(as_of).checked_sub(SETTLED).unwrap_or(Timestamp::MIN);
                coverage.knows(begin, to, as_of)
            }
        };
        if route == Route::JobStatusChanges && self.lacks_jobs(from, to) {
            known.min(Known::Partly)
        } else {
            known
        }
    }

    /// Whether a job that is not in the mirror was completed in a time.
    fn lacks_jobs(&self, from: Timestamp, to: Timestamp) -> bool {
        let [from, to] = [from, to].map(second);
        let first = self.unknown_jobs.partition_point(|at| *at < from);
        self.unknown_jobs.get(first).is_some_and(|at| *at < to)
    }
}

/// What is known of each day, week or month.
pub(super) struct PeriodsKnown<'a> {
    pub(super) periods: HashMap<&'a str, Known>,
    pub(super) whole: Known,
}

/// How many repairs may have been opened again since each day, week or month; `None` if nothing
/// limits it.
pub(super) struct Reopened<'a> {
    periods: HashMap<&'a str, Option<u64>>,
    pub(super) whole: Option<u64>,
}

impl Reopened<'_> {
    /// Of those that were completed in a period; without one, in all days.
    pub(super) fn of(&self, period: Option<&str>) -> Option<u64> {
        match period.and_then(|period| self.periods.get(period)) {
            Some(most) => *most,
            None => self.whole,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-12-01T10:00:00Z";

    fn list(route: Route, since: Option<&str>, gaps: &[(&str, &str)]) -> Coverage {
        let at = |text: &str| text.parse().unwrap();
        let gaps = gaps.iter().map(|(from, to)| (at(from), at(to))).collect();
        Coverage {
            route,
            read_at: Some(at(NOW)),
            since: since.map(at),
            is_by_import: false,
            gaps,
            imports: Vec::new(),
        }
    }

    fn lists(coverages: Vec<Coverage>) -> Knowledge {
        Knowledge {
            coverages,
            linked: vec![Route::JobStatusChanges],
            unknown_jobs: Vec::new(),
            gone: Vec::new(),
            days: Vec::new(),
            hiding_edits: Vec::new(),
            unseen: Unseen::default(),
            now: NOW.parse().unwrap(),
        }
    }

    #[test]
    fn what_stands_is_known_whole_after_half_a_year_or_if_the_first_page_held_all() {
        let of =
            |jobs: Coverage| lists(vec![jobs]).knows_standing(Route::Jobs, NOW.parse().unwrap());
        let jobs = |since, gaps: &[_]| list(Route::Jobs, since, gaps);
        assert_eq!(of(jobs(Some("2026-09-01T00:00:00Z"), &[])), Known::Partly);
        assert_eq!(of(jobs(Some("2026-03-01T00:00:00Z"), &[])), Known::Wholly);
        assert_eq!(of(jobs(None, &[])), Known::Wholly);
        let gap = ("2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z");
        assert_eq!(of(jobs(None, &[gap])), Known::Partly);
        let old = Some("2026-12-01T09:00:00Z".parse().unwrap());
        assert_eq!(
            of(Coverage {
                read_at: old,
                ..jobs(None, &[])
            }),
            Known::Partly
        );
        assert_eq!(
            of(Coverage {
                read_at: None,
                ..jobs(None, &[])
            }),
            Known::Not
        );
    }

    #[test]
    fn states_are_not_sure_without_all_status_changes_since_jobs_are_mirrored() {
        let changes = |gaps: &[_]| list(Route::JobStatusChanges, None, gaps);
        let of = |changes: Coverage| lists(vec![list(Route::Jobs, None, &[]), changes]);
        let lacks = |lists: Knowledge| lists.lacks(Route::JobStatusChanges, NOW.parse().unwrap());
        let gap = ("2026-11-10T00:00:00Z", "2026-11-12T00:00:00Z");
        assert!(!lacks(of(changes(&[]))) && lacks(of(changes(&[gap]))));
        assert!(lacks(Knowledge {
            linked: Vec::new(),
            ..of(changes(&[]))
        }));
        let old = Some("2026-11-30T10:00:00Z".parse().unwrap());
        assert!(lacks(of(Coverage {
            read_at: old,
            ..changes(&[])
        })));
    }
}
