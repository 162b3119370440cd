//! An answer as a table of plain text, for mails and files.

use super::answer::Answer;
use crate::escape::{cut, shown};

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
    let mut rows: Vec<Vec<String>> = (0..answer.shown_rows().len())
        .map(|row| (0..head.len()).map(|column| cell(&answer.shown(row, column))).collect())
        .collect();
    rows.extend(answer.shown_totals().map(|totals| totals.iter().map(|text| cell(text)).collect()));
    let widths: Vec<usize> = (0..head.len())
        .map(|index| {
            let cells = rows.iter().map(|row| row[index].chars().count());
            cells.chain([head[index].chars().count()]).max().unwrap_or_default()
        })
        .collect();
    let numbers: Vec<bool> = (0..head.len()).map(|column| answer.has_numbers(column)).collect();
    for (place, row) in std::iter::once(&head).chain(&rows).enumerate() {
        let cells = row.iter().zip(&widths).enumerate();
        let line: Vec<String> = cells
            .map(|(column, (text, width))| match place > 0 && numbers[column] {
                true => format!("{text:>width$}"),
                false => format!("{text:<width$}"),
            })
            .collect();
        made.push_str(line.join("  ").trim_end());
        made.push('\n');
    }
    made
}

/// Text of a cell, cut if it is long.
fn cell(text: &str) -> String {
    line(&cut(text, CELL_MAX))
}

/// Text on one line, without characters that control a terminal.
fn line(text: &str) -> String {
    shown(&text.replace(['\n', '\t'], " "))
}
