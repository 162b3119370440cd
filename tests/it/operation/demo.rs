//! The demo: one command shows everything at work.

use std::path::Path;

use rustix::process::Signal;
use sandbox::Route;

use crate::support::{Place, wait_until};

/// True if every table has rows and the sink has got a change.
fn is_complete(dir: &Path) -> bool {
    let store = dir.join("mirror.db");
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let Ok(store) = rusqlite::Connection::open_with_flags(store, flags) else {
        return false;
    };
    let tables = Route::ALL.map(|route| route.segment().replace('-', "_"));
    let counts = tables.map(|table| format!("SELECT count(*) FROM \"{table}\""));
    let delivered =
        ["audit", "hook"].map(|sink| format!("SELECT delivered FROM _sinks WHERE name = '{sink}'"));
    let number = |sql: String| {
        store
            .query_row(&sql, [], |row| row.get::<_, i64>(0))
            .unwrap_or(0)
    };
    counts
        .into_iter()
        .chain(delivered)
        .all(|sql| number(sql) > 0)
}

/// Removes the folder, which the demo keeps.
struct Removed<'d>(&'d Path);

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0);
    }
}

#[tokio::test]
async fn the_demo_fills_all_six_tables_and_delivers_and_its_commands_work() {
    let place = Place::new("https://unused.example.com/api", "unused");
    let demo = place.follow(["demo"]);
    let is_told = || {
        demo.lines()
            .iter()
            .any(|line| line.ends_with("log --follow"))
    };
    wait_until("it says where everything is", is_told).await;
    let lines = demo.lines();
    let store = lines
        .iter()
        .find_map(|line| line.strip_prefix("database        "))
        .unwrap();
    let dir = Path::new(store).parent().unwrap();
    let _removed = Removed(dir);
    let at = |name: &str| format!("{}/{name}", dir.display());
    wait_until("everything is there", || is_complete(dir)).await;
    let listed = place
        .run([
            "--config",
            &at("shopmirror.toml"),
            "records",
            "leads",
            "--json",
        ])
        .await
        .json();
    assert!(listed[0]["record"]["status_stage"].is_string(), "{listed}");
    let config = at("shopmirror.toml");
    let gaps = place
        .run(["--config", &config, "gaps", "--json"])
        .await
        .json();
    assert_eq!(gaps[0]["state"], "accepted", "{gaps}");
    assert!(gaps[0]["note"].is_string() && gaps[1].is_null(), "{gaps}");
    demo.signal(Signal::INT);
    let (code, said) = demo.ended().await;
    let out = std::fs::read_to_string(place.path("followed")).unwrap();
    assert!(out.starts_with("status page   "), "{out}");
    // The commands that it prints work as they are, wherever the program is.
    let command = format!(
        "{} --config {} status",
        env!("CARGO_BIN_EXE_shopmirror"),
        at("shopmirror.toml")
    );
    for shown in [
        at("mirror.db"),
        at("audit.ndjson"),
        command,
        "The folder is kept: ".to_owned(),
    ] {
        assert!(out.contains(&shown), "{shown}: {out}");
    }
    assert_eq!(code, Some(0), "{said}");
}
