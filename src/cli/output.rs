//! How commands print: JSON for programs, tables for people, with unsafe characters escaped, and a
//! progress bar on a terminal while a command takes long.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use serde::Serialize;

use super::exit;
use crate::status::StatusTable;
use crate::store::VerifyFinding;
pub(super) use crate::text::escape::{cell, shown_lines as plain};
pub(super) use crate::text::number::count;
use crate::text::{escape, table};

/// What stands before the result of a test.
pub(super) const OK: &str = "ok";
pub(super) const WARNING: &str = "warn";
pub(super) const WRONG: &str = "WRONG";

/// The line of the result of a test.
pub(super) fn finding(mark: &str, what: &str, text: &str) -> String {
    format!("{mark:<5} {what:<10} {text}\n")
}

/// Prints text that needs no escaping.
pub(super) fn text(text: &str) -> anyhow::Result<ExitCode> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a line to standard error. If that fails, the command continues.
pub(super) fn print_note(text: &str) {
    // A full disk or a closed pipe must not change what the command does.
    let _ = writeln!(anstream::stderr().lock(), "{}", plain(text));
}

/// The lines of a document as standard output gets them: escaped on a terminal, otherwise as they
/// are.
pub(super) fn lines_of_document(lines: &str) -> Cow<'_, str> {
    if std::io::stdout().is_terminal() {
        Cow::Owned(plain(lines))
    } else {
        Cow::Borrowed(lines)
    }
}

/// Refuses to write a file that is no text to a terminal.
pub(super) fn refuse_terminal() -> anyhow::Result<()> {
    if std::io::stdout().is_terminal() {
        let text = "a terminal cannot show an Excel file: write it to one, with `> FILE.xlsx`";
        return exit::refuse(exit::USAGE, text);
    }
    Ok(())
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

    /// Prints the result of each test, a line each.
    pub(super) fn findings(self, findings: &[VerifyFinding]) -> anyhow::Result<ExitCode> {
        let mut lines = String::new();
        for VerifyFinding { what, ok, said } in findings {
            let mark = if *ok { OK } else { WRONG };
            lines += &finding(mark, what, said);
        }
        self.done(&findings, &lines)
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
        let mut rows = Vec::new();
        for item in items {
            rows.push(columns.iter().map(|(_, value)| value(item)).collect());
        }
        self.rows(&heading, &rows, empty)
    }

    /// Prints rows under a heading, or `empty` if there are none. On a terminal that is too narrow
    /// for the table, the last columns are left out and named, unless `--wide` is given.
    fn rows(self, heading: &[&str], rows: &[Vec<String>], empty: &str) -> anyhow::Result<ExitCode> {
        if rows.is_empty() {
            return text(&format!("{empty}\n"));
        }
        let table = table::fitted(heading, rows, self.width(), &|_, value| is_number(value));
        text(&table)
    }

    /// Prints a table of the status with its notes.
    pub(super) fn overview(self, table: &StatusTable) -> anyhow::Result<ExitCode> {
        let mut heading = Vec::new();
        if let Some(first) = table.rows.first() {
            heading.extend(first.iter().map(|(name, _)| *name));
        }
        let mut rows = Vec::new();
        for row in &table.rows {
            rows.push(row.iter().map(|(_, text)| cell(text, 60)).collect());
        }
        self.rows(&heading, &rows, table.empty)?;
        let mut notes = String::new();
        for note in &table.notes {
            notes += &format!("{}\n", plain(note));
        }
        text(&notes)
    }

    /// A line with its end, cut to the width of the terminal unless `--wide` is given.
    pub(super) fn fitted(self, line: &str) -> String {
        match self.width() {
            usize::MAX => line.to_owned(),
            width => format!("{}\n", escape::cut(line.trim_end(), width - 1)),
        }
    }

    /// The width of the terminal that standard output is; no limit if it is not a terminal, or with
    /// `--wide`.
    pub(super) fn width(self) -> usize {
        match rustix::termios::tcgetwinsize(std::io::stdout()) {
            Ok(size) if size.ws_col > 0 && !self.wide => size.ws_col.into(),
            _ => usize::MAX,
        }
    }
}

/// True if a cell is aligned as a number.
fn is_number(value: &str) -> bool {
    let is_part = |c: char| c.is_ascii_digit() || c == '.' || c == ',';
    !value.is_empty() && value.chars().all(is_part)
}

/// A progress bar on standard error, if that is a terminal. It disappears when the value is
/// dropped.
pub(super) struct Bar(ProgressBar);

impl Bar {
    /// A bar of rows or requests.
    pub(super) fn rows() -> Self {
        Self::shown("{bar:30} {pos} of {len}")
    }

    /// A bar of bytes.
    pub(super) fn bytes() -> Self {
        Self::shown("{bar:30} {bytes} of {total_bytes}")
    }

    fn shown(template: &str) -> Self {
        let style = ProgressStyle::with_template(template).expect("it names only what bars have");
        let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
        Self(bar.with_style(style).with_finish(ProgressFinish::AndClear))
    }

    /// Shows the progress.
    pub(super) fn at(&self, done: u64, total: u64) {
        self.0.set_length(total.max(done));
        self.0.set_position(done);
    }
}
