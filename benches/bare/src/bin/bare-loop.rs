//! The least that polling costs in Rust: one connection, one table, each record once.
//!
//!     bare-loop HOST KEY DATABASE ROUTES POLLS PAUSE_MS
//!
//! It keeps no log, notices no edit and does not check for gaps, like `loop.py`.

use std::time::Duration;

use anyhow::{Result, bail};
use bare::Connection;
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [host, key, database, routes, polls, pause_ms] = arguments.as_slice() else {
        bail!("bare-loop HOST KEY DATABASE ROUTES POLLS PAUSE_MS");
    };
    let pause = Duration::from_millis(pause_ms.parse()?);
    let store = rusqlite::Connection::open(database)?;
    store.execute_batch(
        "PRAGMA journal_mode = WAL;
         PRAGMA synchronous = FULL;
         CREATE TABLE IF NOT EXISTS records (route TEXT, id TEXT, body TEXT, PRIMARY KEY (route, id));",
    )?;
    let mut insert = store.prepare("INSERT OR IGNORE INTO records VALUES (?, ?, ?)")?;
    let mut workspace = Connection::open(host).await?;
    for _ in 0..polls.parse()? {
        for route in routes.split(',') {
            let path = format!("/api/automation/triggers/{route}?limit=100");
            let page = workspace.get(&path, key).await?;
            let texts: Vec<&RawValue> = serde_json::from_slice(&page)?;
            store.execute_batch("BEGIN IMMEDIATE")?;
            for text in texts {
                let record: Record = serde_json::from_str(text.get())?;
                insert.execute((route, record.id.get(), text.get()))?;
            }
            store.execute_batch("COMMIT")?;
        }
        tokio::time::sleep(pause).await;
    }
    Ok(())
}
