//! JSON Schemas of everything that programs read, made from the types that are printed and sent:
//! `docs/schemas/*.json` and `docs/json.md`.
//!
//! `REWRITE_EXPECTED=1 cargo test --all-features --lib schemas` writes them again. The schemas allow no
//! field that is not described, so that the outside tests notice one.

mod markdown;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use super::backfill::BackfillResult;
use super::check::CheckResult;
use super::dead::{DeadLetter, DropResult, RedriveResult};
use super::forget::ForgetResult;
use super::gaps::AcceptResult;
use super::log::RouteSummary;
use super::rebuild::RebuildResult;
use super::replay::ReplayPlan;
use super::show::Shown;
use super::sinks::{ForgetSinkResult, ReleaseResult, SinkPreview, SinkTestResult};
use super::whole_record::RecordDocument;
use super::workspace::WorkspaceInfo;
use crate::alerts::Alert;
use crate::deliver::SinkStatus;
use crate::record::{Change, Event, FoundRecord};
use crate::report::{ListedReport, ReportDocument, ScheduledContent};
use crate::shape::{CloudEvent, StandardEvent};
use crate::status::{ScheduledReportStatus, WorkspaceStatus};
use crate::store::{Form, Gap, QueueRow, Replay, VerifyFinding};

type Rows = Vec<BTreeMap<String, Value>>;

/// One output for programs.
struct Document {
    /// The name of its file in `docs/schemas`.
    name: &'static str,
    /// What it is.
    about: &'static str,
    /// The commands that print it with `--json`.
    commands: &'static [&'static str],
    /// Where else it is found, in Markdown.
    places: &'static [&'static str],
    make: fn(SchemaGenerator) -> Schema,
}

const fn document<T: JsonSchema>(
    name: &'static str,
    about: &'static str,
    commands: &'static [&'static str],
    places: &'static [&'static str],
) -> Document {
    Document { name, about, commands, places, make: SchemaGenerator::into_root_schema_for::<T> }
}

/// Every output for programs.
const DOCUMENTS: &[Document] = &[
    document::<WorkspaceStatus>(
        "status",
        "the state of the mirror and the daemon",
        &["status"],
        &["`GET /api/status`"],
    ),
    document::<Event<'_>>(
        "event",
        "one change",
        &[],
        &[
            "each line of `log --follow --json`",
            "each line of a `file` sink",
            "standard input of a `command` sink",
            "`data` of a webhook",
        ],
    ),
    document::<StandardEvent<'_>>(
        "event-standard",
        "one change in the format `standard`",
        &[],
        &["the body of a webhook"],
    ),
    document::<CloudEvent<'_>>(
        "event-cloudevents",
        "one change in the format `cloudevents`",
        &[],
        &["the body of a webhook with `format = \"cloudevents\"`"],
    ),
    document::<Alert<'_>>(
        "alert",
        "what is wrong, or over",
        &[],
        &["`record` of an event of the kind `alert`"],
    ),
    document::<ScheduledContent<'_>>(
        "report",
        "a report that was made at its time",
        &[],
        &["`record` of an event of the kind `report`"],
    ),
    document::<Vec<Change>>(
        "log",
        "changes, the oldest first",
        &["log"],
        &["`GET /api/record?route=…&id=…`: the versions of one record"],
    ),
    document::<BTreeMap<String, RouteSummary>>(
        "log-summary",
        "what changed, by route",
        &[],
        &["`log --summary --json`"],
    ),
    document::<WorkspaceInfo>(
        "workspace",
        "the workspace that the store belongs to",
        &["workspace", "workspace accept"],
        &[],
    ),
    document::<Vec<RecordDocument>>(
        "records",
        "records, the last changed first",
        &["records"],
        &[],
    ),
    document::<Shown<'_>>("show", "one record and its versions", &["show"], &[]),
    document::<Vec<FoundRecord>>(
        "find",
        "records that a search of the mirror found",
        &["find"],
        &["`GET /api/records?q=…`"],
    ),
    document::<ReportDocument>(
        "report-answer",
        "the answer of a report",
        &[],
        &["`report NAME --format json`", "`GET /api/report?name=…`"],
    ),
    document::<Rows>(
        "rows",
        "rows with one member for each column",
        &[],
        &["`GET /api/records?route=…`: the columns of the mirror"],
    ),
    document::<Vec<ListedReport<'_>>>(
        "reports",
        "the reports",
        &[],
        &["`report --format json`", "`GET /api/reports`"],
    ),
    document::<Vec<ScheduledReportStatus>>(
        "reports-scheduled",
        "the reports that are made at a time",
        &[],
        &["`report --scheduled --format json`"],
    ),
    document::<Replay>("replay", "older changes that a sink is given once more", &["replay"], &[]),
    document::<ReplayPlan>(
        "replay-plan",
        "what a replay would send",
        &[],
        &["`replay --dry-run --json`"],
    ),
    document::<ForgetSinkResult>(
        "sinks-forget",
        "a sink that was forgotten",
        &["sinks forget"],
        &[],
    ),
    document::<Vec<Gap>>("gaps", "intervals in which records may have been missed", &["gaps"], &[]),
    document::<AcceptResult>("gaps-accept", "what accepting gaps did", &["gaps accept"], &[]),
    document::<Vec<SinkStatus>>("sinks", "the sinks", &["sinks", "sinks list"], &[]),
    document::<SinkTestResult>(
        "sinks-test",
        "what became of a change that was sent as a test",
        &["sinks test"],
        &[],
    ),
    document::<SinkPreview>(
        "sinks-preview",
        "what would be sent for a change",
        &["sinks preview"],
        &[],
    ),
    document::<ReleaseResult>(
        "sinks-release",
        "what releasing a held sink did",
        &["sinks release"],
        &[],
    ),
    document::<Vec<QueueRow>>(
        "dead",
        "the changes that a sink has refused, and those that wait for one of them",
        &["dead", "dead list"],
        &[],
    ),
    document::<DeadLetter>("dead-show", "one such change", &["dead show"], &[]),
    document::<RedriveResult>(
        "dead-redrive",
        "what redriving dead letters did",
        &["dead redrive"],
        &[],
    ),
    document::<DropResult>("dead-drop", "what dropping dead letters did", &["dead drop"], &[]),
    document::<Rows>("search", "customers as the workspace sent them", &["search"], &[]),
    document::<Vec<BackfillResult>>("backfill", "what a backfill found", &["backfill"], &[]),
    document::<Vec<Form>>(
        "custom-fields",
        "the custom fields of the forms",
        &["custom-fields"],
        &[],
    ),
    document::<ForgetResult>("forget", "what forgetting a record did", &["forget"], &[]),
    document::<RebuildResult>("rebuild", "what rebuilding the mirror did", &["rebuild"], &[]),
    document::<Vec<VerifyFinding>>(
        "verify",
        "whether the parts of the store agree",
        &["verify"],
        &[],
    ),
    document::<Vec<CheckResult>>("check", "whether the configuration works", &["check"], &[]),
];

impl Document {
    /// The schema as it is published.
    fn schema(&self) -> Map<String, Value> {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        let mut generator = settings.into_generator();
        let plain = (self.make)(generator.clone()).to_value().to_string();
        if plain.contains("\"event_id\"") {
            // The gap of a change is the text of a Gap.
            generator.subschema_for::<Gap>();
        }
        let mut schema = (self.make)(generator).to_value();
        tidy(&mut schema);
        let Value::Object(mut schema) = schema else { panic!("{}: no object", self.name) };
        schema.insert("title".to_owned(), self.name.into());
        schema.insert("$comment".to_owned(), self.about.into());
        schema
    }
}

/// Closes every object, names the type of a gap, and leaves out what says nothing.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Object(object) => {
            object.remove("default");
            if object.get("type").is_some_and(|kind| kind != "string") {
                object.remove("format");
            }
            if let Some(Value::String(text)) = object.get_mut("description") {
                *text = text
                    .replace("[`", "`")
                    .replace("`]", "`")
                    .replace("`None`", "null")
                    .replace('\n', " ");
            }
            if let Some(Value::Object(properties)) = object.get_mut("properties") {
                if properties.contains_key("event_id") && properties.contains_key("gap") {
                    let about = properties["gap"]["description"].clone();
                    properties.insert(
                        "gap".to_owned(),
                        json!({"$ref": "#/$defs/Gap", "description": about}),
                    );
                }
                properties.values_mut().for_each(tidy);
                object.entry("additionalProperties").or_insert(false.into());
            }
            object
                .iter_mut()
                .filter(|(name, _)| *name != "properties")
                .for_each(|(_, part)| tidy(part));
        }
        _ => {}
    }
}

/// Every schema by the name of its file.
fn schemas() -> BTreeMap<String, Map<String, Value>> {
    DOCUMENTS
        .iter()
        .map(|document| (format!("{}.json", document.name), document.schema()))
        .collect()
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs")
}

/// What `docs/` must hold: each file below it and its text.
fn published() -> BTreeMap<String, String> {
    let schemas = schemas();
    let mut files: BTreeMap<String, String> = schemas
        .iter()
        .map(|(name, schema)| {
            let text = serde_json::to_string_pretty(schema).expect("a schema is JSON");
            (format!("schemas/{name}"), text + "\n")
        })
        .collect();
    files.insert("json.md".to_owned(), markdown::page(DOCUMENTS, &schemas));
    files
}

#[test]
fn the_published_schemas_are_those_of_the_types() {
    let wanted = published();
    let is_rewriting = std::env::var_os("REWRITE_EXPECTED").is_some();
    let mut stale = Vec::new();
    for (name, text) in &wanted {
        let path = docs().join(name);
        if is_rewriting {
            fs::write(&path, text).unwrap();
        } else if fs::read_to_string(&path).ok().as_ref() != Some(text) {
            stale.push(name.clone());
        }
    }
    for entry in fs::read_dir(docs().join("schemas")).unwrap() {
        let name = format!("schemas/{}", entry.unwrap().file_name().to_string_lossy());
        if !wanted.contains_key(&name) {
            stale.push(format!("{name} (of no type: remove it)"));
        }
    }
    assert!(
        stale.is_empty(),
        "run REWRITE_EXPECTED=1 cargo test --all-features --lib schemas, and read the diff: {}",
        stale.join(", ")
    );
}

/// Names every field and value below `schema` that has no description.
fn undocumented(schema: &Value, place: &str, found: &mut BTreeSet<String>) {
    let is_described =
        |schema: &Value| schema["description"].as_str().is_some_and(|text| text.trim().len() > 2);
    let Value::Object(object) = schema else { return };
    if let Some(Value::Object(properties)) = object.get("properties") {
        for (name, property) in properties {
            let place = format!("{place}.{name}");
            if !is_described(property) {
                found.insert(place.clone());
            }
            undocumented(property, &place, found);
        }
    }
    for choices in ["oneOf", "anyOf"] {
        for choice in object.get(choices).and_then(Value::as_array).into_iter().flatten() {
            let is_value = choice.get("const").is_some() || choice.get("enum").is_some();
            if is_value && !is_described(choice) {
                found.insert(format!("{place}: {choice}"));
            }
            undocumented(choice, place, found);
        }
    }
    if object.contains_key("enum") {
        found.insert(format!("{place}: {}", object["enum"]));
    }
    for part in ["items", "additionalProperties"] {
        undocumented(object.get(part).unwrap_or(&Value::Null), place, found);
    }
    for (name, definition) in object.get("$defs").and_then(Value::as_object).into_iter().flatten() {
        if !is_described(definition) {
            found.insert(name.clone());
        }
        undocumented(definition, name, found);
    }
}

#[test]
fn every_field_and_value_that_programs_read_is_documented() {
    let mut found = BTreeSet::new();
    for (name, schema) in schemas() {
        undocumented(&Value::Object(schema), &name, &mut found);
    }
    assert!(found.is_empty(), "write a doc comment for each of these: {found:#?}");
}

/// The commands below `command` that take `--json`, as `gaps accept`.
fn commands_with_json(command: &clap::Command, path: &str, is_inherited: bool) -> Vec<String> {
    let own = command.get_arguments().find(|argument| argument.get_long() == Some("json"));
    let has_json = is_inherited || own.is_some();
    let passes_on = is_inherited || own.is_some_and(clap::Arg::is_global_set);
    let mut found = Vec::new();
    if has_json && !command.is_subcommand_required_set() {
        found.push(path.trim().to_owned());
    }
    for child in command.get_subcommands().filter(|child| child.get_name() != "help") {
        found.extend(commands_with_json(child, &format!("{path} {}", child.get_name()), passes_on));
    }
    found
}

#[test]
fn every_command_with_json_has_a_schema() {
    let mut printed = commands_with_json(&super::Cli::command(), "", false);
    let mut described: Vec<&str> =
        DOCUMENTS.iter().flat_map(|document| document.commands).copied().collect();
    printed.sort();
    described.sort_unstable();
    assert_eq!(printed, described);
}
