//! `[reports]`: the folder of the shop's own reports; `[reports.schedule.NAME]`: the reports that
//! are made on a schedule, their times and destinations; `[alerts]`: the sinks that get alerts.
//!
//! The names of reports and of their parameters are not checked here: `shopmirror check` does that,
//! since the files of the folder may change at any time.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::ValueEnum;
use jiff::civil::{Time, Weekday};
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::TimeZone;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use shopmirror_core::reading::{DateFormat, ReadSettings, Rule, WORD_FIELDS, fields_of};
use shopmirror_core::record::Route;

use super::only_if::{self, OnlyIf};
use super::sinks::{Sinks, check_notified};
use super::store::parse_time_of_day;
use super::table::Table;
use super::value::parsed;

/// `[reports]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct ReportsSettings {
    /// The folder of the shop's own reports, `*.sql`.
    pub folder: Option<PathBuf>,
    /// The currency of amounts, for example `EUR`; it is written in front of them.
    pub currency: Option<String>,
    /// The field of status changes and payments that names their job; `None` lets it be found in
    /// the data.
    pub job_link: Option<String>,
    /// The statuses that mean ready for pickup; if empty, they are recognised by their names.
    #[serde(default)]
    pub ready_status: Vec<String>,
    /// The sign before the fraction of amounts that are sent as text; `None` lets it be found.
    pub decimal_separator: Option<DecimalSeparator>,
    /// The formats of the days that the shop enters.
    #[serde(default)]
    pub date_formats: BTreeMap<DayField, DateFormat>,
    /// The fields of records that stand for those that reports calculate with, by route; an empty
    /// name stands for none.
    #[serde(default, deserialize_with = "report_fields")]
    pub fields: BTreeMap<Route, BTreeMap<String, String>>,
    /// The statuses that mean cancelled; if empty, they are recognised by their names.
    #[serde(default)]
    pub cancelled_status: Vec<String>,
    /// The types of payments that are refunds, beside those with a negative amount.
    #[serde(default)]
    pub refund_types: Vec<String>,
    /// The statuses of payments that do not count.
    #[serde(default)]
    pub void_statuses: Vec<String>,
    /// The reports that are made on a schedule, by the names of their tables.
    #[serde(skip)]
    pub schedule: BTreeMap<String, ScheduledReport>,
}

/// The sign before the fraction of an amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum DecimalSeparator {
    /// `1,234.50`
    #[serde(rename = ".")]
    Point,
    /// `1.234,50`
    #[serde(rename = ",")]
    Comma,
}

/// A field with a day that the shop enters (contract, "Read records").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum DayField {
    /// Of leads.
    NextFollowUp,
    /// Of jobs and leads.
    ScheduledOn,
    /// Of jobs.
    EstimatedDelivery,
    /// Of jobs.
    ReceivedAt,
}

impl ReportsSettings {
    /// How the values that reports calculate with are read, in a shop of this time zone.
    #[must_use]
    pub fn read_settings(&self, zone: &TimeZone) -> ReadSettings {
        let mut date_formats = BTreeMap::new();
        for (field, format) in &self.date_formats {
            let name: &str = field.into();
            date_formats.insert(name.to_owned(), format.clone());
        }
        let decimals = self.decimal_separator.map(|separator| match separator {
            DecimalSeparator::Point => Rule::DecimalPoint,
            DecimalSeparator::Comma => Rule::DecimalComma,
        });
        ReadSettings {
            time_zone: zone.iana_name().unwrap_or("UTC").to_owned(),
            date_formats,
            decimals,
            fields: self.fields.clone(),
            refund_types: self.refund_types.clone(),
            void_statuses: self.void_statuses.clone(),
        }
    }
}

/// Field names by route; each must be one that reports calculate with.
fn report_fields<'de, D: Deserializer<'de>>(
    d: D,
) -> Result<BTreeMap<Route, BTreeMap<String, String>>, D::Error> {
    let fields: BTreeMap<Route, BTreeMap<String, String>> = BTreeMap::deserialize(d)?;
    for (route, names) in &fields {
        let mut known: Vec<&str> = fields_of(*route).iter().map(|field| field.name).collect();
        for field in WORD_FIELDS {
            if field.route == *route {
                known.push(field.name);
            }
        }
        for name in names.keys() {
            if !known.contains(&name.as_str()) {
                return Err(D::Error::custom(format!(
                    "has no {route}.{name}: reports use {} of {route}",
                    known.join(", ")
                )));
            }
        }
    }
    Ok(fields)
}

/// `[reports.schedule.NAME]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ScheduledReport {
    /// The report.
    pub report: String,
    /// The times of day, in the time zone of the workspace, the earliest first.
    #[serde(deserialize_with = "times_of_day")]
    pub at: Vec<Time>,
    /// The days of the week; empty for all.
    #[serde(default)]
    pub days: Vec<Day>,
    /// The reason without which it is not sent; `None` sends it each time.
    #[serde(default, deserialize_with = "only_if::read")]
    pub only_if: Option<OnlyIf>,
    /// The days that it is about.
    #[serde(default)]
    pub period: Range,
    /// The unit in which days are counted.
    #[serde(default)]
    pub by: CountedBy,
    /// Only this business.
    pub business: Option<String>,
    /// Values of the report's own parameters.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
    /// The form in which it is written.
    #[serde(default)]
    pub format: ReportFormat,
    /// Whether CSV ends with the notes.
    #[serde(default)]
    pub notes: bool,
    /// The file that it replaces; a report has a file, or a sink, or both.
    pub path: Option<PathBuf>,
    /// The sink that it is sent to.
    pub sink: Option<String>,
}

/// The most times of one day.
const TIMES_MAX: usize = 24;

/// One time of day, or a list of them.
fn times_of_day<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Time>, D::Error> {
    let texts = match toml::Value::deserialize(d)? {
        toml::Value::String(text) => vec![text],
        toml::Value::Array(values) => {
            let mut texts = Vec::new();
            for value in values {
                texts.push(value.as_str().unwrap_or_default().to_owned());
            }
            texts
        }
        _ => Vec::new(),
    };
    if !(1..=TIMES_MAX).contains(&texts.len()) {
        return Err(D::Error::custom(format!(
            "must be a time of day, for example \"07:30\", or a list of 1 to {TIMES_MAX} of them"
        )));
    }
    let mut times = Vec::with_capacity(texts.len());
    for text in texts {
        times.push(parse_time_of_day(&text).map_err(D::Error::custom)?);
    }
    times.sort_unstable();
    times.dedup();
    Ok(times)
}

/// A day of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Day(#[serde(deserialize_with = "weekday")] pub Weekday);

fn weekday<'de, D: Deserializer<'de>>(d: D) -> Result<Weekday, D::Error> {
    parsed(d, |text| {
        if let Ok(time) = BrokenDownTime::parse("%a", text)
            && let Some(day) = time.weekday()
        {
            return Ok(day);
        }
        Err("must hold days from \"mon\" to \"sun\"".into())
    })
}

/// Days with a name, seen from today.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Range {
    /// Today so far.
    Today,
    /// The day before.
    Yesterday,
    /// The seven days before today.
    #[serde(rename = "last-7-days")]
    #[strum(serialize = "last-7-days")]
    Last7Days,
    /// Today and the 29 days before it.
    #[default]
    #[serde(rename = "last-30-days")]
    #[strum(serialize = "last-30-days")]
    Last30Days,
    /// From Monday until now.
    ThisWeek,
    /// The week before, from Monday to Sunday.
    LastWeek,
    /// From the first of the month until now.
    ThisMonth,
    /// The calendar month before.
    LastMonth,
    /// From the first of January until now.
    ThisYear,
    /// This month and the eleven before it.
    #[serde(rename = "12-months")]
    #[strum(serialize = "12-months")]
    TwelveMonths,
}

impl Range {
    /// Its word in the configuration and in addresses: `this-week`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The unit in which the days of a report are counted.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    ValueEnum,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
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
    /// All of them, the shortest first.
    pub const ALL: [Self; 3] = [Self::Day, Self::Week, Self::Month];

    /// Its word: `day`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The form in which a report is written.
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
    /// An Excel file.
    Xlsx,
}

/// The section; `None` only if a problem was noted.
pub(super) fn read(table: &Table<'_>, sinks: &Sinks) -> Option<ReportsSettings> {
    let base = table.file.base;
    let read: Option<ReportsSettings> = table.read(&[]);
    let mut schedule = BTreeMap::new();
    for (name, own) in table.table("schedule").named() {
        let report = scheduled(&own, sinks);
        own.finish();
        if let Some(report) = report {
            schedule.insert(name, report);
        }
    }
    let read = read?;
    let folder = read.folder.map(|folder| base.dir.join(folder));
    Some(ReportsSettings {
        folder,
        schedule,
        ..read
    })
}

/// One table; `None` only if a problem was noted.
fn scheduled(table: &Table<'_>, sinks: &Sinks) -> Option<ScheduledReport> {
    let read: ScheduledReport = table.read(&["report", "at"])?;
    match &read.sink {
        Some(sink) => check_notified(sinks, table, sink),
        None if read.path.is_some() => {}
        None => table.note_here(
            "a scheduled report needs `path`, a file to write, or `sink`, the name of a sink",
        ),
    }
    let path = read.path.map(|path| table.file.base.state_path(path));
    if let Some(path) = &path {
        table.claim(path);
    }
    Some(ScheduledReport { path, ..read })
}

#[cfg(test)]
mod tests {
    use crate::config::{Base, Config};

    #[test]
    fn the_formats_of_a_shop_are_checked() {
        let base = Base::default();
        let read = |keys: &str| {
            let text =
                format!("[workspace]\nbase_url = \"http://127.0.0.1:9/api\"\n[reports]\n{keys}\n");
            match Config::parse(&text, "shopmirror.toml", &base) {
                Ok(_) => String::new(),
                Err(problems) => problems.to_string(),
            }
        };
        for good in [
            "decimal_separator = \",\"",
            "date_formats.received_at = \"%d/%m/%Y %H:%M\"",
            "date_formats.next_follow_up = \"moments\"",
            "fields.payments.amount = \"sum\"\nfields.jobs.total_amount = \"\"",
            "fields.job_status_changes.changed_by = \"who\"\nfields.payments.type = \"art\"",
            "refund_types = [\"Refund\"]\nvoid_statuses = [\"Void\"]",
        ] {
            assert_eq!(read(good), "", "{good}");
        }
        for (bad, part) in [
            ("decimal_separator = \"x\"", "use one of ., ,"),
            ("date_formats.received_at = \"%H:%M\"", "must be \"dates\""),
            (
                "date_formats.created_at = \"dates\"",
                "use one of next_follow_up, scheduled_on",
            ),
            ("fields.payments.sum = \"amount\"", "has no payments.sum"),
            (
                "fields.orders.amount = \"sum\"",
                "use one of jobs, customers",
            ),
        ] {
            let problems = read(bad);
            assert!(problems.contains(part), "{bad}: {problems}");
        }
    }

    #[test]
    fn a_report_never_replaces_a_file_of_the_store_or_of_a_sink() {
        let base = Base {
            dir: "/srv/shop".into(),
            ..Base::default()
        };
        for (path, is_free) in [
            ("mirror.db-wal", false),
            ("mirror.db.lock", false),
            ("./mirror.db", false),
            ("/srv/shop/mirror.db", false),
            ("audit.ndjson", false),
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
