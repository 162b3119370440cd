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
