//! `[reports]`: where the shop's own reports are, and `[reports.schedule.NAME]`: which reports are
//! made by themselves, when, and where they go.
//!
//! The names of reports and of their parameters are not checked here: `shopmirror check` does, since
//! the files of the folder may change at any time.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use clap::ValueEnum;
use jiff::civil::{Date, Time};
use serde::{Deserialize, Deserializer};

use super::sinks::Sinks;
use super::store::time_of_day;
use super::table::Table;
use super::value::{TextOrNumber, words};

/// The longest currency, in characters.
const CURRENCY_MAX: usize = 8;

/// `[reports]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct ReportsSettings {
    /// The folder of the shop's own reports, `*.sql`.
    pub folder: Option<PathBuf>,
    /// What amounts are in, for example `EUR`; it is written in front of them.
    pub currency: Option<String>,
    /// The field of status changes and payments that names their job; `None` lets it be found in the data.
    pub job_link: Option<String>,
    /// The statuses that mean ready for pickup; empty if their names say so.
    #[serde(default)]
    pub ready_status: Vec<String>,
    /// The reports that are made by themselves, by the names of their tables.
    #[serde(skip)]
    pub schedule: BTreeMap<String, ScheduledReport>,
}

/// `[reports.schedule.NAME]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ScheduledReport {
    /// The report.
    pub report: String,
    /// The time of day, in the time zone of the workspace.
    #[serde(deserialize_with = "time_of_day")]
    pub at: Time,
    /// The days of the week; never empty.
    #[serde(default = "every_day", deserialize_with = "words")]
    pub days: Vec<Day>,
    /// The days that it is about.
    #[serde(default)]
    pub period: ReportPeriod,
    /// In what days are counted.
    #[serde(default)]
    pub by: CountedBy,
    /// Only this business.
    pub business: Option<String>,
    /// Values of the report's own parameters.
    #[serde(default, deserialize_with = "parameters")]
    pub parameters: Vec<(String, String)>,
    /// In what form it is written.
    #[serde(default)]
    pub format: ReportFormat,
    /// Where it goes.
    #[serde(skip)]
    pub to: ReportTarget,
    path: Option<PathBuf>,
    sink: Option<String>,
}

fn parameters<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<(String, String)>, D::Error> {
    let read = BTreeMap::<String, TextOrNumber>::deserialize(d)?;
    Ok(read.into_iter().map(|(name, value)| (name, value.0)).collect())
}

fn every_day() -> Vec<Day> {
    Day::ALL.to_vec()
}

/// A day of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs)]
pub enum Day {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

impl Day {
    /// From Monday to Sunday.
    pub const ALL: [Self; 7] =
        [Self::Mon, Self::Tue, Self::Wed, Self::Thu, Self::Fri, Self::Sat, Self::Sun];

    /// Whether a date is of this day.
    #[must_use]
    pub fn is_of(self, date: Date) -> bool {
        date.weekday().to_monday_zero_offset() == self as i8
    }
}

/// The days that a scheduled report is about, seen from the day for which it is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReportPeriod {
    /// That day so far.
    Today,
    /// The day before.
    Yesterday,
    /// The seven days before it.
    #[serde(rename = "last 7 days")]
    Last7Days,
    /// That day and the 29 before it.
    #[default]
    #[serde(rename = "last 30 days")]
    Last30Days,
    /// The week before, from Monday to Sunday.
    #[serde(rename = "last week")]
    LastWeek,
    /// The calendar month before.
    #[serde(rename = "last month")]
    LastMonth,
}

/// In what the days of a report are counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum CountedBy {
    /// Each day.
    #[default]
    Day,
    /// Weeks, named after their Monday.
    Week,
    /// Months, `2026-03`.
    Month,
}

impl CountedBy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Day, Self::Week, Self::Month];

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }
}

/// In what form a report is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ReportFormat {
    /// A table of text.
    Table,
    /// CSV that is safe in a spreadsheet.
    Csv,
    /// One JSON object.
    Json,
    /// A document with the chart and the table.
    #[default]
    Html,
    /// The chart.
    Svg,
}

/// Where a scheduled report goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportTarget {
    /// It replaces this file.
    File(PathBuf),
    /// It is handed to the sink of this name.
    Sink(String),
}

impl Default for ReportTarget {
    fn default() -> Self {
        Self::File(PathBuf::new())
    }
}

/// The section; `None` only if a problem was noted.
pub(super) fn read(table: &Table<'_>, store: &Path, sinks: &Sinks) -> Option<ReportsSettings> {
    let base = table.report.base;
    let read: Option<ReportsSettings> = table.read(&[]);
    let mut schedule: BTreeMap<String, ScheduledReport> = BTreeMap::new();
    for (name, own) in table.table("schedule").named() {
        let report = scheduled(&own, store, sinks);
        own.finish();
        let Some(report) = report else { continue };
        let is_same = |other: &ScheduledReport| match (&report.to, &other.to) {
            (ReportTarget::File(a), ReportTarget::File(b)) => without_dots(a) == without_dots(b),
            _ => false,
        };
        if let Some((other, _)) = schedule.iter().find(|(_, other)| is_same(other)) {
            let message =
                format!("is written by the scheduled report {other} too: give each its own");
            own.note("path", message);
        }
        schedule.insert(name, report);
    }
    let read = read?;
    if read.currency.as_ref().is_some_and(|currency| currency.chars().count() > CURRENCY_MAX) {
        table.note(
            "currency",
            format!(
                "must be a code or a sign of 1 to {CURRENCY_MAX} characters, for example \"EUR\""
            ),
        );
    }
    let folder = read.folder.map(|folder| base.dir.join(folder));
    Some(ReportsSettings { folder, schedule, ..read })
}

/// One table; `None` only if a problem was noted.
fn scheduled(table: &Table<'_>, store: &Path, sinks: &Sinks) -> Option<ScheduledReport> {
    let mut read: ScheduledReport = table.read(&[
        ("report", "the name of a report, as `shopmirror report` lists it"),
        ("at", "a time of day, for example at = \"07:30\""),
    ])?;
    let to = match (read.path.take(), read.sink.take()) {
        (Some(_), Some(_)) => {
            table.note(
                "sink",
                "is a second target: remove `sink` or `path`, or make a table for each",
            );
            return None;
        }
        (None, None) => {
            table.note_here(
                "a scheduled report needs `path`, a file to write, or `sink`, the name of a sink",
            );
            return None;
        }
        (Some(path), None) => {
            let path = table.report.base.state_path(path);
            if path.to_string_lossy().ends_with('/') {
                table.note("path", "must be the path of a file, not of a folder");
            } else if is_of_store(&path, store) || sinks.write(&path) {
                table.note("path", "is a file that shopmirror uses already: name another one");
            }
            ReportTarget::File(path)
        }
        (None, Some(sink)) => {
            sinks.check_notified(table, &sink);
            ReportTarget::Sink(sink)
        }
    };
    Some(ScheduledReport { to, ..read })
}

/// True if this file belongs to the store: the database, the files that SQLite keeps beside it, whose names begin
/// with its own, and the search index.
pub(super) fn is_of_store(path: &Path, store: &Path) -> bool {
    let (path, store) = (without_dots(path), without_dots(store));
    let name = |path: &Path| path.file_name().unwrap_or_default().as_encoded_bytes().to_owned();
    let is_own = name(&path).starts_with(&name(&store)) || name(&path).starts_with(b"search.db");
    path.parent() == store.parent() && is_own
}

/// The absolute path without `.` and `..`; links are not followed.
pub(super) fn without_dots(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut plain = PathBuf::new();
    for component in absolute.components() {
        match component {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use crate::config::{Base, Config};

    #[test]
    fn a_report_never_replaces_a_file_of_the_store_or_of_a_sink() {
        let base = Base { dir: "/srv/shop".into(), ..Base::default() };
        for (path, is_free) in [
            ("mirror.db-wal", false),
            ("mirror.db.lock", false),
            ("x/../mirror.db", false),
            ("/srv/shop/mirror.db", false),
            ("x/../audit.ndjson", false),
            ("mirror.csv", true),
            ("reports/mirror.db.csv", true),
            ("../mirror.db", true),
        ] {
            let text = format!(
                "[workspace]\nbase_url = \"http://127.0.0.1:9/api\"\n\
                 [reports.schedule.r]\nreport = \"mirror\"\nat = \"07:30\"\npath = \"{path}\"\n\
                 [sinks.audit]\ntype = \"file\"\npath = \"audit.ndjson\"\n"
            );
            let read = Config::parse(&text, "shopmirror.toml", &base);
            assert_eq!(read.is_ok(), is_free, "{path}");
        }
    }
}
