//! The sums of the columns of a report.

use super::completeness::{Cell, Exactness};
use super::head::Report;
use crate::store::SqlValue;

/// The line of sums; `is_known` says of a column whether all that it adds up is known. `None` if
/// there is no row, or no column has a sum.
pub(super) fn totals(
    report: &Report,
    columns: &[String],
    rows: &[Vec<Cell>],
    is_known: impl Fn(&str) -> bool,
) -> Option<Vec<Cell>> {
    let has_sum = |column: &String| report.totals.contains(column);
    if rows.is_empty() || !columns.iter().any(has_sum) {
        return None;
    }
    let total = |(index, column): (usize, &String)| {
        if !has_sum(column) {
            return Cell::of(SqlValue::Null, Exactness::Exact);
        }
        let mut cells = rows.iter().map(|row| &row[index]);
        let is_real = cells
            .clone()
            .any(|cell| matches!(cell.value, SqlValue::Real(_)));
        // In ten-thousandths, because sums of fractions would not be exact.
        let parts = cells
            .clone()
            .filter_map(Cell::number)
            .map(|number| (number * 10_000.0).round());
        let sum = parts.sum::<f64>() / 10_000.0;
        let is_exact =
            is_known(column) && cells.clone().all(|cell| cell.exactness == Exactness::Exact);
        let exactness = if is_exact {
            Exactness::Exact
        } else if cells.any(|cell| cell.exactness == Exactness::About) {
            Exactness::About
        } else if report.can_only_grow(column) && sum > 0.0 {
            Exactness::AtLeast
        } else {
            Exactness::Unknown
        };
        let value = if is_real {
            SqlValue::Real(sum)
        } else {
            SqlValue::Integer(sum as i64)
        };
        Cell::of(value, exactness)
    };
    Some(columns.iter().enumerate().map(total).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_exact_and_of_a_day_that_is_not_known_at_least() {
        let text = "-- totals = [\"jobs\", \"paid\", \"net\"]\n-- counts.jobs = [\"jobs\"]\n\
                    -- measures.payments = [\"net\"]\nSELECT 1";
        let report = Report::parse("x", text).unwrap();
        let names = ["period", "jobs", "paid", "net"];
        let columns = names.map(str::to_owned);
        assert!(
            totals(&report, &columns, &[], |_| true).is_none(),
            "there is no row"
        );
        let row = |jobs: i64, paid: f64, jobs_known, net_known| {
            let exact = |value: SqlValue| Cell::of(value, Exactness::Exact);
            let (jobs, net) = (
                Cell::of(jobs.into(), jobs_known),
                Cell::of(paid.into(), net_known),
            );
            vec![
                exact("day".to_owned().into()),
                jobs,
                exact(paid.into()),
                net,
            ]
        };
        let (exact, unknown) = (Exactness::Exact, Exactness::Unknown);
        let rows = [
            row(1, 0.1, exact, exact),
            row(2, 0.2, Exactness::AtLeast, unknown),
        ];
        let totals = |is_known: fn(&str) -> bool| totals(&report, &columns, &rows, is_known);
        let wanted = [
            Cell::of(SqlValue::Null, exact),
            Cell::of(3.into(), Exactness::AtLeast),
            Cell::of(0.3.into(), exact),
            Cell::of(SqlValue::Null, unknown),
        ];
        assert_eq!(totals(|_| true).unwrap(), wanted);
        let paid = totals(|column| column != "paid").unwrap()[2].exactness;
        assert_eq!(paid, Exactness::AtLeast, "a payment may be missing");
    }
}
