//! Asking the mirror a report's question.

use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use super::head::{ColumnFormat, Report};
use super::period::{By, Period, PeriodError};
use crate::clock::stamp;
use crate::record::Route;
use crate::store::{LogReach, QueryError, QueryLimits, Reader, SqlValue, StoreError};

/// What a report may take and return.
const LIMITS: QueryLimits =
    QueryLimits { time: Duration::from_secs(10), rows: 10_000, bytes: 16 * 1024 * 1024 };

/// What is asked of a report.
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// The first day.
    pub from: Option<Date>,
    /// The last day.
    pub to: Option<Date>,
    /// In what days are counted.
    pub by: By,
    /// Only this business.
    pub business: Option<String>,
    /// As the shop stood then; `None` is now.
    pub at: Option<Timestamp>,
    /// Values of the report's own parameters.
    pub set: Vec<(String, String)>,
}

/// One column of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// How its values are shown.
    pub format: Option<ColumnFormat>,
}

/// The answer of a report.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The report.
    pub report: Report,
    /// The days it is about.
    pub period: Period,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows.
    pub rows: Vec<Vec<SqlValue>>,
    /// What the reader has to know, for example that rows were cut off.
    pub notes: Vec<String>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The workspace has not sent what the report needs.
    #[error(
        "the report {name} needs {}, which the workspace has not sent so far; with it, it would show this: {about}",
        columns.join(" and ")
    )]
    NotSent {
        /// The report.
        name: String,
        /// The missing columns.
        columns: Vec<String>,
        /// What it would show.
        about: String,
    },
    /// The report has no such parameter.
    #[error("the report has no parameter {name:?}; {known}")]
    UnknownParameter {
        /// The name given.
        name: String,
        /// Those it has, in words.
        known: String,
    },
    /// A value does not fit.
    #[error("the parameter {name} {why}")]
    Value {
        /// The parameter.
        name: String,
        /// Why.
        why: &'static str,
    },
    /// The period cannot be used.
    #[error(transparent)]
    Period(#[from] PeriodError),
    /// The query failed.
    #[error("the report {name} cannot be answered: {source}")]
    Query {
        /// The report.
        name: String,
        /// Why.
        source: QueryError,
    },
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Answers a report. Blocks for as long as the query takes, 10 seconds at most.
///
/// # Errors
/// [`ReportError`], each with what to do.
pub fn answer(
    reader: &mut Reader,
    report: &Report,
    question: &Question,
    zone: &TimeZone,
    now: Timestamp,
) -> Result<Answer, ReportError> {
    let asked_at = question.at.unwrap_or(now);
    let mut notes = Vec::new();
    if let Some(at) = question.at {
        notes.extend(travel(reader, at)?);
    }
    refuse_what_is_not_sent(reader, report)?;
    let local: Zoned = asked_at.to_zoned(zone.clone());
    let period = Period::new(question.from, question.to, local.date())?;
    reader.set_days(&period.days(zone, question.by)?)?;
    let parameters = parameters(report, question, period, &local)?;
    let found = reader
        .query(&report.sql, &parameters, LIMITS)
        .map_err(|source| ReportError::Query { name: report.name.clone(), source })?;
    if found.is_cut {
        notes.push(format!("only the first {} rows are shown", LIMITS.rows));
    }
    let columns = found.columns.into_iter().map(|name| {
        let format = report.format(&name);
        Column { name, format }
    });
    Ok(Answer {
        report: report.clone(),
        period,
        columns: columns.collect(),
        rows: found.rows,
        notes,
    })
}

/// Lets the reader see the shop as it stood at a time; returns what the log cannot know.
fn travel(reader: &Reader, at: Timestamp) -> Result<Vec<String>, ReportError> {
    let at = stamp(at);
    reader.travel_to(&at, &Route::ALL)?;
    let reach = reader.log_reach()?;
    Ok(reach_note(&reach, &at).into_iter().collect())
}

/// What to say of a time that the log does not know whole.
#[must_use]
pub fn reach_note(reach: &LogReach, at: &str) -> Option<String> {
    if reach.covers(at) {
        return None;
    }
    Some(match (&reach.first_at, &reach.complete_since) {
        (Some(first), Some(since)) if first.as_str() <= at => format!(
            "the log is complete since {since} only: records whose versions of that time were deleted are missing"
        ),
        (Some(first), _) => format!("the log begins at {first}: nothing is known of earlier times"),
        _ => "the log is empty: nothing is known of that time".to_owned(),
    })
}

fn refuse_what_is_not_sent(reader: &Reader, report: &Report) -> Result<(), ReportError> {
    let mut missing = Vec::new();
    for need in &report.needs {
        if !reader.columns(need.route)?.contains(&need.column) {
            missing.push(format!("{}.{}", need.route, need.column));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let (name, about) = (report.name.clone(), report.about.clone());
    Err(ReportError::NotSent { name, columns: missing, about })
}

/// What is wrong with values for the parameters of a report; `None` if it takes them.
#[must_use]
pub fn refused_parameter(report: &Report, set: &[(String, String)]) -> Option<ReportError> {
    own_parameters(report, set).err()
}

fn parameters(
    report: &Report,
    question: &Question,
    period: Period,
    local: &Zoned,
) -> Result<Vec<(String, SqlValue)>, ReportError> {
    let now = local.timestamp().strftime("%Y-%m-%dT%H:%M:%S").to_string();
    let business = question.business.clone().map_or(SqlValue::Null, SqlValue::Text);
    let mut values: Vec<(String, SqlValue)> = vec![
        ("from".to_owned(), period.from.to_string().into()),
        ("to".to_owned(), period.to.to_string().into()),
        ("today".to_owned(), local.date().to_string().into()),
        ("now".to_owned(), now.into()),
        ("business".to_owned(), business),
    ];
    values.extend(own_parameters(report, &question.set)?);
    Ok(values)
}

/// The report's own parameters with their values.
fn own_parameters(
    report: &Report,
    set: &[(String, String)],
) -> Result<Vec<(String, SqlValue)>, ReportError> {
    for (name, _) in set {
        if !report.parameters.iter().any(|parameter| parameter.name == *name) {
            let names: Vec<&str> = report.parameters.iter().map(|p| p.name.as_str()).collect();
            let known = if names.is_empty() {
                "it has none".to_owned()
            } else {
                format!("it has: {}", names.join(", "))
            };
            return Err(ReportError::UnknownParameter { name: name.clone(), known });
        }
    }
    let mut values = Vec::with_capacity(report.parameters.len());
    for parameter in &report.parameters {
        let given = set.iter().rev().find(|(name, _)| *name == parameter.name);
        let text = given.map_or(parameter.default.as_str(), |(_, text)| text.as_str());
        let value = parameter
            .kind
            .read(text)
            .map_err(|why| ReportError::Value { name: parameter.name.clone(), why })?;
        values.push((parameter.name.clone(), value));
    }
    Ok(values)
}
