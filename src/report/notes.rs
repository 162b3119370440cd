//! The notes for the reader of a report, beside its numbers.

use shopmirror_core::record::Route;

use super::answer::{LIMITS, ReportError};
use super::head::Report;
use super::value::shown;
use crate::store::{Reader, SqlValue, StoreError, missing_link};
use crate::text::number::count;

/// A note that states or paid sums are as last seen, if newer records do not name their job.
pub(super) fn of_links(reader: &Reader, report: &Report) -> Result<Vec<String>, StoreError> {
    let matters = |route: &Route| match route {
        Route::JobStatusChanges => report.shows_states(),
        _ => report.shows_paid_sums(),
    };
    let unlinked = reader.unlinked_routes()?.into_iter().filter(matters);
    Ok(unlinked.map(missing_link).collect())
}

/// The notes of the report's own text.
pub(super) fn of_report(
    reader: &mut Reader,
    report: &Report,
    parameters: &[(String, SqlValue)],
) -> Result<Vec<String>, ReportError> {
    let mut notes = Vec::new();
    for sql in &report.notes {
        let found = reader
            .query(sql, parameters, LIMITS)
            .map_err(|error| ReportError::of_query(report, error))?;
        let text = found
            .rows
            .first()
            .and_then(|row| row.first())
            .map(|text| shown(text, None));
        notes.extend(text.filter(|text| !text.is_empty()));
    }
    Ok(notes)
}

/// A note that repairs are left out because the mirror does not hold them.
pub(super) fn of_unknown_jobs(jobs: usize) -> Option<String> {
    let repairs = count(jobs, "completed repair is", "completed repairs are");
    (jobs > 0).then(|| {
        format!(
            "{repairs} left out, of which only a status change was seen: most were taken in before \
             the mirror began, so the true numbers may be higher"
        )
    })
}
