//! CSV as RFC 4180 describes it, safe to open in a spreadsheet or without loss.

use super::answer::Answer;
use super::value::exact;
use crate::escape::shown_lines;
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
    let mut text = String::new();
    let names: Vec<String> =
        answer.columns.iter().map(|column| csv_text(&column.name, guard)).collect();
    text.push_str(&names.join(","));
    text.push_str("\r\n");
    for row in &answer.rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&answer.columns)
            .map(|(value, column)| match value {
                SqlValue::Text(text) => csv_text(text, guard),
                other => exact(other, column.format),
            })
            .collect();
        text.push_str(&cells.join(","));
        text.push_str("\r\n");
    }
    text
}

/// One text as a cell.
#[must_use]
pub fn csv_text(text: &str, guard: Guard) -> String {
    let mut cell = String::with_capacity(text.len() + 2);
    if guard == Guard::Formulas {
        // Also behind white space and in full width, as some spreadsheets read them.
        let first = text.trim_start().chars().next();
        let is_formula = first.is_some_and(|c| "=+-@＝＋－＠|%".contains(c))
            || text.starts_with(['\t', '\r', '\n']);
        if is_formula && text.parse::<f64>().is_err() {
            cell.push('\'');
        }
        cell.push_str(&shown_lines(text));
    } else {
        cell.push_str(text);
    }
    if cell.contains(['"', ',', '\n', '\r', ';']) || cell.starts_with(' ') || cell.ends_with(' ') {
        cell = format!("\"{}\"", cell.replace('"', "\"\""));
    }
    cell
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
            ("say \"hi\", now", "\"say \"\"hi\"\", now\""),
            ("two\nlines", "\"two\nlines\""),
            ("Zoë", "Zoë"),
        ] {
            assert_eq!(csv_text(text, Guard::Formulas), wanted, "{text:?}");
        }
        assert_eq!(csv_text("=1\u{1b}", Guard::Nothing), "=1\u{1b}");
    }
}
