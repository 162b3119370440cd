//! How commands print: JSON for programs, tables for people, with unsafe characters escaped.

use std::io::Write;
use std::process::ExitCode;

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};
use serde::Serialize;

use crate::escape;
pub(super) use crate::escape::shown_lines as plain;

/// As [`escape::shown`], cut to `most` characters.
pub(super) fn cell(text: &str, most: usize) -> String {
    escape::shown(&escape::cut(text, most))
}

/// Prints text that is safe already.
pub(super) fn text(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Prints a line to standard error. If that fails, the command continues.
pub(super) fn aside(text: &str) {
    // A full disk or a closed pipe must not change what the command does.
    let _ = writeln!(anstream::stderr().lock(), "{}", plain(text));
}

/// Prints bytes as they are.
pub(super) fn raw(bytes: &[u8]) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a value as indented JSON.
pub(super) fn json<T: Serialize + ?Sized>(value: &T) -> anyhow::Result<ExitCode> {
    let mut out = serde_json::to_vec_pretty(value)?;
    out.push(b'\n');
    raw(&out)
}

/// Prints rows under a heading, or `empty` if there are none. On a terminal that is too narrow for
/// the table, each row becomes a block of lines.
pub(super) fn table(
    heading: &[&str],
    rows: &[Vec<String>],
    empty: &str,
) -> anyhow::Result<ExitCode> {
    table_with(heading, rows, empty, |_, value| {
        !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit() || b == b'.')
    })
}

/// The same; `is_number` says of a column and a value whether it is aligned to the right.
pub(super) fn table_with(
    heading: &[&str],
    rows: &[Vec<String>],
    empty: &str,
    is_number: impl Fn(usize, &str) -> bool,
) -> anyhow::Result<ExitCode> {
    if rows.is_empty() {
        text(&format!("{empty}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let lines = aligned(heading, rows, is_number);
    let widest = lines.iter().map(|line| line.chars().count()).max().unwrap_or_default();
    let shown = match terminal_width() {
        Some(width) if widest > width => blocks(heading, rows),
        _ => lines.iter().map(|line| format!("{line}\n")).collect(),
    };
    text(&shown)?;
    Ok(ExitCode::SUCCESS)
}

/// The width of the terminal that standard output is; `None` if it is not a terminal.
fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// The rows as a table, one line each, with numbers aligned to the right.
fn aligned(
    heading: &[&str],
    rows: &[Vec<String>],
    is_number: impl Fn(usize, &str) -> bool,
) -> Vec<String> {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(heading.iter().map(|name| Cell::new(name.to_uppercase())));
    for row in rows {
        table.add_row(row.iter().enumerate().map(|(column, value)| {
            let alignment =
                if is_number(column, value) { CellAlignment::Right } else { CellAlignment::Left };
            Cell::new(value).set_alignment(alignment)
        }));
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}

/// The rows as blocks of `NAME value` lines, without the values that are absent.
fn blocks(heading: &[&str], rows: &[Vec<String>]) -> String {
    let width = heading.iter().map(|name| name.chars().count()).max().unwrap_or_default();
    let mut shown = String::new();
    for (index, row) in rows.iter().enumerate() {
        if index > 0 {
            shown.push('\n');
        }
        for (name, value) in heading.iter().zip(row).filter(|(_, value)| *value != "-") {
            shown.push_str(&format!("{:<width$}  {value}\n", name.to_uppercase()));
        }
    }
    shown
}

/// A number with its noun: `1 change`, `2 changes`.
pub(super) fn count(number: i64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_terminal_gets_each_row_as_a_block_without_absent_values() {
        let rows = [["leads", "-", "12"], ["jobs", "7", "3"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        let wanted = "ROUTE     leads\nRECORDS   12\n\nROUTE     jobs\nBUSINESS  7\nRECORDS   3\n";
        assert_eq!(blocks(&["route", "business", "records"], &rows), wanted);
    }

    #[test]
    fn text_from_outside_cannot_control_a_terminal() {
        let hostile = "Bob\u{1b}[31m\u{202e}\u{9b}\r\u{0}";
        for shown in [plain(hostile), cell(hostile, 100)] {
            assert!(!shown.chars().any(escape::is_unsafe), "{shown:?}");
            assert!(shown.contains("\\u{1b}"));
        }
        assert_eq!(cell("a\nb", 9), "a\\u{a}b");
        assert_eq!(cell("abcdef", 3), "abc…");
    }
}
