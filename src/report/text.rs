//! An answer as a table of plain text, for mails and files.

use super::answer::Answer;
use crate::escape::{cut, shown};
use crate::table::aligned;

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
    let heads: Vec<String> = answer.columns.iter().map(|column| cell(&column.name)).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut rows: Vec<Vec<String>> = (0..answer.shown_rows().len())
        .map(|row| (0..heads.len()).map(|column| cell(&answer.shown(row, column))).collect())
        .collect();
    rows.extend(answer.shown_totals().map(|totals| totals.iter().map(|text| cell(text)).collect()));
    let numbers: Vec<bool> = (0..heads.len()).map(|column| answer.has_numbers(column)).collect();
    aligned(&heads, &rows, &|column, _| numbers[column]).join("\n") + "\n"
}

/// Text of a cell, cut if it is long.
fn cell(text: &str) -> String {
    line(&cut(text, CELL_MAX))
}

/// Text on one line, without characters that control a terminal.
fn line(text: &str) -> String {
    shown(&text.replace(['\n', '\t'], " "))
}
