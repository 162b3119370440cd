//! The demo: one command shows everything at work.

use sandbox::Route;

use crate::support::{Place, wait_until};

#[tokio::test]
async fn the_demo_fills_all_six_tables_and_delivers_every_change() {
    let place = Place::new("https://unused.example.com/api", "unused");
    let dir = place.path("shop");
    let ended = place.run(["demo", "--for", "10s", "--dir", dir.to_str().unwrap()]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let at = |name: &str| format!("{}/{name}", dir.display());
    assert!(ended.out.starts_with("status page   http://127.0.0.1:"), "{}", ended.out);
    // The commands that it prints work as they are, wherever the program is.
    let command =
        format!("{} --config {} status", env!("CARGO_BIN_EXE_shopmirror"), at("config.toml"));
    for shown in [at("mirror.db"), at("audit.ndjson"), command, "gaps       0".to_owned()] {
        assert!(ended.out.contains(&shown), "{shown}: {}", ended.out);
    }
    let store = rusqlite::Connection::open(dir.join("mirror.db")).unwrap();
    let number = |sql: &str| store.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    for route in Route::ALL {
        let table = route.segment().replace('-', "_");
        assert!(number(&format!("SELECT count(*) FROM \"{table}\"")) > 0, "{table}");
    }
    let last = number("SELECT max(seq) FROM changes");
    let lines = std::fs::read_to_string(dir.join("audit.ndjson")).unwrap().lines().count();
    assert_eq!(i64::try_from(lines).unwrap(), last);
    assert!(number("SELECT delivered FROM sinks WHERE name = 'hook'") > 0);
}

#[tokio::test]
async fn the_demo_can_be_read_while_it_runs() {
    let place = Place::new("https://unused.example.com/api", "unused");
    let dir = place.path("shop");
    let dir = dir.to_str().unwrap();
    let demo = place.run(["demo", "--for", "6s", "--dir", dir]);
    let looking = async {
        let store = place.path("shop/mirror.db");
        wait_until("there is a store", || store.exists()).await;
        let config = format!("{dir}/config.toml");
        let mut found = serde_json::Value::Null;
        while found.as_array().is_none_or(Vec::is_empty) {
            let listed = place.run(["--config", &config, "records", "leads", "--json"]).await;
            found = if listed.code == Some(0) { listed.json() } else { found };
        }
        found
    };
    let (_, found) = tokio::join!(demo, looking);
    assert!(found[0]["status_stage"].is_string(), "{found}");
}
