//! An answer as a table of plain text, for mails and files.

use super::answer::Answer;
use super::value::shown;
use crate::escape::is_unsafe;
use crate::store::SqlValue;

/// The longest cell, in characters.
const CELL_MAX: usize = 60;

/// The title, the period, the notes and the rows, aligned by spaces.
#[must_use]
pub(super) fn text(answer: &Answer) -> String {
    let mut made = format!(
        "{}, {} to {}\n\n",
        cell(&answer.report.title),
        answer.period.from,
        answer.period.to
    );
    for note in &answer.notes {
        made.push_str(&format!("note: {}\n\n", cell(note)));
    }
    if answer.rows.is_empty() {
        made.push_str("nothing in this period\n");
        return made;
    }
    let head: Vec<String> =
        answer.columns.iter().map(|column| cell(&column.name).to_uppercase()).collect();
    let rows: Vec<Vec<(String, bool)>> = answer
        .rows
        .iter()
        .map(|row| {
            let cells = row.iter().zip(&answer.columns);
            cells
                .map(|(value, column)| (cell(&shown(value, column.format)), is_number(value)))
                .collect()
        })
        .collect();
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

/// Text on one line, without characters that control a terminal.
fn cell(text: &str) -> String {
    let mut shown = String::new();
    for (index, c) in text.chars().enumerate() {
        if index == CELL_MAX {
            shown.push('…');
            break;
        }
        match c {
            '\n' | '\t' => shown.push(' '),
            c if is_unsafe(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}
