//! The rows of a report's SELECT with how sure each number is.

use jiff::Timestamp;
use shopmirror_core::record::Route;

use super::coverage::Known;
use super::hidden::{Found, Shown, Unread};
use super::knowledge::{Knowledge, PeriodsKnown, Reopened};
use super::standing::StandingColumn;
use super::sums::LeftOut;
use super::{Cell, Cells, Exactness, Marking, number};
use crate::report::head::{CountedTime, Missing, PERIOD, Report};
use crate::report::uses::Uses;
use crate::store::{QueryRows, SqlValue};

/// What decides how sure the numbers of one column are.
struct Column<'a> {
    /// What the lists know of each time that it counts; `None` in a list of single records.
    known: Option<PeriodsKnown<'a>>,
    /// What records that are missing would do to it.
    missing: Missing,
    /// Whether missing records of another list make it more, and less.
    may_be_more: bool,
    may_be_less: bool,
    /// If it counts repairs by how they stand now.
    standing: Option<StandingColumn<'a>>,
    /// If it counts completed repairs: those that may be open again.
    reopened: Option<Reopened<'a>>,
    /// The sum of such a column, as long as its rows are counts.
    completed: Option<i64>,
    /// What was not read in one of its rows.
    unread: Unread,
}

impl Column<'_> {
    /// Takes a value of one of its rows into its sums.
    fn add(&mut self, found: &Found) {
        if let Some(standing) = &mut self.standing {
            standing.add(found);
        }
        self.unread = self.unread.and(found.unread);
        self.completed = match (&found.value, self.completed) {
            (SqlValue::Integer(count), Some(sum)) if found.upto.is_none() => Some(sum + count),
            _ => None,
        };
    }

    /// The sum of its rows, if it is known better than by adding up: each repair is in one row, so
    /// that those which may be open again are left out once.
    fn sum(&self) -> Option<Cell> {
        if let Some(standing) = &self.standing {
            return standing.sum();
        }
        let reopened = self.reopened.as_ref()?;
        let sum = SqlValue::Integer(self.completed?);
        let known = self.known.as_ref()?.whole;
        let exactness = known.exactness(number(&sum), self.missing);
        let cell = Cell::of(sum, exactness).without(reopened.whole);
        Some(self.unread.with(cell))
    }
}

impl Knowledge {
    /// The columns that are shown, and the rows.
    pub(in crate::report) fn cells(&self, report: &Report, uses: &Uses, found: QueryRows) -> Cells {
        let shown = Shown::of(&found.columns);
        let mut columns = Vec::with_capacity(shown.columns.len());
        let mut markings = Vec::with_capacity(shown.columns.len());
        for (index, name) in shown.columns.iter().enumerate() {
            let column = self.column(report, uses, name);
            markings.push(
                if may_be_range(report, name) || shown.has_upper_bound(index) {
                    Marking::Range
                } else if column.is_some() || shown.hides(index) {
                    Marking::Word
                } else {
                    Marking::None
                },
            );
            columns.push(column);
        }
        let period_column = shown.columns.iter().position(|column| column == PERIOD);
        let mut found_rows = Vec::with_capacity(found.rows.len());
        for row in found.rows {
            let values = shown.values(row);
            for (value, column) in values.iter().zip(&mut columns) {
                if let Some(column) = column {
                    column.add(value);
                }
            }
            found_rows.push(values);
        }
        let mut rows = Vec::with_capacity(found_rows.len());
        for values in found_rows {
            let period = match period_column.map(|column| &values[column].value) {
                Some(SqlValue::Text(period)) => Some(period.clone()),
                _ => None,
            };
            let mut cells = Vec::with_capacity(values.len());
            for (found, column) in values.into_iter().zip(&columns) {
                cells.push(cell(found, column.as_ref(), period.as_deref()));
            }
            rows.push(cells);
        }
        let mut sums = Vec::with_capacity(columns.len());
        for column in columns {
            sums.push(column.and_then(|column| column.sum()));
        }
        Cells {
            sums,
            columns: shown.columns,
            markings,
            rows,
        }
    }

    /// `None` if no list decides how sure the numbers of a column are.
    fn column(&self, report: &Report, uses: &Uses, name: &str) -> Option<Column<'_>> {
        let as_of = self.as_of(&uses.routes);
        let routes = report.counted_routes(name);
        let changed_by = Route::ALL
            .into_iter()
            .any(|route| report.is_grown_by(route, name) || report.is_reduced_by(route, name));
        if routes.is_empty() && !changed_by {
            return None;
        }
        // An open repair may be completed by a status change that was missed.
        let is_standing = routes
            .iter()
            .any(|(_, time)| matches!(time, CountedTime::Standing | CountedTime::Before));
        let is_about = !report.is_list && is_standing && self.lacks_states(uses);
        let mut known = None;
        if !report.is_list && !routes.is_empty() {
            known = Some(self.periods_of(&routes, as_of));
        }
        let mut standing = None;
        if routes.contains(&(Route::Jobs, CountedTime::Standing)) {
            standing = Some(StandingColumn::new(self, report, name));
        }
        let mut reopened = None;
        if report.is_of_completed(name) {
            reopened = Some(self.reopened());
        }
        Some(Column {
            known,
            reopened,
            completed: Some(0),
            unread: Unread::default(),
            missing: report.missing(name),
            may_be_more: is_about || self.lacks_any(as_of, |route| report.is_grown_by(route, name)),
            may_be_less: is_about
                || self.lacks_any(as_of, |route| report.is_reduced_by(route, name)),
            standing,
        })
    }

    /// Whether records of the mirrored jobs are missing in one of these lists.
    fn lacks_any(&self, as_of: Timestamp, is_asked: impl Fn(Route) -> bool) -> bool {
        Route::ALL
            .into_iter()
            .any(|route| is_asked(route) && self.lacks(route, as_of))
    }

    /// What records that are missing would do to the number of rows of a list of single records.
    pub(in crate::report) fn rows_left_out(&self, uses: &Uses) -> LeftOut {
        let as_of = self.as_of(&uses.routes);
        let may_differ = uses.states && self.lacks(Route::JobStatusChanges, as_of);
        let mut more = may_differ;
        if let Some(&route) = uses.routes.first() {
            let time = if uses.has_period {
                CountedTime::Period
            } else {
                CountedTime::Standing
            };
            more |= self.periods_of(&[(route, time)], as_of).whole != Known::Wholly;
        }
        LeftOut {
            more,
            less: may_differ,
        }
    }

    /// What the rows that a list of single records does not show, or shows too many, would do to
    /// the sum of a column.
    pub(in crate::report) fn left_out(
        &self,
        report: &Report,
        uses: &Uses,
        parameters: &[(String, SqlValue)],
        column: &str,
    ) -> LeftOut {
        if !report.is_list {
            return LeftOut::default();
        }
        let as_of = self.as_of(&uses.routes);
        let may_differ =
            report.is_filtered_by_state(parameters) && self.lacks(Route::JobStatusChanges, as_of);
        LeftOut {
            more: may_differ || self.whole_of(report, uses, column) != Known::Wholly,
            less: may_differ || self.lacks_any(as_of, |route| report.is_shortened_by(route)),
        }
    }
}

/// Whether a column counts repairs by how they stand now: such a count can be a range.
fn may_be_range(report: &Report, name: &str) -> bool {
    report.is_standing(name) || report.is_of_completed(name) && report.format(name).is_none()
}

/// A value with how sure it is; `period` is the day, week or month that its row counts.
fn cell(found: Found, column: Option<&Column<'_>>, period: Option<&str>) -> Cell {
    let read = match found.upto {
        Some(upper) => Exactness::Between { upper },
        None => Exactness::Exact,
    };
    let Some(column) = column else {
        return found.unread.with(Cell::of(found.value, read));
    };
    let mut exactness = read;
    if let Some(known) = &column.known {
        let of_period = period.and_then(|period| known.periods.get(period));
        let known = of_period.unwrap_or(&known.whole);
        if *known != Known::Not
            && let Some(standing) = &column.standing
            && let Some(cell) = standing.cell(&found)
        {
            return found.unread.with(cell);
        }
        if *known != Known::Wholly {
            exactness = known.exactness(number(&found.value), column.missing);
        }
    }
    let is_known = found.value != SqlValue::Null;
    if is_known && column.may_be_more {
        exactness = exactness.or_more();
    }
    let mut cell = Cell::of(found.value, exactness);
    if let Some(reopened) = &column.reopened {
        cell = cell.without(reopened.of(period));
    }
    if is_known && column.may_be_less {
        cell = cell.or_less();
    }
    found.unread.with(cell)
}
