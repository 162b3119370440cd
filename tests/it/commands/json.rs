//! What programs read: real outputs of the program, of the page and of sinks against the published
//! schemas, by a public validator.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use sandbox::Route;
use serde_json::{Value, json};

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
        assert!(!is_empty && !value.is_null(), "{place} shows nothing: {value}");
        self.0.push(json!({"schema": schema, "where": place, "value": value}));
    }

    /// What a command prints; it may end with another code than 0.
    async fn command(&mut self, place: &Place, schema: &str, args: &str) {
        let ended: Ended = place.run(args.split(' ')).await;
        let value = serde_json::from_str(&ended.out);
        let value = value.unwrap_or_else(|error| panic!("{args}: {error}: {ended:?}"));
        self.add(schema, args, &value);
    }

    async fn address(&mut self, site: &str, schema: &str, path: &str) {
        let url = format!("{site}{}", path.trim_start_matches('/'));
        let read = move || ureq::get(url).call().unwrap().body_mut().read_to_string().unwrap();
        let text = tokio::task::spawn_blocking(read).await.unwrap();
        self.add(schema, path, &serde_json::from_str(&text).unwrap());
    }
}

/// A shop with a gap, dead letters, a held sink and one that is no longer configured.
async fn troubled(workspace: &Workspace, hook: &Receiver, place: &Place) -> (Daemon, String) {
    place.configure(&Place::file_sink("old", ""));
    assert_eq!(place.run(["once"]).await.code, Some(0));
    hook.refuse("Poison", Answer::status(400));
    place.configure(&format!(
        "limit = 20\n[alerts]\nsink = \"audit\"\n[status]\nlisten = \"127.0.0.1:0\"\nshow_records = true\n\
         [reports.schedule.early]\nreport = \"open-repairs\"\nat = \"07:30\"\nsink = \"audit\"\n{}{}{}{}",
        Place::webhook_sink("hook", &hook.url("/standard"), "retry = []"),
        Place::webhook_sink("events", &hook.url("/cloud"), "format = \"cloudevents\"\nchanges = [\"created\"]"),
        Place::file_sink("audit", "start = \"beginning\"\nchanges = [\"baseline\", \"created\", \"updated\", \"gap\", \"forgotten\"]"),
        Place::file_sink("slow", "routes = [\"payments\"]\nhold_above = 5"),
    ));
    let daemon = place.started().await;
    workspace.all_polled().await;
    let id = workspace.add(Route::Leads, json!({"name": "Ann Lee", "next_follow_up": null}));
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
            && status["page"].is_string()
    };
    let status = place.status_when("all the trouble is there", is_troubled).await;
    wait_until("there is a gap", || place.number("SELECT count(*) FROM gaps") > 0).await;
    (daemon, status["page"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn every_output_for_programs_is_as_its_schema_says() {
    let (workspace, hook) = (Workspace::start().await, Receiver::start().await);
    let place = workspace.place();
    let (daemon, site) = troubled(&workspace, &hook, &place).await;
    let mut outputs = Outputs::default();
    let alert = || place.lines("audit.ndjson").into_iter().find(|line| line["kind"] == "alert");
    wait_until("the gap is told", || alert().is_some()).await;
    outputs.add("alert", "an alert", &alert().unwrap()["record"]);
    let dead = place.run(["dead", "hook", "--json"]).await.json();
    let seq = dead[0]["seq"].to_string();
    let lead = place.rows("SELECT id FROM leads WHERE name = 'Ann Miller'")[0][0].clone();
    let lead = lead.as_str().unwrap();
    for (schema, args) in [
        ("status", "status --json"),
        ("sinks", "sinks --json"),
        ("sinks-test", "sinks test hook --json"),
        ("sinks-preview", "sinks preview events --json"),
        ("dead", "dead hook --json"),
        ("dead-show", &format!("dead hook show {seq} --json")),
        ("dead-redrive", &format!("dead hook redrive {seq} --json")),
        ("dead-drop", "dead hook drop --all --json"),
        ("sinks-release", "sinks release slow --json"),
        ("replay-plan", "replay hook --dry-run --json"),
        ("replay", "replay hook --no-wait --json"),
        ("sinks-forget", "sinks forget old --json"),
        ("gaps", "gaps --json"),
        ("log", "log --json --limit 500"),
        ("log", "log --json --kind gap"),
        ("log-summary", "log --summary --json"),
        ("records", "records payments --json"),
        ("show", &format!("show leads {lead} --json")),
        ("find", "find miller --json"),
        ("reports", "report --format json"),
        ("report-answer", "report mirror --format json"),
        ("status", "status leads --json"),
        ("search", "search a --json"),
        ("backfill", "backfill customers --most 1 --json"),
        ("custom-fields", "custom-fields --refresh --json"),
        ("gaps-accept", "gaps accept --all --json"),
        ("check", "check --offline --json"),
        ("workspace", "workspace --json"),
    ] {
        outputs.command(&place, schema, args).await;
    }
    for (schema, path) in [
        ("status", "/api/status"),
        ("reports", "/api/reports"),
        ("report-answer", "/api/report?name=mirror"),
        ("rows", "/api/records?route=payments"),
        ("find", "/api/records?q=miller"),
        ("log", &format!("/api/record?route=leads&id={lead}")),
    ] {
        outputs.address(&site, schema, path).await;
    }
    daemon.stop().await;
    add_scheduled_report(&place, &mut outputs).await;
    outputs.command(&place, "forget", &format!("forget leads {lead} --json")).await;
    for (schema, args) in
        [("status", "status --json"), ("verify", "verify --json"), ("rebuild", "rebuild --json")]
    {
        outputs.command(&place, schema, args).await;
    }
    // The last of each kind: there are hundreds, and all of a kind are made alike.
    let lines = place.lines("audit.ndjson").into_iter();
    let kinds: BTreeMap<String, Value> =
        lines.map(|line| (line["kind"].to_string(), line)).collect();
    for line in kinds.values() {
        outputs.add("event", "a line of a file sink", line);
    }
    for (path, schema) in [("/standard", "event-standard"), ("/cloud", "event-cloudevents")] {
        let received = hook.received().into_iter().rfind(|request| request.uri.path() == path);
        let body = serde_json::from_str(&received.unwrap().body).unwrap();
        outputs.add(schema, "a webhook", &body);
    }
    judge(&outputs);
}

/// Lets a report be due while no daemon runs, so that the next one makes it at once.
async fn add_scheduled_report(place: &Place, outputs: &mut Outputs) {
    missed(place, "early");
    let daemon = place.started().await;
    let made = || place.lines("audit.ndjson").into_iter().find(|line| line["kind"] == "report");
    wait_until("the report is made", || made().is_some()).await;
    outputs.add("report", "a report that was made", &made().unwrap()["record"]);
    let has_last = |s: &Value| s["reports"][0]["last_at"].is_string();
    place.status_when("the report is noted", has_last).await;
    outputs.command(place, "reports-scheduled", "report --scheduled --format json").await;
    daemon.stop().await;
}

fn judge(outputs: &Outputs) {
    let schemas = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schemas");
    let used: BTreeSet<&str> =
        outputs.0.iter().map(|output| output["schema"].as_str().unwrap()).collect();
    for entry in fs::read_dir(&schemas).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        assert!(used.contains(name.as_str()), "no output was held against {name}.json");
    }
    let given = json!({"schemas": schemas, "outputs": outputs.0});
    if let Some(faults) = run_python(VALIDATE, &given) {
        assert_eq!(faults, json!([]), "outputs that differ from docs/schemas");
    }
}
