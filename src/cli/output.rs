//! How commands print: JSON for programs, tables for people, with unsafe characters escaped.

use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;

use crate::escape;
pub(super) use crate::escape::shown_lines as plain;
use crate::table::aligned;

/// As [`escape::shown`], cut to `most` characters.
pub(super) fn cell(text: &str, most: usize) -> String {
    escape::shown(&escape::cut(text, most))
}

/// Prints text that is safe already.
pub(super) fn text(text: &str) -> anyhow::Result<ExitCode> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
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
/// the table, the last columns are left out and named, unless it is to be `wide`.
pub(super) fn table(
    heading: &[&str],
    rows: &[Vec<String>],
    empty: &str,
    wide: bool,
) -> anyhow::Result<ExitCode> {
    table_with(heading, rows, empty, wide, |_, value| {
        !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit() || b == b'.')
    })
}

/// The same; `is_number` says of a column and a value whether it is aligned to the right.
pub(super) fn table_with(
    heading: &[&str],
    rows: &[Vec<String>],
    empty: &str,
    wide: bool,
    is_number: impl Fn(usize, &str) -> bool,
) -> anyhow::Result<ExitCode> {
    if rows.is_empty() {
        return text(&format!("{empty}\n"));
    }
    let width = terminal_width().filter(|_| !wide).unwrap_or(usize::MAX);
    let (lines, left_out) = fitting(heading, rows, width, is_number);
    text(&format!("{}\n", lines.join("\n")))?;
    if !left_out.is_empty() {
        text(&format!("  … also {left_out}: add --wide to see them\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A line with its end, cut to the width of the terminal unless it is to be `wide`.
pub(super) fn fitted(line: &str, wide: bool) -> String {
    match terminal_width().filter(|_| !wide) {
        Some(width) => format!("{}\n", escape::cut(line.trim_end(), width - 1)),
        None => line.to_owned(),
    }
}

/// The width of the terminal that standard output is; `None` if it is not a terminal.
fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Leaves out columns, the last ones first, until the table fits; returns it with their names. The first
/// column stays.
fn fitting(
    heading: &[&str],
    rows: &[Vec<String>],
    width: usize,
    is_number: impl Fn(usize, &str) -> bool,
) -> (Vec<String>, String) {
    let mut shown = heading.len();
    loop {
        let kept: Vec<Vec<String>> = rows.iter().map(|row| row[..shown].to_vec()).collect();
        let lines = aligned(&heading[..shown], &kept, &is_number);
        let widest = lines.iter().map(|line| line.chars().count()).max().unwrap_or_default();
        if widest <= width || shown == 1 {
            return (lines, heading[shown..].join(", ").to_uppercase());
        }
        shown -= 1;
    }
}

/// A number with its noun: `1 change`, `2 changes`.
pub(super) fn count(number: impl TryInto<i64>, one: &str, many: &str) -> String {
    let number = number.try_into().unwrap_or(i64::MAX);
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_terminal_gets_the_first_columns_and_the_names_of_the_others() {
        let rows = [["leads", "12", "5m"], ["jobs", "3", "1h"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        let fitted =
            |width| fitting(&["route", "records", "interval"], &rows, width, |at, _| at == 1);
        let (lines, left_out) = fitted(16);
        let shown: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
        assert_eq!(shown, ["ROUTE  RECORDS", "leads       12", "jobs         3"]);
        assert_eq!(left_out, "INTERVAL");
        assert_eq!(fitted(80).1, "");
        assert_eq!(fitted(1).1, "RECORDS, INTERVAL");
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
