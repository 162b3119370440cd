//! `verify`: a sound store has one line a part, and every kind of disagreement is found.

use std::fs;

use rusqlite::Connection;
use sandbox::Route;
use serde_json::json;

use super::filled;

#[tokio::test]
async fn every_disagreement_is_found_and_ends_with_65() {
    let (workspace, place) = filled().await;
    // An index of more than one page.
    for route in Route::ALL {
        workspace.sandbox.burst(route, 99);
    }
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let sound = fs::read(place.store()).unwrap();
    let lead = "(SELECT id FROM leads LIMIT 1)";
    let parked = "INSERT INTO _queue (sink, lane, seq, route, record_id, state, attempts, since) \
                  VALUES ('audit', 2, 1, 'jobs', 'none', 'retrying', 1, '')";
    let disagreements = [
        (
            "UPDATE changes SET body = body || ' ' WHERE seq = 3",
            "log",
            "change 3",
        ),
        (
            "UPDATE changes SET event_id = (SELECT event_id FROM changes WHERE seq = 1) WHERE seq = 2",
            "log",
            "change 2",
        ),
        (
            &format!("UPDATE leads SET name = 'Eve' WHERE id = {lead}"),
            "mirror leads",
            "differs",
        ),
        (
            &format!("DELETE FROM leads WHERE id = {lead}"),
            "mirror leads",
            "1 records of the log are absent",
        ),
        (
            "UPDATE payments SET _seq = 9999999",
            "mirror payments",
            "differs",
        ),
        (
            "UPDATE _sinks SET delivered = delivered + 1",
            "sink audit",
            "are stored",
        ),
        (
            "UPDATE _sinks SET position = 9999999",
            "sink audit",
            "are stored",
        ),
        (parked, "sink audit", "are stored"),
    ];
    let put = |bytes: &[u8]| {
        fs::write(place.store(), bytes).unwrap();
        for side in ["mirror.db-wal", "mirror.db-shm"] {
            let _ = fs::remove_file(place.path(side));
        }
    };
    for (sql, what, said) in disagreements {
        put(&sound);
        Connection::open(place.store())
            .unwrap()
            .execute_batch(sql)
            .unwrap();
        let verified = place.run(["verify", "--json"]).await;
        assert_eq!(verified.code, Some(65), "{sql}: {verified:?}");
        let findings = verified.json();
        let wrong = findings
            .as_array()
            .unwrap()
            .iter()
            .find(|f| f["what"] == what)
            .unwrap();
        assert_eq!(wrong["ok"], json!(false), "{sql}: {findings}");
        assert!(
            wrong["said"].as_str().unwrap().contains(said),
            "{sql}: {wrong}"
        );
    }

    put(&sound);
    let store = Connection::open(place.store()).unwrap();
    let index = "SELECT rootpage FROM sqlite_schema WHERE name = 'changes_version'";
    let page = usize::from(super::one::<u16>(&store, index) - 1) * 4096;
    drop(store);
    let mut damaged = sound;
    damaged[page + 8..page + 200].fill(0x7f);
    put(&damaged);
    let verified = place.run(["verify"]).await;
    assert_eq!(verified.code, Some(65), "{verified:?}");
    assert!(verified.out.starts_with("WRONG file"), "{verified:?}");
}
