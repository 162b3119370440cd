//! `report`: lists the reports, or answers one.

use std::path::Path;
use std::process::ExitCode;

use clap::ValueEnum;
use jiff::Timestamp;
use jiff::civil::Date;

use super::current_status::current;
use super::exit::{DATA, ExitError, USAGE, code_of_io};
use super::output::{self, cell};
use super::{moment, records};
use crate::config::{Config, CountedBy};
use crate::report::{self, Answer, FolderError, Guard, ListedReport, Question, ReportError};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The report; without it, the reports are listed
    name: Option<String>,
    /// The first day, for example 2026-03-01 [default: 29 days before the last]
    #[arg(long, value_name = "DAY")]
    from: Option<Date>,
    /// The last day [default: today, in the time zone of the configuration]
    #[arg(long, value_name = "DAY")]
    to: Option<Date>,
    /// Only this business (branch)
    #[arg(long, value_name = "ID")]
    business: Option<String>,
    /// Count by day, week or month
    #[arg(long, value_enum, default_value_t = Counted::Day)]
    by: Counted,
    /// Set a parameter of the report; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = records::pair)]
    set: Vec<(String, String)>,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Form::Table)]
    format: Form,
    #[command(flatten)]
    listing: super::Listing,
    /// With --format csv: keep every character, also where a spreadsheet would read a formula
    #[arg(long)]
    raw: bool,
    /// List the reports that the daemon makes by itself, with the next and the last time of each
    #[arg(long, conflicts_with_all = ["name", "sql"])]
    scheduled: bool,
    /// Print the query of the report instead of its answer, for example to change it
    #[arg(long)]
    sql: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Counted {
    Day,
    Week,
    Month,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Table,
    Csv,
    Json,
    Html,
    Svg,
}

pub(super) fn run(config: &Config, args: Args) -> anyhow::Result<ExitCode> {
    let folder = config.reports.folder.as_deref();
    let form = if args.listing.json { Form::Json } else { args.format };
    let (json, wide) = (form == Form::Json, args.listing.wide);
    if args.scheduled {
        return scheduled(config, json, wide);
    }
    let Some(name) = &args.name else { return list(folder, json, wide) };
    let report = report::find(name, folder).map_err(|error| refused(&error))?;
    if args.sql {
        return output::text(&output::plain(&report.text));
    }
    let mut reader = super::reader(config)?;
    let question = Question {
        from: args.from,
        to: args.to,
        by: match args.by {
            Counted::Day => CountedBy::Day,
            Counted::Week => CountedBy::Week,
            Counted::Month => CountedBy::Month,
        },
        business: args.business,
        set: args.set,
        currency: config.reports.currency.clone(),
    };
    let zone = &config.workspace.time_zone;
    let answer = report::answer(&mut reader, &report, &question, zone, Timestamp::now())
        .map_err(unanswered)?;
    print(&answer, form, args.raw, wide)
}

fn print(answer: &Answer, form: Form, raw: bool, wide: bool) -> anyhow::Result<ExitCode> {
    match form {
        Form::Table => table(answer, wide),
        Form::Csv => {
            let guard = if raw { Guard::Nothing } else { Guard::Formulas };
            output::raw(report::csv(answer, guard).as_bytes())
        }
        Form::Json => output::json(&report::json(answer)),
        Form::Html => output::raw(report::document(answer).as_bytes()),
        Form::Svg => {
            let chart = report::svg(answer).ok_or_else(|| {
                let name = &answer.report.name;
                let text = format!("the report {name} has no chart, or there is nothing to draw; use --format table, csv, json or html");
                ExitError { code: DATA, text }
            })?;
            output::raw(chart.as_bytes())
        }
    }
}

fn list(folder: Option<&Path>, json: bool, wide: bool) -> anyhow::Result<ExitCode> {
    let (reports, errors) = report::list(folder);
    for error in &errors {
        output::aside(&format!("shopmirror: {error}"));
    }
    if json {
        let listed: Vec<ListedReport> = reports.iter().map(ListedReport::from).collect();
        return output::json(&listed);
    }
    let rows: Vec<Vec<String>> = reports
        .iter()
        .map(|report| {
            vec![cell(&report.name, 40), cell(&report.title, 40), cell(&report.about, 200)]
        })
        .collect();
    output::table(&["name", "title", "shows"], &rows, "no reports", wide)
}

fn scheduled(config: &Config, json: bool, wide: bool) -> anyhow::Result<ExitCode> {
    let reports = current(config)?.reports;
    if json {
        return output::json(&reports);
    }
    let at = |stamp: Option<&str>| stamp.map_or_else(|| "-".to_owned(), moment::shown);
    let rows: Vec<Vec<String>> = reports
        .iter()
        .map(|report| {
            vec![
                cell(&report.name, 40),
                cell(&report.report, 40),
                cell(&report.to, 80),
                at(Some(&report.next_at)),
                at(report.last_at.as_deref()),
                report.last_error.as_deref().map_or_else(|| "-".to_owned(), |why| cell(why, 200)),
            ]
        })
        .collect();
    let empty = "no report has a schedule; docs/reports.md says how to add one";
    output::table(&["name", "report", "to", "next", "last", "error"], &rows, empty, wide)
}

fn table(answer: &Answer, wide: bool) -> anyhow::Result<ExitCode> {
    let head = format!("{}, {}\n\n", answer.report.title, answer.subject());
    output::text(&output::plain(&head))?;
    let heads: Vec<String> = answer.columns.iter().map(|column| cell(&column.name, 40)).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let shown = answer.shown_rows().iter().enumerate();
    let mut rows: Vec<Vec<String>> = shown
        .map(|(index, row)| {
            (0..row.len()).map(|column| filled(&answer.shown(index, column))).collect()
        })
        .collect();
    rows.extend(
        answer.shown_totals().map(|totals| totals.iter().map(|text| cell(text, 60)).collect()),
    );
    let numbers: Vec<bool> = (0..heads.len()).map(|column| answer.has_numbers(column)).collect();
    output::table_with(&heads, &rows, answer.nothing(), wide, |column, _| numbers[column])?;
    for note in answer.shown_notes() {
        output::text(&output::plain(&format!("note: {note}\n")))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The text of a cell; a dash if there is none.
fn filled(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { cell(text, 60) }
}

fn refused(error: &FolderError) -> anyhow::Error {
    let code = match error {
        FolderError::Read { why, .. } => code_of_io(why),
        FolderError::Unknown(_) => USAGE,
        FolderError::Head { .. } => DATA,
    };
    ExitError { code, text: error.to_string() }.into()
}

fn unanswered(error: ReportError) -> anyhow::Error {
    let code = match &error {
        ReportError::Store(_) => return error.into(),
        ReportError::UnknownParameter { .. }
        | ReportError::UnknownBusiness { .. }
        | ReportError::Value { .. }
        | ReportError::Period(_) => USAGE,
        ReportError::NotSent { .. } | ReportError::NoJobLink(_) | ReportError::Query { .. } => DATA,
    };
    ExitError { code, text: error.to_string() }.into()
}
