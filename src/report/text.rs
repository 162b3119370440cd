//! An answer as a table of plain text, for the terminal, mails and files.

use super::answer::{Answer, NOTHING};
use crate::text::document::{self, cell};
use crate::text::table::fitted;

/// The longest cell, in characters.
const CELL_MAX: usize = 60;

/// The title, the time, the rows, aligned by spaces, and the notes. Columns that do not fit into
/// `width` are left out and named.
#[must_use]
pub fn text(answer: &Answer, width: usize) -> String {
    let mut text =
        document::line(&format!("{}, {}", answer.report.title, answer.subject())) + "\n\n";
    if answer.rows.is_empty() {
        text.push_str(&format!("{NOTHING}\n"));
    } else {
        text.push_str(&rows(answer, width));
    }
    text.push('\n');
    for note in answer.shown_notes() {
        text.push_str(&format!("note: {}\n", document::line(&note)));
    }
    text
}

fn rows(answer: &Answer, width: usize) -> String {
    let heads: Vec<String> = answer
        .columns
        .iter()
        .map(|column| cell(column, CELL_MAX))
        .collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let rows = answer
        .shown_rows()
        .iter()
        .map(|row| answer.shown(row).collect());
    let rows = rows.chain(answer.shown_totals());
    let shown = |row: Vec<String>| row.iter().map(|text| cell(text, CELL_MAX)).collect();
    let rows: Vec<Vec<String>> = rows.map(shown).collect();
    let numbers: Vec<bool> = (0..heads.len())
        .map(|column| answer.has_numbers(column))
        .collect();
    fitted(&heads, &rows, width, &|column, _| numbers[column])
}
