//! How much a number of a report says: it is exact, or at least, at most, between, about or unknown.
//!
//! Three things decide it: what was read of each list ([`Knowledge`]), what could not be read in the
//! rows that are counted (the hidden columns, see [`hidden`]), and what a sum adds up. What is
//! unknown is never 0.

mod cells;
mod coverage;
mod gone;
mod hidden;
mod knowledge;
mod notes;
mod standing;
mod sums;

pub(super) use cells::Cells;
pub(super) use coverage::{BusinessChoice, Known};
pub(super) use knowledge::Knowledge;
pub(super) use notes::{complete_since, of_cancelled, of_links, of_rereads, of_unknown_jobs};
pub(super) use sums::totals;

use crate::store::SqlValue;

/// How sure a number is.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Exactness {
    /// It is right as far as the mirror can tell.
    #[default]
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

    /// The number, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        number(&self.value)
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
