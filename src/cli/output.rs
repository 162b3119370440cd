//! How commands print: JSON for programs, tables for people, with unsafe characters escaped.

use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;

use crate::status::StatusTable;
use crate::store::VerifyFinding;
use crate::text::escape;
pub(super) use crate::text::escape::{cell, shown_lines as plain};
pub(super) use crate::text::number::count;

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

/// The name of a column, and what it has for an item.
pub(super) type Column<T> = (&'static str, fn(&T) -> String);

/// How the result of a command is printed.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(super) struct Output {
    /// Print the result as JSON
    #[arg(long, global = true, display_order = 900)]
    pub(super) json: bool,
    /// Show all columns of a table, also those that do not fit the terminal
    #[arg(long, global = true, display_order = 900)]
    pub(super) wide: bool,
}

impl Output {
    /// Prints what a command did: as JSON, or as lines for people.
    pub(super) fn done(self, value: &impl Serialize, lines: &str) -> anyhow::Result<ExitCode> {
        if self.json {
            json(value)
        } else {
            text(&plain(lines))
        }
    }

    /// Prints what was tested, a line each.
    pub(super) fn findings(self, findings: &[VerifyFinding]) -> anyhow::Result<ExitCode> {
        let line = |VerifyFinding { what, ok, said }: &VerifyFinding| {
            let mark = if *ok { "ok   " } else { "WRONG" };
            format!("{mark} {what:<10} {said}\n")
        };
        self.done(&findings, &findings.iter().map(line).collect::<String>())
    }

    /// Prints a row for each item, or `empty` if there are none; as JSON, the items.
    pub(super) fn table<T: Serialize>(
        self,
        items: &[T],
        columns: &[Column<T>],
        empty: &str,
    ) -> anyhow::Result<ExitCode> {
        if self.json {
            json(items)
        } else {
            self.listing(items, columns, empty)
        }
    }

    /// As [`Self::table`], of items that have another form as JSON.
    pub(super) fn listing<T>(
        self,
        items: &[T],
        columns: &[Column<T>],
        empty: &str,
    ) -> anyhow::Result<ExitCode> {
        let heading: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        let row = |item| columns.iter().map(|(_, value)| value(item)).collect();
        self.rows(&heading, &items.iter().map(row).collect::<Vec<_>>(), empty)
    }

    /// Prints rows under a heading, or `empty` if there are none. On a terminal that is too narrow
    /// for the table, the last columns are left out and named, unless it is to be wide.
    fn rows(self, heading: &[&str], rows: &[Vec<String>], empty: &str) -> anyhow::Result<ExitCode> {
        if rows.is_empty() {
            return text(&format!("{empty}\n"));
        }
        let is_number = |_: usize, value: &str| {
            !value.is_empty()
                && value
                    .bytes()
                    .all(|b| b.is_ascii_digit() || b".,".contains(&b))
        };
        text(&crate::text::table::fitted(
            heading,
            rows,
            self.width(),
            &is_number,
        ))
    }

    /// Prints a table of the status with its notes.
    pub(super) fn overview(self, table: &StatusTable) -> anyhow::Result<ExitCode> {
        let heading: Vec<&str> = table
            .rows
            .first()
            .into_iter()
            .flatten()
            .map(|c| c.0)
            .collect();
        let texts = |row: &Vec<(_, String)>| row.iter().map(|(_, text)| cell(text, 60)).collect();
        self.rows(
            &heading,
            &table.rows.iter().map(texts).collect::<Vec<_>>(),
            table.empty,
        )?;
        text(
            &table
                .notes
                .iter()
                .map(|note| format!("{}\n", plain(note)))
                .collect::<String>(),
        )
    }

    /// A line with its end, cut to the width of the terminal unless it is to be wide.
    pub(super) fn fitted(self, line: &str) -> String {
        match self.width() {
            usize::MAX => line.to_owned(),
            width => format!("{}\n", escape::cut(line.trim_end(), width - 1)),
        }
    }

    /// The width of the terminal that standard output is; no limit if it is not a terminal, or if
    /// wide output is wanted.
    pub(super) fn width(self) -> usize {
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
        let width = size.map(|size| usize::from(size.ws_col));
        width
            .filter(|width| *width > 0 && !self.wide)
            .unwrap_or(usize::MAX)
    }
}
