//! Judges health: each finding has a level and a text that says what to do; the worst level counts.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::WorkspaceStatus;
use crate::control::ControlError;
use crate::deliver::{SinkActivity, SinkStatus};
use crate::poll::{PollerState, PollerStatus, PollingStatus, clock_advice};
use crate::text::duration;
use crate::text::number::count;

/// A poller is stale when its last success is older than this many of its intervals …
const STALE_INTERVALS: f64 = 5.0;
/// … and older than this.
const STALE_SECONDS: f64 = 120.0;
/// A timer's `once` is late when its last success is older than this many of its intervals.
const LATE_INTERVALS: f64 = 2.0;
const NO_REASON: &str = "no reason is known";

/// Health in one word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// Everything works.
    #[default]
    Ok,
    /// Something needs attention; nothing is being lost.
    Degraded,
    /// The budget is too small for every route: records will be missed.
    AtRisk,
    /// Records are not being read.
    Failing,
}

impl Health {
    /// All of them, the best first.
    pub const ALL: [Self; 4] = [Self::Ok, Self::Degraded, Self::AtRisk, Self::Failing];
}

impl WorkspaceStatus {
    /// How the mirror is, in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let ages = self.pollers.iter().map(|poller| poller.last_success_age_s);
        let unread = ages.clone().filter(Option::is_none).count();
        match self.health {
            Health::Ok if unread > 0 => {
                format!(
                    "Starting: {unread} of {} lists are not read yet.",
                    ages.count()
                )
            }
            Health::Ok => {
                let oldest = ages.flatten().fold(0.0, f64::max);
                format!(
                    "Up to date: every list was read in the last {}.",
                    at_most(oldest)
                )
            }
            Health::Degraded => "Something needs attention.".to_owned(),
            Health::AtRisk => "Too few requests are allowed: records will be missed.".to_owned(),
            Health::Failing => "New records are not being read.".to_owned(),
        }
    }

    /// Why the mirror is not fresh; empty if every poller was read in time. Open gaps and sinks
    /// that are behind do not count.
    #[must_use]
    pub fn hindrances(&self) -> Vec<String> {
        let failing = self
            .reasons
            .iter()
            .filter(|_| self.health == Health::Failing)
            .cloned();
        let is_late = |p: &&PollerStatus| p.last_success_age_s.is_none() || is_stale(p);
        let ago = |age: f64| format!("{} ago", duration::seconds(age));
        let late = self.pollers.iter().filter(is_late);
        let late = late.map(|p| format!("{}: last read: {}", p.name(), p.last_read(ago)));
        failing.chain(late).collect()
    }

    /// Health and its reasons as if this sink were not there.
    #[must_use]
    pub fn without_sink(&self, name: &str) -> (Health, Vec<String>) {
        let sink = self.sinks.iter().find(|sink| sink.name == name);
        let own = sink.map(judge_sink).unwrap_or_default();
        let is_own = |reason: &String| own.iter().any(|(_, of_sink)| of_sink == reason);
        let reasons: Vec<String> = self
            .reasons
            .iter()
            .filter(|reason| !is_own(reason))
            .cloned()
            .collect();
        // A sink alone makes health no worse than this.
        let is_other = self.health > Health::Degraded || !reasons.is_empty();
        (if is_other { self.health } else { Health::Ok }, reasons)
    }
}

/// An age in steps, so that a sentence does not change every second.
fn at_most(seconds: f64) -> String {
    let steps = [10.0, 20.0, 30.0, 60.0, 90.0];
    match steps.into_iter().find(|step| seconds < *step) {
        Some(step) => format!("{step} seconds"),
        None => count((seconds / 60.0).ceil() as i64, "minute", "minutes"),
    }
}

/// What was found, and how bad it is.
pub(super) type Finding = (Health, String);

pub(super) fn degraded(reason: impl Into<String>) -> Finding {
    (Health::Degraded, reason.into())
}

pub(super) fn failing(reason: impl Into<String>) -> Finding {
    (Health::Failing, reason.into())
}

impl WorkspaceStatus {
    /// The status with its health: what was found so far, and what the status itself shows.
    pub(super) fn judged(mut self, mut found: Vec<Finding>) -> Self {
        for poller in self
            .pollers
            .iter_mut()
            .filter(|poller| poller.failures == 0)
        {
            // An error that is over is not shown.
            poller.last_error = None;
            poller.last_error_text = None;
        }
        for sink in &mut self.sinks {
            if sink.state == SinkActivity::Active && sink.retrying + sink.dead == 0 {
                sink.last_error = None;
            }
        }
        for poller in self.pollers.iter().filter(|poller| poller.gaps > 0) {
            let (name, gaps) = (poller.name(), count(poller.gaps, "open gap", "open gaps"));
            found.push(degraded(format!(
                "{name}: {gaps}, records may be missing; see `shopmirror gaps`"
            )));
        }
        found.extend(self.emptied.iter().map(degraded));
        found.extend(self.sinks.iter().flat_map(judge_sink));
        found.extend(
            self.removed_sinks
                .iter()
                .map(|sink| degraded(format!("sink {sink}"))),
        );
        if let Some(why) = self
            .backup
            .as_ref()
            .and_then(|backup| backup.last_error.as_ref())
        {
            found.push(degraded(format!(
                "the last backup failed and will be retried: {why}"
            )));
        }
        for report in &self.reports {
            let (name, next) = (&report.name, &report.next_at);
            found.extend(report.last_error.as_ref().map(|why| {
                degraded(format!(
                    "the scheduled report {name} failed and is retried at {next}: {why}"
                ))
            }));
        }
        self.health = found
            .iter()
            .map(|(level, _)| *level)
            .max()
            .unwrap_or_default();
        self.reasons = found.into_iter().map(|(_, reason)| reason).collect();
        self
    }
}

/// What concerns all pollers of a running daemon.
pub(super) fn judge_polling(polling: &PollingStatus) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(why) = &polling.paused {
        found.push(failing(why));
    }
    if let Some(rest_s) = polling.budget.long_rest_s() {
        found.push(degraded(format!(
            "the workspace asked shopmirror to wait (429 with Retry-After): no route is read for another {}, and records may be missed; find out which programs use this key, or ask the workspace's support",
            duration::seconds(rest_s)
        )));
    }
    found.extend(polling.clock_ahead_s.map(clock_advice).map(degraded));
    let at_risk = polling.pollers.iter().filter(|poller| poller.at_risk);
    let at_risk: Vec<String> = at_risk.map(PollerStatus::name).collect();
    if !at_risk.is_empty() {
        let names = at_risk.join(", ");
        let budget = &polling.budget;
        let others = if budget.others_per_minute * 2.0 > f64::from(budget.limit) {
            format!(
                "other clients use about {:.0} of the key's {} requests a minute; give them a key of their own, or ",
                budget.others_per_minute, budget.limit
            )
        } else {
            String::new()
        };
        found.push((
            Health::AtRisk,
            format!("records of {names} may be missed: a page can fill between two polls; {others}raise requests_per_minute, lower reserve or disable a route"),
        ));
    }
    found
}

/// The pollers of a running daemon; those that fail for the same reason are named together.
pub(super) fn judge_pollers(pollers: &[PollerStatus]) -> Vec<Finding> {
    let mut found = Vec::new();
    let fails = |p: &&PollerStatus| p.failures >= 2 || p.state == PollerState::RouteBroken;
    let failing = pollers.iter().filter(fails);
    let is_all = failing.clone().count() == pollers.len();
    let level = if is_all {
        Health::Failing
    } else {
        Health::Degraded
    };
    let mut alike: BTreeMap<&Option<String>, Vec<&PollerStatus>> = BTreeMap::new();
    for poller in failing {
        alike.entry(&poller.last_error).or_default().push(poller);
    }
    let why = |poller: &PollerStatus| {
        poller
            .last_error_text
            .clone()
            .unwrap_or_else(|| NO_REASON.to_owned())
    };
    for group in alike.into_values() {
        let names = match group.len() {
            all if all == pollers.len() && all > 1 => "every route".to_owned(),
            _ => group
                .iter()
                .map(|poller| poller.name())
                .collect::<Vec<_>>()
                .join(", "),
        };
        found.push((level, format!("{names}: {}", why(group[0]))));
    }
    for poller in pollers {
        let name = poller.name();
        if is_stale(poller) && !fails(&poller) {
            let age = duration::seconds(poller.last_success_age_s.unwrap_or_default());
            let text = format!("{name}: not read for {age}; see the log of the daemon");
            found.push(degraded(text));
        }
        if poller.refused_pages > 0 && poller.failures == 1 {
            let text = "the last page was refused and will be read again";
            found.push(degraded(format!("{name}: {text}: {}", why(poller))));
        }
    }
    found
}

/// Why no daemon replied, and whether `shopmirror once` does its work instead.
pub(super) fn judge_absence(
    why: &ControlError,
    pollers: &[PollerStatus],
    once_every: Option<Duration>,
    store: &Path,
) -> Vec<Finding> {
    match (why, once_every) {
        (ControlError::NoReply(_), _) => vec![failing(
            "a daemon runs on this store but does not answer: look at its log, then restart it",
        )],
        // A run of `once` holds the store while it works.
        (_, Some(every)) => judge_once(pollers, every),
        (ControlError::NotRunning, None) => vec![failing(format!(
            "no daemon is running on this store: start it with `{}`; if a timer runs `shopmirror once` instead, set `every` under [once]",
            start_command(store)
        ))],
        (ControlError::NotListening(_), None) => vec![failing(why.to_string())],
    }
}

fn judge_once(pollers: &[PollerStatus], every: Duration) -> Vec<Finding> {
    let limit_s = LATE_INTERVALS * every.as_secs_f64();
    let is_late =
        |poller: &&PollerStatus| poller.last_success_age_s.is_none_or(|age| age > limit_s);
    let late: Vec<String> = pollers
        .iter()
        .filter(is_late)
        .map(PollerStatus::name)
        .collect();
    if late.is_empty() {
        return Vec::new();
    }
    vec![failing(format!(
        "`shopmirror once` has not read {} for more than twice its interval of {}; check its timer and its output",
        late.join(", "),
        duration::exact(every)
    ))]
}

/// What keeps a sink from taking what it is owed.
fn judge_sink(sink: &SinkStatus) -> Vec<Finding> {
    let SinkStatus { name, notices, .. } = sink;
    let mut found = Vec::new();
    let why = sink.last_error.as_deref().unwrap_or(NO_REASON);
    let text = match sink.state {
        SinkActivity::Paused => format!("sink {name} is paused and will retry: {why}"),
        SinkActivity::Refusing => format!(
            "sink {name} refuses every change, the last one because: {why}; correct the sink or its template, `shopmirror check --sink {name}` tries it"
        ),
        SinkActivity::Holding => format!(
            "sink {name} refuses too many changes and receives no new ones: correct the receiver, or see `shopmirror sinks {name} dead`"
        ),
        SinkActivity::Held => format!(
            "sink {name} is held because more changes than its hold_above came within a minute: see `shopmirror log`, then run `shopmirror sinks {name} release`, or add --skip to drop them"
        ),
        SinkActivity::Disabled => format!(
            "sink {name} is disabled because its endpoint is gone (410): correct its url, then reload"
        ),
        SinkActivity::Active | SinkActivity::Stopped => String::new(),
    };
    if !text.is_empty() {
        found.push(degraded(text));
    }
    // Alerts and reports. What was not tried yet says nothing.
    if let Some(why) = &notices.waiting_error {
        let waiting = notices.waiting;
        found.push(degraded(format!(
            "sink {name} has not taken {waiting} of its alerts or reports, which will be sent again: {why}; `shopmirror check --sink {name}` tries it"
        )));
    }
    let refused = notices.refused;
    if refused > 0 {
        let why = notices.refused_error.as_deref().unwrap_or(NO_REASON);
        found.push(degraded(format!(
            "sink {name} refused {refused} of its alerts or reports for good: {why}; correct the sink, then reload, which sends them again, or run `shopmirror sinks {name} drop --all`, which also drops the changes that it refused"
        )));
    }
    if sink.dead > 0 {
        let letters = count(sink.dead, "dead letter", "dead letters");
        let text = format!("sink {name}: {letters}; see `shopmirror sinks {name} dead`");
        found.push(degraded(text));
    }
    found
}

/// True if the poller has read nothing for much longer than its interval.
pub(super) fn is_stale(poller: &PollerStatus) -> bool {
    match (poller.last_success_age_s, poller.interval_s) {
        (Some(age), Some(interval)) => age > STALE_SECONDS && age > STALE_INTERVALS * interval,
        _ => false,
    }
}

/// The command that starts the daemon of a store. A store in the state folder of a unit is that
/// unit's.
fn start_command(store: &Path) -> String {
    let folder = store
        .parent()
        .and_then(|folder| folder.strip_prefix("/var/lib/shopmirror").ok());
    match folder.map(Path::to_string_lossy) {
        None => "shopmirror run".to_owned(),
        Some(name) if name.is_empty() => "systemctl start shopmirror".to_owned(),
        Some(name) => format!("systemctl start shopmirror@{name}"),
    }
}

#[cfg(test)]
mod tests;
