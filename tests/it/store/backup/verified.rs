//! `verify`: a sound store has one line a part, and every kind of disagreement is found.

use std::fs;

use rusqlite::Connection;
use serde_json::json;

use super::filled;
use crate::support::{Answer, Place, Receiver, Workspace};

#[tokio::test]
async fn every_change_of_a_sink_is_accounted_for() {
    let hook = Receiver::start().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    hook.always(Answer::status(400));
    let all = "start = \"beginning\"\nchanges = [\"baseline\"]";
    place.configure(&format!(
        "{}{}",
        Place::file_sink("audit", all),
        Place::webhook_sink(
            "hook",
            &hook.url("/"),
            &format!("{all}\nroutes = [\"leads\"]\nretry = []")
        ),
    ));
    place.run(["once"]).await;
    let verified = place.run(["verify"]).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
    let last = place.number("SELECT max(seq) FROM changes");
    let leads = place.number("SELECT count(*) FROM leads");
    let line = |name: &str| {
        verified.out.lines().find(|line| line.contains(&format!("sink {name}"))).unwrap().to_owned()
    };
    let audit = format!(
        "{last} stored = {last} delivered + 0 pending + 0 retrying + 0 dead + 0 filtered + 0 skipped"
    );
    assert!(line("audit").ends_with(&audit), "{verified:?}");
    let other = last - leads;
    let refused = format!(
        "{last} stored = 0 delivered + 0 pending + 0 retrying + {leads} dead + {other} filtered + 0 skipped"
    );
    assert!(line("hook").ends_with(&refused), "{verified:?}");

    let listed = place.run(["verify", "--json"]).await.json();
    let parts: Vec<&str> =
        listed.as_array().unwrap().iter().map(|f| f["what"].as_str().unwrap()).collect();
    assert_eq!(
        parts,
        [
            "file",
            "log",
            "mirror jobs",
            "mirror customers",
            "mirror leads",
            "mirror payments",
            "mirror job_status_changes",
            "mirror outsourced_jobs",
            "sink audit",
            "sink hook"
        ]
    );
    assert!(listed.as_array().unwrap().iter().all(|finding| finding["ok"] == true));
}

#[tokio::test]
async fn every_disagreement_is_found_and_ends_with_65() {
    let (_workspace, place) = filled().await;
    assert_eq!(place.run(["verify"]).await.code, Some(0));
    let sound = fs::read(place.store()).unwrap();
    let lead = "(SELECT id FROM leads LIMIT 1)";
    let version = "INSERT INTO changes (event_id, route, record_id, kind, version, observed_at, body) \
                   SELECT event_id || 'x', route, record_id, kind, version + 1, observed_at, body \
                   FROM changes WHERE route = 'jobs' LIMIT 1";
    let parked = "INSERT INTO deliveries (sink, seq, route, record_id, state, attempts, since) \
                  VALUES ('audit', 1, 'jobs', 'none', 'retrying', 1, '')";
    let disagreements = [
        ("UPDATE changes SET body = body || ' ' WHERE seq = 3", "log", "change 3"),
        ("UPDATE changes SET body = '{' WHERE seq = 4", "log", "not JSON"),
        (
            "UPDATE changes SET event_id = (SELECT event_id FROM changes WHERE seq = 1) WHERE seq = 2",
            "log",
            "twice",
        ),
        (&format!("UPDATE leads SET name = 'Eve' WHERE id = {lead}"), "mirror leads", "differs"),
        (
            &format!("DELETE FROM leads WHERE id = {lead}"),
            "mirror leads",
            "1 records of the log are absent",
        ),
        (version, "mirror jobs", "is not the newest version"),
        ("UPDATE payments SET _seq = 9999999", "mirror payments", "has no version"),
        ("UPDATE sinks SET delivered = delivered + 1", "sink audit", "are stored"),
        ("UPDATE sinks SET filtered = filtered - 1", "sink audit", "are stored"),
        ("UPDATE sinks SET skipped = skipped + 1", "sink audit", "are stored"),
        ("UPDATE sinks SET position = 9999999", "sink audit", "outside the log"),
        (parked, "sink audit", "not in the log"),
    ];
    for (sql, what, said) in disagreements {
        fs::write(place.store(), &sound).unwrap();
        for side in ["mirror.db-wal", "mirror.db-shm"] {
            let _ = fs::remove_file(place.path(side));
        }
        Connection::open(place.store()).unwrap().execute_batch(sql).unwrap();
        let verified = place.run(["verify", "--json"]).await;
        assert_eq!(verified.code, Some(65), "{sql}: {verified:?}");
        let findings = verified.json();
        let wrong = findings.as_array().unwrap().iter().find(|f| f["what"] == what).unwrap();
        assert_eq!(wrong["ok"], json!(false), "{sql}: {findings}");
        assert!(wrong["said"].as_str().unwrap().contains(said), "{sql}: {wrong}");
    }
}

#[tokio::test]
async fn a_record_whose_data_was_removed_is_no_disagreement() {
    let (_workspace, place) = filled().await;
    let id = place.rows("SELECT id FROM leads LIMIT 1")[0][0].as_str().unwrap().to_owned();
    assert_eq!(place.run(["forget", "leads", &id]).await.code, Some(0));
    let verified = place.run(["verify"]).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

#[tokio::test]
async fn damage_of_the_file_itself_is_found() {
    let (_workspace, place) = filled().await;
    let store = Connection::open(place.store()).unwrap();
    let root: u16 =
        super::one(&store, "SELECT rootpage FROM sqlite_schema WHERE name = 'changes_version'");
    drop(store);
    for side in ["mirror.db-wal", "mirror.db-shm"] {
        let _ = fs::remove_file(place.path(side));
    }
    let mut bytes = fs::read(place.store()).unwrap();
    let page = usize::from(root - 1) * 4096;
    bytes[page + 8..page + 200].fill(0x7f);
    fs::write(place.store(), bytes).unwrap();
    let verified = place.run(["verify"]).await;
    assert_eq!(verified.code, Some(65), "{verified:?}");
    assert!(verified.out.starts_with("WRONG file"), "{verified:?}");
}
