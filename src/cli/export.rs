//! `export`: every record of a route, or the answer of a report, as CSV or as one JSON object per line.

use std::io::Write as _;
use std::process::ExitCode;

use clap::ValueEnum;
use jiff::Timestamp;

use super::exit::{ExitError, USAGE};
use super::progress::RowBar;
use crate::config::Config;
use crate::record::Route;
use crate::report::{self, Guard, Question, csv_line, csv_text};
use crate::store::{Reader, SqlValue};

/// Records read at once.
const STEP: i64 = 500;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A route, for example jobs, or the name of a report
    what: String,
    /// How to write it
    #[arg(long, value_enum, default_value_t = Form::Csv)]
    format: Form,
    /// With --format csv: keep every character, also where a spreadsheet would read a formula
    #[arg(long)]
    raw: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// One line for each record, with the columns of the mirror
    Csv,
    /// One JSON object per line, exactly as the workspace sent it
    Ndjson,
}

pub(super) fn run(config: &Config, args: &Args) -> anyhow::Result<ExitCode> {
    let guard = if args.raw { Guard::Nothing } else { Guard::Formulas };
    let mut reader = Reader::open(&config.store.path)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    if let Ok(route) = args.what.parse::<Route>() {
        match args.format {
            Form::Csv => records_csv(&reader, route, guard, &mut out)?,
            Form::Ndjson => records_ndjson(&reader, route, &mut out)?,
        }
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    let report = report::find(&args.what, config.reports.folder.as_deref()).map_err(|error| {
        let text = format!("{error}; to export records, name a route, for example jobs");
        ExitError { code: USAGE, text }
    })?;
    let zone = &config.workspace.time_zone;
    let answer =
        report::answer(&mut reader, &report, &Question::default(), zone, Timestamp::now())?;
    match args.format {
        Form::Csv => out.write_all(report::csv(&answer, guard).as_bytes())?,
        Form::Ndjson => {
            for object in report::objects(&answer) {
                writeln!(out, "{}", serde_json::to_string(&object)?)?;
            }
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Each record's exact text, in the order of the changes; nothing is lost.
fn records_ndjson(
    reader: &Reader,
    route: Route,
    out: &mut impl std::io::Write,
) -> anyhow::Result<()> {
    let (bar, total) = (RowBar::beside_output(), total(reader, route)?);
    let (mut after, mut done) = (0, 0);
    loop {
        bar.at(done, total);
        let seqs = reader.record_seqs_after(route, after, STEP)?;
        let Some(last) = seqs.last() else { return Ok(()) };
        after = *last;
        done += seqs.len() as u64;
        for change in reader.changes(&seqs)? {
            // A record may have been sent over several lines; line breaks stand between its parts only.
            let line = change.body.replace(['\n', '\r'], " ");
            writeln!(out, "{line}")?;
        }
    }
}

/// How many records a route has.
fn total(reader: &Reader, route: Route) -> anyhow::Result<u64> {
    let counts = reader.counts()?;
    let count = counts.iter().find(|(counted, _)| *counted == route).map_or(0, |(_, count)| *count);
    Ok(u64::try_from(count).unwrap_or_default())
}

fn records_csv(
    reader: &Reader,
    route: Route,
    guard: Guard,
    out: &mut impl std::io::Write,
) -> anyhow::Result<()> {
    let columns = reader.columns(route)?;
    let heads = columns.iter().map(|name| csv_text(name, guard));
    out.write_all(csv_line(heads).as_bytes())?;
    let (bar, total) = (RowBar::beside_output(), total(reader, route)?);
    let (mut after, mut done) = (0, 0);
    loop {
        bar.at(done, total);
        let rows = reader.record_rows_after(route, after, STEP)?;
        let Some(last) = rows.last() else { return Ok(()) };
        let seq = columns.iter().position(|name| name == "_seq");
        after = match seq.and_then(|index| last.get(index)) {
            Some(SqlValue::Integer(seq)) => *seq,
            _ => return Ok(()),
        };
        done += rows.len() as u64;
        for row in &rows {
            let cells = row.iter().map(|value| match value {
                SqlValue::Real(number) => number.to_string(),
                SqlValue::Text(text) => csv_text(text, guard),
                other => report::shown(other, None),
            });
            out.write_all(csv_line(cells).as_bytes())?;
        }
    }
}
