//! What `shopmirror status` prints and the page System shows: the same facts, tables and notes.
//!
//! A time is said by its reader: a terminal says how long ago it was, a page that stays open what
//! the clock showed. Text that comes from outside is not escaped here.

use jiff::Timestamp;

use super::WorkspaceStatus;
use crate::deliver::SinkStatus;
use crate::poll::{PollerState, PollerStatus};
use crate::store::{missing_link, word};
use crate::text::duration::seconds as span;
use crate::text::number::{count, whole};

/// Says a time by the seconds that pass from the status until then; it is past if they are
/// negative.
pub type SayTime<'a> = &'a dyn Fn(f64) -> String;

/// A table for people.
#[derive(Debug, Default)]
pub struct Table {
    /// Each row has the same columns, by name; the first one names the row.
    pub rows: Vec<Vec<(&'static str, String)>>,
    /// What to say if there are no rows.
    pub empty: &'static str,
    /// What to say below the rows.
    pub notes: Vec<String>,
}

impl WorkspaceStatus {
    /// What is to be said of the workspace as a whole, each with its label.
    #[must_use]
    pub fn facts(&self, say: SayTime<'_>) -> Vec<(&'static str, String)> {
        let mut facts = Vec::new();
        if let Some(budget) = &self.budget {
            let left = budget
                .remaining_seen
                .map_or_else(String::new, |n| format!(", {n} left on the key"));
            facts.push((
                "budget",
                format!(
                    "{} of {} requests used in the last minute{left}; other clients use {:.0} per minute",
                    budget.used_last_60s, budget.limit, budget.others_per_minute
                ),
            ));
        }
        let records = count(self.records.values().sum::<i64>(), "record", "records");
        let changes = count(self.last_seq, "change", "changes");
        facts.push(("mirror", format!("{records}, {changes} in the log")));
        if !self.job_links.is_empty() {
            let links: Vec<String> = self.job_links.iter().map(ToString::to_string).collect();
            facts.push(("links", links.join(", ")));
        }
        facts.extend(
            self.unlinked_routes
                .iter()
                .map(|route| ("links", missing_link(*route))),
        );
        if let Some(backup) = &self.backup {
            let at = |stamp: &Option<String>| Some(say(self.seconds_until(stamp.as_deref()?)?));
            let last = at(&backup.last_at).unwrap_or_else(|| "none yet".to_owned());
            let next =
                at(&backup.next_at).map_or_else(String::new, |next| format!(", next {next}"));
            facts.push(("backup", last + &next));
        }
        if let Some(next) = self.reports.iter().min_by(|a, b| a.next_at.cmp(&b.next_at)) {
            let made = count(self.reports.len(), "scheduled report", "scheduled reports");
            let at = self
                .seconds_until(&next.next_at)
                .map(say)
                .unwrap_or_default();
            facts.push(("reports", format!("{made}, next {} {at}", next.name)));
        }
        facts
    }

    fn seconds_until(&self, stamp: &str) -> Option<f64> {
        let (now, at): (Timestamp, Timestamp) = (self.at.parse().ok()?, stamp.parse().ok()?);
        Some(at.duration_since(now).as_secs_f64())
    }

    /// The pollers: those that matter most first, for a narrow terminal.
    #[must_use]
    pub fn poller_table(&self, say: SayTime<'_>) -> Table {
        let rate = |rate: f64| match rate < 10.0 {
            true => format!("{rate:.1}"),
            false => whole(rate.round() as i64),
        };
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let row = |poller: &PollerStatus| {
            let state = match poller.state {
                PollerState::Ok if poller.at_risk => "AT RISK".to_owned(),
                state => word(&state),
            };
            vec![
                ("route", poller.name()),
                ("state", state),
                ("gaps", whole(poller.gaps)),
                ("last read", poller.last_read(|age| say(-age))),
                ("next", or_dash(poller.next_poll_s.map(say))),
                ("interval", or_dash(poller.interval_s.map(span))),
                ("guarantee", or_dash(poller.guarantee_s.map(span))),
                ("records", or_dash(self.records_of(poller).map(whole))),
                ("per hour", or_dash(poller.rate_per_hour.map(rate))),
            ]
        };
        let rows = self.pollers.iter().map(row).collect();
        Table {
            rows,
            empty: "no route has been read yet",
            notes: Vec::new(),
        }
    }

    /// The records of a poller's route, in the row of the route's first poller.
    fn records_of(&self, poller: &PollerStatus) -> Option<i64> {
        let first = self
            .pollers
            .iter()
            .find(|other| other.route == poller.route);
        let records = self.records.get(&poller.route).copied();
        records.filter(|_| first == Some(poller))
    }

    /// The sinks, what they refuse, and those that are no longer configured.
    #[must_use]
    pub fn sink_table(&self, say: SayTime<'_>) -> Table {
        let row = |sink: &SinkStatus| {
            let state = match sink.next_attempt_s {
                Some(left) => format!("{}, next try {}", word(&sink.state), say(left)),
                None => word(&sink.state),
            };
            vec![
                ("sink", sink.name.clone()),
                ("type", sink.type_name.clone()),
                ("state", state),
                ("behind", whole(sink.behind)),
                ("retrying", whole(sink.retrying)),
                ("dead", whole(sink.dead)),
                ("delivered", whole(sink.delivered)),
                ("not wanted", whole(sink.filtered)),
                ("before start", whole(sink.skipped)),
            ]
        };
        let errors = self.sinks.iter().filter_map(|sink| {
            let error = sink.last_error.as_ref()?;
            Some(format!("{}: {error}", sink.name))
        });
        let refused = self.sinks.iter().filter(|sink| sink.notices.refused > 0).map(|sink| {
            format!(
                "{name} refused {} of its alerts or reports for good: see `shopmirror sinks {name} dead`",
                sink.notices.refused,
                name = sink.name
            )
        });
        let removed = self.removed_sinks.iter().cloned();
        Table {
            rows: self.sinks.iter().map(row).collect(),
            empty: "no sink has been opened yet: add [sinks.NAME] to the configuration",
            notes: errors.chain(refused).chain(removed).collect(),
        }
    }
}
