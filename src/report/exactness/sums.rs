//! The sums of the columns of a report.

use super::{Cell, Cells, Exactness};
use crate::report::head::{Missing, Report};
use crate::store::SqlValue;

/// What the rows of a list that are missing, or do not belong there, would do to a sum.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::report) struct LeftOut {
    /// Whether they may make it more.
    pub(in crate::report) more: bool,
    /// Whether they may make it less.
    pub(in crate::report) less: bool,
}

impl LeftOut {
    /// A number of rows.
    pub(in crate::report) fn count(self, rows: usize) -> Cell {
        let mut exactness = Exactness::Exact;
        if self.more {
            exactness = exactness.or_more();
        }
        if self.less {
            exactness = exactness.or_less();
        }
        let rows = i64::try_from(rows).unwrap_or(i64::MAX);
        Cell::of(rows.into(), exactness)
    }
}

/// The line of sums; `left_out` says of a column what is not in its rows. `None` if there is no row,
/// or no column has a sum.
pub(in crate::report) fn totals(
    report: &Report,
    cells: &Cells,
    left_out: impl Fn(&str) -> LeftOut,
) -> Option<Vec<Cell>> {
    let Cells {
        columns,
        rows,
        sums,
        ..
    } = cells;
    if rows.is_empty() || !columns.iter().any(|column| report.totals.contains(column)) {
        return None;
    }
    let mut totals = Vec::with_capacity(columns.len());
    for (index, column) in columns.iter().enumerate() {
        if !report.totals.contains(column) {
            totals.push(Cell::of(SqlValue::Null, Exactness::Exact));
            continue;
        }
        if let Some(sum) = &sums[index] {
            totals.push(sum.clone());
            continue;
        }
        let mut sum = Sum::default();
        for row in rows {
            sum.add(&row[index]);
        }
        let left_out = left_out(column);
        sum.is_unknown |= left_out.more;
        sum.is_open_below |= left_out.less;
        totals.push(sum.cell(report.missing(column) == Missing::More));
    }
    Some(totals)
}

/// A sum of numbers, each with how sure it is.
#[derive(Debug, Default)]
struct Sum {
    /// What was added, in ten-thousandths, because sums of fractions would not be exact.
    parts: f64,
    /// How much more it may be, in ten-thousandths, as far as upper bounds say so.
    room: f64,
    is_real: bool,
    /// Whether there is no upper bound, and no lower one.
    is_open_above: bool,
    is_open_below: bool,
    is_about: bool,
    is_unknown: bool,
}

impl Sum {
    /// Adds a number.
    fn add(&mut self, cell: &Cell) {
        self.is_real |= matches!(cell.value, SqlValue::Real(_));
        let part = in_parts(cell.number().unwrap_or_default());
        self.parts += part;
        match cell.exactness {
            Exactness::Exact => {}
            Exactness::AtLeast => self.is_open_above = true,
            Exactness::AtMost => self.is_open_below = true,
            Exactness::Between { upper } => self.room += in_parts(upper) - part,
            Exactness::About => self.is_about = true,
            Exactness::Unknown => self.is_unknown = true,
        }
    }

    /// The sum; `can_only_grow` if no part of it that is unknown can be negative.
    fn cell(&self, can_only_grow: bool) -> Cell {
        let sum = self.parts / 10_000.0;
        // The sum that is the upper bound has the room of the ranges in it.
        let upper = (self.parts + self.room) / 10_000.0;
        let is_open_above = self.is_open_above || self.is_unknown;
        if self.is_unknown && !(can_only_grow && sum > 0.0) {
            return Cell::unknown();
        }
        let (number, exactness) = if self.is_about || is_open_above && self.is_open_below {
            (sum, Exactness::About)
        } else if is_open_above {
            (sum, Exactness::AtLeast)
        } else if self.is_open_below {
            (upper, Exactness::AtMost)
        } else if self.room > 0.0 {
            (sum, Exactness::Between { upper })
        } else {
            (sum, Exactness::Exact)
        };
        let value = if self.is_real {
            SqlValue::Real(number)
        } else {
            SqlValue::Integer(number as i64)
        };
        Cell::of(value, exactness)
    }
}

/// The sum of counts, of which none can be negative.
#[must_use]
pub fn sum_of_counts<'a>(cells: impl IntoIterator<Item = &'a Cell>) -> Cell {
    let mut sum = Sum::default();
    for cell in cells {
        sum.add(cell);
    }
    sum.cell(true)
}

fn in_parts(number: f64) -> f64 {
    (number * 10_000.0).round()
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
        let of = |rows: &[Vec<Cell>], left_out: fn(&str) -> LeftOut| {
            let cells = Cells {
                columns: columns.to_vec(),
                rows: rows.to_vec(),
                sums: vec![None; 4],
                ..Cells::default()
            };
            totals(&report, &cells, left_out)
        };
        assert!(of(&[], |_| LeftOut::default()).is_none(), "there is no row");
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
        let totals = |left_out: fn(&str) -> LeftOut| of(&rows, left_out);
        let wanted = [
            Cell::of(SqlValue::Null, exact),
            Cell::of(3.into(), Exactness::AtLeast),
            Cell::of(0.3.into(), exact),
            Cell::of(SqlValue::Null, unknown),
        ];
        assert_eq!(totals(|_| LeftOut::default()).unwrap(), wanted);
        let paid = |left_out| totals(left_out).unwrap()[2].exactness;
        let more = |_: &str| LeftOut {
            more: true,
            less: false,
        };
        assert_eq!(paid(more), Exactness::AtLeast, "a row may be missing");
        let less = |_: &str| LeftOut {
            more: false,
            less: true,
        };
        assert_eq!(paid(less), Exactness::AtMost, "a row may not belong there");
    }

    #[test]
    fn a_sum_of_ranges_adds_both_ends() {
        let sum = |cells: &[(i64, Exactness)], can_only_grow| {
            let mut sum = Sum::default();
            for (number, exactness) in cells {
                sum.add(&Cell::of((*number).into(), *exactness));
            }
            sum.cell(can_only_grow)
        };
        let upto = |upper: i32| Exactness::Between {
            upper: f64::from(upper),
        };
        let of = |cells: &[(i64, Exactness)]| sum(cells, true);
        let (exact, least, most) = (Exactness::Exact, Exactness::AtLeast, Exactness::AtMost);
        for (cells, number, exactness) in [
            (&[(2, upto(5)), (1, upto(9)), (4, exact)][..], 7, upto(18)),
            (&[(2, upto(5)), (3, least)], 5, least),
            (&[(2, upto(5)), (3, most)], 8, most),
            (&[(3, least), (3, most)], 6, Exactness::About),
            (&[(2, upto(5)), (3, Exactness::About)], 5, Exactness::About),
            (&[(2, upto(5)), (0, Exactness::Unknown)], 2, least),
            (&[(0, exact), (0, least)], 0, least),
        ] {
            assert_eq!(of(cells), Cell::of(number.into(), exactness), "{cells:?}");
        }
        let unknown = [(3, exact), (0, Exactness::Unknown)];
        assert_eq!(sum(&unknown, false), Cell::unknown(), "it may be negative");
        assert_eq!(
            of(&[(0, exact), (0, Exactness::Unknown)]),
            Cell::unknown(),
            "nothing was counted"
        );
    }
}
