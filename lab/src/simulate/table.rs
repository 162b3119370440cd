//! The comparison as a table for people.

use std::fmt::Write as _;

use super::{ScheduleComparison, ScheduleResult};
use crate::table::columns;

/// The comparison as a table for people.
pub(crate) fn table(comparison: &ScheduleComparison) -> String {
    let mut table = columns(
        1,
        &[
            "schedule",
            "requests",
            "mean delay",
            "p50",
            "p99",
            "arrived",
            "lost",
            "outside gaps",
            "gaps",
            "suspect",
            "429",
        ],
    );
    for result in &comparison.schedules {
        table.add_row([
            result.name.to_owned(),
            result.requests.to_string(),
            format!("{:.2} s", result.mean_delay_s),
            format!("{:.2} s", result.p50_s),
            format!("{:.2} s", result.p99_s),
            result.arrived.to_string(),
            result.lost.to_string(),
            result.lost_outside_gaps.to_string(),
            result.gaps.to_string(),
            result.suspect.to_string(),
            result.http_429.to_string(),
        ]);
    }
    let mut text = table.to_string();
    if let Some(optimum) = comparison.optimum_delay_s {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\nat known rates no schedule that keeps min_interval and max_interval has a mean delay below {optimum:.2} s"
        );
        if comparison.schedules.iter().any(|result| result.lost > 0) {
            text.push_str(" without losing records; a lost record has no delay");
        }
    }
    if let Some(note) = comparison.schedules.first().and_then(hours) {
        text.push('\n');
        text.push_str(&note);
    }
    text
}

/// How unequal the hours of a schedule are; the last one, which may be cut short, is left out.
fn hours(result: &ScheduleResult) -> Option<String> {
    let (_, whole) = result.requests_by_hour.split_last()?;
    let most = whole.iter().max()?;
    let least = whole.iter().min()?;
    Some(format!(
        "{}: {most} requests in its busiest hour, {least} in its quietest",
        result.name
    ))
}
