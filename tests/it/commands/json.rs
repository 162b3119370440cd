//! What programs read: real outputs of the program, of the page and of sinks against the published
//! schemas, by a public validator, and against the examples of `docs/json.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use sandbox::Route;
use serde_json::{Value, json};

use crate::page::Site;
use crate::reports::scheduled::missed;
use crate::support::{Answer, Daemon, Ended, Place, Receiver, Workspace, run_python, wait_until};

/// Reports every output that its schema refuses.
const VALIDATE: &str = r#"
import json, pathlib, sys
from jsonschema import Draft202012Validator

given = json.load(sys.stdin)
faults = []
for output in given["outputs"]:
    schema = json.loads(pathlib.Path(given["schemas"], output["schema"] + ".json").read_text())
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    for error in validator.iter_errors(output["value"]):
        faults.append(f'{output["where"]}: {error.json_path}: {error.message[:300]}')
print(json.dumps(faults))
"#;

/// The outputs so far, each under the name of its schema.
#[derive(Default)]
struct Outputs(Vec<Value>);

impl Outputs {
    fn add(&mut self, schema: &str, place: &str, value: &Value) {
        let is_empty = value.as_array().is_some_and(Vec::is_empty);
        assert!(
            !is_empty && !value.is_null(),
            "{place} shows nothing: {value}"
        );
        self.0
            .push(json!({"schema": schema, "where": place, "value": value}));
    }

    /// What a command prints; it may end with another code than 0.
    async fn command(&mut self, place: &Place, schema: &str, args: &str) {
        let ended: Ended = place.run(args.split(' ')).await;
        let value = serde_json::from_str(&ended.out);
        let value = value.unwrap_or_else(|error| panic!("{args}: {error}: {ended:?}"));
        self.add(schema, args, &value);
    }

    async fn address(&mut self, site: &Site, schema: &str, path: &str) {
        let value = get(site, path).await;
        self.add(schema, path, &value);
    }
}

/// What an address of the status page answers.
async fn get(site: &Site, path: &str) -> Value {
    serde_json::from_str(&site.get(path).await.body).unwrap()
}

/// A shop with a gap, dead letters, a held sink and one that is no longer configured.
async fn troubled(workspace: &Workspace, hook: &Receiver, place: &Place) -> (Daemon, Site) {
    place.configure(&Place::file_sink("old", ""));
    assert_eq!(place.run(["once"]).await.code, Some(0));
    hook.refuse("Poison", Answer::status(400));
    place.configure(&format!(
        "limit = 20\n[alerts]\nsink = \"audit\"\n[status]\nlisten = \"127.0.0.1:0\"\nshow_records = true\n\
         [reports.schedule.early]\nreport = \"open-repairs\"\nat = \"07:30\"\nsink = \"audit\"\n{}{}{}",
        Place::webhook_sink("hook", &hook.url("/standard"), "retry = []"),
        Place::file_sink("audit", "start = \"beginning\"\nchanges = [\"baseline\", \"created\", \"updated\", \"gap\", \"forgotten\"]"),
        Place::file_sink("slow", "routes = [\"payments\"]\nhold_above = 5"),
    ));
    let daemon = place.started().await;
    workspace.all_polled().await;
    let id = workspace.add(
        Route::Leads,
        json!({"name": "Ann Lee", "next_follow_up": null}),
    );
    workspace.polled(Route::Leads).await;
    workspace.edit(Route::Leads, &id, json!({"name": "Ann Miller"}));
    for name in ["Poison", "Poison too", "Poison as well"] {
        workspace.add(Route::Leads, json!({"name": name}));
    }
    workspace.sandbox.burst(Route::Payments, 60);
    let is_troubled = |status: &Value| {
        let sinks = status["sinks"].as_array().unwrap();
        sinks.iter().any(|sink| sink["dead"] == 3)
            && sinks.iter().any(|sink| sink["state"] == "held")
    };
    place
        .status_when("all the trouble is there", is_troubled)
        .await;
    wait_until("there is a gap", || {
        place.number("SELECT count(*) FROM gaps") > 0
    })
    .await;
    (daemon, Site::of(place).await)
}

/// An example of `docs/json.md`: what prints it, and what is printed.
struct Example {
    sources: Vec<String>,
    value: Value,
}

impl Example {
    fn needs_no_daemon(&self) -> bool {
        self.sources.iter().any(|source| {
            ["once", "restore"]
                .iter()
                .any(|command| source.starts_with(command))
        })
    }
}

fn examples() -> Vec<Example> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/json.md");
    let text = fs::read_to_string(path).unwrap();
    let blocks: Vec<&str> = text.split("```").collect();
    let pairs = blocks.chunks(2).filter(|pair| pair.len() == 2);
    pairs
        .map(|pair| {
            let line = pair[0].trim_end().rsplit("\n\n").next().unwrap();
            let named = line.split('`').skip(1).step_by(2).map(str::to_owned);
            let is_source = |name: &String| name.contains("--json") || name.starts_with("GET ");
            let value = pair[1].strip_prefix("json").unwrap();
            Example {
                sources: named
                    .filter(is_source)
                    .filter(|name| !name.contains('…'))
                    .collect(),
                value: serde_json::from_str(value)
                    .unwrap_or_else(|error| panic!("{error}: {value}")),
            }
        })
        .collect()
}

/// Whether two values have the same fields and types; null fits everything, `"…"` stands for
/// further fields.
fn is_like(example: &Value, actual: &Value) -> bool {
    match (example, actual) {
        (Value::Null, _) | (_, Value::Null) => true,
        (Value::Object(example), Value::Object(actual)) => {
            let is_open = example.contains_key("…");
            let known = |(name, value): (&String, &Value)| match example.get(name) {
                Some(wanted) => is_like(wanted, value),
                None => is_open,
            };
            actual.iter().all(known)
                && example
                    .keys()
                    .all(|name| name == "…" || actual.contains_key(name))
        }
        (Value::Array(example), Value::Array(actual)) => example
            .first()
            .zip(actual.first())
            .is_none_or(|(example, actual)| is_like(example, actual)),
        (Value::String(_), Value::String(_))
        | (Value::Number(_), Value::Number(_))
        | (Value::Bool(_), Value::Bool(_)) => true,
        _ => false,
    }
}

#[tokio::test]
async fn every_output_for_programs_is_as_its_schema_or_its_example_says() {
    let (workspace, hook) = (Workspace::start().await, Receiver::start().await);
    let place = workspace.place();
    let (daemon, site) = troubled(&workspace, &hook, &place).await;
    place.write("export.csv", "id,name\nolder-1,Ada\n");
    let mut outputs = Outputs::default();
    let alert = || {
        place
            .lines("audit.ndjson")
            .into_iter()
            .find(|line| line["kind"] == "alert")
    };
    wait_until("the gap is told", || alert().is_some()).await;
    outputs.add("alert", "an alert", &alert().unwrap()["record"]);
    let dead = place.run(["sinks", "hook", "dead", "--json"]).await.json();
    let seq = dead[0]["seq"].to_string();
    let lead = place.rows("SELECT id FROM leads WHERE name = 'Ann Miller'")[0][0].clone();
    let lead = lead.as_str().unwrap();
    outputs.command(&place, "status", "status --json").await;
    outputs.address(&site, "status", "/api/status").await;
    outputs.address(&site, "home", "/?format=json").await;
    outputs
        .command(&place, "answer", "report payments --json")
        .await;
    outputs
        .command(&place, "answer", "report open-repairs --json")
        .await;
    let (stopped, running): (Vec<_>, Vec<_>) =
        examples().into_iter().partition(Example::needs_no_daemon);
    hold_against(&running, &place, &site, lead, &seq).await;
    daemon.stop().await;
    hold_against(&stopped, &place, &site, lead, &seq).await;
    add_scheduled_report(&place, &mut outputs).await;
    outputs.command(&place, "status", "status --json").await;
    // The last of each kind: there are hundreds, and all of a kind are made alike.
    let lines = place.lines("audit.ndjson").into_iter();
    let kinds: BTreeMap<String, Value> =
        lines.map(|line| (line["kind"].to_string(), line)).collect();
    for line in kinds.values() {
        outputs.add("event", "a line of a file sink", line);
    }
    judge(&outputs);
}

/// Holds what each command and address says against its example.
async fn hold_against(examples: &[Example], place: &Place, site: &Site, lead: &str, seq: &str) {
    for example in examples {
        for source in &example.sources {
            let actual = match source.strip_prefix("GET ") {
                Some(path) => get(site, &path.replace("=ID&", &format!("={lead}&"))).await,
                None => {
                    let line = source
                        .replace("erp", "hook")
                        .replace("search miller", "search a")
                        .replace(" ID ", &format!(" {lead} "))
                        .replace("SEQ", seq);
                    let ended: Ended = place.run(line.split(' ')).await;
                    serde_json::from_str(&ended.out)
                        .unwrap_or_else(|error| panic!("{line}: {error}: {ended:?}"))
                }
            };
            assert!(
                actual.as_array().is_none_or(|all| !all.is_empty()),
                "{source} shows nothing"
            );
            assert!(
                is_like(&example.value, &actual),
                "{source} is not as its example: {actual:#}"
            );
        }
    }
}

/// Lets a report be due while no daemon runs, so that the next one makes it at once.
async fn add_scheduled_report(place: &Place, outputs: &mut Outputs) {
    missed(place, "early");
    let daemon = place.started().await;
    let made = || {
        place
            .lines("audit.ndjson")
            .into_iter()
            .find(|line| line["kind"] == "report")
    };
    wait_until("the report is made", || made().is_some()).await;
    outputs.add(
        "report",
        "a report that was made",
        &made().unwrap()["record"],
    );
    let has_last = |s: &Value| s["reports"][0]["last_at"].is_string();
    place.status_when("the report is noted", has_last).await;
    daemon.stop().await;
}

fn judge(outputs: &Outputs) {
    let schemas = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schemas");
    let used: BTreeSet<&str> = outputs
        .0
        .iter()
        .map(|output| output["schema"].as_str().unwrap())
        .collect();
    for entry in fs::read_dir(&schemas).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        assert!(
            used.contains(name.as_str()),
            "no output was held against {name}.json"
        );
    }
    let given = json!({"schemas": schemas, "outputs": outputs.0});
    if let Some(faults) = run_python(VALIDATE, &given) {
        assert_eq!(faults, json!([]), "outputs that differ from docs/schemas");
    }
}
