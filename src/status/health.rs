//! Judges health: each finding has a level and a text with what to do; the worst level counts.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::WorkspaceStatus;
use crate::control::ControlError;
use crate::deliver::{SinkActivity, SinkStatus};
use crate::poll::{PauseReason, PollerState, PollerStatus, PollingStatus, clock_advice};
use crate::store::Withheld;
use crate::text::duration;
use crate::text::first_upper;
use crate::text::number::count;

/// A poller is stale when its last success is older than this many of its intervals …
const STALE_INTERVALS: f64 = 5.0;
/// … and older than this.
const STALE_SECONDS: f64 = 120.0;
/// A timer's `once` is late when its last success is older than this many of its intervals.
const LATE_INTERVALS: f64 = 2.0;
/// For how long a business that is not polled any more may be a mistake.
const LEFT_OUT_MAY_BE_MISTAKE: SignedDuration = SignedDuration::from_hours(7 * 24);
const NO_REASON: &str = "no reason is known";

/// Health in one word.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
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

    /// The word for it in JSON and metrics: `at_risk`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The words for it in a text: `at risk`.
    #[must_use]
    pub fn in_words(self) -> String {
        self.as_str().replace('_', " ")
    }
}

/// What keeps lists from being read.
#[derive(Debug, Clone, PartialEq)]
pub struct Unread {
    /// The words for it, to go on with "since".
    pub what: String,
    /// Seconds since one of these lists was read; `None` if none ever was.
    pub age_s: Option<f64>,
}

impl WorkspaceStatus {
    /// How the mirror is, in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let mut unread = 0;
        let mut oldest = 0.0_f64;
        for poller in &self.pollers {
            match poller.last_success_age_s {
                Some(age) => oldest = oldest.max(age),
                None => unread += 1,
            }
        }
        match self.health {
            Health::Ok if unread > 0 => {
                let all = self.pollers.len();
                format!("Starting: {unread} of {all} lists are not read yet.")
            }
            Health::Ok => {
                let age = at_most(oldest);
                format!("Up to date: every list was read in the last {age}.")
            }
            Health::Degraded => in_short(self.reasons.first()),
            Health::AtRisk => "Too few requests are allowed: records will be missed.".to_owned(),
            Health::Failing => "New records are not being read.".to_owned(),
        }
    }

    /// What keeps lists from being read, if anything does: the pause of all pollers, or the lists
    /// that fail.
    #[must_use]
    pub fn unread(&self) -> Option<Unread> {
        let mut paused = None;
        let mut names = Vec::new();
        let mut age_s: Option<f64> = None;
        for poller in &self.pollers {
            if let PollerState::Paused(reason) = poller.state {
                paused = Some(reason);
            }
            if matches!(poller.state, PollerState::Paused(_)) || fails(poller) || is_stale(poller) {
                names.push(poller.name());
                // The list that was read last says since when.
                age_s = match (age_s, poller.last_success_age_s) {
                    (Some(least), Some(age)) => Some(least.min(age)),
                    (known, age) => known.or(age),
                };
            }
        }
        if names.is_empty() {
            return None;
        }
        let what = match paused {
            Some(PauseReason::KeyRefused) => "The key has been refused".to_owned(),
            Some(PauseReason::KeyWrongType) => "The key has had no right to read".to_owned(),
            Some(PauseReason::WrongHost) => "The address has been refused".to_owned(),
            Some(PauseReason::OtherWorkspace) => {
                "The address and the key have led to another workspace".to_owned()
            }
            Some(PauseReason::SomebodyBetween) => {
                "Somebody between has answered in place of the workspace".to_owned()
            }
            Some(PauseReason::DiskFull) => "The disk has been full".to_owned(),
            Some(PauseReason::StoreLocked) => {
                "Another program has kept the database locked".to_owned()
            }
            None if names.len() == self.pollers.len() => {
                "New records have not been read".to_owned()
            }
            None => format!("Not read: {}", names.join(", ")),
        };
        Some(Unread { what, age_s })
    }

    /// Why the mirror is not fresh; empty if every poller was read in time. Open gaps and sinks
    /// that are behind do not count.
    #[must_use]
    pub fn hindrances(&self) -> Vec<String> {
        let mut hindrances = Vec::new();
        if self.health == Health::Failing {
            hindrances.extend_from_slice(&self.reasons);
        }
        for poller in &self.pollers {
            if poller.last_success_age_s.is_none() || is_stale(poller) {
                let last_read = poller.last_read(|age| format!("{} ago", duration::seconds(age)));
                hindrances.push(format!("{}: last read: {last_read}", poller.name()));
            }
        }
        hindrances
    }

    /// Health and its reasons as if this sink were not there.
    #[must_use]
    pub fn without_sink(&self, name: &str) -> (Health, Vec<String>) {
        let mut reasons = self.reasons.clone();
        if let Some(sink) = self.sinks.iter().find(|sink| sink.name == name) {
            for (_, reason) in judge_sink(sink) {
                reasons.retain(|other| *other != reason);
            }
        }
        // A sink alone makes health no worse than degraded.
        if self.health <= Health::Degraded && reasons.is_empty() {
            return (Health::Ok, reasons);
        }
        (self.health, reasons)
    }
}

/// The first part of a reason, without what to do, as a sentence.
fn in_short(reason: Option<&String>) -> String {
    let Some(reason) = reason else {
        return "Something needs attention.".to_owned();
    };
    let what = reason.split("; ").next().unwrap_or(reason);
    format!("{}.", first_upper(what))
}

/// An age in steps, so that a sentence does not change every second.
fn at_most(seconds: f64) -> String {
    let steps = [10.0, 20.0, 30.0, 60.0, 90.0];
    match steps.into_iter().find(|step| seconds < *step) {
        Some(step) => format!("{step} seconds"),
        None => count((seconds / 60.0).ceil() as i64, "minute", "minutes"),
    }
}

/// How bad something is, and what to do about it.
pub(super) type Finding = (Health, String);

pub(super) fn degraded(reason: impl Into<String>) -> Finding {
    (Health::Degraded, reason.into())
}

pub(super) fn failing(reason: impl Into<String>) -> Finding {
    (Health::Failing, reason.into())
}

impl WorkspaceStatus {
    /// The status with its health: from these findings, and from what the status itself shows.
    pub(super) fn judged(mut self, mut findings: Vec<Finding>) -> Self {
        self.forget_past_errors();
        findings.extend(self.judge_stored());
        self.health = Health::Ok;
        self.reasons.clear();
        for (level, reason) in findings {
            self.health = self.health.max(level);
            self.reasons.push(reason);
        }
        self
    }

    /// An error that is over is not shown.
    fn forget_past_errors(&mut self) {
        for poller in &mut self.pollers {
            if poller.failures == 0 {
                poller.last_error = None;
                poller.last_error_text = None;
                poller.last_error_quotation = None;
            }
        }
        for sink in &mut self.sinks {
            if sink.state == SinkActivity::Active && sink.retrying + sink.dead == 0 {
                sink.last_error = None;
                sink.last_error_quotation = None;
            }
        }
    }

    /// What the status shows with and without a daemon: gaps, lists that became empty, sinks, the
    /// backup, reports.
    fn judge_stored(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        findings.extend(self.what_is_to_accept().iter().map(degraded));
        findings.extend(self.emptied.iter().map(degraded));
        findings.extend(self.newest_gone.iter().map(degraded));
        findings.extend(self.restored.iter().map(degraded));
        findings.extend(self.judge_left_out());
        findings.extend(self.judge_fields());
        findings.extend(self.sinks.iter().flat_map(judge_sink));
        for sink in &self.removed_sinks {
            findings.push(degraded(format!("sink {sink}")));
        }
        if let Some(backup) = &self.backup
            && let Some(why) = &backup.last_error
        {
            findings.push(degraded(format!(
                "the last backup failed and will be retried: {why}"
            )));
        }
        if let Some(offsite) = &self.offsite
            && let Some(why) = &offsite.last_error
        {
            findings.push(degraded(format!(
                "the last off-site backup failed and will be retried: {why}"
            )));
        }
        for report in &self.reports {
            if let Some(why) = &report.last_error {
                findings.push(degraded(format!(
                    "the scheduled report {} failed and is retried at {}: {why}",
                    report.name, report.next_at
                )));
            }
        }
        findings
    }
}

impl WorkspaceStatus {
    /// The reasons that an acceptance of the operator ends: open gaps, and lists with many records
    /// that are gone from them.
    fn what_is_to_accept(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        for poller in &self.pollers {
            if poller.gaps > 0 {
                let name = poller.name();
                let gaps = count(poller.gaps, "open gap", "open gaps");
                reasons.push(format!(
                    "{name}: {gaps}, records may be missing; see `shopmirror gaps`"
                ));
            }
        }
        reasons.extend(self.gone_from_lists());
        reasons
    }

    /// True if an acceptance of the operator ends each of these reasons of health.
    pub(super) fn has_only_what_is_to_accept(&self, reasons: &[String]) -> bool {
        let to_accept = self.what_is_to_accept();
        reasons.iter().all(|reason| to_accept.contains(reason))
    }

    /// Why many records of a list still count although it no longer shows them, a sentence for each
    /// list with what to do.
    #[must_use]
    pub fn gone_from_lists(&self) -> Vec<String> {
        let mut reasons = Vec::with_capacity(self.withheld.len());
        for withheld in &self.withheld {
            reasons.push(gone_from_list(withheld, &self.at));
        }
        reasons
    }

    /// The businesses that are not polled any more: for a week, in which it may be a mistake, and
    /// as long as the default business is another one than before.
    fn judge_left_out(&self) -> Vec<Finding> {
        let mut left_out = Vec::new();
        let mut replaced = Vec::new();
        for list in &self.left_out {
            if list.replaced_at.is_some() {
                if self.pollers.iter().any(|poller| poller.business.is_none()) {
                    replaced.push(list.name.as_str());
                }
            } else if is_of_last_week(&list.last_read_at, &self.at) {
                left_out.push(list.name.as_str());
            }
        }
        let mut findings = Vec::new();
        if !left_out.is_empty() {
            findings.push(degraded(format!(
                "{}: read before and not polled any more; if that is a mistake, correct \
                 businesses in [workspace]",
                left_out.join(", ")
            )));
        }
        if !replaced.is_empty() {
            findings.push(degraded(format!(
                "{}: not read since another branch became the workspace's default; name the \
                 branches to read under businesses in [workspace]",
                replaced.join(", ")
            )));
        }
        findings
    }
}

fn gone_from_list(withheld: &Withheld, now: &str) -> String {
    let plural = withheld.route.replace('_', " ");
    let singular = plural.trim_end_matches('s');
    let records = match withheld.records {
        1 => format!("1 {singular}"),
        records => format!("{records} {plural}"),
    };
    let business = match &withheld.business {
        Some(business) => format!(" of business {business}"),
        None => String::new(),
    };
    let be = if withheld.records == 1 { "is" } else { "are" };
    let when = match (
        withheld.since.parse::<Timestamp>(),
        now.parse::<Timestamp>(),
    ) {
        (Ok(since), Ok(now)) if now.duration_since(since).as_hours() >= 24 => {
            format!("since {}", since.strftime("%Y-%m-%d"))
        }
        _ => "today".to_owned(),
    };
    let route = &withheld.route;
    format!(
        "{records}{business} {be} gone from the list {when}: a filter, a key with fewer rights, or \
         deleted? They count until you run `shopmirror gaps accept --vanished {route}`, or the same \
         with --never if the list hides records"
    )
}

/// Whether a list was read in the week before `now`.
fn is_of_last_week(last_read_at: &str, now: &str) -> bool {
    match (last_read_at.parse::<Timestamp>(), now.parse::<Timestamp>()) {
        (Ok(read_at), Ok(now)) => now.duration_since(read_at) < LEFT_OUT_MAY_BE_MISTAKE,
        _ => false,
    }
}

/// What concerns all pollers of a running daemon.
pub(super) fn judge_polling(polling: &PollingStatus) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(why) = &polling.paused {
        findings.push(failing(why));
    }
    if let Some(rest_s) = polling.budget.long_rest_s() {
        let rest = duration::seconds(rest_s);
        findings.push(degraded(format!(
            "the workspace asked shopmirror to wait (429 with Retry-After): no route is read for \
             another {rest}, and records may be missed; find out which programs use this key, or \
             ask the workspace's support"
        )));
    }
    if let Some(ahead_s) = polling.clock_ahead_s {
        findings.push(degraded(clock_advice(ahead_s)));
    }
    let mut at_risk = Vec::new();
    for poller in &polling.pollers {
        if poller.at_risk {
            at_risk.push(poller.name());
        }
    }
    if !at_risk.is_empty() {
        let names = at_risk.join(", ");
        let budget = &polling.budget;
        let mut others = String::new();
        if budget.others_per_minute * 2.0 > f64::from(budget.limit) {
            others = format!(
                "other clients use about {:.0} of the key's {} requests a minute; give them a key \
                 of their own, or ",
                budget.others_per_minute, budget.limit
            );
        }
        let reason = format!(
            "records of {names} may be missed: a page can fill between two polls; {others}raise \
             requests_per_minute, lower reserve or disable a route"
        );
        findings.push((Health::AtRisk, reason));
    }
    findings
}

/// The pollers of a running daemon; those that fail for the same reason are named together.
pub(super) fn judge_pollers(pollers: &[PollerStatus]) -> Vec<Finding> {
    let failing: Vec<&PollerStatus> = pollers.iter().filter(|poller| fails(poller)).collect();
    let level = if failing.len() == pollers.len() {
        Health::Failing
    } else {
        Health::Degraded
    };
    let mut by_error: BTreeMap<&Option<String>, Vec<&PollerStatus>> = BTreeMap::new();
    for poller in failing {
        by_error.entry(&poller.last_error).or_default().push(poller);
    }
    let mut findings = Vec::new();
    for group in by_error.into_values() {
        let why = last_error(group[0]);
        if group.len() == pollers.len() && group.len() > 1 {
            findings.push((level, format!("every route: {why}")));
        } else {
            findings.push((level, format!("{}: {why}", names(&group))));
        }
    }
    for poller in pollers {
        let name = poller.name();
        if is_stale(poller) && !fails(poller) {
            let age = duration::seconds(poller.last_success_age_s.unwrap_or_default());
            let text = format!("{name}: not read for {age}; see the log of the daemon");
            findings.push(degraded(text));
        }
        if poller.refused_pages > 0 && poller.failures == 1 {
            let why = last_error(poller);
            findings.push(degraded(format!(
                "{name}: the last page was refused and will be read again: {why}"
            )));
        }
    }
    findings
}

/// True if one failure is followed by another, or if the workspace refuses the route.
fn fails(poller: &PollerStatus) -> bool {
    poller.failures >= 2 || poller.state == PollerState::RouteBroken
}

fn last_error(poller: &PollerStatus) -> &str {
    poller.last_error_text.as_deref().unwrap_or(NO_REASON)
}

fn names(pollers: &[&PollerStatus]) -> String {
    let names: Vec<String> = pollers.iter().map(|poller| poller.name()).collect();
    names.join(", ")
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
            "no daemon is running on this store: start it with `{}`; if a timer runs `shopmirror \
             once` instead, set `every` under [once]",
            start_command(store)
        ))],
        (ControlError::NotListening(_) | ControlError::NotPermitted, None) => {
            vec![failing(why.to_string())]
        }
    }
}

fn judge_once(pollers: &[PollerStatus], every: Duration) -> Vec<Finding> {
    let limit_s = LATE_INTERVALS * every.as_secs_f64();
    let mut late = Vec::new();
    for poller in pollers {
        let is_read = matches!(poller.last_success_age_s, Some(age) if age <= limit_s);
        if !is_read {
            late.push(poller);
        }
    }
    if late.is_empty() {
        return Vec::new();
    }
    vec![failing(format!(
        "`shopmirror once` has not read {} for more than twice its interval of {}; check its \
         timer and its output",
        names(&late),
        duration::exact(every)
    ))]
}

/// What keeps a sink from taking its changes, alerts and reports.
fn judge_sink(sink: &SinkStatus) -> Vec<Finding> {
    let SinkStatus { name, notices, .. } = sink;
    let mut findings = Vec::new();
    if let Some(text) = advice(sink) {
        findings.push(degraded(text));
    }
    // Alerts and reports. Those that were not tried yet have no error.
    if let Some(why) = &notices.waiting_error {
        let waiting = notices.waiting;
        findings.push(degraded(format!(
            "sink {name} has not taken {waiting} of its alerts or reports, which will be sent \
             again: {why}; `shopmirror check --sink {name}` tries it"
        )));
    }
    let refused = notices.refused;
    if refused > 0 {
        let why = notices.refused_error.as_deref().unwrap_or(NO_REASON);
        findings.push(degraded(format!(
            "sink {name} refused {refused} of its alerts or reports for good: {why}; correct the \
             sink, then reload, which sends them again, or run `shopmirror sinks {name} drop \
             --all`, which also drops the changes that it refused"
        )));
    }
    if sink.dead > 0 {
        let letters = count(sink.dead, "dead letter", "dead letters");
        let text = format!("sink {name}: {letters}; see `shopmirror sinks {name} dead`");
        findings.push(degraded(text));
    }
    findings
}

/// What to do about the state of a sink; `None` if it is as it should be.
fn advice(sink: &SinkStatus) -> Option<String> {
    let name = &sink.name;
    let why = sink.last_error.as_deref().unwrap_or(NO_REASON);
    let text = match sink.state {
        SinkActivity::Active | SinkActivity::Stopped => return None,
        SinkActivity::Paused => format!("sink {name} is paused and will retry: {why}"),
        SinkActivity::Refusing => format!(
            "sink {name} refuses every change, the last one because: {why}; correct the sink or \
             its template, `shopmirror check --sink {name}` tries it"
        ),
        SinkActivity::Holding => format!(
            "sink {name} refuses too many changes and receives no new ones: correct the receiver, \
             or see `shopmirror sinks {name} dead`"
        ),
        SinkActivity::Held => format!(
            "sink {name} is held because more changes than its hold_above came within a minute: \
             see `shopmirror log`, then run `shopmirror sinks {name} release`, or add --skip to \
             drop them"
        ),
        SinkActivity::Disabled => format!(
            "sink {name} is disabled because its endpoint is gone (410): correct its url, then \
             reload"
        ),
    };
    Some(text)
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
