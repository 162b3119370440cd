//! The hidden columns of a report's SELECT: how many rows of a number have a value that cannot be
//! read. They are counted, not shown.
//!
//! `_more_NAME` counts the values of the column NAME that cannot be read and cannot be negative: the
//! number is at least what was added. `_unsure_NAME` counts those that may be negative or are
//! missing: the number is about what was added.
//!
//! `_unheard_NAME` is about repairs that were not heard of lately (see [`super::standing`]). If NAME
//! counts repairs, it is a JSON list: for each of these, which gap it was not heard of since. If NAME
//! is the most of something, so are `_unheard_NAME`, of these alone, and `_heard_NAME`, of the others.

use std::mem;

use super::{Exactness, number};
use crate::store::SqlValue;

const MORE: &str = "_more_";
const UNSURE: &str = "_unsure_";
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
    unsure: Option<usize>,
    unheard: Option<usize>,
    heard: Option<usize>,
}

/// A value that is shown, and what is hidden behind it.
pub(super) struct Found {
    pub(super) value: SqlValue,
    pub(super) unread: Unread,
    /// What the column `_unheard_NAME` has.
    pub(super) unheard: Option<SqlValue>,
    /// What the column `_heard_NAME` has.
    pub(super) heard: Option<SqlValue>,
}

/// What the hidden columns say of a number; of two, the later one says less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unread {
    /// Every value was read.
    Nothing,
    /// Values that cannot be negative were not read.
    More,
    /// Values that may be negative were not read.
    Unsure,
}

impl Shown {
    /// Divides the columns of a SELECT. A name of this form that belongs to no other column is shown.
    pub(super) fn of(columns: &[String]) -> Self {
        let place_of = |prefix: &str, name: &str| {
            columns
                .iter()
                .position(|column| column.strip_prefix(prefix) == Some(name))
        };
        let is_hidden = |column: &String| {
            [MORE, UNSURE, UNHEARD, HEARD].iter().any(|prefix| {
                column
                    .strip_prefix(prefix)
                    .is_some_and(|name| columns.iter().any(|other| other == name))
            })
        };
        let mut shown = Self {
            columns: Vec::new(),
            places: Vec::new(),
        };
        for (own, column) in columns.iter().enumerate() {
            if is_hidden(column) {
                continue;
            }
            shown.columns.push(column.clone());
            shown.places.push(Place {
                own,
                more: place_of(MORE, column),
                unsure: place_of(UNSURE, column),
                unheard: place_of(UNHEARD, column),
                heard: place_of(HEARD, column),
            });
        }
        shown
    }

    /// The values of a row that are shown, each with what is hidden behind it.
    pub(super) fn values(&self, mut row: Vec<SqlValue>) -> Vec<Found> {
        let mut values = Vec::with_capacity(self.places.len());
        for place in &self.places {
            let unread = if counts(&row, place.unsure) {
                Unread::Unsure
            } else if counts(&row, place.more) {
                Unread::More
            } else {
                Unread::Nothing
            };
            let mut take = |place: usize| mem::replace(&mut row[place], SqlValue::Null);
            values.push(Found {
                value: take(place.own),
                unread,
                unheard: place.unheard.map(&mut take),
                heard: place.heard.map(&mut take),
            });
        }
        values
    }
}

/// Whether a hidden column counts anything in this row.
fn counts(row: &[SqlValue], place: Option<usize>) -> bool {
    let count = place.and_then(|place| number(&row[place]));
    count.is_some_and(|count| count > 0.0)
}

impl Unread {
    /// How sure a number is that would be this sure if every value had been read.
    pub(super) fn with(self, exactness: Exactness) -> Exactness {
        match (self, exactness) {
            (Self::Nothing, exactness) => exactness,
            (_, Exactness::Unknown) => Exactness::Unknown,
            (Self::More, Exactness::Exact | Exactness::AtLeast | Exactness::Between { .. }) => {
                Exactness::AtLeast
            }
            (Self::More, Exactness::AtMost | Exactness::About) | (Self::Unsure, _) => {
                Exactness::About
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_columns_are_dropped_and_say_what_was_not_read() {
        let columns = ["day", "_more_net", "net", "_unsure_net", "_more_paper"];
        let shown = Shown::of(&columns.map(str::to_owned));
        assert_eq!(shown.columns, ["day", "net", "_more_paper"]);
        let unread = |more: i64, unsure: i64| {
            let row = ["d".to_owned().into(), more.into(), 7.into()];
            let row: Vec<SqlValue> = row.into_iter().chain([unsure.into(), 1.into()]).collect();
            let values = shown.values(row);
            assert_eq!(values.len(), 3);
            assert_eq!(values[1].value, 7.into());
            values[1].unread
        };
        assert_eq!(unread(0, 0), Unread::Nothing);
        assert_eq!(unread(2, 0), Unread::More);
        assert_eq!(unread(2, 1), Unread::Unsure, "the weaker word counts");
    }

    #[test]
    fn a_value_that_was_not_read_opens_the_number_to_one_side_or_to_both() {
        let between = Exactness::Between { upper: 9.0 };
        for (is, more, unsure) in [
            (Exactness::Exact, Exactness::AtLeast, Exactness::About),
            (Exactness::AtLeast, Exactness::AtLeast, Exactness::About),
            (Exactness::AtMost, Exactness::About, Exactness::About),
            (between, Exactness::AtLeast, Exactness::About),
            (Exactness::About, Exactness::About, Exactness::About),
            (Exactness::Unknown, Exactness::Unknown, Exactness::Unknown),
        ] {
            assert_eq!(Unread::Nothing.with(is), is);
            assert_eq!(Unread::More.with(is), more, "{is:?}");
            assert_eq!(Unread::Unsure.with(is), unsure, "{is:?}");
        }
    }
}
