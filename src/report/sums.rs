//! The sums of the columns of a report, over every row, also those that are cut off.

use super::answer::Column;
use super::completeness::Exactness;
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

    /// The line of sums, and how sure each is; `is_known` says of a column whether all that it adds up is known.
    /// `None` if there is no row, or no column has a sum.
    pub(super) fn totals(
        &self,
        report: &Report,
        columns: &[Column],
        exactness: &[Vec<Exactness>],
        is_known: impl Fn(&str) -> bool,
    ) -> (Option<Vec<SqlValue>>, Vec<Exactness>) {
        let has_sum = |column: &Column| report.totals.contains(&column.name);
        if self.columns.is_empty() || !columns.iter().any(has_sum) {
            return (None, Vec::new());
        }
        let mut totals = Vec::with_capacity(columns.len());
        let mut sure = Vec::with_capacity(columns.len());
        for (index, column) in columns.iter().enumerate() {
            if !has_sum(column) {
                totals.push(SqlValue::Null);
                sure.push(Exactness::Exact);
                continue;
            }
            let sum = self.columns[index];
            let cells = exactness.iter().filter_map(|row| row.get(index));
            let is_exact =
                is_known(&column.name) && cells.clone().all(|cell| *cell == Exactness::Exact);
            let can_only_grow = report.can_only_grow(&column.name);
            let is_something = sum.integers > 0 || sum.fractions > 0.0;
            let is_about = cells.clone().any(|cell| *cell == Exactness::About);
            let exactness = match is_exact {
                true => Exactness::Exact,
                false if is_about => Exactness::About,
                false if can_only_grow && is_something => Exactness::AtLeast,
                false => Exactness::Unknown,
            };
            totals.push(match (exactness, sum.has_fractions) {
                (Exactness::Unknown, _) => SqlValue::Null,
                (_, true) => {
                    SqlValue::Real((sum.integers as f64 * 10_000.0 + sum.fractions) / 10_000.0)
                }
                (_, false) => SqlValue::Integer(sum.integers),
            });
            sure.push(exactness);
        }
        (Some(totals), sure)
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
        assert!(sums.totals(&report, &columns, &[], |_| true).0.is_none(), "there is no row");
        for number in [1, 2] {
            let paid = if number == 1 { 0.1 } else { 0.2 };
            sums.add(&["day".to_owned().into(), number.into(), paid.into(), paid.into()]);
        }
        let (known, unknown) = (Exactness::Exact, Exactness::Unknown);
        let cells = [vec![known; 4], vec![known, unknown, known, unknown]];
        let (totals, exactness) = sums.totals(&report, &columns, &cells, |_| true);
        let wanted = [SqlValue::Null, 3.into(), 0.3.into(), SqlValue::Null];
        assert_eq!(totals.unwrap(), wanted);
        assert_eq!(exactness, [known, Exactness::AtLeast, known, unknown]);
        let (_, exactness) = sums.totals(&report, &columns, &cells, |column| column != "jobs");
        assert_eq!(exactness[1], Exactness::AtLeast, "a repair may be missing");
    }
}
