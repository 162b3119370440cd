//! The search index: damage to it costs searches for a while, any SQLite can read it, and it forgets.

use std::fs;
use std::process::Command;

use sandbox::Route;
use serde_json::json;

use crate::support::{Place, Workspace, wait_until};

/// What says where the words are: the next write meets this damage.
const PLACES: &str = "UPDATE _search_data SET block = x'00' WHERE id = 10";

#[tokio::test]
async fn a_damaged_search_index_ends_no_daemon_and_is_made_again() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&Place::file_sink("audit", "start = \"beginning\""));
    let before = workspace.add(Route::Leads, json!({"name": "Quetzal Before"}));
    let daemon = place.started().await;
    workspace.polled(Route::Leads).await;
    assert!(place.writer().execute(PLACES, []).unwrap() > 0);
    let after = workspace.add(Route::Leads, json!({"name": "Quetzal After"}));
    let whole = || place.log().contains("the search index is whole again");
    wait_until("the index is whole again", whole).await;
    let found = place.run(["find", "quetzal", "--json"]).await.json();
    let ids: Vec<&str> =
        found.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [after.as_str(), before.as_str()]);
    wait_until("the sink has both", || {
        let lines = place.lines("audit.ndjson");
        [&before, &after].iter().all(|id| lines.iter().any(|line| line["record_id"] == **id))
    })
    .await;
    assert_eq!(place.status().await["health"], "ok");
    daemon.stop().await;
}

#[tokio::test]
async fn the_sqlite_of_debian_reads_the_index_after_updates_and_forgotten_words_are_not_in_the_file()
 {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let kept = workspace.add(Route::Leads, json!({"name": "Quetzal Before"}));
    let gone = workspace.add(Route::Leads, json!({"name": "Xylophonist Before"}));
    let daemon = place.started().await;
    workspace.polled(Route::Leads).await;
    workspace.edit(Route::Leads, &kept, json!({"name": "Quetzal After"}));
    workspace.edit(Route::Leads, &gone, json!({"name": "Xylophonist After"}));
    workspace.polled(Route::Leads).await;
    daemon.stop().await;
    let matches = |word: &str| {
        let sql = format!("SELECT count(*) FROM _search WHERE _search MATCH '{word}'");
        let shell = Command::new("sqlite3").arg("-readonly").arg(place.store()).arg(sql).output();
        let shell = shell.unwrap();
        assert!(shell.status.success(), "{shell:?}");
        String::from_utf8(shell.stdout).unwrap().trim().to_owned()
    };
    let is_on_disk = || {
        ["mirror.db", "mirror.db-wal"].iter().any(|name| {
            let bytes = fs::read(place.path(name)).unwrap_or_default();
            bytes.windows(8).any(|window| window == b"lophonis")
        })
    };
    assert_eq!(["quetzal", "xylophonist"].map(matches), ["1", "1"]);
    assert!(is_on_disk());
    let forgotten = place.run(["forget", "leads", &gone]).await;
    assert_eq!(forgotten.code, Some(0), "{forgotten:?}");
    assert_eq!(["quetzal", "xylophonist"].map(matches), ["1", "0"]);
    assert!(!is_on_disk());
}
