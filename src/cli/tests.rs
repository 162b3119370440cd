//! The published JSON Schemas, `docs/schemas/*.json`, are made from the types that are printed and
//! sent.
//!
//! `REWRITE_EXPECTED=1 cargo test --all-features --lib cli::tests` writes them again. The schemas
//! allow no field that is not described, so that the outside tests notice one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{CommandFactory, Parser};
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};
use shopmirror_core::record::Event;

use super::{Cli, examples};
use crate::report::{AnswerDocument, HomeDocument, ScheduledContent};
use crate::status::WorkspaceStatus;
use crate::status::alerts::Alert;
use crate::store::Gap;

/// One output for programs.
struct Document {
    /// The name of its file in `docs/schemas`.
    name: &'static str,
    /// What it is.
    about: &'static str,
    make: fn(SchemaGenerator) -> Schema,
}

const fn document<T: JsonSchema>(name: &'static str, about: &'static str) -> Document {
    Document {
        name,
        about,
        make: SchemaGenerator::into_root_schema_for::<T>,
    }
}

const DOCUMENTS: [Document; 6] = [
    document::<Alert<'_>>(
        "alert",
        "what is wrong, or over: `record` of an event of the kind `alert`",
    ),
    document::<AnswerDocument<'_>>(
        "answer",
        "the answer of a report: `report NAME --json` and `GET /report?name=NAME&format=json`",
    ),
    document::<Event<'_>>(
        "event",
        "one change, as sinks get it and `log --follow --json` prints it",
    ),
    document::<HomeDocument<'_>>("home", "the numbers of Home: `GET /?format=json`"),
    document::<ScheduledContent<'_>>(
        "report",
        "a report that was made at its time: `record` of an event of the kind `report`",
    ),
    document::<WorkspaceStatus>(
        "status",
        "the state of the mirror and the daemon: `status --json` and `GET /api/status`",
    ),
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
        let Value::Object(mut schema) = schema else {
            panic!("{}: no object", self.name)
        };
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

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schemas")
}

#[test]
fn the_published_schemas_are_those_of_the_types() {
    let wanted: BTreeMap<String, String> = schemas()
        .into_iter()
        .map(|(name, schema)| (name, serde_json::to_string_pretty(&schema).unwrap() + "\n"))
        .collect();
    if std::env::var_os("REWRITE_EXPECTED").is_some() {
        for (name, text) in &wanted {
            fs::write(folder().join(name), text).unwrap();
        }
    }
    let published: BTreeMap<String, String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            (
                path.file_name().unwrap().to_string_lossy().into(),
                fs::read_to_string(&path).unwrap(),
            )
        })
        .collect();
    assert!(
        published == wanted,
        "run REWRITE_EXPECTED=1 cargo test --all-features --lib cli::tests, and read the diff"
    );
}

/// Every command below this one, with its words.
fn commands(command: &clap::Command, path: &[&str], found: &mut Vec<(Vec<String>, clap::Command)>) {
    let words: Vec<String> = path.iter().map(|word| (*word).to_owned()).collect();
    found.push((words, command.clone()));
    for below in command.get_subcommands() {
        if below.get_name() != "help" {
            commands(below, &[path, &[below.get_name()]].concat(), found);
        }
    }
}

#[test]
fn each_command_has_examples_that_are_accepted_and_a_help_of_80_columns() {
    let mut root = examples::in_help(Cli::command());
    root.build();
    let mut found = Vec::new();
    commands(&root, &[], &mut found);
    for (path, mut command) in found {
        let help = command.render_long_help().to_string();
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "{path:?}: {line}");
        }
        let is_explained = examples::section(&path).contains(".TP")
            && (path.is_empty() || help.contains("Examples:\n  shopmirror "));
        let needs_none = ["completions", "man"].contains(&path.first().map_or("", |name| name));
        assert!(is_explained || needs_none, "{path:?}");
    }
    for (_, lines) in examples::EXAMPLES {
        for (line, _) in lines {
            let parsed = Cli::try_parse_from(line.split(' '));
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }
}
