//! Runs the SELECTs of a report: the one of its rows, and those of its notes.

use std::time::Duration;

use shopmirror_core::record::Route;

use super::error::ReportError;
use super::exactness::{Cells, Knowledge};
use super::head::Report;
use super::uses::Uses;
use super::value::shown;
use crate::store::{QueryLimits, QueryRows, Reader, SqlValue, missing_link};

/// What a report may take and return.
const LIMITS: QueryLimits = QueryLimits {
    time: Duration::from_secs(10),
    bytes: 32 * 1024 * 1024,
    value_bytes: 16 * 1024 * 1024,
};
/// The same for one of the shop's own. One call of a function can take as long as two texts of
/// half this length need, each letter of one compared with each of the other: some seconds.
const OWN_LIMITS: QueryLimits = QueryLimits {
    value_bytes: 128 * 1024,
    ..LIMITS
};

/// What a report's own SELECT reads.
///
/// # Errors
/// If the workspace does not send what it needs, and as [`rows_of`].
pub(super) fn uses_of(reader: &mut Reader, report: &Report) -> Result<Uses, ReportError> {
    refuse_what_is_not_sent(reader, report)?;
    let reads = reader
        .reads(&report.sql, LIMITS)
        .map_err(|error| ReportError::of_query(&report.name, error))?;
    Ok(Uses {
        sums_completed: report.has_completed(),
        ..Uses::of(&reads)
    })
}

/// The rows of a report's own SELECT, with how sure each number is.
///
/// # Errors
/// As [`rows_of`].
pub(super) fn cells_of(
    reader: &mut Reader,
    report: &Report,
    uses: &Uses,
    known: &Knowledge,
    parameters: &[(String, SqlValue)],
) -> Result<Cells, ReportError> {
    let found = rows_of(reader, report, &report.sql, parameters)?;
    Ok(known.cells(report, uses, found))
}

/// The rows of one SELECT of a report.
///
/// # Errors
/// If it cannot be answered, or the store cannot be read.
pub(super) fn rows_of(
    reader: &mut Reader,
    report: &Report,
    sql: &str,
    parameters: &[(String, SqlValue)],
) -> Result<QueryRows, ReportError> {
    let limits = if report.is_own { OWN_LIMITS } else { LIMITS };
    reader
        .query(sql, parameters, limits)
        .map_err(|error| ReportError::of_query(&report.name, error))
}

/// What stands for the number of rows among the columns that lack what a note names.
pub(super) const ROWS: &str = "rows";

/// The notes of a report's own text.
#[derive(Default)]
pub(super) struct OwnNotes {
    /// The text of each.
    pub(super) texts: Vec<String>,
    /// The columns whose sum lacks what a note names, because no row shows it, and [`ROWS`] if the
    /// number of rows lacks it: the second column of a note's SELECT, with spaces between the names.
    pub(super) lacking: Vec<String>,
}

/// The notes of the report's own text.
///
/// # Errors
/// As [`rows_of`].
pub(super) fn notes_of(
    reader: &mut Reader,
    report: &Report,
    parameters: &[(String, SqlValue)],
) -> Result<OwnNotes, ReportError> {
    let mut notes = OwnNotes::default();
    for sql in &report.notes {
        let found = rows_of(reader, report, sql, parameters)?;
        let Some(row) = found.rows.first() else {
            continue;
        };
        let mut cells = row.iter().map(|cell| shown(cell, None));
        let text = cells.next().unwrap_or_default();
        if text.is_empty() {
            continue;
        }
        notes.texts.push(text);
        let lacking = cells.next().unwrap_or_default();
        notes
            .lacking
            .extend(lacking.split_whitespace().map(str::to_owned));
    }
    Ok(notes)
}

/// Refuses a report that needs what the workspace does not send. A list without records lacks
/// nothing: for this report it gets the columns.
///
/// # Errors
/// [`ReportError::NotSent`], which names what is missing.
fn refuse_what_is_not_sent(reader: &Reader, report: &Report) -> Result<(), ReportError> {
    let mut missing = Vec::new();
    for (route, needed) in &report.needs {
        let lacking = reader.lacking_fields(*route, needed)?;
        if lacking.is_empty() {
            continue;
        }
        if !reader.has_records(*route)? {
            reader.add_empty_columns(*route, &lacking)?;
            continue;
        }
        for field in lacking {
            missing.push(format!("{route}.{field}"));
        }
    }
    let name = &report.name;
    if !missing.is_empty() {
        return Err(ReportError::NotSent(format!(
            "the report {name} needs {}, which the workspace has not sent so far; with it, it \
             would show this: {}",
            missing.join(" and "),
            report.about
        )));
    }
    if report.needs_job_link && reader.unlinked_routes()?.contains(&Route::JobStatusChanges) {
        let missing = missing_link(Route::JobStatusChanges);
        return Err(ReportError::NotSent(format!(
            "the report {name} needs to know which job a status change belongs to: {missing}"
        )));
    }
    Ok(())
}
