//! The delivery of a scheduled report: the question that its settings ask, its text in their format,
//! the file that it replaces, and the content for a sink.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use shopmirror_core::clock::stamp;

use super::answer::{Answer, Question};
use super::chart::{WIDE, svg};
use super::csv::{CsvForm, csv};
use super::error::ReportError;
use super::html::document;
use super::json::json;
use super::links::NoLinks;
use super::text::text;
use super::xlsx::xlsx;
use crate::config::{ReportFormat, ScheduledReport};
use crate::files::owner;
use crate::text::locale::Locale;

/// The media type of an Excel file.
const XLSX: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";

/// The content of a scheduled report: `record` of an event of the kind `report`.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ScheduledContent<'a> {
    /// The name of its table `[reports.schedule.NAME]`.
    name: &'a str,
    /// The report.
    report: &'a str,
    /// Its title.
    title: &'a str,
    /// What it shows.
    about: &'a str,
    /// The first day that it is about, in the shop's time zone; the day of `as_of` if it is about
    /// now.
    from: String,
    /// The last day.
    to: String,
    /// Up to when the mirror was read (UTC).
    as_of: String,
    /// Notes for the reader. The last one says since when the data is complete.
    notes: &'a [String],
    /// How many rows it has.
    rows: usize,
    /// The form of `content`: `table`, `csv`, `json`, `html`, `svg` or `xlsx`.
    format: &'static str,
    /// The media type of `content`.
    content_type: &'static str,
    /// A name for a file with `content`.
    file_name: String,
    /// `base64` if `content` is a file that is no text; null if it is a text.
    content_encoding: Option<&'static str>,
    /// The report in its form.
    content: String,
    /// The report as plain text.
    text: String,
    /// The report as an HTML document.
    html: String,
    /// The chart as SVG; null if the report has none.
    chart: Option<String>,
}

/// The question that a scheduled report asks when it is due.
#[must_use]
pub fn question_of(
    settings: &ScheduledReport,
    currency: Option<&str>,
    locale: &Locale,
    zone: &TimeZone,
    due: Timestamp,
) -> Question {
    let period = settings
        .period
        .days(due.to_zoned_datetime(zone.clone()).date());
    Question {
        from: Some(period.from),
        to: Some(period.to),
        by: settings.by,
        business: settings.business.clone(),
        set: settings.parameters.clone().into_iter().collect(),
        currency: currency.map(str::to_owned),
        locale: locale.clone(),
        ..Question::default()
    }
}

/// An answer in a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rendered {
    /// A text.
    Text(String),
    /// The bytes of a file.
    File(Vec<u8>),
}

impl Rendered {
    /// Its bytes, as a file holds them.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.into_bytes(),
            Self::File(bytes) => bytes,
        }
    }
}

/// An answer in a form; `csv_form` says how the rows of CSV are written.
///
/// # Errors
/// If the form is the chart, and the report has none; if there is no room to make an Excel file.
pub fn rendered(
    answer: &Answer,
    format: ReportFormat,
    csv_form: CsvForm,
) -> Result<Rendered, ReportError> {
    Ok(Rendered::Text(match format {
        ReportFormat::Table => text(answer, usize::MAX),
        ReportFormat::Csv => csv(answer, csv_form),
        ReportFormat::Xlsx => return Ok(Rendered::File(xlsx(answer)?)),
        ReportFormat::Json => {
            let document = json(answer);
            let mut text = serde_json::to_string_pretty(&document).expect("the values are plain");
            text.push('\n');
            text
        }
        ReportFormat::Html => document(answer),
        ReportFormat::Svg => svg(answer, WIDE, &NoLinks).ok_or_else(|| {
            let name = &answer.report.name;
            ReportError::Unanswered(format!(
                "the report {name} has no chart: choose another format"
            ))
        })?,
    }))
}

/// The word for a form, the end of a name of a file in it, and its media type.
#[must_use]
pub fn form(format: ReportFormat) -> (&'static str, &'static str, &'static str) {
    match format {
        ReportFormat::Table => ("table", "txt", "text/plain; charset=utf-8"),
        ReportFormat::Csv => ("csv", "csv", "text/csv; charset=utf-8"),
        ReportFormat::Json => ("json", "json", "application/json"),
        ReportFormat::Html => ("html", "html", "text/html; charset=utf-8"),
        ReportFormat::Svg => ("svg", "svg", "image/svg+xml"),
        ReportFormat::Xlsx => ("xlsx", "xlsx", XLSX),
    }
}

/// The content for a sink, a JSON object: the question, the answer in the format of the settings, and
/// the text, the document and the chart, of which a sink takes what it can show.
///
/// # Errors
/// If the form is the chart, and the report has none.
pub fn notice_body(
    name: &str,
    answer: &Answer,
    format: ReportFormat,
    csv_form: CsvForm,
) -> Result<String, ReportError> {
    let (word, end, content_type) = form(format);
    let day = answer.as_of.date();
    let (from, to) = if answer.has_period {
        (answer.period.from, answer.period.to)
    } else {
        (day, day)
    };
    let (content_encoding, content) = match rendered(answer, format, csv_form)? {
        Rendered::Text(text) => (None, text),
        Rendered::File(bytes) => (Some("base64"), STANDARD.encode(bytes)),
    };
    let content = ScheduledContent {
        name,
        report: &answer.report.name,
        title: &answer.report.title,
        about: &answer.report.about,
        from: from.to_string(),
        to: to.to_string(),
        as_of: stamp(answer.as_of.timestamp()),
        notes: &answer.notes,
        rows: answer.rows.len(),
        format: word,
        content_type,
        file_name: format!("{name}-{to}.{end}"),
        content_encoding,
        content,
        text: text(answer, usize::MAX),
        html: document(answer),
        chart: svg(answer, WIDE, &NoLinks),
    };
    Ok(serde_json::to_string(&content).expect("the content holds plain values"))
}

/// The content for a sink of a report that does not exist, with this title and text; for `check`.
#[must_use]
pub fn sample_body(name: &str, title: &str, text: &str, now: Timestamp) -> String {
    let content = ScheduledContent {
        name,
        report: name,
        title,
        about: text,
        as_of: stamp(now),
        content: text.to_owned(),
        text: text.to_owned(),
        html: text.to_owned(),
        ..ScheduledContent::default()
    };
    serde_json::to_string(&content).expect("the content holds plain values")
}

/// Replaces a file: whoever opens it finds the old one or the new one, whole.
///
/// # Errors
/// If it cannot be written; the old file stays, and nothing of the new one.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = owner::folder_of(path);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let part = folder.join(format!(".{name}.part"));
    let replaced = replace(path, &part, bytes);
    if replaced.is_err() {
        let _ = fs::remove_file(&part);
    }
    replaced?;
    File::open(folder)?.sync_all()
}

fn replace(path: &Path, part: &Path, bytes: &[u8]) -> io::Result<()> {
    // What a killed process left of an earlier try is replaced.
    let mut file = owner::open_or_create(part)?;
    file.set_len(0)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(part, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_or_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("till.html");
        write(&path, b"first").unwrap();
        let mut open = File::open(&path).unwrap();
        write(&path, b"second").unwrap();
        let mut held = String::new();
        io::Read::read_to_string(&mut open, &mut held).unwrap();
        assert_eq!(held, "first", "who has it open still reads the old text");
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            1,
            "nothing else stays"
        );
        assert!(write(&dir.path().join("absent/till.csv"), b"").is_err());
        fs::create_dir(dir.path().join("folder")).unwrap();
        assert!(write(&dir.path().join("folder"), b"").is_err());
        assert!(
            !dir.path().join(".folder.part").exists(),
            "nothing of a failed try stays"
        );
    }
}
