//! The rows of a report's SELECT with how sure each number is.

use super::coverage::Known;
use super::hidden::{Found, Shown};
use super::knowledge::{Knowledge, PeriodsKnown};
use super::standing::StandingColumn;
use super::{Cell, Exactness, number};
use crate::report::head::{CountedTime, PERIOD, Report};
use crate::store::{QueryRows, SqlValue};
use shopmirror_core::record::Route;

/// What decides how sure the numbers of one column are.
struct Column<'a> {
    /// What the lists know of each time that it counts.
    known: PeriodsKnown<'a>,
    /// Whether a missing record could only make it less.
    can_only_grow: bool,
    /// Whether a missing status change or payment makes it more or less.
    is_about: bool,
    /// If it counts repairs by how they stand now.
    standing: Option<StandingColumn<'a>>,
}

/// The rows of a report's SELECT.
pub(in crate::report) struct Cells {
    /// The names of the columns that are shown.
    pub(in crate::report) columns: Vec<String>,
    /// The rows.
    pub(in crate::report) rows: Vec<Vec<Cell>>,
    /// The sum of each column of which it is known better than by adding up.
    pub(in crate::report) sums: Vec<Option<Cell>>,
}

impl Knowledge {
    /// The rows, with how sure each number is.
    pub(in crate::report) fn cells(&self, report: &Report, found: QueryRows) -> Cells {
        let shown = Shown::of(&found.columns);
        let mut columns = Vec::with_capacity(shown.columns.len());
        for name in &shown.columns {
            columns.push(self.column(report, name));
        }
        let period_column = shown.columns.iter().position(|column| column == PERIOD);
        let mut found_rows = Vec::with_capacity(found.rows.len());
        for row in found.rows {
            let values = shown.values(row);
            for (value, column) in values.iter().zip(&mut columns) {
                if let Some(standing) = column.as_mut().and_then(|column| column.standing.as_mut())
                {
                    standing.add(value);
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
        let sum = |column: &Option<Column<'_>>| column.as_ref()?.standing.as_ref()?.sum();
        Cells {
            sums: columns.iter().map(sum).collect(),
            columns: shown.columns,
            rows,
        }
    }

    /// `None` if no list decides how sure the numbers of a column are.
    fn column(&self, report: &Report, name: &str) -> Option<Column<'_>> {
        let routes = report.counted_routes(name);
        if routes.is_empty() || report.is_list {
            return None;
        }
        // An open repair may be completed, and an amount paid, by a status change or a payment that
        // was missed.
        let is_of_now = routes
            .iter()
            .any(|(_, time)| matches!(time, CountedTime::Standing | CountedTime::Before));
        Some(Column {
            known: self.periods_of(&routes),
            can_only_grow: report.can_only_grow(name),
            is_about: is_of_now && self.lacks_states(report),
            standing: routes
                .contains(&(Route::Jobs, CountedTime::Standing))
                .then(|| StandingColumn::new(self, report, name)),
        })
    }
}

/// A value with how sure it is; `period` is the day, week or month that its row counts.
fn cell(found: Found, column: Option<&Column<'_>>, period: Option<&str>) -> Cell {
    let Some(column) = column else {
        return Cell::of(found.value, found.unread.with(Exactness::Exact));
    };
    let of_period = period.and_then(|period| column.known.periods.get(period));
    let known = of_period.unwrap_or(&column.known.whole);
    if *known != Known::Not
        && let Some(standing) = &column.standing
        && let Some(cell) = standing.cell(&found)
    {
        return Cell::of(cell.value, found.unread.with(cell.exactness));
    }
    let exactness = known.exactness(number(&found.value), column.can_only_grow);
    if column.is_about && exactness != Exactness::Unknown {
        return Cell::of(found.value, Exactness::About);
    }
    Cell::of(found.value, found.unread.with(exactness))
}
