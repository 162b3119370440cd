//! CSV as RFC 4180 describes it, safe to open in a spreadsheet or without loss.

use super::answer::{Answer, Column};
use super::completeness::Cell;
use super::head::ColumnFormat;
use super::value::shown;
use crate::escape::shown_lines;
use crate::number::decimals;
use crate::shape::{csv_row, guarded};
use crate::store::SqlValue;

/// Whether text is changed so that a spreadsheet does not run it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// Text that a spreadsheet would read as a formula gets a `'` in front, and characters that
    /// control a terminal are written as `\u{..}`.
    Formulas,
    /// Every character stays.
    Nothing,
}

/// The answer of a report as CSV.
#[must_use]
pub fn csv(answer: &Answer, guard: Guard) -> String {
    let cell = |(cell, column): (&Cell, &Column)| csv_value(&cell.value, column.format, guard);
    let mut text = csv_head(answer.columns.iter().map(|column| &column.name), guard);
    for row in &answer.rows {
        text.push_str(&line(row.iter().zip(&answer.columns).map(cell)));
    }
    text
}

/// The names of columns as a row.
#[must_use]
pub fn csv_head<'a>(names: impl IntoIterator<Item = &'a String>, guard: Guard) -> String {
    line(names.into_iter().map(|name| csv_text(name, guard)))
}

/// Values of the mirror as a row.
#[must_use]
pub fn csv_values<'a>(values: impl IntoIterator<Item = &'a SqlValue>, guard: Guard) -> String {
    line(values.into_iter().map(|value| match value {
        // With every digit that the mirror has.
        SqlValue::Real(number) => number.to_string(),
        other => csv_value(other, None, guard),
    }))
}

/// One row with its end.
fn line(cells: impl IntoIterator<Item = String>) -> String {
    csv_row(cells) + "\r\n"
}

/// One value as a cell: a number as programs read it.
fn csv_value(value: &SqlValue, format: Option<ColumnFormat>, guard: Guard) -> String {
    match (value, format) {
        (SqlValue::Text(text), _) => csv_text(text, guard),
        (SqlValue::Real(number), Some(ColumnFormat::Money)) => decimals(*number),
        (SqlValue::Integer(number), Some(ColumnFormat::Money)) => decimals(*number as f64),
        _ => shown(value, None),
    }
}

fn csv_text(text: &str, guard: Guard) -> String {
    match guard {
        Guard::Nothing => text.to_owned(),
        Guard::Formulas => shown_lines(&guarded(text)),
    }
}
