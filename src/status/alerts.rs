//! Decides what is worth an alert, when to send it, and when the matter is over. Pure.
//!
//! Each sink that gets alerts is judged separately: a sink gets no alert about itself. An alert is
//! sent when something begins to be wrong, again if it gets worse, and when it is over. What is
//! still wrong is told again, see [`reminder`].

mod reminder;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use shopmirror_core::clock::{Moment, stamp};
use shopmirror_core::record::{Kind, poller_name};

use crate::deliver::{SinkActivity, SinkStatus};
use crate::status::{Health, WorkspaceStatus};
use crate::store::{AlertRow, AlertStep, Gap, NewNotice};

/// Bad health is reported after it has lasted this long, and good health after the same time.
const SETTLED: Duration = Duration::from_secs(60);
/// How long a sink is paused before an alert is sent.
const PAUSED: Duration = Duration::from_secs(3600);
/// The states in which a sink takes no changes.
const NOT_TAKING: [SinkActivity; 3] = [
    SinkActivity::Paused,
    SinkActivity::Refusing,
    SinkActivity::Disabled,
];

/// Where the alerts come from.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// The name of the workspace; `None` before it was read.
    pub workspace: Option<String>,
    /// The machine.
    pub host: String,
}

impl Origin {
    fn title(&self, matter: &str) -> String {
        let host = &self.host;
        match &self.workspace {
            Some(name) => format!("{name}, shopmirror on {host}: {matter}"),
            None => format!("shopmirror on {host}: {matter}"),
        }
    }
}

/// The content of an alert: `record` of an event of the kind `alert`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Alert<'a> {
    /// Whether it begins, lasts or is over.
    state: AlertState,
    /// What it is about: `key`, `health`, `gap/ROUTE`, `sink/NAME`, or `reminder` for all of it.
    about: &'a str,
    /// The workspace, the machine, and the matter in a few words.
    title: String,
    /// What is wrong and what to do.
    text: &'a str,
    /// The findings of `health`, or each matter of a `reminder`; empty for others and when it is over.
    reasons: &'a [String],
    /// Since when it lasts (RFC 3339, UTC).
    since: &'a str,
    /// When the alert was made (RFC 3339, UTC).
    at: &'a str,
}

/// Whether something begins to be wrong, is still wrong or is over.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
enum AlertState {
    /// Something is wrong, or has become worse.
    Begun,
    /// It is still wrong, a day or a week after the last message about it.
    Still,
    /// It is over.
    Over,
}

/// What is wrong now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symptom {
    /// What it is about: `health`, `key`, `gap/leads`, `sink/erp`. Alerts about one matter share
    /// it.
    pub about: String,
    /// How long it lasts before an alert is sent.
    after: Duration,
    /// How bad it is: an alert is sent again when this grows.
    severity: i64,
    /// The matter in a few words.
    title: String,
    /// The words for people, with what to do.
    text: String,
    reasons: Vec<String>,
    /// Whether all that is left is ended by an acceptance of the operator.
    is_to_accept: bool,
}

/// What is wrong according to a status, without what concerns the sink that gets the alerts.
#[must_use]
pub fn symptoms(status: &WorkspaceStatus, sink: &str) -> Vec<Symptom> {
    let mut symptoms = Vec::new();
    symptoms.extend(refused_key(status));
    symptoms.extend(bad_health(status, sink));
    symptoms.extend(open_gaps(&status.gaps));
    for other in &status.sinks {
        if other.name != sink && NOT_TAKING.contains(&other.state) {
            symptoms.push(stuck_sink(other));
        }
    }
    symptoms
}

fn refused_key(status: &WorkspaceStatus) -> Option<Symptom> {
    let mut pollers = status.pollers.iter();
    let poller = pollers.find(|poller| poller.state.is_key_refused())?;
    let why = poller.state;
    let text = format!(
        "the workspace refuses the key ({why}): nothing is read until the key file holds a valid \
         key"
    );
    Some(Symptom::new("key", "the key is refused".to_owned(), text))
}

fn bad_health(status: &WorkspaceStatus, sink: &str) -> Option<Symptom> {
    let (health, reasons) = status.without_sink(sink);
    if health == Health::Ok {
        return None;
    }
    let title = "something needs attention".to_owned();
    let text = format!("health is {}: {}", health.in_words(), reasons.join("; "));
    Some(Symptom {
        after: SETTLED,
        severity: health as i64,
        is_to_accept: status.has_only_what_is_to_accept(&reasons),
        reasons,
        ..Symptom::new("health", title, text)
    })
}

/// One symptom for each poller with open gaps; each new gap makes it worse.
fn open_gaps(gaps: &[Gap]) -> Vec<Symptom> {
    let mut by_poller: BTreeMap<String, Vec<&Gap>> = BTreeMap::new();
    for gap in gaps {
        let poller = poller_name(&gap.route, gap.business.as_deref());
        by_poller.entry(poller).or_default().push(gap);
    }
    let mut symptoms = Vec::new();
    for (poller, gaps) in by_poller {
        let title = format!("records of {poller} may have been missed");
        let text = format!("{title}, open gaps: {}; see `shopmirror gaps`", gaps.len());
        symptoms.push(Symptom {
            severity: gaps.iter().map(|gap| gap.id).max().unwrap_or_default(),
            is_to_accept: true,
            ..Symptom::new(&format!("gap/{poller}"), title, text)
        });
    }
    symptoms
}

fn stuck_sink(sink: &SinkStatus) -> Symptom {
    let title = format!("sink {} takes no changes", sink.name);
    let why = sink.last_error.as_deref().unwrap_or("no reason is known");
    let text = format!("{title}, they are kept: {why}; see `shopmirror sinks`");
    Symptom {
        after: PAUSED,
        ..Symptom::new(&format!("sink/{}", sink.name), title, text)
    }
}

/// Decides which alerts one sink gets. What it was sent is stored; since when a matter is over is
/// only here, so a restart begins to count that time again.
#[derive(Debug, Default)]
pub struct AlertWatch {
    absent_since: BTreeMap<String, Duration>,
}

impl AlertWatch {
    /// Compares what is wrong with the stored alerts; returns what to store and what to send.
    pub fn judge(
        &mut self,
        stored: &BTreeMap<String, AlertRow>,
        symptoms: &[Symptom],
        origin: &Origin,
        now: Moment,
    ) -> Vec<AlertStep> {
        let mut steps = Vec::new();
        for symptom in symptoms {
            self.absent_since.remove(&symptom.about);
            steps.extend(begin(stored.get(&symptom.about), symptom, origin, now));
        }
        for (about, row) in stored {
            if symptoms.iter().any(|symptom| symptom.about == *about) {
                continue;
            }
            let absent_since = self.absent_since.entry(about.clone());
            let absent_since = *absent_since.or_insert(now.elapsed);
            if now.elapsed.saturating_sub(absent_since) >= SETTLED {
                self.absent_since.remove(about);
                steps.push(end(about, row, origin, now));
            }
        }
        self.absent_since
            .retain(|about, _| stored.contains_key(about));
        if steps.is_empty() {
            return reminder::due(stored, symptoms, origin, now);
        }
        steps
    }
}

/// Stores a symptom when it is first seen, and sends it once it has lasted or when it gets worse.
fn begin(
    row: Option<&AlertRow>,
    symptom: &Symptom,
    origin: &Origin,
    now: Moment,
) -> Option<AlertStep> {
    let (since, sent) = match row {
        Some(row) => (row.since.clone(), row.reported_severity),
        None => (stamp(now.wall), 0),
    };
    let severity = symptom.severity;
    if severity > sent && lasted(&since, now.wall) >= symptom.after {
        let notice = symptom.notice(AlertState::Begun, &since, origin, now.wall, severity);
        return Some(AlertStep {
            about: symptom.about.clone(),
            row: Some(AlertRow {
                since,
                reported_severity: severity,
                reported_at: stamp(now.wall),
            }),
            notice: Some(notice),
        });
    }
    if row.is_some() {
        return None;
    }
    Some(AlertStep {
        about: symptom.about.clone(),
        row: Some(AlertRow {
            since,
            reported_severity: 0,
            reported_at: stamp(now.wall),
        }),
        notice: None,
    })
}

/// Removes what is over, and reports that if an alert about it was sent.
fn end(about: &str, row: &AlertRow, origin: &Origin, now: Moment) -> AlertStep {
    let mut notice = None;
    if row.reported_severity > 0 {
        let state = AlertState::Over;
        let version = row.reported_severity + 1;
        notice = Some(relief(about).notice(state, &row.since, origin, now.wall, version));
    }
    AlertStep {
        about: about.to_owned(),
        row: None,
        notice,
    }
}

impl Symptom {
    /// A symptom that is sent at once, and once.
    fn new(about: &str, title: String, text: String) -> Self {
        Self {
            about: about.to_owned(),
            after: Duration::ZERO,
            severity: 1,
            title,
            text,
            reasons: Vec::new(),
            is_to_accept: false,
        }
    }

    fn notice(
        &self,
        state: AlertState,
        since: &str,
        origin: &Origin,
        now: Timestamp,
        version: i64,
    ) -> NewNotice {
        let at = stamp(now);
        let alert = Alert {
            state,
            about: &self.about,
            title: origin.title(&self.title),
            text: &self.text,
            reasons: &self.reasons,
            since,
            at: &at,
        };
        let body = serde_json::to_string(&alert).expect("an alert holds plain values");
        NewNotice {
            kind: Kind::Alert,
            about: self.about.clone(),
            version,
            body,
            made_at: at,
        }
    }
}

/// What to send when it is over.
fn relief(about: &str) -> Symptom {
    let text = match about.split_once('/') {
        Some(("gap", route)) => format!("every gap of {route} is filled or accepted"),
        Some(("sink", name)) => format!("sink {name} takes changes again"),
        _ if about == "key" => "the workspace accepts the key again".to_owned(),
        _ => "health is ok again".to_owned(),
    };
    Symptom::new(about, text.clone(), text)
}

/// An alert with these words, to see how a sink would show one.
#[must_use]
pub fn sample(title: &str, text: &str, now: Timestamp) -> NewNotice {
    let origin = Origin {
        workspace: None,
        host: "this machine".to_owned(),
    };
    let sample = Symptom::new("key", title.to_owned(), text.to_owned());
    sample.notice(AlertState::Begun, &stamp(now), &origin, now, 1)
}

fn lasted(since: &str, now: Timestamp) -> Duration {
    let since: Timestamp = since.parse().unwrap_or(now);
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
