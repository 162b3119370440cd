//! An answer as a table of plain text, for mails and files.

use super::answer::Answer;
use super::completeness::Exactness;
use crate::escape::is_unsafe;
use crate::store::SqlValue;

/// The longest cell, in characters.
const CELL_MAX: usize = 60;

/// The title, the time, the rows, aligned by spaces, and the notes.
#[must_use]
pub(super) fn text(answer: &Answer) -> String {
    let mut made = format!("{}, {}\n\n", cell(&answer.report.title), cell(&answer.subject()));
    match answer.rows.is_empty() {
        true => made.push_str(&format!("{}\n", answer.nothing())),
        false => made.push_str(&rows(answer)),
    }
    made.push('\n');
    for note in answer.shown_notes() {
        made.push_str(&format!("note: {}\n", line(&note)));
    }
    made
}

fn rows(answer: &Answer) -> String {
    let mut made = String::new();
    let head: Vec<String> =
        answer.columns.iter().map(|column| cell(&column.name).to_uppercase()).collect();
    let mut rows: Vec<Vec<(String, bool)>> = answer
        .shown_rows()
        .iter()
        .enumerate()
        .map(|(index, row)| {
            let cells = row.iter().enumerate();
            cells
                .map(|(column, value)| {
                    let is_unknown = answer.exactness(index, column) == Exactness::Unknown;
                    (cell(&answer.shown(index, column)), is_unknown || is_number(value))
                })
                .collect()
        })
        .collect();
    if let Some(totals) = answer.shown_totals() {
        rows.push(totals.iter().enumerate().map(|(index, text)| (cell(text), index > 0)).collect());
    }
    let widths: Vec<usize> = (0..head.len())
        .map(|index| {
            let cells = rows.iter().map(|row| row[index].0.chars().count());
            cells.chain([head[index].chars().count()]).max().unwrap_or_default()
        })
        .collect();
    let head: Vec<(String, bool)> = head.into_iter().map(|name| (name, false)).collect();
    for row in std::iter::once(&head).chain(&rows) {
        let line: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|((text, right), width)| match right {
                true => format!("{text:>width$}"),
                false => format!("{text:<width$}"),
            })
            .collect();
        made.push_str(line.join("  ").trim_end());
        made.push('\n');
    }
    made
}

fn is_number(value: &SqlValue) -> bool {
    matches!(value, SqlValue::Integer(_) | SqlValue::Real(_))
}

/// Text of a cell, cut if it is long.
fn cell(text: &str) -> String {
    match text.char_indices().nth(CELL_MAX) {
        Some((end, _)) => line(&text[..end]) + "…",
        None => line(text),
    }
}

/// Text on one line, without characters that control a terminal.
fn line(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(' '),
            c if is_unsafe(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}
