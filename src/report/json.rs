//! An answer as one JSON object.

use serde::Serialize;
use serde_json::{Value, json};
use shopmirror_core::clock::stamp;

use super::answer::Answer;
use super::exactness::{Cell, Exactness};
use super::head::Report;
use super::value::json_of;

/// The list of reports for programs.
#[must_use]
pub fn listed(reports: &[Report]) -> Value {
    let mut listed = Vec::with_capacity(reports.len());
    for report in reports {
        let mut parameters = Vec::with_capacity(report.parameters.len());
        for (name, parameter) in &report.parameters {
            parameters.push(json!({
                "name": name,
                "default": parameter.default(),
                "about": parameter.about,
            }));
        }
        listed.push(json!({
            "name": report.name,
            "title": report.title,
            "about": report.about,
            "has_chart": report.chart.is_some(),
            "parameters": parameters,
        }));
    }
    listed.into()
}

/// The answer of a report. Places are numbers of rows and columns, from 0.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AnswerDocument<'a> {
    /// The name of the report.
    report: &'a str,
    /// The names of the columns.
    columns: &'a [String],
    /// The rows. Of a range and of what is at least, the lower bound; of what is at most, the upper
    /// one; null if nothing is known.
    rows: Vec<Vec<Value>>,
    /// The sums of the columns that have one, as one row; null if no column has.
    totals: Option<Vec<Value>>,
    /// The places of the numbers that may be more: row and column.
    at_least: Vec<[usize; 2]>,
    /// The places of the numbers that may be less: row and column.
    at_most: Vec<[usize; 2]>,
    /// The places of the numbers that may be more or less: row and column.
    about: Vec<[usize; 2]>,
    /// The places of the ranges, each with its upper bound: row, column, number.
    between: Vec<(usize, usize, Value)>,
    /// The columns of the sums that may be more.
    totals_at_least: Vec<usize>,
    /// The columns of the sums that may be less.
    totals_at_most: Vec<usize>,
    /// The columns of the sums that may be more or less.
    totals_about: Vec<usize>,
    /// The columns of the sums that are ranges, each with its upper bound: column, number.
    totals_between: Vec<(usize, Value)>,
    /// Notes for the reader. The last one says what was read of the lists.
    notes: &'a [String],
    /// Up to when the mirror was read (UTC).
    as_of: String,
    /// The days that it is about; null if it is about now.
    period: Option<PeriodDocument>,
}

/// The days that a report is about.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PeriodDocument {
    /// The first day.
    from: String,
    /// The last day.
    to: String,
    /// The unit that its days are counted in: `day`, `week` or `month`.
    by: &'static str,
}

/// The answer of a report for programs.
#[must_use]
pub(super) fn json(answer: &Answer) -> AnswerDocument<'_> {
    let mut document = AnswerDocument {
        report: &answer.report.name,
        columns: &answer.columns,
        rows: Vec::with_capacity(answer.rows.len()),
        totals: answer.totals.as_deref().map(values),
        at_least: Vec::new(),
        at_most: Vec::new(),
        about: Vec::new(),
        between: Vec::new(),
        totals_at_least: Vec::new(),
        totals_at_most: Vec::new(),
        totals_about: Vec::new(),
        totals_between: Vec::new(),
        notes: &answer.notes,
        as_of: stamp(answer.as_of.timestamp()),
        period: answer.has_period.then(|| PeriodDocument {
            from: answer.period.from.to_string(),
            to: answer.period.to.to_string(),
            by: answer.by.as_str(),
        }),
    };
    for (row, cells) in answer.rows.iter().enumerate() {
        document.rows.push(values(cells));
        for (column, cell) in cells.iter().enumerate() {
            let place = [row, column];
            match cell.exactness {
                Exactness::AtLeast => document.at_least.push(place),
                Exactness::AtMost => document.at_most.push(place),
                Exactness::About => document.about.push(place),
                Exactness::Between { .. } => {
                    document.between.push((row, column, upper_of(cell)));
                }
                Exactness::Exact | Exactness::Unknown => {}
            }
        }
    }
    for (column, cell) in answer.totals.iter().flatten().enumerate() {
        match cell.exactness {
            Exactness::AtLeast => document.totals_at_least.push(column),
            Exactness::AtMost => document.totals_at_most.push(column),
            Exactness::About => document.totals_about.push(column),
            Exactness::Between { .. } => {
                document.totals_between.push((column, upper_of(cell)));
            }
            Exactness::Exact | Exactness::Unknown => {}
        }
    }
    document
}

/// The upper bound of a range.
fn upper_of(cell: &Cell) -> Value {
    match cell.upper() {
        Some(upper) => json_of(&upper),
        None => Value::Null,
    }
}

fn values(row: &[Cell]) -> Vec<Value> {
    row.iter().map(|cell| json_of(&cell.value)).collect()
}
