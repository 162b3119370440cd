//! Reading the values that reports calculate with: amounts, instants and days, each by one reader.
//!
//! A reader gives the one value that a text can mean, or two if it can be read in two ways. Which
//! of them is meant is a fact of the field, a [`Rule`]; without it the value is unreadable. Nothing
//! is guessed. Pure.

mod amount;
mod day;
mod instant;
mod record;
mod rules;
#[cfg(test)]
mod tests;
mod text;
mod words;

use jiff::Timestamp;
use jiff::civil::Date;

pub use amount::read_amount;
pub use day::{DateFormat, read_day};
pub use instant::read_instant;
pub use record::{
    FieldKind, FieldReader, FieldReading, ReadField, ReadRules, ReadSettings, ReadValue,
    RecordReading, fields_of,
};
pub use rules::{Evidence, Question, Rule, RuleSet, Ruling};
pub use words::{
    CHANGED_BY, JOB_DEVICE, PAYMENT_METHOD, PAYMENT_STATUS, PAYMENT_TYPE, PaymentKind, WORD_FIELDS,
    WordField,
};

/// What can be made of one value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reading<T> {
    /// Nothing was sent: the field is absent, null or an empty text.
    Absent,
    /// The one value that it can mean.
    Certain(T),
    /// Two values, each with the rule by which it is meant.
    Ambiguous([(Rule, T); 2]),
    /// It has another form than all that are known.
    Unreadable,
}

/// A reading, and the rule of its field that the value speaks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReadAs<T> {
    /// What can be made of the value.
    pub reading: Reading<T>,
    /// The rule for which this value is evidence.
    pub supports: Option<Rule>,
}

/// An amount as read.
pub type AmountReading = ReadAs<f64>;
/// A time as read.
pub type InstantReading = ReadAs<Timestamp>;
/// A day as read.
pub type DayReading = ReadAs<Date>;

impl<T> ReadAs<T> {
    const ABSENT: Self = Self::plain(Reading::Absent);
    const UNREADABLE: Self = Self::plain(Reading::Unreadable);

    const fn plain(reading: Reading<T>) -> Self {
        Self {
            reading,
            supports: None,
        }
    }

    const fn certain(value: T) -> Self {
        Self::plain(Reading::Certain(value))
    }

    const fn evident(value: T, rule: Rule) -> Self {
        Self {
            reading: Reading::Certain(value),
            supports: Some(rule),
        }
    }
}

impl<T> Reading<T> {
    /// The value, if these rules leave one.
    #[must_use]
    pub fn by(self, rules: RuleSet) -> Option<T> {
        match self {
            Self::Certain(value) => Some(value),
            Self::Ambiguous(readings) => {
                for (rule, value) in readings {
                    if rules.has(rule) {
                        return Some(value);
                    }
                }
                None
            }
            Self::Absent | Self::Unreadable => None,
        }
    }
}
