//! What is worth an alert, when it is said, and when it is over: pure.
//!
//! Each sink that gets alerts is judged for itself: nothing about a sink is said through that sink.
//! An alert is said once when it begins, again only when it gets worse, and once when it is over.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use shopmirror_core::clock::{Moment, stamp};
use shopmirror_core::record::{Kind, poller_name};

use crate::deliver::SinkActivity;
use crate::status::{Health, WorkspaceStatus};
use crate::store::{AlertRow, AlertStep, Gap, NewNotice, word};

/// Bad health is said after it lasted so long; and what is over must be over for so long.
const SETTLED: Duration = Duration::from_secs(60);
/// How long a sink is paused before that is said.
const PAUSED: Duration = Duration::from_secs(3600);

/// Whose alerts these are.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// The workspace; `None` before its name was read.
    pub workspace: Option<String>,
    /// The machine.
    pub host: String,
}

impl Origin {
    fn title(&self, matter: &str) -> String {
        let of = self
            .workspace
            .as_ref()
            .map_or_else(String::new, |name| format!("{name}, "));
        format!("{of}shopmirror on {}: {matter}", self.host)
    }
}

/// The content of an alert: `record` of an event of the kind `alert`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Alert<'a> {
    /// Whether it begins or is over.
    state: AlertState,
    /// What it is about: `key`, `health`, `gap/ROUTE` or `sink/NAME`.
    about: &'a str,
    /// The workspace, the machine, and the matter in a few words.
    title: String,
    /// What is wrong and what to do.
    text: &'a str,
    /// The findings of `health`; empty for other matters and when it is over.
    reasons: &'a [String],
    /// Since when it lasts (RFC 3339, UTC).
    since: &'a str,
    /// When the alert was made (RFC 3339, UTC).
    at: &'a str,
}

/// Whether something begins to be wrong or is over.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
enum AlertState {
    /// Something is wrong, or has become worse.
    Begun,
    /// It is over.
    Over,
}

/// What is wrong now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symptom {
    /// What it is about: `health`, `key`, `gap/leads`, `sink/erp`. Alerts about one matter share
    /// it.
    pub about: String,
    /// How long it lasts before it is said.
    after: Duration,
    /// How bad it is: it is said again when this grows.
    mark: i64,
    /// The matter in a few words.
    title: String,
    /// The words for people, with what to do.
    text: String,
    reasons: Vec<String>,
}

/// What is wrong according to a status, leaving out what concerns the sink that is told.
#[must_use]
pub fn symptoms(status: &WorkspaceStatus, sink: &str) -> Vec<Symptom> {
    let mut found = Vec::new();
    if let Some(poller) = status
        .pollers
        .iter()
        .find(|poller| poller.state.is_key_refused())
    {
        let why = word(&poller.state);
        let text = format!(
            "the workspace refuses the key ({why}): nothing is read until the key file holds a valid key"
        );
        found.push(matter("key", "the key is refused".to_owned(), text));
    }
    let (health, reasons) = status.without_sink(sink);
    if health != Health::Ok {
        let level = word(&health).replace('_', " ");
        let text = format!("health is {level}: {}", reasons.join("; "));
        let health = Symptom {
            after: SETTLED,
            mark: health as i64,
            reasons,
            ..matter("health", "something needs attention".to_owned(), text)
        };
        found.push(health);
    }
    let mut routes: BTreeMap<String, Vec<&Gap>> = BTreeMap::new();
    for gap in &status.gaps {
        let poller = poller_name(&gap.route, gap.business.as_deref());
        routes.entry(poller).or_default().push(gap);
    }
    for (route, gaps) in routes {
        let title = format!("records of {route} may have been missed");
        let text = format!("{title}, open gaps: {}; see `shopmirror gaps`", gaps.len());
        let mark = gaps.iter().map(|gap| gap.id).max().unwrap_or_default();
        found.push(Symptom {
            mark,
            ..matter(&format!("gap/{route}"), title, text)
        });
    }
    let shut = [
        SinkActivity::Paused,
        SinkActivity::Refusing,
        SinkActivity::Disabled,
    ];
    for other in status
        .sinks
        .iter()
        .filter(|other| other.name != sink && shut.contains(&other.state))
    {
        let title = format!("sink {} takes no changes", other.name);
        let why = other.last_error.as_deref().unwrap_or("no reason is known");
        let text = format!("{title}, they are kept: {why}; see `shopmirror sinks`");
        let about = format!("sink/{}", other.name);
        found.push(Symptom {
            after: PAUSED,
            ..matter(&about, title, text)
        });
    }
    found
}

/// What one sink was told, and since when what it was told is over. A restart loses only the
/// latter.
#[derive(Debug, Default)]
pub struct AlertWatch {
    absent_since: BTreeMap<String, Duration>,
}

impl AlertWatch {
    /// Compares what is wrong with what is stored; returns what is to be stored and said.
    pub fn judge(
        &mut self,
        known: &BTreeMap<String, AlertRow>,
        symptoms: &[Symptom],
        origin: &Origin,
        now: Moment,
    ) -> Vec<AlertStep> {
        let mut steps = Vec::new();
        for symptom in symptoms {
            self.absent_since.remove(&symptom.about);
            let row = known.get(&symptom.about);
            let since = row.map_or_else(|| stamp(now.wall), |row| row.since.clone());
            let told = row.map_or(0, |row| row.told);
            let is_due = symptom.mark > told && lasted(&since, now.wall) >= symptom.after;
            let notice = is_due
                .then(|| symptom.notice(AlertState::Begun, &since, origin, now.wall, symptom.mark));
            if is_due || row.is_none() {
                let kept = Some(AlertRow {
                    since,
                    told: if is_due { symptom.mark } else { told },
                });
                steps.push(AlertStep {
                    about: symptom.about.clone(),
                    kept,
                    notice,
                });
            }
        }
        let is_over = |about: &str| symptoms.iter().all(|symptom| symptom.about != about);
        for (about, row) in known.iter().filter(|(about, _)| is_over(about)) {
            let absent_since = *self
                .absent_since
                .entry(about.clone())
                .or_insert(now.elapsed);
            if now.elapsed.saturating_sub(absent_since) < SETTLED {
                continue;
            }
            self.absent_since.remove(about);
            let notice = (row.told > 0).then(|| {
                let (over, version) = (AlertState::Over, row.told + 1);
                relief(about).notice(over, &row.since, origin, now.wall, version)
            });
            steps.push(AlertStep {
                about: about.clone(),
                kept: None,
                notice,
            });
        }
        self.absent_since
            .retain(|about, _| known.contains_key(about));
        steps
    }
}

impl Symptom {
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

/// What is said when it is over.
fn relief(about: &str) -> Symptom {
    let text = match about.split_once('/') {
        Some(("gap", route)) => format!("every gap of {route} is filled or accepted"),
        Some(("sink", name)) => format!("sink {name} takes changes again"),
        _ if about == "key" => "the workspace accepts the key again".to_owned(),
        _ => "health is ok again".to_owned(),
    };
    matter(about, text.clone(), text)
}

fn matter(about: &str, title: String, text: String) -> Symptom {
    let about = about.to_owned();
    Symptom {
        about,
        after: Duration::ZERO,
        mark: 1,
        title,
        text,
        reasons: Vec::new(),
    }
}

/// An alert with these words, to see how a sink would show one.
#[must_use]
pub fn sample(title: &str, text: &str, now: Timestamp) -> NewNotice {
    let origin = Origin {
        workspace: None,
        host: "this machine".to_owned(),
    };
    let sample = matter("key", title.to_owned(), text.to_owned());
    sample.notice(AlertState::Begun, &stamp(now), &origin, now, 1)
}

fn lasted(since: &str, now: Timestamp) -> Duration {
    let since: Timestamp = since.parse().unwrap_or(now);
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
