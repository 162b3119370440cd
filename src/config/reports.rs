//! Reads `[reports]`: where the shop's own reports are, and `[reports.schedule.NAME]`: which reports are
//! made by themselves, when, and where they go.
//!
//! The names of reports and of their parameters are not checked here: `shopmirror check` does, since
//! the files of the folder may change at any time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Component, Path, PathBuf};

use jiff::civil::{Time, Weekday};
use toml::de::DeValue;

use super::backup::time_of_day;
use super::findings::choice;
use super::problem::{Quote, repeated};
use super::section::{Found, Section};
use super::{Base, SinkKind, SinkSettings};
use crate::escape::is_unsafe;

/// The longest currency, in characters.
const CURRENCY_MAX: usize = 8;
const SCHEDULED_MAX: usize = 64;
const NAME_LEN_MAX: usize = 64;

/// `[reports]`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportsSettings {
    /// The folder of the shop's own reports, `*.sql`.
    pub folder: Option<PathBuf>,
    /// What amounts are in, for example `EUR`; it is written in front of them.
    pub currency: Option<String>,
    /// The field of status changes and payments that names their job; `None` lets it be found in the data.
    pub job_link: Option<String>,
    /// The statuses that mean ready for pickup; empty if their names say so.
    pub ready_status: Vec<String>,
    /// The reports that are made by themselves, by the names of their tables.
    pub schedule: BTreeMap<String, ScheduledReport>,
}

/// `[reports.schedule.NAME]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledReport {
    /// The report.
    pub report: String,
    /// The time of day, in the time zone of the workspace.
    pub at: Time,
    /// The days of the week; never empty.
    pub days: Vec<Day>,
    /// The days that it is about.
    pub period: ReportPeriod,
    /// In what days are counted.
    pub by: CountedBy,
    /// Only this business.
    pub business: Option<String>,
    /// Values of the report's own parameters.
    pub parameters: Vec<(String, String)>,
    /// In what form it is written.
    pub format: ReportFormat,
    /// Where it goes.
    pub to: ReportTarget,
}

/// A day of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Day(pub Weekday);

impl Day {
    /// From Monday to Sunday.
    pub const ALL: [Self; 7] = [
        Self(Weekday::Monday),
        Self(Weekday::Tuesday),
        Self(Weekday::Wednesday),
        Self(Weekday::Thursday),
        Self(Weekday::Friday),
        Self(Weekday::Saturday),
        Self(Weekday::Sunday),
    ];
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Weekday::Monday => "mon",
            Weekday::Tuesday => "tue",
            Weekday::Wednesday => "wed",
            Weekday::Thursday => "thu",
            Weekday::Friday => "fri",
            Weekday::Saturday => "sat",
            Weekday::Sunday => "sun",
        })
    }
}

/// The days that a scheduled report is about, seen from the day for which it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportPeriod {
    /// That day so far.
    Today,
    /// The day before.
    Yesterday,
    /// The seven days before it.
    Last7Days,
    /// That day and the 29 before it.
    Last30Days,
    /// The week before, from Monday to Sunday.
    LastWeek,
    /// The calendar month before.
    LastMonth,
}

/// In what the days of a report are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountedBy {
    /// Each day.
    Day,
    /// Weeks.
    Week,
    /// Months.
    Month,
}

/// In what form a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportFormat {
    /// A table of text.
    Table,
    /// CSV that is safe in a spreadsheet.
    Csv,
    /// One JSON object.
    Json,
    /// A document with the chart and the table.
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

const PERIODS: [(&str, ReportPeriod); 6] = [
    ("today", ReportPeriod::Today),
    ("yesterday", ReportPeriod::Yesterday),
    ("last 7 days", ReportPeriod::Last7Days),
    ("last 30 days", ReportPeriod::Last30Days),
    ("last week", ReportPeriod::LastWeek),
    ("last month", ReportPeriod::LastMonth),
];
const COUNTED: [(&str, CountedBy); 3] =
    [("day", CountedBy::Day), ("week", CountedBy::Week), ("month", CountedBy::Month)];
const FORMATS: [(&str, ReportFormat); 5] = [
    ("table", ReportFormat::Table),
    ("csv", ReportFormat::Csv),
    ("json", ReportFormat::Json),
    ("html", ReportFormat::Html),
    ("svg", ReportFormat::Svg),
];

/// What a scheduled report must not write to, and what it can be handed to.
pub(super) struct Others<'a> {
    pub(super) store: &'a Path,
    pub(super) sinks: &'a BTreeMap<String, SinkSettings>,
    /// The names of all sinks of the file, also of those with a problem.
    pub(super) sink_names: &'a BTreeSet<String>,
}

/// The section.
pub(super) fn read(mut section: Section<'_>, base: &Base, others: &Others<'_>) -> ReportsSettings {
    let folder = section.text("folder").map(|found| base.dir.join(found.value));
    let currency = section.text("currency").map(|found| {
        let length = found.value.chars().count();
        if !(1..=CURRENCY_MAX).contains(&length) || found.value.chars().any(is_unsafe) {
            section.findings.note(&found.place, format!(
                "a currency is a code or a sign of 1 to {CURRENCY_MAX} characters, for example \"EUR\""
            ));
        }
        found.value.to_owned()
    });
    let job_link = section.text("job_link").map(|found| found.value.to_owned());
    let ready_status = section.texts("ready_status").map_or_else(Vec::new, |list| {
        list.value.into_iter().map(|status| status.value.to_owned()).collect()
    });
    let scheduled = section.section("schedule");
    section.finish();
    let findings = scheduled.findings;
    let mut schedule: BTreeMap<String, ScheduledReport> = BTreeMap::new();
    for (name, own) in scheduled.named_sections() {
        let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
        if !(1..=NAME_LEN_MAX).contains(&name.value.len()) || !name.value.bytes().all(legal) {
            findings.note(&name.place, format!(
                "the name of a scheduled report has 1 to {NAME_LEN_MAX} characters of a-z, 0-9, _ and -"
            ));
        }
        if schedule.len() == SCHEDULED_MAX {
            let message = format!("there are more than {SCHEDULED_MAX} scheduled reports");
            findings.note(&name.place, message);
        }
        let Some((read, place)) = scheduled_report(own, base, others) else { continue };
        let file = |report: &ScheduledReport| match &report.to {
            ReportTarget::File(path) => Some(without_dots(path)),
            ReportTarget::Sink(_) => None,
        };
        let own = file(&read);
        let same = schedule.iter().find(|(_, other)| own.is_some() && file(other) == own);
        if let Some((other, _)) = same {
            let message = format!(
                "the scheduled report {other} writes this file too: give each its own `path`"
            );
            findings.note(&place, message);
        }
        schedule.insert(name.value, read);
    }
    ReportsSettings { folder, currency, job_link, ready_status, schedule }
}

/// One table, and the place of its target; `None` only if a problem was noted.
fn scheduled_report(
    mut section: Section<'_>,
    base: &Base,
    others: &Others<'_>,
) -> Option<(ScheduledReport, std::ops::Range<usize>)> {
    for (key, advice) in [
        ("report", "the name of a report, as `shopmirror report` lists it"),
        ("at", "a time of day, for example at = \"07:30\""),
    ] {
        if !section.holds(key) {
            section.missing(key, advice);
        }
    }
    let report = section.text("report").map(|found| found.value.to_owned());
    let at = time_of_day(&mut section);
    let days = section.words("days", &Day::ALL, "remove `days` for every day");
    let period = section.word("period", &PERIODS).unwrap_or(ReportPeriod::Last30Days);
    let by = section.word("by", &COUNTED).unwrap_or(CountedBy::Day);
    let business = section.text("business").map(|found| found.value.to_owned());
    let parameters = parameters(&mut section);
    let format = section.word("format", &FORMATS).unwrap_or(ReportFormat::Html);
    let to = target(&mut section, base, others);
    section.finish();
    let (to, place) = to?;
    let days = days.unwrap_or_else(|| Day::ALL.to_vec());
    let read = ScheduledReport {
        report: report?,
        at: at?,
        days,
        period,
        by,
        business,
        parameters,
        format,
        to,
    };
    Some((read, place))
}

fn target(
    section: &mut Section<'_>,
    base: &Base,
    others: &Others<'_>,
) -> Option<(ReportTarget, std::ops::Range<usize>)> {
    let path = section.text("path");
    let sink = section.text("sink");
    if let (Some(_), Some(Found { place, .. })) = (&path, &sink) {
        let message =
            "a scheduled report has one target: remove `sink` or `path`, or make a table for each";
        section.findings.note(place, message);
        return None;
    }
    if let Some(Found { value, place }) = path {
        let path = base.state_path(value);
        if value.ends_with('/') {
            section.findings.note(&place, "`path` must be the path of a file, not of a folder");
        } else if is_taken(&path, others) {
            let message = "`path` is a file that shopmirror uses already: name another one";
            section.findings.note(&place, message);
        }
        return Some((ReportTarget::File(path), place));
    }
    if let Some(Found { value, place }) = sink {
        if !others.sink_names.contains(value) {
            let known: Vec<&str> = others.sink_names.iter().map(String::as_str).collect();
            let hint = match known.is_empty() {
                true => "there is no sink yet: add a table [sinks.NAME], or use `path`".to_owned(),
                false => choice(value, &known),
            };
            section.findings.note(&place, format!("there is no sink {}; {hint}", repeated(value)));
        }
        if let Some(kind @ (SinkKind::Postgres(_) | SinkKind::Intake(_))) =
            others.sinks.get(value).map(|sink| &sink.kind)
        {
            let message = format!(
                "a sink of type {} takes records only: name one of type email, webhook, command, file, nats, mqtt or s3, or use `path`",
                kind.type_name()
            );
            section.findings.note(&place, message);
        }
        return Some((ReportTarget::Sink(value.to_owned()), place));
    }
    if !section.holds("path") && !section.holds("sink") {
        section.missing("path", "a file to write, or `sink`, the name of a sink");
    }
    None
}

/// True if this file belongs to the store or to a sink.
fn is_taken(path: &Path, others: &Others<'_>) -> bool {
    let plain = without_dots(path);
    let is_file =
        |kind: &SinkKind| matches!(kind, SinkKind::File(file) if without_dots(&file.path) == plain);
    is_of_store(path, others.store) || others.sinks.values().any(|sink| is_file(&sink.kind))
}

/// True if this file belongs to the store: the database, the files that SQLite keeps beside it, whose names begin
/// with its own, and the index of all words.
pub(super) fn is_of_store(path: &Path, store: &Path) -> bool {
    let (path, store) = (without_dots(path), without_dots(store));
    let name = |path: &Path| path.file_name().unwrap_or_default().as_encoded_bytes().to_owned();
    let is_own = name(&path).starts_with(&name(&store)) || name(&path).starts_with(b"search.db");
    path.parent() == store.parent() && is_own
}

/// The absolute path without `.` and `..`; links are not followed.
fn without_dots(path: &Path) -> PathBuf {
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

/// The key `parameters`: a table of texts and numbers.
fn parameters(section: &mut Section<'_>) -> Vec<(String, String)> {
    let Some(Found { value, place }) = section.value("parameters") else { return Vec::new() };
    let DeValue::Table(table) = value else {
        let wanted = "a table, for example { least = 2 }";
        section.wrong_type("parameters", wanted, value, &place, Quote::Shown);
        return Vec::new();
    };
    let mut read = Vec::new();
    for (name, value) in table {
        let text = match value.get_ref() {
            DeValue::String(text) => text.clone().into_owned(),
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
            DeValue::Float(number) => number.as_str().to_owned(),
            other => {
                let wanted = "a text or a number";
                section.wrong_type("parameters", wanted, other, &value.span(), Quote::Shown);
                continue;
            }
        };
        read.push((name.get_ref().clone().into_owned(), text));
    }
    read
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
            let read = Config::parse(&text, "config.toml", &base);
            assert_eq!(read.is_ok(), is_free, "{path}");
        }
    }
}
