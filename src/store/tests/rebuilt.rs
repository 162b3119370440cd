//! A store that is made again equals the one that lived: random logs, retention included, and each
//! table and derived column of both.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

use fastrand::Rng;
use rusqlite::Connection;
use rusqlite::types::Value;
use serde_json::json;
use shopmirror_core::record::{Kind, PollerId, Route};

use crate::store::fixtures::{open, page};
use crate::store::sql::Sql;
use crate::store::{Operator, PollFacts, Reader, Search, Store, rebuild};

const NOW: jiff::Timestamp = jiff::Timestamp::UNIX_EPOCH;
const STATUSES: [(&str, &str); 3] = [
    ("Open", "open"),
    ("Waits", "waiting"),
    ("Done", "completed"),
];

/// The values of a row by the names of its columns, whose order may differ.
type Cells = BTreeMap<String, Value>;

fn rows(connection: &Connection, table: &str) -> Vec<Cells> {
    let mut statement = connection
        .prepare(&format!("SELECT * FROM {table}"))
        .unwrap();
    let mut names = Vec::new();
    for name in statement.column_names() {
        names.push(name.to_owned());
    }
    let mut found = statement.query([]).unwrap();
    let mut rows = Vec::new();
    while let Some(row) = found.next().unwrap() {
        let mut cells = Cells::new();
        for (place, name) in names.iter().enumerate() {
            cells.insert(name.clone(), row.get(place).unwrap());
        }
        rows.push(cells);
    }
    rows.sort_by_key(|cells| format!("{cells:?}"));
    rows
}

/// Each table that is made from others or copied.
fn tables(path: &Path) -> Vec<(String, Vec<Cells>)> {
    let connection = Connection::open(path).unwrap();
    let mut names: Vec<String> = connection
        .values(
            "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name",
            [],
        )
        .unwrap();
    // What is read again at the next chance, and what SQLite keeps for itself.
    names.retain(|name| name != "_rereads" && !name.starts_with("sqlite_stat"));
    let mut tables = Vec::new();
    for name in names {
        let rows = rows(&connection, &name);
        tables.push((name, rows));
    }
    tables
}

fn assert_sound(path: &Path, when: &str) {
    let findings = Reader::open(path).unwrap().verify(&mut |_, _| ()).unwrap();
    for finding in findings {
        assert!(finding.ok, "{when}: {finding:?}");
    }
}

/// A shop whose records change at random.
struct Shop {
    store: Store,
    second: i64,
    rng: Rng,
    /// The records as they were shown last; none for one that was removed.
    shown: HashMap<(Route, i64), String>,
    /// The highest id of each list.
    highest: HashMap<Route, i64>,
}

impl Shop {
    fn new(store: Store, seed: u64) -> Self {
        Self {
            store,
            second: 0,
            rng: Rng::with_seed(seed),
            shown: HashMap::new(),
            highest: HashMap::new(),
        }
    }

    /// A record, which has seldom changed.
    fn record(&mut self, route: Route, id: i64) -> String {
        if let Some(shown) = self.shown.get(&(route, id))
            && (shown.is_empty() || self.rng.u8(..9) > 0)
        {
            return shown.clone();
        }
        let text = self.another_version(route, id);
        self.shown.insert((route, id), text.clone());
        text
    }

    fn another_version(&mut self, route: Route, id: i64) -> String {
        let rng = &mut self.rng;
        let (status, stage) = STATUSES[rng.usize(..3)];
        let job = rng.i64(1..12);
        let made = format!("2026-01-{:02}T0{}:00:00Z", 1 + id % 28, rng.u8(..2));
        let paid = rng.i64(0..3) * 10;
        match route {
            Route::Jobs => json!({
                "id": id,
                "status": status,
                "status_stage": stage,
                "created_at": made,
                "paid_amount": paid,
            })
            .to_string(),
            Route::JobStatusChanges => json!({
                "id": id,
                "job_id": job,
                "status": status,
                "status_stage": stage,
                "created_at": made,
            })
            .to_string(),
            Route::Payments => {
                format!(r#"{{"id":{id},"job_id":{job},"amount":{paid},"created_at":"{made}"}}"#)
            }
            _ if rng.bool() => format!(r#"{{"id":{id},"name":"{status}"}}"#),
            _ => format!(
                r#"{{"id":{id},"name":"{status}","field_{}":1}}"#,
                rng.u8(..3)
            ),
        }
    }

    fn facts(&self) -> PollFacts {
        PollFacts {
            at: jiff::Timestamp::from_second(1_800_000_000 + self.second).unwrap(),
            asked_after: self.store.seq(),
            limit: 9,
            page_age: Duration::ZERO,
            served_business: None,
        }
    }

    async fn poll(&mut self) {
        let routes = [
            Route::Jobs,
            Route::JobStatusChanges,
            Route::Payments,
            Route::Customers,
        ];
        let route = routes[self.rng.usize(..routes.len())];
        let highest = self.highest.entry(route).or_insert(7);
        *highest += self.rng.i64(0..2);
        let highest = *highest;
        if self.rng.u8(..5) == 0 {
            let removed = (route, highest - self.rng.i64(1..4));
            self.shown.insert(removed, String::new());
        }
        let mut shown = Vec::new();
        for id in (1..=highest).rev() {
            let text = self.record(route, id);
            if shown.len() < 9 && !text.is_empty() {
                shown.push(text);
            }
        }
        let business = (self.rng.u8(..12) == 0).then(|| "2".to_owned());
        let poller = PollerId { route, business };
        let facts = self.facts();
        self.store
            .store_page(poller, page(&shown), facts, None)
            .await
            .unwrap();
    }

    async fn search(&mut self) {
        let id = self.rng.i64(1..20);
        let found = self.record(Route::Customers, id);
        if found.is_empty() {
            return;
        }
        let facts = self.facts();
        let search = Search {
            business: None,
            page: page(&[found]),
            kind: Kind::Baseline,
            at: facts.at,
            asked_after: facts.asked_after,
            backfill_term: None,
        };
        self.store.store_found(search).await.unwrap();
    }

    /// Ten days pass, and old versions go.
    async fn prune(&mut self) {
        self.second += 10 * 86_400;
        let at = self.facts().at;
        for _ in 0..3 {
            let day = Duration::from_secs(86_400);
            self.store.upkeep(Some(at), day).await.unwrap();
        }
    }

    fn forget(&mut self, path: &Path) {
        let id = self.rng.i64(1..14).to_string();
        let mut operator = Operator::open(path).unwrap();
        operator
            .forget_records(&[(Route::Payments, id)], "2027")
            .unwrap();
    }
}

/// Lives, and is made again; returns how many jobs have their state from a status change, how many
/// records have vanished, and how many versions retention has removed.
async fn live(seed: u64) -> [i64; 3] {
    let (dir, store) = open();
    let path = dir.path().join("mirror.db");
    let mut shop = Shop::new(store, seed);
    for _ in 0..90 {
        shop.second += shop.rng.i64(1..200);
        match shop.rng.u8(..40) {
            0 => shop.prune().await,
            1 => shop.forget(&path),
            2..6 => shop.search().await,
            _ => shop.poll().await,
        }
    }
    while shop.store.reread_step().await.unwrap() {}
    shop.store.close().await.unwrap();
    drop(shop);
    assert_sound(&path, &format!("live, seed {seed}"));
    let lived = tables(&path);
    let rebuilt = rebuild(&path, NOW, &mut |_, _| ()).unwrap();
    assert_eq!(rebuilt.lost, [""; 0], "seed {seed}");
    assert_eq!(rebuilt.left_out, [""; 0], "seed {seed}");
    let made = tables(&path);
    for ((name, lived), (other, made)) in lived.iter().zip(&made) {
        assert_eq!(name, other, "seed {seed}");
        assert_eq!(lived.len(), made.len(), "seed {seed}: {name}");
        for (lived, made) in lived.iter().zip(made) {
            assert_eq!(lived, made, "seed {seed}: {name}");
        }
    }
    assert_eq!(lived.len(), made.len());
    assert_sound(&path, &format!("made again, seed {seed}"));
    let connection = Connection::open(&path).unwrap();
    [
        "SELECT count(*) FROM _job_states WHERE source = 'status change'",
        "SELECT count(*) FROM _sightings WHERE vanished_at IS NOT NULL",
        "SELECT max(seq) - count(*) FROM changes",
    ]
    .map(|sql| connection.value(sql, []).unwrap())
}

#[tokio::test]
async fn every_table_that_is_made_again_equals_the_one_that_lived() {
    // SHOPMIRROR_SEEDS=2000 tries that many.
    let seeds = std::env::var("SHOPMIRROR_SEEDS").map_or(8, |seeds| seeds.parse().unwrap());
    let mut met = [0; 3];
    for seed in 0..seeds {
        for (sum, number) in met.iter_mut().zip(live(seed).await) {
            *sum += number;
        }
    }
    assert!(met.iter().all(|&number| number > 0), "{met:?}");
}

#[tokio::test]
async fn a_status_change_that_contradicts_its_job_says_the_same_when_made_again() {
    let (dir, store) = open();
    let path = dir.path().join("mirror.db");
    let mut shop = Shop::new(store, 0);
    let job = json!({
        "id": 1,
        "status": "Open",
        "status_stage": "open",
        "created_at": "2026-01-01T00:00:00Z",
    });
    let done = json!({
        "id": 7,
        "job_id": 1,
        "status": "Done",
        "status_stage": "completed",
        "created_at": "2026-01-02T00:00:00Z",
    });
    for (route, text) in [
        (Route::Jobs, &job),
        (Route::JobStatusChanges, &done),
        // Unchanged, and later than the status change.
        (Route::Jobs, &job),
    ] {
        shop.second += 30;
        let poller = PollerId {
            route,
            business: None,
        };
        let facts = shop.facts();
        shop.store
            .store_page(poller, page(&[text.to_string()]), facts, None)
            .await
            .unwrap();
    }
    shop.store.close().await.unwrap();
    drop(shop);
    let state = || {
        let connection = Connection::open(&path).unwrap();
        rows(&connection, "_job_states").remove(0)
    };
    let lived = state();
    assert_eq!(lived["source"], Value::Text("status change".to_owned()));
    assert_ne!(lived["completed_at"], Value::Null);
    rebuild(&path, NOW, &mut |_, _| ()).unwrap();
    assert_eq!(state(), lived);
}

#[tokio::test]
async fn what_is_damaged_beside_the_log_is_found_and_made_again() {
    let (dir, store) = open();
    let path = dir.path().join("mirror.db");
    let mut shop = Shop::new(store, 3);
    for _ in 0..30 {
        shop.second += 60;
        shop.poll().await;
    }
    while shop.store.reread_step().await.unwrap() {}
    shop.store.close().await.unwrap();
    drop(shop);
    let lived = tables(&path);
    let of_a_job = "WHERE id = (SELECT min(id) FROM jobs)";
    for (damage, what, is_mended) in [
        (
            "UPDATE jobs SET _first_seen_at = '2020'",
            "mirror jobs",
            true,
        ),
        (
            "UPDATE jobs SET _last_seen_at = '2020'",
            "mirror jobs",
            true,
        ),
        ("UPDATE jobs SET _changed_at = '2020'", "mirror jobs", true),
        ("UPDATE jobs SET _via = 'search'", "mirror jobs", true),
        ("UPDATE jobs SET _business = '99'", "mirror jobs", true),
        ("UPDATE jobs SET _vanished_at = '2020'", "mirror jobs", true),
        ("UPDATE jobs SET _paid_amount = 7777", "mirror jobs", true),
        ("UPDATE _job_states SET source = 'none'", "jobs", true),
        ("DELETE FROM _job_states", "jobs", true),
        ("DROP TABLE _job_states", "tables", true),
        ("DROP TABLE payments", "mirror payments", true),
        (
            "DELETE FROM _sightings WHERE route = 'jobs'",
            "mirror jobs",
            false,
        ),
    ] {
        let tool = Connection::open(&path).unwrap();
        let damage = match damage {
            update if update.contains("SET _") => format!("{update} {of_a_job}"),
            other => other.to_owned(),
        };
        tool.execute_batch(&damage).unwrap();
        drop(tool);
        let findings = Reader::open(&path).unwrap().verify(&mut |_, _| ()).unwrap();
        let wrong = findings.iter().find(|finding| finding.what == what);
        assert!(
            wrong.is_some_and(|wrong| !wrong.ok),
            "{damage}: {findings:?}"
        );
        let rebuilt = rebuild(&path, NOW, &mut |_, _| ()).unwrap();
        std::fs::remove_file(rebuilt.kept.unwrap()).unwrap();
        assert_sound(&path, &damage);
        assert_eq!(
            rebuilt.lost.is_empty(),
            is_mended,
            "{damage}: {:?}",
            rebuilt.lost
        );
        if is_mended {
            assert!(tables(&path) == lived, "{damage}");
        } else {
            assert!(
                rebuilt.lost[0].contains("records were seen"),
                "{:?}",
                rebuilt.lost
            );
        }
    }
}
