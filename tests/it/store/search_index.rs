//! A damaged search index costs searches for a while: polling, delivery and the rest go on.

use sandbox::Route;
use serde_json::json;

use crate::support::{Place, Workspace, wait_until};

/// What says where the words are: the next write meets this damage.
const PLACES: &str = "UPDATE _search_data SET block = x'00' WHERE id = 10";
/// The words themselves: the next search meets this damage.
const WORDS: &str = "DELETE FROM _search_data WHERE id > 10";

fn damage(place: &Place, what: &str) {
    assert!(place.writer().execute(what, []).unwrap() > 0);
}

#[tokio::test]
async fn a_damaged_search_index_ends_no_daemon_and_is_made_again() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&Place::file_sink("audit", "start = \"beginning\""));
    let before = workspace.add(Route::Leads, json!({"name": "Quetzal Before"}));
    let mut daemon = place.started().await;
    workspace.polled(Route::Leads).await;
    damage(&place, PLACES);
    let after = workspace.add(Route::Leads, json!({"name": "Quetzal After"}));
    let said = || place.log().matches("the search index is whole again").count();
    wait_until("the index is whole again", || said() == 1).await;
    assert!(daemon.is_running(), "{}", place.log());
    assert_eq!(place.log().matches("the search index is damaged").count(), 1, "{}", place.log());
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

    // A search that meets the damage first has it made again.
    damage(&place, WORDS);
    let refused = place.run(["find", "quetzal"]).await;
    assert!(refused.code == Some(75) && refused.err.contains("shopmirror rebuild"), "{refused:?}");
    let status = place.status().await.to_string();
    assert!(status.contains("the search index is damaged, and only searches"), "{status}");
    let daemon = place.started().await;
    wait_until("the index is whole again", || said() == 2).await;
    assert_eq!(place.run(["find", "quetzal"]).await.out.matches("Quetzal").count(), 2);
    daemon.stop().await;
}
