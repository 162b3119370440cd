//! Opens databases with the SQLite that the product is built with, and prints what they hold.
//!
//! `benches/power` starts it and writes the path of one database per line. For each it prints one
//! line of JSON: what `PRAGMA integrity_check` says, the log, the positions of the sinks, the
//! deliveries that are parked, and how often the store was restored.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn Error>> {
    // `cargo bench` starts every bench program with options.
    if std::env::args().nth(1).as_deref() != Some("paths") {
        println!("inspect is started by benches/power");
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    for path in std::io::stdin().lines() {
        let found = inspect(&path?).unwrap_or_else(|error| json!({"error": error.to_string()}));
        writeln!(out, "{found}")?;
        out.flush()?;
    }
    Ok(())
}

fn inspect(path: &str) -> rusqlite::Result<Value> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let store = Connection::open_with_flags(path, flags)?;
    let text = |sql: &str| store.query_row(sql, [], |row| row.get::<_, String>(0));
    let number = |sql: &str| store.query_row(sql, [], |row| row.get::<_, i64>(0));
    let integrity = text("PRAGMA integrity_check")?;
    if number("SELECT count(*) FROM sqlite_schema WHERE name = 'changes'")? == 0 {
        return Ok(json!({"integrity": integrity, "has_log": false}));
    }
    let mut statement = store
        .prepare("SELECT seq, event_id, route, kind, version, body FROM changes ORDER BY seq")?;
    let rows = statement.query_map([], |row| {
        Ok(json!([
            row.get::<_, i64>(0)?,
            row.get::<_, String>(1)?,
            row.get::<_, String>(2)?,
            row.get::<_, String>(3)?,
            row.get::<_, i64>(4)?,
            row.get::<_, String>(5)?,
        ]))
    })?;
    let log = rows.collect::<rusqlite::Result<Vec<Value>>>()?;
    let mut statement = store.prepare("SELECT name, position FROM sinks")?;
    let positions = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let positions = positions.collect::<rusqlite::Result<BTreeMap<String, i64>>>()?;
    let mut statement = store.prepare("SELECT seq FROM deliveries WHERE sink = 'hook'")?;
    let parked =
        statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()?;
    let restored = number("SELECT count(*) FROM meta WHERE name GLOB 'identity_after_*'")?;
    Ok(json!({
        "integrity": integrity, "has_log": true, "log": log, "positions": positions,
        "parked": parked, "restored": restored,
    }))
}
