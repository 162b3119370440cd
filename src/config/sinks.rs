//! `[sinks.NAME]`: the keys that all sinks have, then those of each type.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use shopmirror_core::record::{Kind, Route};

use super::conditions::{self, Condition};
use super::email::{self, EmailSettings};
use super::intake::{self, IntakeSettings};
use super::local::{self, CommandSettings, FileSettings};
use super::servers::{self, MqttSettings, NatsSettings, PostgresSettings, S3Settings};
use super::table::Table;
use super::value::{TimeSpan, choice, parsed, within};
use super::webhook::{self, WebhookSettings};
use super::workspace::WorkspaceSettings;
use crate::text::duration;

/// Reads the keys of one type of sink. The text is the source of CloudEvents.
type ReadKind = fn(&Table<'_>, &str) -> Option<SinkKind>;

const TYPES: [(&str, ReadKind); 9] = [
    ("webhook", |table, source| {
        webhook::read(table, source).map(SinkKind::Webhook)
    }),
    ("file", |table, source| {
        local::file(table, source).map(SinkKind::File)
    }),
    ("command", |table, source| {
        local::command(table, source).map(SinkKind::Command)
    }),
    ("email", |table, _| email::read(table).map(SinkKind::Email)),
    ("intake", |table, _| {
        intake::read(table).map(SinkKind::Intake)
    }),
    ("postgres", |table, _| {
        servers::postgres(table).map(SinkKind::Postgres)
    }),
    ("nats", |table, _| servers::nats(table).map(SinkKind::Nats)),
    ("mqtt", |table, _| servers::mqtt(table).map(SinkKind::Mqtt)),
    ("s3", |table, _| servers::s3(table).map(SinkKind::S3)),
];

/// The example schedule of the Standard Webhooks specification, in seconds. The first attempt is
/// made at once.
const STANDARD_RETRY: [u64; 9] = [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400];

/// `[sinks.NAME]`
#[derive(Debug, Clone, PartialEq)]
pub struct SinkSettings {
    /// The changes that it receives.
    pub filter: SinkFilter,
    /// Where in the log a new sink starts.
    pub start: Start,
    /// More changes than this within a minute are held until an operator releases them.
    pub hold_above: Option<u32>,
    /// The waits before each retry of a change that the sink refused. After the last retry the
    /// change is a dead letter.
    pub retry: Arc<[Duration]>,
    /// The most calls per second.
    pub rate: Option<f64>,
    /// The name in the key `type`.
    pub type_name: &'static str,
    /// The settings of that type.
    pub kind: SinkKind,
}

/// Which changes a sink receives; by default all of the kinds `created` and `updated`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SinkFilter {
    /// The routes.
    #[serde(default)]
    pub routes: Vec<Route>,
    /// The kinds of change.
    #[serde(default)]
    pub changes: Vec<Kind>,
    /// The businesses, as the change names them; empty for all.
    #[serde(default)]
    pub businesses: Vec<String>,
    /// The conditions on the record, all of which must hold.
    #[serde(rename = "where", default, deserialize_with = "conditions::read")]
    pub conditions: Vec<Condition>,
}

/// Where in the log a new sink starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// After the last row of the log at the time the sink is first configured.
    Now,
    /// At the first row; baseline rows are then delivered as well.
    Beginning,
    /// At the first row observed at or after this time.
    At(jiff::Timestamp),
}

/// The type of a sink, with its settings.
#[derive(Debug, Clone, PartialEq)]
pub enum SinkKind {
    /// `type = "webhook"`
    Webhook(WebhookSettings),
    /// `type = "file"`
    File(FileSettings),
    /// `type = "command"`
    Command(CommandSettings),
    /// `type = "mqtt"`
    Mqtt(MqttSettings),
    /// `type = "nats"`
    Nats(NatsSettings),
    /// `type = "s3"`
    S3(S3Settings),
    /// `type = "postgres"`
    Postgres(PostgresSettings),
    /// `type = "email"`
    Email(EmailSettings),
    /// `type = "intake"`
    Intake(IntakeSettings),
}

/// The keys that all sinks have beside those of the filter.
#[derive(Deserialize)]
struct CommonKeys {
    r#type: String,
    #[serde(default, deserialize_with = "start")]
    start: Option<Start>,
    #[serde(default, deserialize_with = "within::<1, 1_000_000, _, _>")]
    hold_above: Option<u32>,
    retry: Option<Vec<TimeSpan>>,
    #[serde(default, deserialize_with = "rate")]
    rate: Option<f64>,
}

/// The sinks of a file by name; `None` is one with a problem.
pub(super) type Sinks = BTreeMap<String, Option<SinkSettings>>;

/// Notes a problem if the sink that the key `sink` names cannot take alerts and reports.
pub(super) fn check_notified(sinks: &Sinks, table: &Table<'_>, name: &str) {
    let Some(sink) = sinks.get(name) else {
        let names: Vec<&str> = sinks.keys().map(String::as_str).collect();
        let advice = choice(name, &names);
        return table.note("sink", format!("names no sink of this file; {advice}"));
    };
    if let Some(sink) = sink
        && matches!(sink.kind, SinkKind::Postgres(_) | SinkKind::Intake(_))
    {
        let type_name = sink.type_name;
        table.note(
            "sink",
            format!(
                "names a sink of type {type_name}, which takes records only: name one of type \
                 webhook, email, command, file, nats, mqtt or s3"
            ),
        );
    }
}

/// The verbs of `shopmirror sinks NAME VERB`, which no sink can be named after.
pub const SINK_VERBS: [&str; 9] = [
    "test", "dead", "redrive", "drop", "replay", "release", "rename", "forget", "help",
];

/// Every sink of the file. `workspace` is the section `[workspace]`, if it can be read.
pub(super) fn read(table: &Table<'_>, workspace: Option<&WorkspaceSettings>) -> Sinks {
    let mut sinks = Sinks::new();
    for (name, own) in table.named() {
        if SINK_VERBS.contains(&name.as_str()) {
            table.note(
                &name,
                "is a verb of `shopmirror sinks`: choose another name",
            );
        }
        sinks.insert(name, sink(&own, workspace));
    }
    sinks
}

/// True for the name of a type of sinks.
pub(super) fn is_type(name: &str) -> bool {
    TYPES.iter().any(|(known, _)| *known == name)
}

/// One sink; `None` only if a problem was noted.
fn sink(table: &Table<'_>, workspace: Option<&WorkspaceSettings>) -> Option<SinkSettings> {
    let mut filter: SinkFilter = table.read(&[])?;
    // The keys of a type are checked when the type is known.
    let keys: CommonKeys = table.read(&["type"])?;
    let Some(&(type_name, read)) = TYPES.iter().find(|(name, _)| *name == keys.r#type) else {
        let types = TYPES.map(|(name, _)| name);
        let advice = choice(&keys.r#type, &types);
        table.note("type", format!("is none of the types; {advice}"));
        return None;
    };
    let source = match workspace {
        Some(workspace) => workspace.base_url.as_str(),
        None => "shopmirror",
    };
    let kind = read(table, source);
    table.finish();
    // A database is for a copy of everything.
    let default_start = if type_name == "postgres" {
        Start::Beginning
    } else {
        Start::Now
    };
    let start = keys.start.unwrap_or(default_start);
    // An empty list means the default, as everywhere.
    if filter.routes.is_empty() {
        filter.routes = Route::ALL.to_vec();
    }
    if filter.changes.is_empty() {
        filter.changes = default_changes(type_name, start);
    }
    check_filter(table, &filter, workspace);
    let retry: Vec<Duration> = match keys.retry {
        Some(waits) => waits.into_iter().map(|TimeSpan(wait)| wait).collect(),
        None => STANDARD_RETRY.map(Duration::from_secs).to_vec(),
    };
    let mut rate = keys.rate;
    if let Some(SinkKind::Mqtt(broker)) = &kind
        && broker.keep_states
        && !filter.changes.contains(&Kind::Forgotten)
    {
        // Otherwise the broker would keep the state of a forgotten record for ever.
        filter.changes.push(Kind::Forgotten);
    }
    if type_name == "postgres" && !filter.changes.contains(&Kind::Vanished) {
        // Otherwise its tables would keep what is gone from its list as if it were there.
        filter.changes.push(Kind::Vanished);
    }
    if let Some(SinkKind::Intake(intake)) = &kind {
        check_other_workspace(table, intake, workspace);
        // A key has 60 requests a minute for all of its clients.
        rate = rate.or(Some(20.0 / 60.0));
    }
    Some(SinkSettings {
        filter,
        start,
        hold_above: keys.hold_above,
        retry: retry.into(),
        rate,
        type_name,
        kind: kind?,
    })
}

/// The kinds of change that a sink receives unless the configuration names them.
fn default_changes(type_name: &str, start: Start) -> Vec<Kind> {
    match (type_name, start) {
        ("postgres", _) => Kind::ALL.to_vec(),
        // Otherwise every edit would create another lead.
        ("intake", _) => vec![Kind::Created],
        // From the beginning means all records, also those of the first page.
        (_, Start::Beginning) => vec![Kind::Baseline, Kind::Created, Kind::Updated],
        _ => vec![Kind::Created, Kind::Updated],
    }
}

fn check_filter(table: &Table<'_>, filter: &SinkFilter, workspace: Option<&WorkspaceSettings>) {
    if filter.changes.iter().any(|kind| kind.is_notice()) {
        table.note(
            "changes",
            "cannot hold alert and report: name the sink in [alerts] and [reports]",
        );
    }
    let Some(workspace) = workspace else {
        return;
    };
    // A business that is not polled has no changes, so that the sink would never get anything.
    let polled = &workspace.businesses;
    if !filter
        .businesses
        .iter()
        .all(|business| polled.contains(business))
    {
        table.note(
            "businesses",
            "holds a business that is not polled: correct it, or name it in `businesses` of \
             [workspace] as well",
        );
    }
}

/// Notes a problem if an intake sink would write to the workspace that is mirrored.
fn check_other_workspace(
    table: &Table<'_>,
    intake: &IntakeSettings,
    workspace: Option<&WorkspaceSettings>,
) {
    if let Some(workspace) = workspace
        && workspace.base_url.origin() == intake.base_url.origin()
    {
        table.note(
            "base_url",
            "is that of [workspace], where what is made would be mirrored and made again, without \
             end: name another workspace",
        );
    }
}

fn rate<'de, D: Deserializer<'de>>(d: D) -> Result<Option<f64>, D::Error> {
    parsed(d, |text| match duration::rate(text) {
        Some(rate) => Ok(Some(rate)),
        None => Err("must be a number of calls such as \"1/s\", \"30/m\" or \"100/h\"".into()),
    })
}

fn start<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Start>, D::Error> {
    parsed(d, |text| match text {
        "now" => Ok(Some(Start::Now)),
        "beginning" => Ok(Some(Start::Beginning)),
        _ => match text.parse() {
            Ok(time) => Ok(Some(Start::At(time))),
            Err(_) => Err(
                "must be \"now\", \"beginning\" or a time with its offset, for example \
                           \"2026-03-01T08:00:00Z\""
                    .into(),
            ),
        },
    })
}
