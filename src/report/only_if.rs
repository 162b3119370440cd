//! Whether a scheduled report has a reason to be sent. Pure.
//!
//! A number that is not exact meets a condition if it may: a report is rather sent than kept back
//! in silence.

use std::cmp::Ordering;

use super::answer::Answer;
use super::error::ReportError;
use super::exactness::{Cell, Exactness};
use super::value::shown;
use crate::config::{Comparison, OnlyIf, RowTest};
use crate::store::SqlValue;

/// Whether the answer has the reason.
///
/// # Errors
/// [`ReportError::Refused`] if the report has no such column.
pub fn has_reason(only_if: &OnlyIf, answer: &Answer) -> Result<bool, ReportError> {
    let test = match only_if {
        OnlyIf::Rows => return Ok(!answer.rows.is_empty() || may_lack_rows(answer)),
        OnlyIf::AnyRow(test) => test,
    };
    let columns = &answer.columns;
    let Some(column) = columns.iter().position(|name| *name == test.column) else {
        return Err(ReportError::Refused(format!(
            "only_if names the column {:?}, and the columns of the report {} are: {}",
            test.column,
            answer.report.name,
            columns.join(", ")
        )));
    };
    Ok(may_lack_rows(answer) || answer.rows.iter().any(|row| meets(test, &row[column])))
}

/// Whether a list may have rows that the answer does not show.
fn may_lack_rows(answer: &Answer) -> bool {
    let Some(found) = &answer.found else {
        return false;
    };
    !matches!(found.exactness, Exactness::Exact | Exactness::AtMost)
}

fn meets(test: &RowTest, cell: &Cell) -> bool {
    let (Some(number), Ok(wanted)) = (cell.number(), test.value.parse::<f64>()) else {
        return meets_as_text(test, cell);
    };
    let (least, most) = match cell.exactness {
        Exactness::Exact => (number, number),
        Exactness::AtLeast => (number, f64::INFINITY),
        Exactness::AtMost => (f64::NEG_INFINITY, number),
        Exactness::Between { upper } => (number, upper),
        Exactness::About | Exactness::Unknown => (f64::NEG_INFINITY, f64::INFINITY),
    };
    match test.comparison {
        Comparison::Less => least < wanted,
        Comparison::LessOrEqual => least <= wanted,
        Comparison::Equal => (least..=most).contains(&wanted),
        Comparison::NotEqual => least != wanted || most != wanted,
        Comparison::GreaterOrEqual => most >= wanted,
        Comparison::Greater => most > wanted,
    }
}

fn meets_as_text(test: &RowTest, cell: &Cell) -> bool {
    if cell.value == SqlValue::Null {
        // Nothing is there, unless it cannot be known.
        return cell.exactness != Exactness::Exact;
    }
    let order = shown(&cell.value, None).as_str().cmp(&test.value);
    match test.comparison {
        Comparison::Less => order == Ordering::Less,
        Comparison::LessOrEqual => order != Ordering::Greater,
        Comparison::Equal => order == Ordering::Equal,
        Comparison::NotEqual => order != Ordering::Equal,
        Comparison::GreaterOrEqual => order != Ordering::Less,
        Comparison::Greater => order == Ordering::Greater,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_not_exact_meets_a_condition_if_it_may() {
        let met = |text: &str, value: SqlValue, exactness| {
            let Ok(OnlyIf::AnyRow(test)) = OnlyIf::parse(text) else {
                panic!("{text}");
            };
            meets(&test, &Cell { value, exactness })
        };
        let exact = Exactness::Exact;
        assert!(met("late > 3", 4.into(), exact));
        assert!(!met("late > 3", 3.into(), exact));
        assert!(!met("late > 3", SqlValue::Null, exact), "nothing is there");
        assert!(met("late > 3", SqlValue::Null, Exactness::Unknown));
        assert!(met("late > 3", 1.into(), Exactness::AtLeast));
        assert!(!met("late < 1", 1.into(), Exactness::AtLeast));
        assert!(met("late < 1", 5.into(), Exactness::AtMost));
        assert!(met("late > 10", 10.into(), Exactness::About));
        let range = Exactness::Between { upper: 6.0 };
        assert!(met("late = 5", 4.into(), range) && !met("late > 6", 4.into(), range));
        assert!(met("status = Ready", "Ready".to_owned().into(), exact));
        assert!(!met("status = Ready", "Open".to_owned().into(), exact));
        assert!(met(
            "day > 2026-01-01",
            "2026-02-01".to_owned().into(),
            exact
        ));
    }
}
