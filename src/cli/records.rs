//! `records`: the records of a route as a table or as JSON, all of them as CSV, NDJSON or an Excel
//! file; with an id, one record and its history.

mod person;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ValueEnum, ValueHint};
use jiff::Timestamp;
use serde_json::Value;
use shopmirror_core::record::Route;

use super::exit::{DATA, USAGE, refuse};
use super::log;
use super::output::{self, Output, cell};
use super::record_line::{COLUMNS, RecordLine};
use crate::config::Config;
use crate::report::{CsvForm, RecordSheet, RecordsBook, csv_head, csv_values};
use crate::store::{Reader, RecordHistory, SqlValue};

/// Records that are listed unless `--limit` is given.
const LISTED: usize = 50;
/// Records read at once for CSV and NDJSON.
const STEP: i64 = 500;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The route
    #[arg(required_unless_present = "person", value_parser = super::route())]
    route: Option<Route>,
    /// Show the record with this id, and its history
    id: Option<String>,
    /// Only records whose column has this value; can be repeated
    #[arg(long = "where", value_name = "COLUMN=VALUE", value_parser = pair, conflicts_with = "id")]
    wheres: Vec<(String, String)>,
    /// At most this many, the last changed first [default: 50]
    #[arg(long, conflicts_with = "id")]
    limit: Option<u32>,
    /// How to print them; csv, ndjson and xlsx hold every record of the route
    #[arg(long, value_enum, default_value_t = Form::Table)]
    #[arg(conflicts_with_all = ["id", "wheres", "limit", "json"])]
    format: Form,
    /// With --format csv: as Excel opens it in the country of the configuration
    #[arg(long)]
    excel: bool,
    /// All that is stored of a person who asks: the records of all routes that hold these words, and
    /// what belongs to the repairs and customers among them; only lists them without --yes
    #[arg(long, value_name = "WORDS", conflicts_with_all = ["route", "wheres", "limit"])]
    person: Option<String>,
    /// Write the list of --person that was printed with this code, if it is still the same
    #[arg(long, value_name = "CODE", requires_all = ["person", "output"])]
    yes: Option<String>,
    /// The new file that --person writes, as JSON
    #[arg(long, value_name = "FILE", requires = "person", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For people
    Table,
    /// One line for each record, with the columns of the mirror
    Csv,
    /// One JSON object per line, exactly as the workspace sent it
    Ndjson,
    /// An Excel file, with the fields of the records as reports read them
    Xlsx,
    /// One JSON document, for --person
    Json,
}

pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(super) fn run(config: &Config, args: &Args, out: Output) -> anyhow::Result<ExitCode> {
    let reader = super::reader(config)?;
    if let Some(words) = &args.person {
        return person::run(&reader, words, args, out);
    }
    let Some(route) = args.route else {
        return refuse(USAGE, "name the route, or give --person NAME");
    };
    if let Some(id) = &args.id {
        return one(&reader, route, id, out);
    }
    let mut stdout = std::io::BufWriter::new(std::io::stdout().lock());
    match args.format {
        Form::Table => return list(&reader, route, args, out),
        Form::Csv => {
            let mut form = CsvForm::DATA;
            if args.excel {
                form = CsvForm::for_excel(&config.workspace.own_locale());
            }
            write_csv(&reader, route, form, &mut stdout)?;
        }
        Form::Ndjson => write_ndjson(&reader, route, &mut stdout)?,
        Form::Xlsx => {
            output::refuse_terminal()?;
            stdout.write_all(&excel(&reader, route, config)?)?;
        }
        Form::Json => {
            return refuse(
                USAGE,
                "--format json is for --person; for a list, give --json",
            );
        }
    }
    stdout.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn list(reader: &Reader, route: Route, args: &Args, out: Output) -> anyhow::Result<ExitCode> {
    let Args { wheres, limit, .. } = args;
    let columns = reader.columns(route)?;
    if let Some((unknown, _)) = wheres.iter().find(|(name, _)| !columns.contains(name)) {
        return refuse(
            USAGE,
            format!(
                "{route} has no column {unknown:?}; it has: {}",
                columns.join(", ")
            ),
        );
    }
    let limit = match limit {
        Some(limit) => *limit as usize,
        None => LISTED,
    };
    let changes = reader.changes(&reader.newest(route, wheres, limit)?)?;
    if out.json {
        return output::json(&changes);
    }
    let lines: Vec<RecordLine> = changes.into_iter().map(RecordLine::from).collect();
    out.table(&lines, COLUMNS, "no records match")
}

/// One record and the changes that led to it.
fn one(reader: &Reader, route: Route, id: &str, out: Output) -> anyhow::Result<ExitCode> {
    let Some(record) = reader.record(route, id)? else {
        return refuse(
            DATA,
            format!(
                "{route} {id:?} is not in the mirror; `shopmirror records {route}` lists the \
                 records"
            ),
        );
    };
    let history = reader.history(route, id)?;
    if out.json {
        return output::json(&history);
    }
    let RecordHistory {
        changes: history,
        has_older,
    } = history;
    let mut text = String::new();
    for (name, value) in &record {
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        text.push_str(&format!("{:<20} {}\n", cell(name, 40), cell(&value, 400)));
    }
    text.push('\n');
    if has_older {
        text.push_str(&format!(
            "only the newest {} versions are shown; the table `changes` of the database has \
             all\n\n",
            history.len()
        ));
    }
    for change in &history {
        text.push_str(&log::line(change));
    }
    output::text(&text)
}

/// Each record's exact text, in the order of the changes; nothing is lost.
fn write_ndjson(reader: &Reader, route: Route, out: &mut impl Write) -> anyhow::Result<()> {
    each_row(reader, route, |_, seq| {
        for change in reader.changes(&[seq])? {
            // A record may have been sent on several lines; line breaks are between its parts only.
            let line = change.body.replace(['\n', '\r'], " ");
            writeln!(out, "{line}")?;
        }
        Ok(())
    })
}

fn write_csv(
    reader: &Reader,
    route: Route,
    form: CsvForm,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let columns = reader.columns(route)?;
    out.write_all(csv_head(&columns, form).as_bytes())?;
    each_row(reader, route, |row, _| {
        // Columns that were added since are after those of the header.
        let line = csv_values(row.iter().take(columns.len()), form);
        Ok(out.write_all(output::lines_of_document(&line).as_bytes())?)
    })
}

/// An Excel file with every record.
fn excel(reader: &Reader, route: Route, config: &Config) -> anyhow::Result<Vec<u8>> {
    let columns = reader.columns(route)?;
    let mut book = RecordsBook::new(&RecordSheet {
        route,
        columns: &columns,
        fields: &reader.field_columns(route)?,
        read_fields: &reader.read_fields(route)?,
        zone: &config.workspace.time_zone,
        currency: config.reports.currency.as_deref(),
        locale: &config.workspace.own_locale(),
        made_at: Timestamp::now(),
    })?;
    each_row(reader, route, |row, _| Ok(book.add(row)?))?;
    Ok(book.finish(None)?)
}

/// Calls `each` with the values of every row of a route and the number of its newest version, in
/// the order of these numbers.
fn each_row(
    reader: &Reader,
    route: Route,
    mut each: impl FnMut(&[SqlValue], i64) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut after = 0;
    loop {
        let rows = reader.record_rows_after(route, after, STEP)?;
        if rows.is_empty() {
            return Ok(());
        }
        for (seq, row) in &rows {
            each(row, *seq)?;
            after = *seq;
        }
    }
}
