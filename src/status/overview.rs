//! What `shopmirror status` prints and the page System shows: the same facts, tables and notes.
//!
//! The caller decides how times are written: a terminal writes how long ago it was, a page that
//! stays open writes a clock time. Text that comes from outside is not escaped here.

use jiff::Timestamp;
use shopmirror_core::budget::BudgetStatus;

use super::{SAME_DISK, WorkspaceStatus};
use crate::deliver::SinkStatus;
use crate::poll::{PollerState, PollerStatus};
use crate::store::missing_link;
use crate::text::duration;
use crate::text::number::{count, whole};

/// Writes a time that is given by the seconds from the status until then; it is past if they are
/// negative.
pub type FormatTime<'a> = &'a dyn Fn(f64) -> String;

/// A table of the status for people.
#[derive(Debug, Default)]
pub struct StatusTable {
    /// Each row has the same columns, by name; the first one names the row.
    pub rows: Vec<Vec<(&'static str, String)>>,
    /// The text in place of the table if there are no rows.
    pub empty: &'static str,
    /// The texts below the rows.
    pub notes: Vec<String>,
}

impl WorkspaceStatus {
    /// The facts about the workspace as a whole, each with its label.
    #[must_use]
    pub fn facts(&self, format_time: FormatTime<'_>) -> Vec<(&'static str, String)> {
        let mut facts = Vec::new();
        for (of, quotation) in self.quotations() {
            facts.push(("response", format!("of {of}: {quotation}")));
        }
        if let Some(budget) = &self.budget {
            facts.push(("budget", budget_text(budget)));
        }
        let records = count(self.records.values().sum::<i64>(), "record", "records");
        let changes = count(self.last_seq, "change", "changes");
        facts.push(("mirror", format!("{records}, {changes} in the log")));
        if !self.left_out.is_empty() {
            let lists = self.left_out.iter();
            let texts: Vec<String> = lists
                .map(|list| format!("{} since {}", list.name, list.last_read_at))
                .collect();
            facts.push(("not polled now", texts.join(", ")));
        }
        if !self.job_links.is_empty() {
            let links: Vec<String> = self.job_links.iter().map(ToString::to_string).collect();
            facts.push(("links", links.join(", ")));
        }
        for route in &self.unlinked_routes {
            facts.push(("links", missing_link(*route)));
        }
        for text in self.reading_facts() {
            facts.push(("values", text));
        }
        if let Some(backup) = &self.backup {
            let mut text = self
                .time_text(backup.last_at.as_deref(), format_time)
                .unwrap_or_else(|| "none yet".to_owned());
            if let Some(next) = self.next_text(backup.next_at.as_deref(), format_time) {
                text = format!("{text}, {next}");
            }
            facts.push(("backup", text));
            if backup.same_disk_only {
                facts.push(("backup", SAME_DISK.to_owned()));
            }
        }
        if let Some(offsite) = &self.offsite {
            let text = self
                .time_text(offsite.last_at.as_deref(), format_time)
                .unwrap_or_else(|| "none yet".to_owned());
            facts.push(("off-site", text));
        }
        if let Some(next) = self.reports.iter().min_by_key(|report| &report.next_at) {
            let number = count(self.reports.len(), "scheduled report", "scheduled reports");
            let at = self
                .next_text(Some(&next.next_at), format_time)
                .unwrap_or_default();
            facts.push(("reports", format!("{number}, {} {at}", next.name)));
        }
        facts
    }

    /// A stored time as the caller writes it; `None` if there is none that can be read.
    fn time_text(&self, stamp: Option<&str>, format_time: FormatTime<'_>) -> Option<String> {
        Some(format_time(self.seconds_until(stamp)?))
    }

    /// When something is done next; it may be late.
    fn next_text(&self, stamp: Option<&str>, format_time: FormatTime<'_>) -> Option<String> {
        let seconds = self.seconds_until(stamp)?;
        if seconds <= 0.0 {
            return Some("due now".to_owned());
        }
        Some(format!("next {}", format_time(seconds)))
    }

    fn seconds_until(&self, stamp: Option<&str>) -> Option<f64> {
        let now: Timestamp = self.at.parse().ok()?;
        let at: Timestamp = stamp?.parse().ok()?;
        Some(at.duration_since(now).as_secs_f64())
    }

    /// The pollers. The columns that matter most come first, for a narrow terminal.
    #[must_use]
    pub fn poller_table(&self, format_time: FormatTime<'_>) -> StatusTable {
        let mut rows = Vec::new();
        for poller in &self.pollers {
            rows.push(self.poller_row(poller, format_time));
        }
        StatusTable {
            rows,
            empty: "no route has been read yet",
            notes: Vec::new(),
        }
    }

    fn poller_row(
        &self,
        poller: &PollerStatus,
        format_time: FormatTime<'_>,
    ) -> Vec<(&'static str, String)> {
        let state = match poller.state {
            PollerState::Ok if poller.at_risk => "AT RISK".to_owned(),
            state => state.to_string(),
        };
        let last_read = poller.last_read(|age| format_time(-age));
        let records = self.records_of(poller);
        vec![
            ("route", poller.name()),
            ("state", state),
            ("gaps", whole(poller.gaps)),
            ("last read", last_read),
            ("next", or_dash(poller.next_poll_s.map(format_time))),
            (
                "interval",
                or_dash(poller.interval_s.map(duration::seconds)),
            ),
            (
                "guarantee",
                or_dash(poller.guarantee_s.map(duration::seconds)),
            ),
            ("records", or_dash(records.map(whole))),
            ("per hour", or_dash(poller.rate_per_hour.map(rate_text))),
        ]
    }

    /// The records of a poller's route, in the row of the route's first poller.
    fn records_of(&self, poller: &PollerStatus) -> Option<i64> {
        let first = self
            .pollers
            .iter()
            .find(|other| other.route == poller.route);
        if first != Some(poller) {
            return None;
        }
        self.records.get(&poller.route).copied()
    }

    /// The sinks, what they refuse, and those that are no longer configured.
    #[must_use]
    pub fn sink_table(&self, format_time: FormatTime<'_>) -> StatusTable {
        let mut rows = Vec::new();
        let mut errors = Vec::new();
        let mut refused = Vec::new();
        for sink in &self.sinks {
            let name = &sink.name;
            rows.push(sink_row(sink, format_time));
            if let Some(error) = &sink.last_error {
                let mut text = format!("{name}: {error}");
                if let Some(quotation) = &sink.last_error_quotation {
                    text = format!("{text}; response: {quotation}");
                }
                errors.push(text);
            }
            if sink.notices.refused > 0 {
                refused.push(format!(
                    "{name} refused {} of its alerts or reports for good: see `shopmirror sinks \
                     {name} dead`",
                    sink.notices.refused
                ));
            }
        }
        StatusTable {
            rows,
            empty: "no sink has been opened yet: add [sinks.NAME] to the configuration",
            notes: [errors, refused, self.removed_sinks.clone()].concat(),
        }
    }
}

fn budget_text(budget: &BudgetStatus) -> String {
    let mut left = String::new();
    if budget.remaining_disproved {
        left = ", how many are left is not known: X-RateLimit-Remaining says 0 with every response"
            .to_owned();
    } else if let Some(remaining) = budget.remaining_seen {
        left = format!(", {remaining} left on the key");
    }
    format!(
        "{} of {} requests used in the last minute{left}; other clients use {:.0} per minute",
        budget.used_last_60s, budget.limit, budget.others_per_minute
    )
}

fn sink_row(sink: &SinkStatus, format_time: FormatTime<'_>) -> Vec<(&'static str, String)> {
    let mut state = sink.state.as_str().to_owned();
    if let Some(left) = sink.next_attempt_s {
        state = format!("{state}, next try {}", format_time(left));
    }
    vec![
        ("sink", sink.name.clone()),
        ("type", sink.type_name.clone()),
        ("state", state),
        ("backlog", whole(sink.backlog)),
        ("retrying", whole(sink.retrying)),
        ("dead", whole(sink.dead)),
        ("delivered", whole(sink.delivered)),
        ("not wanted", whole(sink.filtered)),
        ("before start", whole(sink.skipped)),
    ]
}

fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".to_owned())
}

/// A rate with one decimal if it is small.
fn rate_text(per_hour: f64) -> String {
    if per_hour < 10.0 {
        format!("{per_hour:.1}")
    } else {
        whole(per_hour.round() as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deliver::SinkActivity;

    #[test]
    fn a_state_is_printed_as_the_word_of_its_json() {
        for word in ["stopped", "route_broken", "ok", "key_refused", "disk_full"] {
            let state: PollerState = serde_json::from_value(word.into()).unwrap();
            assert_eq!(state.to_string(), word);
        }
        for word in ["active", "paused", "refusing", "held"] {
            let state: SinkActivity = serde_json::from_value(word.into()).unwrap();
            assert_eq!(state.as_str(), word);
        }
    }
}
