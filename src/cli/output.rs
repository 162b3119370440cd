//! How commands print: JSON for programs, tables for people, foreign text escaped.

use std::io::Write;
use std::process::ExitCode;

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};
use serde::Serialize;

use crate::escape::is_unsafe;

/// Text as it may be shown on a terminal: control and bidirectional characters as `\u{..}`.
pub(super) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            c if is_unsafe(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// As [`plain`], on one line and cut to `most` characters.
pub(super) fn cell(text: &str, most: usize) -> String {
    let mut shown = String::new();
    for (index, c) in text.chars().enumerate() {
        if index == most {
            shown.push('…');
            break;
        }
        if is_unsafe(c) || c == '\n' || c == '\t' {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Prints text that is safe already.
pub(super) fn text(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Says something beside the output; it is no failure when nobody can be told.
pub(super) fn aside(text: &str) {
    // A full disk or a reader that has gone must not change what the command does.
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

/// Prints rows under a heading, or `empty` when there are none.
pub(super) fn table(
    heading: &[&str],
    rows: Vec<Vec<String>>,
    empty: &str,
) -> anyhow::Result<ExitCode> {
    if rows.is_empty() {
        text(&format!("{empty}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(heading.iter().map(|name| Cell::new(name.to_uppercase())));
    for row in rows {
        table.add_row(row.into_iter().map(|value| {
            let number =
                !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            let alignment = if number { CellAlignment::Right } else { CellAlignment::Left };
            Cell::new(value).set_alignment(alignment)
        }));
    }
    let shown: String = table.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    text(&shown)?;
    Ok(ExitCode::SUCCESS)
}

/// A number with its noun: `1 change`, `2 changes`.
pub(super) fn count(number: i64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Seconds as a person says them: `4 s`, `12 min`, `3 h`, `5 d`.
pub(super) fn ago(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3600.0),
        s => format!("{:.0} d", s / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_steer_a_terminal() {
        let hostile = "Bob\u{1b}[31m\u{202e}\u{9b}\r\u{0}";
        for shown in [plain(hostile), cell(hostile, 100)] {
            assert!(!shown.chars().any(is_unsafe), "{shown:?}");
            assert!(shown.contains("\\u{1b}"));
        }
        assert_eq!(cell("a\nb", 9), "a\\u{a}b");
        assert_eq!(cell("abcdef", 3), "abc…");
    }
}
