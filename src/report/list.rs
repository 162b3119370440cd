//! Sorts and filters the rows of a report, which are in memory, as a [`ListQuery`] asks.
//!
//! What a row does not know fulfils no condition; the sums of the rows that are left say so.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use jiff::civil::Date;

use super::exactness::{Cell, Cells, Exactness};
use super::value::shown;
use crate::store::{Filter, FilterWay, ListError, ListQuery, SqlValue};
use crate::text::document;

/// The most values of a column that are offered as a choice.
const CHOICES_MAX: usize = 12;

/// How the rows of an answer were chosen and sorted.
#[derive(Debug, Clone, Default)]
pub struct Listed {
    /// What was asked for.
    pub query: ListQuery,
    /// For each column what its values can be compared with.
    pub kinds: Vec<ColumnKind>,
    /// Whether a row is left out of which it is not known that it does not belong there.
    pub(super) may_lack: bool,
    /// Whether a row is shown of which it is not known that it belongs there.
    pub(super) may_exceed: bool,
}

/// What the values of a column can be compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnKind {
    /// One of these texts.
    Choice(Vec<String>),
    /// A part of a text.
    Text,
    /// A range of numbers.
    Number,
    /// A range of days.
    Day,
}

/// Sorts and filters the rows of a report.
///
/// # Errors
/// If a column is named that the report does not have, or a value that is none of its kind.
pub(super) fn listed(cells: &mut Cells, query: &ListQuery) -> Result<Listed, ListError> {
    let names: Vec<&str> = cells.columns.iter().map(String::as_str).collect();
    query.check_columns(&names)?;
    let mut kinds = Vec::with_capacity(cells.columns.len());
    for column in 0..cells.columns.len() {
        kinds.push(kind_of(&cells.rows, column));
    }
    let mut listed = Listed {
        query: query.clone(),
        kinds,
        may_lack: false,
        may_exceed: false,
    };
    for filter in &query.filters {
        let column = place_of(&cells.columns, &filter.column);
        let test = Test::of(filter, &listed.kinds[column])?;
        for row in &cells.rows {
            let cell = &row[column];
            if test.is_sure(cell) {
                continue;
            }
            if test.holds(cell) {
                listed.may_exceed = true;
            } else {
                listed.may_lack = true;
            }
        }
        cells.rows.retain(|row| test.holds(&row[column]));
        // What is known better than by adding up is known of all rows together.
        cells.sums.fill(None);
    }
    if let Some(sort) = &query.sort {
        let column = place_of(&cells.columns, &sort.column);
        cells
            .rows
            .sort_by(|a, b| ordered(&a[column], &b[column], sort.is_descending));
    }
    Ok(listed)
}

/// The place of a column that the report has.
fn place_of(columns: &[String], name: &str) -> usize {
    let place = columns.iter().position(|column| column == name);
    place.expect("the names of the query were checked")
}

/// What the values of a column can be compared with.
fn kind_of(rows: &[Vec<Cell>], column: usize) -> ColumnKind {
    let mut choices = BTreeSet::new();
    let mut are_days = true;
    for row in rows {
        let cell = &row[column];
        if cell.is_number() {
            return ColumnKind::Number;
        }
        let text = shown(&cell.value, None);
        if text.is_empty() {
            continue;
        }
        // A page holds the value of a choice as it is.
        if document::line(&text) != text {
            return ColumnKind::Text;
        }
        are_days = are_days && day_of(&text).is_some();
        if choices.len() <= CHOICES_MAX {
            choices.insert(text);
        }
    }
    if choices.is_empty() {
        ColumnKind::Text
    } else if are_days {
        ColumnKind::Day
    } else if choices.len() <= CHOICES_MAX {
        ColumnKind::Choice(choices.into_iter().collect())
    } else {
        ColumnKind::Text
    }
}

/// The day at the start of a text.
fn day_of(text: &str) -> Option<Date> {
    text.get(..10)?.parse().ok()
}

/// A condition, read for its column.
enum Test {
    Is(String),
    Not(String),
    Has(String),
    NumberFrom(f64),
    NumberTo(f64),
    DayFrom(Date),
    DayTo(Date),
}

impl Test {
    fn of(filter: &Filter, kind: &ColumnKind) -> Result<Self, ListError> {
        let is_number = *kind == ColumnKind::Number;
        Ok(match filter.way {
            FilterWay::Is => Self::Is(filter.text.clone()),
            FilterWay::Not => Self::Not(filter.text.clone()),
            FilterWay::Has => Self::Has(filter.text.to_lowercase()),
            FilterWay::From if is_number => Self::NumberFrom(filter.number()?),
            FilterWay::To if is_number => Self::NumberTo(filter.number()?),
            FilterWay::From => Self::DayFrom(filter.day()?),
            FilterWay::To => Self::DayTo(filter.day()?),
        })
    }

    /// Whether it is known of the true value of a cell that the condition holds, or does not.
    fn is_sure(&self, cell: &Cell) -> bool {
        if cell.exactness == Exactness::Exact {
            return true;
        }
        let Some(number) = cell.number() else {
            return false;
        };
        let (lowest, highest) = match cell.exactness {
            Exactness::AtLeast => (number, f64::INFINITY),
            Exactness::AtMost => (f64::NEG_INFINITY, number),
            Exactness::Between { upper } => (number, upper),
            _ => return false,
        };
        match self {
            Self::NumberFrom(least) => lowest >= *least || highest < *least,
            Self::NumberTo(most) => highest <= *most || lowest > *most,
            _ => false,
        }
    }

    fn holds(&self, cell: &Cell) -> bool {
        let text = shown(&cell.value, None);
        match self {
            Self::Is(wanted) => text == *wanted,
            Self::Not(unwanted) => text != *unwanted,
            Self::Has(part) => text.to_lowercase().contains(part),
            Self::NumberFrom(least) => cell.number().is_some_and(|number| number >= *least),
            Self::NumberTo(most) => cell.number().is_some_and(|number| number <= *most),
            Self::DayFrom(first) => day_of(&text).is_some_and(|day| day >= *first),
            Self::DayTo(last) => day_of(&text).is_some_and(|day| day <= *last),
        }
    }
}

/// The order of two values: numbers before texts, and what has no value always last.
fn ordered(a: &Cell, b: &Cell, is_descending: bool) -> Ordering {
    match (a.value == SqlValue::Null, b.value == SqlValue::Null) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let order = match (a.number(), b.number()) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => {
            let [a, b] = [a, b].map(|cell| shown(&cell.value, None).to_lowercase());
            a.cmp(&b)
        }
    };
    if is_descending {
        order.reverse()
    } else {
        order
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn cells() -> Cells {
        let exact = |value: SqlValue| Cell::of(value, Exactness::Exact);
        let row = |name: &str, due: &str, total: Cell| {
            let due = if due.is_empty() {
                SqlValue::Null
            } else {
                due.to_owned().into()
            };
            vec![exact(name.to_owned().into()), exact(due), total]
        };
        Cells {
            columns: ["name", "due", "total"].map(str::to_owned).to_vec(),
            rows: vec![
                row("bo", "2026-11-02", exact(20.5.into())),
                row("Ann", "", Cell::unknown()),
                row("Cy", "2026-11-10", exact(9.into())),
                row("Di", "2026-11-01", Cell::of(100.into(), Exactness::AtLeast)),
            ],
            sums: vec![Some(Cell::unknown()); 3],
            ..Cells::default()
        }
    }

    /// The names of the rows that are left, and whether one may be missing among them, or one too
    /// many.
    fn names(asked: &[(&str, &str)]) -> Result<(String, [bool; 2]), ListError> {
        let owned = asked
            .iter()
            .map(|(name, text)| ((*name).into(), (*text).into()));
        let mut parameters: BTreeMap<String, String> = owned.collect();
        let query = ListQuery::take(&mut parameters)?;
        let mut cells = cells();
        let listed = listed(&mut cells, &query)?;
        let names = cells.rows.iter().map(|row| shown(&row[0].value, None));
        let doubts = [listed.may_lack, listed.may_exceed];
        Ok((names.collect::<Vec<_>>().join(" "), doubts))
    }

    #[test]
    fn rows_are_sorted_by_a_column_and_what_has_no_value_comes_last() {
        for (sort, wanted) in [
            ("name", "Ann bo Cy Di"),
            ("-name", "Di Cy bo Ann"),
            ("due", "Di bo Cy Ann"),
            ("-due", "Cy bo Di Ann"),
            ("total", "Cy bo Di Ann"),
            ("-total", "Di bo Cy Ann"),
        ] {
            assert_eq!(
                names(&[("sort", sort)]),
                Ok((wanted.to_owned(), [false, false]))
            );
        }
    }

    #[test]
    fn rows_are_chosen_by_their_values_and_an_unknown_one_is_said() {
        for (column, text, wanted, doubts) in [
            ("name.is", "Ann", "Ann", [false, false]),
            ("name.not", "Ann", "bo Cy Di", [false, false]),
            ("name.has", "A", "Ann", [false, false]),
            ("due.from", "2026-11-02", "bo Cy", [false, false]),
            ("due.to", "2026-11-02", "bo Di", [false, false]),
            ("total.from", "10", "bo Di", [true, false]),
            ("total.from", "110", "", [true, false]),
            ("total.to", "20.5", "bo Cy", [true, false]),
            // Of Di it is 100 at least.
            ("total.to", "110", "bo Cy Di", [true, true]),
            ("total.is", "100", "Di", [true, true]),
        ] {
            let wanted = (wanted.to_owned(), doubts);
            assert_eq!(names(&[(column, text)]), Ok(wanted), "{column}={text}");
        }
        for (column, text) in [
            ("total.from", "much"),
            ("due.to", "soon"),
            ("colour.is", "red"),
        ] {
            assert!(names(&[(column, text)]).is_err(), "{column}");
        }
    }

    #[test]
    fn a_column_is_offered_as_what_its_values_are() {
        let listed = listed(&mut cells(), &ListQuery::default()).unwrap();
        let names = ["Ann", "Cy", "Di", "bo"].map(str::to_owned).to_vec();
        let kinds = [
            ColumnKind::Choice(names),
            ColumnKind::Day,
            ColumnKind::Number,
        ];
        assert_eq!(listed.kinds, kinds);
    }
}
