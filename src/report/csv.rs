//! CSV as RFC 4180 describes it, safe to open in a spreadsheet or without loss.

use super::answer::Answer;
use super::value::exact;
use crate::escape::shown_lines;
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
    let names = answer.columns.iter().map(|column| csv_text(&column.name, guard));
    let mut text = csv_line(names);
    for row in &answer.rows {
        text.push_str(&csv_line(row.iter().zip(&answer.columns).map(
            |(value, column)| match value {
                SqlValue::Text(text) => csv_text(text, guard),
                other => exact(other, column.format),
            },
        )));
    }
    text
}

/// One row with its end.
#[must_use]
pub fn csv_line(cells: impl IntoIterator<Item = String>) -> String {
    csv_row(cells) + "\r\n"
}

/// One text as a cell.
#[must_use]
pub fn csv_text(text: &str, guard: Guard) -> String {
    match guard {
        Guard::Nothing => text.to_owned(),
        Guard::Formulas => shown_lines(&guarded(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spreadsheet_runs_nothing_and_the_other_form_loses_nothing() {
        for (text, wanted) in [
            ("=1+1", "'=1+1"),
            (" @SUM(A1)", "' @SUM(A1)"),
            ("\t=1", "'\t=1"),
            ("＝1", "'＝1"),
            ("-12.50", "-12.50"),
            ("+44 7700", "'+44 7700"),
            ("-x", "'-x"),
            ("a\u{1b}[31m\u{202e}b", "a\\u{1b}[31m\\u{202e}b"),
            ("Zoë", "Zoë"),
        ] {
            assert_eq!(csv_text(text, Guard::Formulas), wanted, "{text:?}");
        }
        assert_eq!(csv_text("=1\u{1b}", Guard::Nothing), "=1\u{1b}");
        let cells = ["say \"hi\", now", "two\nlines"].map(str::to_owned);
        assert_eq!(csv_line(cells), "\"say \"\"hi\"\", now\",\"two\nlines\"\r\n");
    }
}
