//! The cheapest loop that does the same reads and writes: one thread, a blocking HTTP client, and one
//! row per new record.
//!
//! `benches/run` compares the daemon's CPU time per poll with this loop. It remembers the ids that
//! it has stored, so that an unchanged page writes nothing. It keeps no log, notices no edit, and
//! does not check for gaps. It imports nothing of ours.
//!
//!     blocking BASE_URL KEY DATABASE POLLS PAUSE_MS    polls one route, with a pause after each poll

use std::collections::HashSet;
use std::error::Error;
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};
use serde_json::Value;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let [base, key, database, polls, pause] = given[..] else {
        // `cargo bench` starts every bench program without what this one needs.
        println!("blocking is started by benches/run");
        return Ok(());
    };
    let mut database = Connection::open(database)?;
    database.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         CREATE TABLE IF NOT EXISTS jobs (id TEXT PRIMARY KEY, body TEXT NOT NULL);",
    )?;
    let agent = ureq::agent();
    let (url, key) =
        (format!("{base}/automation/triggers/jobs?limit=100"), format!("Bearer {key}"));
    let mut stored = HashSet::new();
    for _ in 0..polls.parse()? {
        let body =
            agent.get(&url).header("authorization", &key).call()?.body_mut().read_to_string()?;
        store(&mut database, &mut stored, &serde_json::from_str::<Vec<Value>>(&body)?)?;
        std::thread::sleep(Duration::from_millis(pause.parse()?));
    }
    Ok(())
}

fn store(
    database: &mut Connection,
    stored: &mut HashSet<String>,
    records: &[Value],
) -> Outcome<()> {
    let id = |record: &Value| record.get("id").map(Value::to_string).unwrap_or_default();
    let new: Vec<&Value> = records.iter().filter(|record| !stored.contains(&id(record))).collect();
    if new.is_empty() {
        return Ok(());
    }
    let tx = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut insert = tx.prepare_cached("INSERT OR REPLACE INTO jobs (id, body) VALUES (?1, ?2)")?;
    for record in new {
        insert.execute((id(record), record.to_string()))?;
        stored.insert(id(record));
    }
    drop(insert);
    tx.commit()?;
    Ok(())
}
