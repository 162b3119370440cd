//! Reminds a sink of what is still wrong. Pure.
//!
//! A matter is told again a day after its last message, all of them in one message. If only what an
//! acceptance ends is left, such as an old gap, a week passes between two messages.

use std::collections::BTreeMap;
use std::time::Duration;

use shopmirror_core::clock::{Moment, stamp};

use super::{AlertState, Origin, Symptom, lasted};
use crate::store::{AlertRow, AlertStep};

const DAY: Duration = Duration::from_secs(24 * 3600);
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
/// What reminders are about.
const ABOUT: &str = "reminder";

/// The reminder that is due, and what to store with it; empty if none is.
pub(super) fn due(
    stored: &BTreeMap<String, AlertRow>,
    symptoms: &[Symptom],
    origin: &Origin,
    now: Moment,
) -> Vec<AlertStep> {
    let mut told = Vec::new();
    for symptom in symptoms {
        if let Some(row) = stored.get(&symptom.about)
            && row.reported_severity > 0
        {
            told.push((symptom, row));
        }
    }
    let interval = if told.iter().all(|(symptom, _)| symptom.is_to_accept) {
        WEEK
    } else {
        DAY
    };
    let is_due = |row: &AlertRow| lasted(&row.reported_at, now.wall) >= interval;
    if !told.iter().any(|(_, row)| is_due(row)) {
        return Vec::new();
    }
    let mut steps = Vec::new();
    for (symptom, row) in &told {
        steps.push(AlertStep {
            about: symptom.about.clone(),
            row: Some(AlertRow {
                reported_at: stamp(now.wall),
                ..(*row).clone()
            }),
            notice: None,
        });
    }
    let since = told.iter().map(|(_, row)| &row.since).min();
    if let (Some(first), Some(since)) = (steps.first_mut(), since) {
        let version = now.wall.as_second();
        first.notice =
            Some(in_one(&told).notice(AlertState::Still, since, origin, now.wall, version));
    }
    steps
}

/// One symptom for all that is still wrong, each with since when.
fn in_one(told: &[(&Symptom, &AlertRow)]) -> Symptom {
    let title = match told {
        [(symptom, _)] => format!("still: {}", symptom.title),
        _ => format!("{} matters still need attention", told.len()),
    };
    let mut reasons = Vec::new();
    for (symptom, row) in told {
        let day = row.since.get(..16).unwrap_or(&row.since);
        let since = day.replace('T', " ");
        reasons.push(format!("since {since} UTC: {}", symptom.text));
    }
    Symptom {
        reasons: reasons.clone(),
        ..Symptom::new(ABOUT, title, reasons.join("\n"))
    }
}
