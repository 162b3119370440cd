//! The search index: it can be deleted at any time, nothing else depends on it, and it forgets.

use std::fs;

use sandbox::Route;
use serde_json::json;

use crate::support::{LIMIT_S, Place, Workspace, look_again};

/// The ids that `find` prints once it needs no note and no error.
async fn found(place: &Place, term: &str) -> Vec<String> {
    let begun = std::time::Instant::now();
    loop {
        let ended = place.run(["find", term, "--json"]).await;
        if ended.code == Some(0) && ended.err.is_empty() {
            let rows = ended.json();
            let ids = rows
                .as_array()
                .unwrap()
                .iter()
                .map(|row| row["id"].as_str().unwrap());
            return ids.map(str::to_owned).collect();
        }
        assert_eq!(ended.out.is_empty(), ended.code == Some(75), "{ended:?}");
        assert!(
            begun.elapsed().as_secs() < LIMIT_S,
            "{ended:?}\n{}",
            place.log()
        );
        look_again(begun, 60).await;
    }
}

/// The files of the store and of the index that hold a part of a word.
fn files_with(place: &Place, part: &[u8]) -> Vec<String> {
    let names = [
        "mirror.db",
        "mirror.db-wal",
        "search.db",
        "search.db-journal",
    ];
    let holds = |name: &&str| {
        let bytes = fs::read(place.path(name))
            .unwrap_or_default()
            .to_ascii_lowercase();
        bytes.windows(part.len()).any(|window| window == part)
    };
    names.into_iter().filter(holds).map(str::to_owned).collect()
}

#[tokio::test]
async fn every_command_that_changes_the_store_without_a_daemon_leaves_a_whole_search_index() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let id = workspace.add(Route::Leads, json!({"name": "Quetzal One"}));
    let other = workspace.add(Route::Leads, json!({"name": "Other"}));
    let find = async |what: &str| {
        let ended = place.run(["find", "quetzal", "--json"]).await;
        assert_eq!(
            (ended.code, ended.err.as_str()),
            (Some(0), ""),
            "after {what}: {ended:?}"
        );
        ended.json()[0]["id"].as_str().unwrap().to_owned()
    };
    assert_eq!(place.run(["once"]).await.code, Some(0));
    assert_eq!(find("once").await, id);
    let refused = place.run(["backup", "search.db", "--replace"]).await;
    assert_eq!(refused.code, Some(64), "{refused:?}");
    assert_eq!(place.run(["backup", "copy.db"]).await.code, Some(0));

    fs::remove_file(place.path("search.db")).unwrap();
    let none = place.run(["find", "quetzal"]).await;
    assert_eq!(none.code, Some(75), "{none:?}");
    assert!(
        none.err.contains("run `shopmirror verify --rebuild`"),
        "{none:?}"
    );
    for command in [
        &["verify", "--rebuild"][..],
        &["forget", "leads", other.as_str()],
        &["restore", "copy.db"],
    ] {
        let ended = place.run(command).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(find(command[0]).await, id);
    }
}

#[tokio::test]
async fn a_forgotten_record_leaves_no_word_in_the_store_and_its_search_index_beside_the_daemon() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let kept = workspace.add(Route::Leads, json!({"name": "Quetzal Before"}));
    let gone = workspace.add(Route::Leads, json!({"name": "Xylophonist Before"}));
    let daemon = place.started().await;
    workspace.polled(Route::Leads).await;
    assert_eq!(found(&place, "xylophonist").await, [gone.as_str()]);
    workspace.edit(Route::Leads, &kept, json!({"name": "Quetzal After"}));
    workspace.edit(Route::Leads, &gone, json!({"name": "Xylophonist After"}));
    workspace.polled(Route::Leads).await;
    assert_eq!(found(&place, "xylophonist after").await, [gone.as_str()]);
    assert!(files_with(&place, b"lophonis").contains(&"search.db".to_owned()));
    let forgotten = place.run(["forget", "leads", &gone]).await;
    assert_eq!(forgotten.code, Some(0), "{forgotten:?}");
    assert_eq!(files_with(&place, b"lophonis"), [""; 0]);
    assert!(found(&place, "xylophonist").await.is_empty());
    assert_eq!(found(&place, "quetzal").await, [kept]);
    daemon.stop().await;
    assert_eq!(files_with(&place, b"lophonis"), [""; 0]);
}
