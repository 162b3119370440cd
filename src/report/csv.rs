//! CSV as RFC 4180 describes it, safe to open in a spreadsheet: text that it would read as a
//! formula gets a `'` in front, and characters that control a terminal are written as `\u{..}`.

use super::answer::Answer;
use super::exactness::Cell;
use super::head::ColumnFormat;
use super::value::shown;
use crate::shape::{csv_row, guarded};
use crate::store::SqlValue;
use crate::text::escape::shown_lines;

/// The answer of a report as CSV.
#[must_use]
pub fn csv(answer: &Answer) -> String {
    let format = |column: &String| answer.report.format(column);
    let cell = |(cell, column): (&Cell, &String)| csv_value(&cell.value, format(column));
    let head = csv_head(&answer.columns);
    let rows = answer.rows.iter();
    rows.fold(head, |text, row| {
        text + &line(row.iter().zip(&answer.columns).map(cell))
    })
}

/// The names of columns as a row.
#[must_use]
pub fn csv_head<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    line(names.into_iter().map(|name| csv_text(name)))
}

/// Values of the mirror as a row.
#[must_use]
pub fn csv_values<'a>(values: impl IntoIterator<Item = &'a SqlValue>) -> String {
    line(values.into_iter().map(|value| match value {
        // With every digit that the mirror has.
        SqlValue::Real(number) => number.to_string(),
        other => csv_value(other, None),
    }))
}

/// One row with its end.
fn line(cells: impl IntoIterator<Item = String>) -> String {
    csv_row(cells) + "\r\n"
}

/// One value as a cell: a number as programs read it.
fn csv_value(value: &SqlValue, format: Option<ColumnFormat>) -> String {
    match value {
        SqlValue::Text(text) => csv_text(text),
        number => shown(
            number,
            format.filter(|format| *format == ColumnFormat::Money),
        ),
    }
}

fn csv_text(text: &str) -> String {
    shown_lines(&guarded(text))
}
