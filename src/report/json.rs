//! An answer as one JSON object.

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

/// The answer of a report for programs.
#[must_use]
pub(super) fn json(answer: &Answer) -> Value {
    let values =
        |row: &Vec<Cell>| -> Value { row.iter().map(|cell| json_of(&cell.value)).collect() };
    // The places of the numbers that are not sure in this way: of the row and of the column, both
    // from 0.
    let cells_that_are = |wanted: Exactness| -> Vec<[usize; 2]> {
        let rows = answer.rows.iter().enumerate();
        rows.flat_map(|(row, cells)| {
            let cells = cells
                .iter()
                .enumerate()
                .filter(move |(_, cell)| cell.exactness == wanted);
            cells.map(move |(column, _)| [row, column])
        })
        .collect()
    };
    let sums_that_are = |wanted: Exactness| -> Vec<bool> {
        answer
            .totals
            .iter()
            .flatten()
            .map(|cell| cell.exactness == wanted)
            .collect()
    };
    let period = json!({
        "from": answer.period.from.to_string(),
        "to": answer.period.to.to_string(),
        "by": answer.by,
    });
    json!({
        "report": answer.report.name,
        "columns": answer.columns,
        "rows": answer.rows.iter().map(values).collect::<Value>(),
        "totals": answer.totals.as_ref().map(values),
        "at_least": cells_that_are(Exactness::AtLeast),
        "about": cells_that_are(Exactness::About),
        "totals_at_least": sums_that_are(Exactness::AtLeast),
        "totals_about": sums_that_are(Exactness::About),
        "notes": answer.notes,
        "as_of": stamp(answer.as_of.timestamp()),
        "period": answer.report.has_period().then_some(period),
    })
}
