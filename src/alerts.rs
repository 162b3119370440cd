//! What is worth an alert, when it is said, and when it is over: pure.
//!
//! Each sink that gets alerts is judged for itself: nothing about a sink is said through that sink.
//! An alert is said once when it begins, again only when it gets worse, and once when it is over.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use crate::clock::{Moment, stamp};
use crate::deliver::SinkActivity;
use crate::record::{Kind, poller_name};
use crate::status::{Health, WorkspaceStatus};
use crate::store::{AlertRow, AlertStep, Gap, NewNotice, word};

/// Bad health is said after it lasted so long; and what is over must be over for so long.
const SETTLED: Duration = Duration::from_secs(60);
/// How long a sink is paused before that is said, and said again.
const PAUSED: [Duration; 2] = [Duration::from_secs(3600), Duration::from_secs(24 * 3600)];

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
        let of = self.workspace.as_ref().map_or_else(String::new, |name| format!("{name}, "));
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
    text: String,
    /// The findings of `health`; empty for other matters and when it is over.
    reasons: &'a [String],
    /// Since when it lasts (RFC 3339, UTC).
    since: &'a str,
    /// When the alert was made (RFC 3339, UTC).
    at: String,
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
    /// What it is about: `health`, `key`, `gap/leads`, `sink/erp`. Alerts about one matter share it.
    pub about: String,
    /// How bad it is from the beginning on; 0 is not worth an alert yet.
    stages: Vec<(Duration, i64)>,
    /// The words for people, with what to do.
    text: String,
    reasons: Vec<String>,
}

/// What is wrong according to a status, leaving out what concerns the sink that is told.
#[must_use]
pub fn symptoms(status: &WorkspaceStatus, sink: &str) -> Vec<Symptom> {
    let mut found = Vec::new();
    if let Some(poller) = status.pollers.iter().find(|poller| poller.state.is_key_refused()) {
        let why = word(&poller.state);
        let text = format!(
            "the workspace refuses the key ({why}): nothing is read until the key file holds a valid key"
        );
        found.push(Symptom::new("key".to_owned(), [(Duration::ZERO, 1)], text));
    }
    let (health, reasons) = status.without_sink(sink);
    if health != Health::Ok {
        let level = word(&health).replace('_', " ");
        let text = format!("health is {level}: {}", reasons.join("; "));
        let symptom = Symptom::new("health".to_owned(), [(SETTLED, health as i64)], text);
        found.push(Symptom { reasons, ..symptom });
    }
    let mut routes: BTreeMap<String, Vec<&Gap>> = BTreeMap::new();
    for gap in &status.gaps {
        let poller = poller_name(&gap.route, gap.business.as_deref());
        routes.entry(poller).or_default().push(gap);
    }
    for (route, gaps) in routes {
        let newest = gaps.iter().map(|gap| gap.id).max().unwrap_or_default();
        let text = format!(
            "records of {route} may have been missed, open gaps: {}; see `shopmirror gaps`",
            gaps.len()
        );
        found.push(Symptom::new(format!("gap/{route}"), [(Duration::ZERO, newest)], text));
    }
    let shut = [SinkActivity::Paused, SinkActivity::Refusing, SinkActivity::Disabled];
    for other in
        status.sinks.iter().filter(|other| other.name != sink && shut.contains(&other.state))
    {
        let name = &other.name;
        let why = other.last_error.as_deref().unwrap_or("no reason is known");
        let text =
            format!("sink {name} takes no changes, they are kept: {why}; see `shopmirror sinks`");
        found.push(Symptom::new(format!("sink/{name}"), [(PAUSED[0], 1), (PAUSED[1], 2)], text));
    }
    found
}

/// What one sink was told, and since when what it was told is over. A restart loses only the latter.
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
            let mark = symptom.mark(lasted(&since, now.wall));
            let notice =
                (mark > told).then(|| symptom.begun(&since, origin, now.wall).notice(mark));
            if notice.is_some() || row.is_none() {
                let kept = Some(AlertRow { since, told: mark.max(told) });
                steps.push(AlertStep { about: symptom.about.clone(), kept, notice });
            }
        }
        let is_over = |about: &str| symptoms.iter().all(|symptom| symptom.about != about);
        for (about, row) in known.iter().filter(|(about, _)| is_over(about)) {
            let absent_since = *self.absent_since.entry(about.clone()).or_insert(now.elapsed);
            if now.elapsed.saturating_sub(absent_since) < SETTLED {
                continue;
            }
            self.absent_since.remove(about);
            let notice =
                (row.told > 0).then(|| over(about, row, origin, now.wall).notice(row.told + 1));
            steps.push(AlertStep { about: about.clone(), kept: None, notice });
        }
        self.absent_since.retain(|about, _| known.contains_key(about));
        steps
    }
}

impl Symptom {
    fn new(about: String, stages: impl Into<Vec<(Duration, i64)>>, text: String) -> Self {
        Self { about, stages: stages.into(), text, reasons: Vec::new() }
    }

    fn mark(&self, lasted: Duration) -> i64 {
        let reached = self.stages.iter().filter(|(after, _)| lasted >= *after);
        reached.map(|(_, mark)| *mark).max().unwrap_or(0)
    }

    fn begun<'a>(&'a self, since: &'a str, origin: &Origin, now: Timestamp) -> Alert<'a> {
        Alert {
            state: AlertState::Begun,
            about: &self.about,
            title: origin.title(&title(&self.about)),
            text: self.text.clone(),
            reasons: &self.reasons,
            since,
            at: stamp(now),
        }
    }
}

fn over<'a>(about: &'a str, row: &'a AlertRow, origin: &Origin, now: Timestamp) -> Alert<'a> {
    let text = match about.split_once('/') {
        Some(("gap", route)) => format!("every gap of {route} is filled or accepted"),
        Some(("sink", name)) => format!("sink {name} takes changes again"),
        _ if about == "key" => "the workspace accepts the key again".to_owned(),
        _ => "health is ok again".to_owned(),
    };
    Alert {
        state: AlertState::Over,
        about,
        title: origin.title(&text),
        text,
        reasons: &[],
        since: &row.since,
        at: stamp(now),
    }
}

impl Alert<'_> {
    fn notice(self, version: i64) -> NewNotice {
        NewNotice {
            kind: Kind::Alert,
            about: self.about.to_owned(),
            version,
            body: serde_json::to_string(&self).expect("an alert holds plain values"),
            made_at: self.at,
        }
    }
}

/// An alert with these words, to see how a sink would show one.
#[must_use]
pub fn sample(title: &str, text: &str, now: Timestamp) -> NewNotice {
    let symptom = Symptom::new("key".to_owned(), [], text.to_owned());
    Alert { title: title.to_owned(), ..symptom.begun(&stamp(now), &Origin::default(), now) }
        .notice(1)
}

/// The matter in a few words.
fn title(about: &str) -> String {
    match about.split_once('/') {
        Some(("gap", route)) => format!("records of {route} may have been missed"),
        Some(("sink", name)) => format!("sink {name} takes no changes"),
        _ if about == "key" => "the key is refused".to_owned(),
        _ => "something needs attention".to_owned(),
    }
}

fn lasted(since: &str, now: Timestamp) -> Duration {
    let since: Timestamp = since.parse().unwrap_or(now);
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
