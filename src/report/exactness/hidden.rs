//! The hidden columns of a report's SELECT: how many rows of a number have a value that could not be
//! read. They are counted, not shown.
//!
//! `_more_NAME` counts the values that can only make the number of the column NAME more, as an
//! amount that cannot be negative; `_less_NAME` those that can only make it less; `_unsure_NAME`
//! those that may do either. A value that is NULL is then unknown. `_upto_NAME` is the most that
//! the number NAME can be, if its own value is the least.
//!
//! `_unheard_NAME` is about repairs that were not heard of lately (see [`super::standing`]). If NAME
//! counts repairs, it is a JSON list: for each of these, which gap it was not heard of since. If NAME
//! is the most of something, so are `_unheard_NAME`, of these alone, and `_heard_NAME`, of the others.

use std::mem;

use super::{Cell, number};
use crate::store::SqlValue;

const MORE: &str = "_more_";
const LESS: &str = "_less_";
const UNSURE: &str = "_unsure_";
const UPTO: &str = "_upto_";
const UNHEARD: &str = "_unheard_";
const HEARD: &str = "_heard_";

/// Where a SELECT gives the columns that are shown, and what is hidden behind each of them.
pub(super) struct Shown {
    /// The names of the columns that are shown.
    pub(super) columns: Vec<String>,
    places: Vec<Place>,
}

/// The places of one shown column and of its hidden ones in a row of the SELECT.
struct Place {
    own: usize,
    more: Option<usize>,
    less: Option<usize>,
    unsure: Option<usize>,
    upto: Option<usize>,
    unheard: Option<usize>,
    heard: Option<usize>,
}

/// A value that is shown, and what is hidden behind it.
pub(super) struct Found {
    pub(super) value: SqlValue,
    pub(super) unread: Unread,
    /// The most that the number can be, if that is more than it is.
    pub(super) upto: Option<f64>,
    /// What the column `_unheard_NAME` has.
    pub(super) unheard: Option<SqlValue>,
    /// What the column `_heard_NAME` has.
    pub(super) heard: Option<SqlValue>,
}

/// What the hidden columns say of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Unread {
    more: bool,
    less: bool,
}

impl Shown {
    /// Divides the columns of a SELECT. A name of this form that belongs to no other column is shown.
    pub(super) fn of(columns: &[String]) -> Self {
        let mut shown = Self {
            columns: Vec::new(),
            places: Vec::new(),
        };
        for (own, column) in columns.iter().enumerate() {
            if is_hidden(column, columns) {
                continue;
            }
            shown.columns.push(column.clone());
            shown.places.push(Place {
                own,
                more: place_of(columns, MORE, column),
                less: place_of(columns, LESS, column),
                unsure: place_of(columns, UNSURE, column),
                upto: place_of(columns, UPTO, column),
                unheard: place_of(columns, UNHEARD, column),
                heard: place_of(columns, HEARD, column),
            });
        }
        shown
    }

    /// Whether anything is hidden behind a column.
    pub(super) fn hides(&self, column: usize) -> bool {
        let place = &self.places[column];
        place.more.is_some() || place.less.is_some() || place.unsure.is_some()
    }

    /// Whether a column has a hidden upper bound.
    pub(super) fn has_upper_bound(&self, column: usize) -> bool {
        self.places[column].upto.is_some()
    }

    /// The values of a row that are shown, each with what is hidden behind it.
    pub(super) fn values(&self, mut row: Vec<SqlValue>) -> Vec<Found> {
        let mut values = Vec::with_capacity(self.places.len());
        for place in &self.places {
            let is_unsure = counts(&row, place.unsure);
            let unread = Unread {
                more: is_unsure || counts(&row, place.more),
                less: is_unsure || counts(&row, place.less),
            };
            let upto = place.upto.and_then(|upto| number(&row[upto]));
            let own = number(&row[place.own]);
            let mut take = |place: usize| mem::replace(&mut row[place], SqlValue::Null);
            values.push(Found {
                value: take(place.own),
                unread,
                upto: upto.filter(|upto| own.is_some_and(|own| *upto > own)),
                unheard: place.unheard.map(&mut take),
                heard: place.heard.map(&mut take),
            });
        }
        values
    }
}

/// Whether a column belongs to another one.
fn is_hidden(column: &str, columns: &[String]) -> bool {
    for prefix in [MORE, LESS, UNSURE, UPTO, UNHEARD, HEARD] {
        if let Some(name) = column.strip_prefix(prefix)
            && columns.iter().any(|other| other == name)
        {
            return true;
        }
    }
    false
}

/// The place of the hidden column of this prefix that belongs to the column `name`.
fn place_of(columns: &[String], prefix: &str, name: &str) -> Option<usize> {
    columns
        .iter()
        .position(|column| column.strip_prefix(prefix) == Some(name))
}

/// Whether a hidden column counts anything in this row.
fn counts(row: &[SqlValue], place: Option<usize>) -> bool {
    let count = place.and_then(|place| number(&row[place]));
    count.is_some_and(|count| count > 0.0)
}

impl Unread {
    /// What was not read of both.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            more: self.more || other.more,
            less: self.less || other.less,
        }
    }

    /// The number, which would be this sure if every value had been read.
    pub(super) fn with(self, cell: Cell) -> Cell {
        if self.more && !self.less && cell.value == SqlValue::Null {
            return Cell::unknown();
        }
        match (self.more, self.less) {
            (false, false) => cell,
            (true, false) => Cell::of(cell.value, cell.exactness.or_more()),
            (false, true) => cell.or_less(),
            (true, true) => Cell::of(cell.value, cell.exactness.or_other()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::exactness::Exactness;

    fn unread(more: bool, less: bool) -> Unread {
        Unread { more, less }
    }

    #[test]
    fn hidden_columns_are_dropped_and_say_what_was_not_read() {
        let columns = [
            "day",
            "_more_net",
            "net",
            "_unsure_net",
            "_less_net",
            "_more_paper",
        ];
        let shown = Shown::of(&columns.map(str::to_owned));
        assert_eq!(shown.columns, ["day", "net", "_more_paper"]);
        assert!(shown.hides(1) && !shown.hides(0) && !shown.hides(2));
        let of = |more: i64, unsure: i64, less: i64| {
            let row = vec![
                "d".to_owned().into(),
                more.into(),
                7.into(),
                unsure.into(),
                less.into(),
                1.into(),
            ];
            let values = shown.values(row);
            assert_eq!((values.len(), &values[1].value), (3, &7.into()));
            values[1].unread
        };
        assert_eq!(of(0, 0, 0), unread(false, false));
        assert_eq!(of(2, 0, 0), unread(true, false));
        assert_eq!(of(0, 0, 1), unread(false, true));
        assert_eq!(of(0, 1, 0), unread(true, true));
    }

    #[test]
    fn a_value_that_was_not_read_opens_the_number_to_one_side_or_to_both() {
        let (exact, least, most) = (Exactness::Exact, Exactness::AtLeast, Exactness::AtMost);
        let (about, unknown) = (Exactness::About, Exactness::Unknown);
        let between = Exactness::Between { upper: 9.0 };
        let seven = |exactness| Cell::of(7.into(), exactness);
        for (is, more, less, either) in [
            (exact, least, most, about),
            (least, least, about, about),
            (most, about, most, about),
            (about, about, about, about),
            (unknown, unknown, unknown, unknown),
        ] {
            let with = |more, less| unread(more, less).with(seven(is));
            assert_eq!(with(false, false), seven(is));
            assert_eq!(with(true, false), seven(more), "{is:?}");
            assert_eq!(with(false, true), seven(less), "{is:?}");
            assert_eq!(with(true, true), seven(either), "{is:?}");
        }
        let of_range = |more, less| unread(more, less).with(seven(between));
        assert_eq!(of_range(true, false), seven(least));
        assert_eq!(of_range(false, true), Cell::of(9.into(), most));
        let none = unread(true, false).with(Cell::of(SqlValue::Null, exact));
        assert_eq!(none, Cell::unknown(), "no value was read");
    }
}
