//! What earlier versions left behind goes on: the folders of `tests/upgrades`, made by real programs of
//! those versions, are opened, migrated and continued without losing or repeating a change.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Answer, Pages, Place, Receiver, wait_until};

const ROUTES: [&str; 6] =
    ["jobs", "customers", "leads", "payments", "job-status-changes", "outsourced-jobs"];

/// Each fixture, with the schema in its name.
fn fixtures() -> Vec<(i64, PathBuf)> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upgrades");
    let folders = fs::read_dir(all).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<(i64, PathBuf)> = folders
        .filter_map(|path| {
            let schema = path.file_name()?.to_str()?.strip_prefix("schema-")?.parse().ok()?;
            Some((schema, path))
        })
        .collect();
    found.sort();
    assert!(found.len() >= 3, "{found:?}");
    found
}

fn unpacked(path: &Path) -> Vec<u8> {
    let output = Command::new("gzip").arg("-dc").arg(path).output().unwrap();
    assert!(output.status.success(), "{path:?}: {output:?}");
    output.stdout
}

/// A folder as the earlier version left it, whose workspace and webhooks are those of this test.
struct Left {
    pages: Pages,
    hook: Receiver,
    place: Place,
    shown: BTreeMap<String, Vec<Value>>,
}

async fn left(folder: &Path) -> Left {
    let (pages, hook) = (Pages::start().await, Receiver::start().await);
    let place = pages.place();
    let config = fs::read_to_string(folder.join("config.toml")).unwrap();
    let workspace = pages.base_url();
    let config = config
        .replace("http://WORKSPACE/api", workspace)
        .replace("http://WORKSPACE", &hook.url(""));
    place.write("config.toml", &config);
    for name in ["mirror.db", "audit.ndjson"] {
        fs::write(place.path(name), unpacked(&folder.join(format!("{name}.gz")))).unwrap();
    }
    let text = fs::read_to_string(folder.join("pages.json")).unwrap();
    let shown: BTreeMap<String, String> = serde_json::from_str(&text).unwrap();
    for (route, page) in &shown {
        pages.show(route, page.clone());
    }
    let parsed = |page: &String| serde_json::from_str(page).unwrap();
    let shown = shown.iter().map(|(route, page)| (route.clone(), parsed(page))).collect();
    Left { pages, hook, place, shown }
}

/// Event id, route, record, kind and version of each row of the log.
const LOG: &str = "SELECT event_id, route, record_id, kind, version FROM changes ORDER BY seq";

#[tokio::test]
async fn what_an_earlier_version_left_behind_goes_on_where_it_was() {
    for (schema, folder) in fixtures() {
        let Left { pages, hook, place, mut shown } = left(&folder).await;
        assert_eq!(place.number("PRAGMA user_version"), schema);
        let before = place.rows(LOG);
        assert_eq!(before.len(), 78, "schema {schema}");
        assert_eq!(place.lines("audit.ndjson").len(), 78);

        // The same pages again: nothing is new. Only what waited for its retry is delivered.
        let ended = place.run(["once"]).await;
        assert_eq!(ended.code, Some(0), "schema {schema}: {ended:?}");
        assert!(place.number("PRAGMA user_version") >= schema.max(4));
        assert_eq!(place.rows(LOG), before, "schema {schema}");
        assert_eq!(place.lines("audit.ndjson").len(), 78);
        let ids = |events: Vec<Value>| -> Vec<Value> {
            events.into_iter().map(|event| event["event_id"].clone()).collect()
        };
        let mut retried = ids(hook.events());
        retried.sort_by_key(ToString::to_string);
        let refused = |row: &&Value| row[2] == "12";
        let mut parked: Vec<Value> =
            before.iter().filter(refused).map(|row| row[0].clone()).collect();
        parked.sort_by_key(ToString::to_string);
        assert_eq!(retried, parked, "schema {schema}: what was parked is delivered once");

        // One new and one edited record of each route: exactly these follow, to both sinks.
        for route in ROUTES {
            let page = shown.get_mut(route).unwrap();
            page[0]["name"] = json!("edited by the new version");
            let mut new = page[0].clone();
            new["id"] = json!(13);
            page.insert(0, new);
            page.pop();
            pages.show(route, serde_json::to_string(page).unwrap());
        }
        let ended = place.run(["once"]).await;
        assert_eq!(ended.code, Some(0), "schema {schema}: {ended:?}");
        let after = place.rows(LOG);
        assert_eq!((&after[..78], after.len()), (&before[..], 78 + 12), "schema {schema}");
        assert!(after.iter().all(|row| row[3] != "gap"), "schema {schema}: nothing was missed");
        let lines: Vec<Value> = ids(place.lines("audit.ndjson").iter().map(event).collect());
        let logged: Vec<Value> = after.iter().map(|row| row[0].clone()).collect();
        assert_eq!(lines, logged, "schema {schema}: the file has each change once and in order");
        let strict = |request: &&crate::support::Received| request.uri.path() == "/strict";
        let received = hook.received();
        assert_eq!(received.iter().filter(strict).count(), 2, "schema {schema}");
        assert_eq!(received.len(), 6 + 12 + 2, "schema {schema}");

        // The dead letter of the earlier version can still be delivered.
        let ended = place.run(["dead", "strict", "redrive", "--all"]).await;
        assert_eq!(ended.code, Some(0), "schema {schema}: {ended:?}");
        let ended = place.run(["verify"]).await;
        assert_eq!(ended.code, Some(0), "schema {schema}: {ended:?}");
    }
}

/// The change in a line of a file sink.
fn event(line: &Value) -> Value {
    if line.get("event_id").is_some() { line.clone() } else { line["data"].clone() }
}

#[tokio::test]
async fn a_migration_that_is_killed_starts_again() {
    for (schema, folder) in fixtures() {
        let Left { hook, place, .. } = left(&folder).await;
        hook.always(Answer::status(500));
        let before = place.rows(LOG);
        assert_eq!(before.len(), 78, "schema {schema}");
        place.daemon().kill().await;
        let daemon = place.daemon();
        let (lock, pid) = (place.path("mirror.db-lock"), daemon.pid().to_string());
        // The one before may have left its own.
        let named = || fs::read_to_string(&lock).is_ok_and(|lock| lock.trim() == pid);
        wait_until("the daemon has the store", named).await;
        daemon.kill().await;
        assert_eq!(place.rows(LOG), before, "schema {schema}");
        let ended = place.run(["once"]).await;
        assert!(matches!(ended.code, Some(0 | 75)), "schema {schema}: {ended:?}");
        assert_eq!(place.rows(LOG), before, "schema {schema}");
        let ended = place.run(["verify"]).await;
        assert_eq!(ended.code, Some(0), "schema {schema}: {ended:?}");
    }
}

#[tokio::test]
async fn until_the_first_start_after_an_upgrade_commands_say_what_brings_the_store_up_to_date() {
    let fixtures = fixtures();
    let newest = fixtures.last().unwrap().0 + 1;
    for (schema, folder) in [&fixtures[0], &fixtures[fixtures.len() - 1]] {
        let Left { place, .. } = left(folder).await;
        let commands: [&[&str]; 10] = [
            &["status"],
            &["verify"],
            &["sinks"],
            &["gaps"],
            &["plan"],
            &["find", "edited"],
            &["records", "jobs"],
            &["log"],
            &["dead", "strict", "redrive", "--all"],
            &["report", "mirror"],
        ];
        for command in commands {
            let ended = place.run(command).await;
            let said =
                format!("has schema {schema} of an earlier shopmirror, this one needs {newest}");
            assert!(ended.err.contains(&said), "{command:?}: {ended:?}");
            assert!(ended.err.contains("restart the service"), "{command:?}: {ended:?}");
            assert_eq!(ended.code, Some(69), "{command:?}");
        }
        let ended = place.run(["check"]).await;
        let said = format!("the next start brings it up to date from schema {schema}");
        assert!(ended.out.contains(&said), "{ended:?}");
        // A copy from before the migration can be made, and put back.
        let copy = place.path("before.db");
        let ended = place.run(["backup", copy.to_str().unwrap()]).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(place.number("PRAGMA user_version"), *schema);
        let ended = place.run(["restore", copy.to_str().unwrap()]).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let ended = place.run(["verify"]).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
}
