//! What the reader of a report has to know beside its numbers.

use super::answer::ReportError;
use super::completeness::Lists;
use super::head::Report;
use super::value::shown;
use crate::number::count;
use crate::record::Route;
use crate::store::{QueryLimits, Reader, SqlValue, StoreError, missing_link};

/// A note's SELECT gives one row.
const LIMITS: QueryLimits =
    QueryLimits { time: std::time::Duration::from_secs(10), bytes: 64 * 1024 };

/// That states or paid sums are as last seen, if nothing names the jobs.
pub(super) fn of_links(
    reader: &Reader,
    report: &Report,
    lists: &Lists,
) -> Result<Vec<String>, StoreError> {
    let states = (Route::JobStatusChanges, report.shows_states());
    let sums = (Route::Payments, report.shows_paid_sums());
    let is_missing = |(route, is_shown): &(Route, bool)| *is_shown && !lists.linked.contains(route);
    // Routes of which records are mirrored that name no job.
    let unnamed = reader.unlinked_routes()?;
    let missing = [states, sums].into_iter().filter(is_missing);
    Ok(missing.map(|(route, _)| as_last_seen(route, &unnamed)).collect())
}

/// That what this route says of jobs is as last seen.
fn as_last_seen(route: Route, unnamed: &[Route]) -> String {
    if unnamed.contains(&route) {
        return missing_link(route);
    }
    let what = if route == Route::Payments { "paid sums" } else { "the states of jobs" };
    format!(
        "the mirror has no {}, so {what} are as last seen: if the shop has some, see that `[routes.{route}]` is not switched off",
        route.as_str().replace('_', " ")
    )
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
        let text = found.rows.first().and_then(|row| row.first()).map(|text| shown(text, None));
        notes.extend(text.filter(|text| !text.is_empty()));
    }
    Ok(notes)
}

/// That repairs are left out because the mirror does not hold them.
pub(super) fn of_unknown_jobs(report: &Report, jobs: usize) -> Option<String> {
    if jobs == 0 {
        return None;
    }
    let repairs = count(jobs, "completed repair is", "completed repairs are");
    let effect = if report.needs_job_link { ", so the true turnaround may be longer" } else { "" };
    Some(format!(
        "{repairs} left out, of which only a status change was seen: most were taken in before the mirror began{effect}"
    ))
}
