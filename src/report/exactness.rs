//! How much a number of a report says: it is exact, or at least, at most, between, about or unknown.
//!
//! Three things decide it: what was read of each list ([`Knowledge`]), what could not be read in the
//! rows that are counted (the hidden columns, see [`hidden`]), and what a sum adds up. What is
//! unknown is never 0.

mod assumed;
mod cells;
mod coverage;
mod gone;
mod hidden;
mod knowledge;
mod notes;
mod standing;
mod sums;

pub(super) use coverage::BusinessChoice;
pub(super) use knowledge::Knowledge;
pub(super) use notes::{complete_since, of_unknown_jobs};
pub use sums::sum_of_counts;
pub(super) use sums::totals;

use crate::store::SqlValue;

/// How sure a number is.
#[derive(Debug, Clone, Copy, PartialEq, Default, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Exactness {
    /// It is right as far as the mirror can tell.
    #[default]
    #[strum(serialize = "")]
    Exact,
    /// It may be larger.
    AtLeast,
    /// It may be smaller.
    AtMost,
    /// It lies between the value of its cell and this.
    Between {
        /// The most that it may be.
        upper: f64,
    },
    /// It may be larger or smaller, and nothing says by how much.
    About,
    /// Nothing is known.
    Unknown,
}

impl Exactness {
    /// Its word for programs: `at_least`; empty if the number is exact.
    #[must_use]
    pub fn word(self) -> &'static str {
        self.into()
    }

    /// How sure the number is if it may also be more.
    fn or_more(self) -> Self {
        match self {
            Self::Exact | Self::AtLeast | Self::Between { .. } => Self::AtLeast,
            Self::AtMost | Self::About => Self::About,
            Self::Unknown => Self::Unknown,
        }
    }

    /// How sure the number is if it may also be less.
    fn or_less(self) -> Self {
        match self {
            Self::Exact | Self::AtMost => Self::AtMost,
            Self::AtLeast | Self::Between { .. } | Self::About => Self::About,
            Self::Unknown => Self::Unknown,
        }
    }

    /// How sure the number is if it may also be more or less.
    fn or_other(self) -> Self {
        match self {
            Self::Unknown => Self::Unknown,
            _ => Self::About,
        }
    }
}

/// How unsure the numbers of a column can be, whatever they are now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marking {
    /// They are always exact, or no numbers.
    None,
    /// They can have every mark but `between`.
    Word,
    /// They can have every mark.
    Range,
}

/// The columns of a report that are shown, and its rows.
#[derive(Default)]
pub(super) struct Cells {
    /// The names of the columns.
    pub(super) columns: Vec<String>,
    /// How unsure the numbers of each column can be.
    pub(super) markings: Vec<Marking>,
    /// The rows.
    pub(super) rows: Vec<Vec<Cell>>,
    /// The sum of each column of which it is known better than by adding up.
    pub(super) sums: Vec<Option<Cell>>,
}

/// A value, and how sure it is. What is unknown is NULL.
///
/// The value of `AtLeast` and `Between` is the lower bound, that of `AtMost` the upper one.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// The value.
    pub value: SqlValue,
    /// How sure it is.
    pub exactness: Exactness,
}

impl Cell {
    /// A value that is this sure; NULL if it is unknown.
    #[must_use]
    pub fn of(value: SqlValue, exactness: Exactness) -> Self {
        let value = if exactness == Exactness::Unknown {
            SqlValue::Null
        } else {
            value
        };
        Self { value, exactness }
    }

    /// Nothing is known.
    #[must_use]
    pub fn unknown() -> Self {
        Self::of(SqlValue::Null, Exactness::Unknown)
    }

    /// The same count, if up to `most` of it may not belong there; `None` if nothing says how many.
    fn without(self, most: Option<u64>) -> Self {
        let is_unknown = self.exactness == Exactness::Unknown;
        if is_unknown || most == Some(0) || self.number() == Some(0.0) {
            return self;
        }
        if let (SqlValue::Integer(count), Some(most)) = (&self.value, most)
            && let Some(lower) = count.checked_sub_unsigned(most)
            && lower > 0
        {
            let upper = *count as f64;
            match self.exactness {
                Exactness::Exact => return Self::of(lower.into(), Exactness::Between { upper }),
                Exactness::AtLeast | Exactness::Between { .. } => {
                    return Self::of(lower.into(), self.exactness);
                }
                Exactness::AtMost | Exactness::About | Exactness::Unknown => {}
            }
        }
        self.or_less()
    }

    /// The same number, if it may also be less: of a range, what it is at most.
    fn or_less(self) -> Self {
        match self.upper() {
            Some(upper) => Self::of(upper, Exactness::AtMost),
            None => Self::of(self.value, self.exactness.or_less()),
        }
    }

    /// The number, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        number(&self.value)
    }

    /// The upper bound of a range, as a number of the same type.
    #[must_use]
    pub fn upper(&self) -> Option<SqlValue> {
        let Exactness::Between { upper } = self.exactness else {
            return None;
        };
        Some(match self.value {
            SqlValue::Integer(_) => SqlValue::Integer(upper as i64),
            _ => SqlValue::Real(upper),
        })
    }

    /// Whether it is a number, or would be one if it were known.
    #[must_use]
    pub fn is_number(&self) -> bool {
        self.number().is_some() || self.exactness == Exactness::Unknown
    }
}

/// A value as a number; `None` for everything else.
pub(super) fn number(value: &SqlValue) -> Option<f64> {
    match value {
        SqlValue::Integer(number) => Some(*number as f64),
        SqlValue::Real(number) => Some(*number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_of_which_some_may_not_belong_there_is_a_range_or_has_a_lower_bound() {
        let without = |count: i64, exactness, most| Cell::of(count.into(), exactness).without(most);
        let (exact, least, most) = (Exactness::Exact, Exactness::AtLeast, Exactness::AtMost);
        let upto = |upper: i32| Exactness::Between {
            upper: f64::from(upper),
        };
        for (is, of, number, then) in [
            (exact, Some(0), 8, exact),
            (exact, Some(3), 5, upto(8)),
            (exact, Some(8), 8, most),
            (exact, None, 8, most),
            (least, Some(3), 5, least),
            (least, Some(9), 8, Exactness::About),
            (upto(12), Some(3), 5, upto(12)),
            (upto(12), None, 12, most),
            (most, Some(3), 8, most),
            (Exactness::About, Some(3), 8, Exactness::About),
        ] {
            let cell = without(8, is, of);
            assert_eq!(cell, Cell::of(number.into(), then), "{is:?} {of:?}");
        }
        let none = Cell::of(0.into(), exact);
        assert_eq!(none.clone().without(None), none);
        let amount = Cell::of(8.5.into(), least).without(Some(3));
        assert_eq!(amount, Cell::of(8.5.into(), Exactness::About));
    }
}
