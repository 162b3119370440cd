//! An answer as one JSON object.

use serde::Serialize;
use serde_json::{Value, json};

use super::answer::Answer;
use super::completeness::{Cell, Exactness};
use super::head::{Parameter, Report};
use super::value::json_of;
use crate::clock::stamp;

/// The answer of a report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ReportDocument {
    /// The report's name.
    report: String,
    /// The names of the columns.
    columns: Vec<String>,
    /// The rows, each with its values in the order of the columns. A number that is not known is null.
    rows: Vec<Vec<Value>>,
    /// The sums of all rows in the order of the columns, null for a column without one; null if no column has one.
    totals: Option<Vec<Value>>,
    /// Where `rows` has a number that may be too low, because not every record of its time is known: the number
    /// of the row and that of the column, both from 0.
    at_least: Vec<[usize; 2]>,
    /// Where `rows` has a number that may be too low or too high, in the same way.
    about: Vec<[usize; 2]>,
    /// Whether a sum may be too low, in the order of the columns; empty without `totals`.
    totals_at_least: Vec<bool>,
    /// Whether a sum may be too low or too high.
    totals_about: Vec<bool>,
    /// What the reader has to know. The last one says since when the data is complete.
    notes: Vec<String>,
    /// Up to when the mirror was read (UTC).
    as_of: String,
    /// The days it is about; null if it is about now.
    period: Option<ReportDays>,
}

/// The days that a report is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct ReportDays {
    /// The first day, in the shop's time zone.
    from: String,
    /// The last day.
    to: String,
    /// In what its days are counted: `day`, `week` or `month`.
    by: &'static str,
}

/// The list of reports for programs.
#[must_use]
pub fn listed(reports: &[Report]) -> Value {
    let parameter = |(name, parameter): (&String, &Parameter)| json!({ "name": name, "default": parameter.default(), "about": parameter.about });
    let listed = reports.iter().map(|report| {
        let Report { name, title, about, chart, .. } = report;
        let parameters: Vec<Value> = report.parameters.iter().map(parameter).collect();
        json!({
            "name": name, "title": title, "about": about, "has_chart": chart.is_some(),
            "parameters": parameters,
        })
    });
    listed.collect()
}

/// The answer of a report for programs.
#[must_use]
pub(super) fn json(answer: &Answer) -> ReportDocument {
    let values = |row: &Vec<Cell>| row.iter().map(|cell| json_of(&cell.value)).collect();
    let cells_that_are = |wanted: Exactness| {
        let rows = answer.rows.iter().enumerate();
        rows.flat_map(|(row, cells)| {
            let cells = cells.iter().enumerate().filter(move |(_, cell)| cell.exactness == wanted);
            cells.map(move |(column, _)| [row, column])
        })
        .collect()
    };
    let sums_that_are = |wanted: Exactness| {
        answer.totals.iter().flatten().map(|cell| cell.exactness == wanted).collect()
    };
    ReportDocument {
        report: answer.report.name.clone(),
        columns: answer.columns.iter().map(|column| column.name.clone()).collect(),
        rows: answer.rows.iter().map(values).collect(),
        totals: answer.totals.as_ref().map(values),
        at_least: cells_that_are(Exactness::AtLeast),
        about: cells_that_are(Exactness::About),
        totals_at_least: sums_that_are(Exactness::AtLeast),
        totals_about: sums_that_are(Exactness::About),
        notes: answer.notes.clone(),
        as_of: stamp(answer.as_of.timestamp()),
        period: answer.report.has_period().then(|| ReportDays {
            from: answer.period.from.to_string(),
            to: answer.period.to.to_string(),
            by: answer.by.as_str(),
        }),
    }
}
