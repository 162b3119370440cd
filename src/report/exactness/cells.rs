//! The rows of a report's SELECT with how sure each number is.

use super::hidden::{Shown, Unread};
use super::knowledge::{Knowledge, PeriodsKnown};
use super::{Cell, Exactness, number};
use crate::report::head::{CountedTime, PERIOD, Report};
use crate::store::{QueryRows, SqlValue};

/// What decides how sure the numbers of one column are.
struct Column<'a> {
    /// What the lists know of each time that it counts.
    known: PeriodsKnown<'a>,
    /// Whether a missing record could only make it less.
    can_only_grow: bool,
    /// Whether a missing status change or payment makes it more or less.
    is_about: bool,
}

impl Knowledge {
    /// The names of the columns that are shown, and the rows.
    pub(in crate::report) fn cells(
        &self,
        report: &Report,
        found: QueryRows,
    ) -> (Vec<String>, Vec<Vec<Cell>>) {
        let shown = Shown::of(&found.columns);
        let mut columns = Vec::with_capacity(shown.columns.len());
        for name in &shown.columns {
            columns.push(self.column(report, name));
        }
        let period_column = shown.columns.iter().position(|column| column == PERIOD);
        let mut rows = Vec::with_capacity(found.rows.len());
        for row in found.rows {
            let values = shown.values(row);
            let period = match period_column.map(|column| &values[column].0) {
                Some(SqlValue::Text(period)) => Some(period.clone()),
                _ => None,
            };
            let mut cells = Vec::with_capacity(values.len());
            for ((value, unread), column) in values.into_iter().zip(&columns) {
                let exactness = exactness(&value, unread, column.as_ref(), period.as_deref());
                cells.push(Cell::of(value, exactness));
            }
            rows.push(cells);
        }
        (shown.columns, rows)
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
        })
    }
}

/// How sure a value is; `period` is the day, week or month that its row counts.
fn exactness(
    value: &SqlValue,
    unread: Unread,
    column: Option<&Column<'_>>,
    period: Option<&str>,
) -> Exactness {
    let Some(column) = column else {
        return unread.with(Exactness::Exact);
    };
    let of_period = period.and_then(|period| column.known.periods.get(period));
    let known = of_period.unwrap_or(&column.known.whole);
    let exactness = known.exactness(number(value), column.can_only_grow);
    if column.is_about && exactness != Exactness::Unknown {
        return Exactness::About;
    }
    unread.with(exactness)
}
