//! `report`: lists the reports, or answers one.

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

use jiff::Timestamp;
use jiff::civil::Date;

use super::completions;
use super::exit::{self, DATA, USAGE};
use super::output::{self, Output, cell};
use super::records;
use crate::config::{Config, CountedBy, ReportFormat};
use crate::report::{self, CsvForm, Question, Rendered, ReportError};
use crate::text::locale::Locale;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The report; without it, the reports are listed
    #[arg(add = completions::report_names())]
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
    #[arg(long, value_enum, default_value_t = CountedBy::Day)]
    by: CountedBy,
    /// Set a parameter of the report; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = records::pair)]
    set: Vec<(String, String)>,
    /// How to print it
    #[arg(long, value_enum, default_value_t = ReportFormat::Table)]
    format: ReportFormat,
    /// With --format csv: add the notes as a last block of lines with #
    #[arg(long)]
    notes: bool,
    /// With --format csv: as Excel opens it in the country of the configuration
    #[arg(long)]
    excel: bool,
    /// Print the query of the report instead of its answer, for example to change it
    #[arg(long)]
    sql: bool,
}

pub(super) fn run(config: &Config, args: Args, out: Output) -> anyhow::Result<ExitCode> {
    let folder = config.reports.folder.as_deref();
    let format = if out.json {
        ReportFormat::Json
    } else {
        args.format
    };
    let out = Output {
        json: format == ReportFormat::Json,
        ..out
    };
    let Some(name) = &args.name else {
        return list(folder, out);
    };
    let report = report::find(name, folder).map_err(unanswered)?;
    if format == ReportFormat::Xlsx {
        output::refuse_terminal()?;
    }
    if args.sql {
        return output::text(&output::plain(&report.text));
    }
    let mut reader = super::reader(config)?;
    let question = Question {
        from: args.from,
        to: args.to,
        by: args.by,
        business: args.business,
        set: args.set,
        currency: config.reports.currency.clone(),
        locale: locale(config, format),
        ..Question::default()
    };
    let zone = &config.workspace.time_zone;
    let answer = report::answer(&mut reader, &report, &question, zone, Timestamp::now())
        .map_err(unanswered)?;
    let mut csv_form = CsvForm::DATA;
    if args.excel {
        csv_form = CsvForm::for_excel(&config.workspace.own_locale());
    }
    let csv_form = csv_form.with_notes(args.notes);
    let text = match format {
        ReportFormat::Table => report::text(&answer, out.width()),
        format => match report::rendered(&answer, format, csv_form).map_err(unanswered)? {
            Rendered::Text(text) => text,
            Rendered::File(bytes) => return output::raw(&bytes),
        },
    };
    output::raw(output::lines_of_document(&text).as_bytes())
}

/// How numbers and days are written. A table that is piped is for a program, and so are data; a
/// terminal has English words, and days that sort.
fn locale(config: &Config, format: ReportFormat) -> Locale {
    match format {
        ReportFormat::Csv | ReportFormat::Json => Locale::default(),
        ReportFormat::Table if std::io::stdout().is_terminal() => {
            config.workspace.own_locale().with_iso_days()
        }
        ReportFormat::Table => Locale::default(),
        ReportFormat::Html | ReportFormat::Svg | ReportFormat::Xlsx => {
            config.workspace.own_locale()
        }
    }
}

fn list(folder: Option<&Path>, out: Output) -> anyhow::Result<ExitCode> {
    let (reports, errors) = report::list(folder);
    for error in &errors {
        output::print_note(&format!("shopmirror: {error}"));
    }
    if out.json {
        return output::json(&report::listed(&reports));
    }
    out.listing(
        &reports,
        &[
            ("name", |report| cell(&report.name, 40)),
            ("title", |report| cell(&report.title, 40)),
            ("shows", |report| cell(&report.about, 200)),
        ],
        "no reports",
    )
}

fn unanswered(error: ReportError) -> anyhow::Error {
    let code = match &error {
        ReportError::Store(_) => return error.into(),
        ReportError::Refused(_) => USAGE,
        ReportError::NotSent(_) | ReportError::Unanswered(_) => DATA,
    };
    exit::error(code, error.to_string())
}
