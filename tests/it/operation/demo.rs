//! The demo: one command shows everything at work.

use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::process::Signal;
use sandbox::Route;

use crate::support::{Ended, LIMIT_S, Place, look_again, wait_until};

/// Runs the demo for this time in a folder of its own.
async fn run_for(place: &Place, time: &str) -> (PathBuf, Ended) {
    let dir = place.path(&format!("shop-{time}"));
    let ended = place.run(["demo", "--for", time, "--dir", dir.to_str().unwrap()]).await;
    (dir, ended)
}

/// What was neither mirrored nor delivered in the time of the demo.
fn lacking(dir: &Path) -> Option<String> {
    let store = rusqlite::Connection::open(dir.join("mirror.db")).unwrap();
    let tables = Route::ALL.map(|route| route.segment().replace('-', "_"));
    let counts = tables.map(|table| format!("SELECT count(*) FROM \"{table}\""));
    let delivered = "SELECT delivered FROM sinks WHERE name = 'hook'".to_owned();
    let none =
        |sql: &String| store.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap_or(0) == 0;
    counts.into_iter().chain([delivered]).find(none)
}

#[tokio::test]
async fn the_demo_fills_all_six_tables_and_delivers_every_change() {
    let place = Place::new("https://unused.example.com/api", "unused");
    let (mut dir, mut ended) = run_for(&place, "10s").await;
    // A busy machine needs longer until everything is there; the demo says so, and with which code.
    for time in ["40s", "160s"] {
        if ended.code != Some(69) && lacking(&dir).is_none() {
            break;
        }
        (dir, ended) = run_for(&place, time).await;
    }
    assert_eq!((ended.code, lacking(&dir)), (Some(0), None), "{ended:?}");
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
    let last = number("SELECT max(seq) FROM changes");
    let lines = std::fs::read_to_string(dir.join("audit.ndjson")).unwrap().lines().count();
    assert_eq!(i64::try_from(lines).unwrap(), last);
}

#[tokio::test]
async fn the_demo_can_be_read_while_it_runs() {
    let place = Place::new("https://unused.example.com/api", "unused");
    let dir = place.path("shop");
    let dir = dir.to_str().unwrap();
    let demo = place.follow(["demo", "--dir", dir]);
    let store = place.path("shop/mirror.db");
    wait_until("there is a store", || store.exists()).await;
    let config = format!("{dir}/config.toml");
    let begun = Instant::now();
    let found = loop {
        let listed = place.run(["--config", &config, "records", "leads", "--json"]).await;
        if listed.code == Some(0) && !listed.json().as_array().unwrap().is_empty() {
            break listed.json();
        }
        assert!(begun.elapsed().as_secs() < LIMIT_S, "no lead is read: {listed:?}");
        look_again(begun, 20).await;
    };
    assert!(found[0]["status_stage"].is_string(), "{found}");
    // It was ended early, and may say that not everything was read.
    demo.signal(Signal::INT);
    let (code, said) = demo.ended().await;
    assert!(matches!(code, Some(0 | 69)), "{code:?}: {said}");
}
