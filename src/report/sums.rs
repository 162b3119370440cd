//! The sums of the columns of a report, over every row, also those that are cut off.

use super::answer::Column;
use super::completeness::{Cell, Exactness};
use super::head::Report;
use crate::store::SqlValue;

/// The sum of each column so far.
#[derive(Debug, Default)]
pub(super) struct Sums {
    columns: Vec<Sum>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    integers: i64,
    /// In ten-thousandths, because sums of fractions would not be exact.
    fractions: f64,
    has_fractions: bool,
}

impl Sums {
    pub(super) fn add(&mut self, row: &[SqlValue]) {
        self.columns.resize(row.len(), Sum::default());
        for (sum, value) in self.columns.iter_mut().zip(row) {
            match value {
                SqlValue::Integer(number) => sum.integers = sum.integers.saturating_add(*number),
                SqlValue::Real(number) => {
                    sum.fractions += (number * 10_000.0).round();
                    sum.has_fractions = true;
                }
                _ => {}
            }
        }
    }

    /// The line of sums; `is_known` says of a column whether all that it adds up is known. `None` if there is no
    /// row, or no column has a sum.
    pub(super) fn totals(
        &self,
        report: &Report,
        columns: &[Column],
        rows: &[Vec<Cell>],
        is_known: impl Fn(&str) -> bool,
    ) -> Option<Vec<Cell>> {
        let has_sum = |column: &Column| report.totals.contains(&column.name);
        if self.columns.is_empty() || !columns.iter().any(has_sum) {
            return None;
        }
        let total = |(index, column): (usize, &Column)| {
            if !has_sum(column) {
                return SqlValue::Null.into();
            }
            let sum = self.columns[index];
            let mut cells = rows.iter().map(|row| row[index].exactness);
            let is_exact =
                is_known(&column.name) && cells.clone().all(|cell| cell == Exactness::Exact);
            let is_something = sum.integers > 0 || sum.fractions > 0.0;
            let exactness = match is_exact {
                true => Exactness::Exact,
                false if cells.any(|cell| cell == Exactness::About) => Exactness::About,
                false if report.can_only_grow(&column.name) && is_something => Exactness::AtLeast,
                false => Exactness::Unknown,
            };
            let value = match sum.has_fractions {
                true => SqlValue::Real((sum.integers as f64 * 10_000.0 + sum.fractions) / 10_000.0),
                false => SqlValue::Integer(sum.integers),
            };
            Cell::of(value, exactness)
        };
        Some(columns.iter().enumerate().map(total).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_exact_and_of_a_day_that_is_not_known_at_least() {
        let report = Report::parse(
            "x",
            "-- total: jobs paid net\n-- counts: jobs jobs\n-- measures: payments net\nSELECT 1",
        )
        .unwrap();
        let names = ["period", "jobs", "paid", "net"];
        let columns: Vec<Column> =
            names.iter().map(|name| Column { name: (*name).to_owned(), format: None }).collect();
        let mut sums = Sums::default();
        assert!(sums.totals(&report, &columns, &[], |_| true).is_none(), "there is no row");
        for number in [1, 2] {
            let paid = if number == 1 { 0.1 } else { 0.2 };
            sums.add(&["day".to_owned().into(), number.into(), paid.into(), paid.into()]);
        }
        let (known, unknown) = (Exactness::Exact, Exactness::Unknown);
        let cells = |known: &[Exactness]| {
            known.iter().map(|known| Cell::of(SqlValue::Null, *known)).collect::<Vec<_>>()
        };
        let rows = [cells(&[known; 4]), cells(&[known, unknown, known, unknown])];
        let totals = |is_known: fn(&str) -> bool| sums.totals(&report, &columns, &rows, is_known);
        let wanted = [
            SqlValue::Null.into(),
            Cell::of(3.into(), Exactness::AtLeast),
            Cell::of(0.3.into(), known),
            Cell::of(SqlValue::Null, unknown),
        ];
        assert_eq!(totals(|_| true).unwrap(), wanted);
        let jobs = totals(|column| column != "jobs").unwrap()[1].exactness;
        assert_eq!(jobs, Exactness::AtLeast, "a repair may be missing");
    }
}
