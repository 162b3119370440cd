//! How complete the data behind a report is: the rows of its SELECT with how sure each number is,
//! and the line that says so.

use std::collections::HashMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use shopmirror_core::clock::second;
use shopmirror_core::record::Route;

use super::answer::{LIMITS, PERIOD, ReportError};
use super::completeness::{Cell, Coverage, Exactness, Known, Lists, OLD};
use super::head::{CountedTime, Report};
use super::value::number;
use crate::store::{Reader, ReportDay, SqlValue, missing_link};

/// What is known of the lists that a report reads.
pub(super) struct Horizon {
    pub(super) lists: Lists,
    /// When jobs that are not in the mirror were completed in these days, the earliest first.
    pub(super) unknown_jobs: Vec<String>,
    pub(super) days: Vec<ReportDay>,
}

impl Horizon {
    /// The rows of a report's SELECT, with how sure each number is.
    ///
    /// # Errors
    /// If the report cannot be answered, or the store cannot be read.
    pub(super) fn answer(
        &self,
        reader: &mut Reader,
        report: &Report,
        parameters: &[(String, SqlValue)],
    ) -> Result<(Vec<String>, Vec<Vec<Cell>>), ReportError> {
        self.refuse_what_is_not_sent(reader, report)?;
        let found = reader
            .query(&report.sql, parameters, LIMITS)
            .map_err(|error| ReportError::of_query(report, error))?;
        let rows = self.cells(report, &found.columns, found.rows);
        Ok((found.columns, rows))
    }

    fn refuse_what_is_not_sent(&self, reader: &Reader, report: &Report) -> Result<(), ReportError> {
        let mut missing = Vec::new();
        for (route, needed) in &report.needs {
            let sent = reader.columns(*route)?;
            let columns = needed.iter().filter(|column| !sent.contains(column));
            missing.extend(columns.map(|column| format!("{route}.{column}")));
        }
        let name = &report.name;
        if !missing.is_empty() {
            return Err(ReportError::NotSent(format!(
                "the report {name} needs {}, which the workspace has not sent so far; with it, it \
                 would show this: {}",
                missing.join(" and "),
                report.about
            )));
        }
        if report.needs_job_link && !self.lists.linked.contains(&Route::JobStatusChanges) {
            let missing = missing_link(Route::JobStatusChanges);
            return Err(ReportError::NotSent(format!(
                "the report {name} needs to know which job a status change belongs to: {missing}"
            )));
        }
        Ok(())
    }

    /// Up to when all of the lists were read.
    pub(super) fn as_of(&self) -> Timestamp {
        self.lists
            .coverages
            .iter()
            .filter_map(|known| known.read_at)
            .min()
            .unwrap_or(self.lists.now)
    }

    /// The rows with how sure each number is.
    pub(super) fn cells(
        &self,
        report: &Report,
        columns: &[String],
        rows: Vec<Vec<SqlValue>>,
    ) -> Vec<Vec<Cell>> {
        let period_column = columns.iter().position(|column| column == PERIOD);
        let lacks_states = self.lacks_states(report);
        let of_column = |name: &String| {
            let routes = report.counted_routes(name);
            if routes.is_empty() || report.is_list {
                return None;
            }
            // An open repair may be completed, and an amount paid, by a status change or a payment
            // that was missed.
            let is_of_now = |(_, time): &(Route, CountedTime)| {
                matches!(time, CountedTime::Standing | CountedTime::Before)
            };
            let is_about = lacks_states && routes.iter().any(is_of_now);
            Some((
                self.periods_of(&routes),
                report.can_only_grow(name),
                is_about,
            ))
        };
        let counted: Vec<_> = columns.iter().map(of_column).collect();
        let cells = |row: Vec<SqlValue>| {
            let period = period_column.and_then(|column| match &row[column] {
                SqlValue::Text(period) => Some(period.clone()),
                _ => None,
            });
            let cell = |(value, counted): (SqlValue, &Option<(PeriodsKnown<'_>, bool, bool)>)| {
                let Some((known, can_only_grow, is_about)) = counted else {
                    return Cell::of(value, Exactness::Exact);
                };
                let of_period = period
                    .as_ref()
                    .and_then(|period| known.periods.get(&**period));
                let known = of_period.unwrap_or(&known.whole);
                let exactness = match known.exactness(number(&value), *can_only_grow) {
                    Exactness::Exact | Exactness::AtLeast if *is_about => Exactness::About,
                    exactness => exactness,
                };
                Cell::of(value, exactness)
            };
            row.into_iter().zip(&counted).map(cell).collect()
        };
        rows.into_iter().map(cells).collect()
    }

    /// Whether status changes or payments of the mirrored jobs are missing that matter now.
    fn lacks_states(&self, report: &Report) -> bool {
        report.shows_states() && self.lists.lacks(Route::JobStatusChanges)
            || report.shows_paid_sums() && self.lists.lacks(Route::Payments)
    }

    /// How much is known of all that a column adds up.
    pub(super) fn whole_of(&self, report: &Report, column: &str) -> Known {
        self.periods_of(&report.counted_routes(column)).whole
    }

    /// What all of the routes know of each day, week or month, and of all of them together.
    fn periods_of(&self, routes: &[(Route, CountedTime)]) -> PeriodsKnown<'_> {
        let periods = self.days.chunk_by(|a, b| a.period == b.period);
        let known = |days: &'_ [ReportDay]| self.knows_all(routes, days);
        PeriodsKnown {
            periods: periods
                .map(|days| (days[0].period.as_str(), known(days)))
                .collect(),
            whole: known(&self.days),
        }
    }

    /// What all of the routes know of these days. What is to come does not make the days before it
    /// unknown.
    fn knows_all(&self, routes: &[(Route, CountedTime)], days: &[ReportDay]) -> Known {
        let to_come = days
            .iter()
            .skip(1)
            .position(|day| day.from >= self.lists.now);
        let days = &days[..to_come.map_or(days.len(), |place| place + 1)];
        let of_day = |day: &ReportDay| {
            let known = routes.iter();
            known
                .map(|(route, time)| self.knows(*route, *time, day.from, day.to))
                .min()
        };
        days.iter()
            .filter_map(of_day)
            .reduce(Known::with)
            .unwrap_or(Known::Wholly)
    }

    fn knows(&self, route: Route, time: CountedTime, from: Timestamp, to: Timestamp) -> Known {
        if route == Route::JobStatusChanges && !self.lists.linked.contains(&route) {
            return Known::Not;
        }
        let Some(coverage) = self.lists.of(route) else {
            return Known::Not;
        };
        let now = self.lists.now;
        let known = match time {
            CountedTime::Period => coverage.knows(from, to, now),
            CountedTime::Before => {
                let before = coverage.knows(Timestamp::MIN, to, now);
                before.min(coverage.knows(from, to, now))
            }
            CountedTime::After => coverage.knows(from, Timestamp::MAX, now),
            CountedTime::Standing => self.lists.knows_standing(route),
        };
        let lacks_jobs = route == Route::JobStatusChanges && self.lacks_jobs(from, to);
        if lacks_jobs {
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

    /// Since when the data is complete, for people. `has_period` leaves out the gaps of other
    /// times.
    pub(super) fn line(&self, has_period: bool, zone: &TimeZone) -> String {
        let moment = |at: Timestamp| {
            at.to_zoned_datetime(zone.clone())
                .strftime("%-d %B %Y, %H:%M")
                .to_string()
        };
        let mut parts = self.grouped(|known| {
            Some(match (known.read_at, known.since) {
                (None, _) => "never read".to_owned(),
                (_, None) => "complete".to_owned(),
                (_, Some(since)) => format!("complete since {}", moment(since)),
            })
        });
        if self
            .lists
            .coverages
            .iter()
            .any(|known| known.since.is_some())
        {
            parts.push("of earlier times only some records are known".to_owned());
        }
        parts.extend(self.gaps(has_period, &moment));
        let is_old = |at: &Timestamp| self.lists.now.duration_since(*at) > OLD;
        let last_read = |at| format!("last read on {}", moment(at));
        parts.extend(self.grouped(|known| known.read_at.filter(is_old).map(last_read)));
        if parts.is_empty() {
            return "nothing is known of how complete the data is".to_owned();
        }
        parts.join("; ")
    }

    /// A text for each list that has one; lists with the same text are named together.
    fn grouped(&self, text_of: impl Fn(&Coverage) -> Option<String>) -> Vec<String> {
        let mut groups: Vec<(String, Vec<String>)> = Vec::new();
        for list in &self.lists.coverages {
            let Some(text) = text_of(list) else { continue };
            let name = list.route.as_str().replace('_', " ");
            match groups.iter_mut().find(|(other, _)| *other == text) {
                Some((_, names)) => names.push(name),
                None => groups.push((text, vec![name])),
            }
        }
        groups
            .into_iter()
            .map(|(text, names)| format!("{}: {text}", names.join(", ")))
            .collect()
    }

    fn gaps(&self, has_period: bool, moment: &impl Fn(Timestamp) -> String) -> Vec<String> {
        let days = self
            .days
            .first()
            .zip(self.days.last())
            .filter(|_| has_period);
        let is_near = |gap: &(Timestamp, Timestamp)| {
            days.is_none_or(|(first, last)| gap.0 < last.to && gap.1 > first.from)
        };
        let missing = |known: &Coverage| {
            let near = known
                .gaps
                .iter()
                .filter(|gap| is_near(gap) && gap.0 < self.lists.now);
            let near: Vec<_> = near.collect();
            let from = moment(near.first()?.0);
            let to = moment(near.iter().map(|gap| gap.1).max()?);
            let name = known.route.as_str().replace('_', " ");
            Some(match near.len() {
                1 => format!("{name} may be missing between {from} and {to}"),
                gaps => format!(
                    "{name} may be missing in {gaps} gaps between {from} and {to}: see \
                     `shopmirror gaps`"
                ),
            })
        };
        self.lists.coverages.iter().filter_map(missing).collect()
    }
}

/// What is known of each day, week or month.
struct PeriodsKnown<'a> {
    periods: HashMap<&'a str, Known>,
    whole: Known,
}
