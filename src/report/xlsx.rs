//! The answer of a report, or the records of a route, as an Excel file: numbers, days and amounts
//! as such, a head that stays and filters, sums, and the notes on a second sheet.
//!
//! How sure a number is stands in a column beside it, always, if it can be unsure.

mod book;
mod cell;
mod records;

use rust_xlsxwriter::XlsxError;

use super::answer::Answer;
use super::error::ReportError;
use super::exactness::{Cell, Marking};
use super::head::ColumnFormat;
use super::value::{heading, is_a_name};
use crate::text::first_upper;
use book::{About, Book, Look};
use cell::ExcelCell;
pub use records::{RecordSheet, RecordsBook};

/// The largest difference of two sums that are equal: an amount has at most four digits of a
/// fraction.
const SAME_SUM: f64 = 0.000_05;

impl From<XlsxError> for ReportError {
    fn from(error: XlsxError) -> Self {
        Self::Unanswered(format!(
            "the Excel file cannot be written: {error}: make room in the folder for temporary \
             files ({}), or take CSV",
            std::env::temp_dir().display()
        ))
    }
}

/// A column of the file.
#[derive(Clone, Copy)]
enum Part {
    /// The values of a column of the answer.
    Value,
    /// How sure they are.
    Mark,
    /// The upper bounds of its ranges.
    Upper,
}

/// The answer of a report as the bytes of an Excel file.
///
/// # Errors
/// If there is no room for a temporary file.
pub(super) fn xlsx(answer: &Answer) -> Result<Vec<u8>, ReportError> {
    let parts = parts_of(answer);
    let mut heads = Vec::with_capacity(parts.len());
    for (column, part) in &parts {
        let head = first_upper(&heading(&answer.columns[*column]));
        heads.push(match part {
            Part::Value => head,
            Part::Mark => format!("{head}: how sure"),
            Part::Upper => format!("{head}: at most"),
        });
    }
    let about = About {
        title: &answer.report.title,
        made_at: answer.as_of.timestamp(),
        zone: answer.as_of.time_zone(),
        currency: answer.currency.as_deref(),
        locale: &answer.locale,
    };
    let mut book = Book::new(&about, &heads)?;
    let mut cells = Vec::with_capacity(parts.len());
    for row in &answer.rows {
        cells.clear();
        for (column, part) in &parts {
            let cell = part.of(&row[*column], &book);
            cells.push((cell, look(answer, *column)));
        }
        book.row(&cells)?;
    }
    if let Some(totals) = &answer.totals {
        write_totals(&mut book, answer, totals, &parts)?;
    }
    let mut notes = vec![
        answer.report.title.clone(),
        answer.report.about.clone(),
        first_upper(&answer.subject()),
    ];
    for note in &answer.notes {
        notes.push(first_upper(note));
    }
    Ok(book.finish(notes)?)
}

/// The columns of the file.
fn parts_of(answer: &Answer) -> Vec<(usize, Part)> {
    let mut parts = Vec::new();
    for (column, marking) in answer.markings.iter().enumerate() {
        parts.push((column, Part::Value));
        if *marking != Marking::None {
            parts.push((column, Part::Mark));
        }
        if *marking == Marking::Range {
            parts.push((column, Part::Upper));
        }
    }
    parts
}

impl Part {
    /// What this column has for a cell of the answer.
    fn of(self, cell: &Cell, book: &Book) -> ExcelCell {
        match self {
            Self::Value => ExcelCell::of(&cell.value, book.zone()),
            Self::Mark => ExcelCell::text(&cell.exactness.word().replace('_', " ")),
            Self::Upper => match cell.upper() {
                Some(upper) => ExcelCell::of(&upper, book.zone()),
                None => ExcelCell::Empty,
            },
        }
    }
}

/// How the numbers of a column of the answer are shown.
fn look(answer: &Answer, column: usize) -> Look {
    let name = &answer.columns[column];
    match answer.report.format(name) {
        Some(ColumnFormat::Money) => Look::Money,
        Some(ColumnFormat::Percent) => Look::Percent,
        None if is_a_name(name) => Look::Name,
        None => Look::Number,
    }
}

/// The row of sums. What is the sum of the rows above is a formula; a sum that is known better than
/// by adding up is a number.
fn write_totals(
    book: &mut Book,
    answer: &Answer,
    totals: &[Cell],
    parts: &[(usize, Part)],
) -> Result<(), XlsxError> {
    for (place, (column, part)) in parts.iter().enumerate() {
        let look = look(answer, *column);
        let total = &totals[*column];
        let cell = part.of(total, book);
        let is_value = matches!(part, Part::Value);
        if let Some(sum) = cell.number()
            && is_value
            && is_sum_of_rows(answer, *column, sum)
        {
            book.sum(place, &cell, look)?;
        } else if place == 0 && cell == ExcelCell::Empty {
            book.sum_cell(place, &ExcelCell::text("Total"), look)?;
        } else {
            book.sum_cell(place, &cell, look)?;
        }
    }
    Ok(())
}

/// Whether a number is what the rows of a column add up to.
fn is_sum_of_rows(answer: &Answer, column: usize, sum: f64) -> bool {
    let mut added = 0.0;
    for row in &answer.rows {
        added += row[column].number().unwrap_or_default();
    }
    !answer.rows.is_empty() && (added - sum).abs() < SAME_SUM
}
