//! The schema of the store: created in a new file, and brought up to date by numbered SQL files.
//!
//! A step and the new number are one transaction, so that a step that fails leaves the file as it
//! was.

use std::collections::HashSet;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::error::StoreError;
use super::mirror::{self, views};
use super::open::{self, APPLICATION_ID, Lock, SCHEMA, write_tx};
use super::place::StorePlace;
use super::sql::Sql;
use crate::store::maintenance::restore;

/// Numbered steps; `user_version` is the number of steps that a file has.
const STEPS: [&str; SCHEMA as usize] = [include_str!("migrations/0001_init.sql")];

/// Opens or creates the store of a place and brings its schema up to date. The time does not depend
/// on the size of the store. Writes nothing to a store of this version: a sync can take a second on
/// a busy disk, so the upkeep empties the log.
pub(super) fn open(place: &StorePlace) -> Result<(Connection, Lock), StoreError> {
    let (mut connection, mut lock) = open::open(place)?;
    restore::log_left(restore::remove_leftovers(&place.path, &lock));
    set_up(&mut connection)?;
    place.note_identity(&connection, &mut lock)?;
    Ok((connection, lock))
}

/// Opens the store of this process again, whose lock it has.
pub(super) fn reopen(path: &Path) -> Result<Connection, StoreError> {
    let mut connection = open::connect(path, open::LOCK_WAIT)?;
    set_up(&mut connection)?;
    Ok(connection)
}

fn set_up(connection: &mut Connection) -> Result<(), StoreError> {
    // Keeps -wal and -shm in place after a stop, which read-only users of other tools need.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL;
         PRAGMA synchronous = FULL;
         PRAGMA trusted_schema = OFF;
         PRAGMA cell_size_check = ON;
         PRAGMA wal_autocheckpoint = 0;
         PRAGMA secure_delete = FAST;
         PRAGMA journal_size_limit = 16777216;",
    )?;
    connection.set_prepared_statement_cache_capacity(256);
    bring_up_to_date(connection)?;
    if let Some(column) = missing_columns(connection)?.first() {
        return Err(StoreError::Altered(format!("there is no {column}")));
    }
    if let Some(table) = mirror::missing_table(connection)? {
        return Err(StoreError::Altered(format!("there is no table {table}")));
    }
    mirror::create_tables(connection)?;
    // Another version of the program may make other views of the same columns. Now and not before
    // the first write, which would keep every poll waiting.
    if !views::outdated(connection)?.is_empty() {
        let tx = write_tx(connection)?;
        views::refresh(&tx)?;
        tx.commit()?;
    }
    // Not before: the rows of a large index are then sorted in a file and not all in memory.
    connection.execute_batch("PRAGMA temp_store = MEMORY;")?;
    Ok(())
}

/// The columns of our own tables that are not there, as `TABLE.COLUMN`: another program altered them.
pub(super) fn missing_columns(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql = "
        SELECT t.name || '.' || c.name
        FROM sqlite_schema t
        JOIN pragma_table_info(t.name) c
        WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite!_%' ESCAPE '!'";
    let mut fresh = Connection::open_in_memory()?;
    bring_up_to_date(&mut fresh)?;
    let mut missing: Vec<String> = fresh.values(sql, [])?;
    let found: HashSet<String> = connection.values::<String>(sql, [])?.into_iter().collect();
    missing.retain(|column| !found.contains(column));
    Ok(missing)
}

/// Brings a store that no other process has open to the schema of this program.
pub(super) fn bring_up_to_date(connection: &mut Connection) -> rusqlite::Result<()> {
    migrate(connection, &STEPS)
}

fn migrate(connection: &mut Connection, steps: &[&str]) -> rusqlite::Result<()> {
    let newest = i64::try_from(steps.len()).expect("a handful of steps");
    let from: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if from == newest {
        return Ok(());
    }
    let tx = write_tx(connection)?;
    for (number, step) in (1_i64..).zip(steps) {
        if number > from {
            tx.execute_batch(step)?;
        }
    }
    if from == 0 {
        tx.execute(
            "INSERT INTO _meta (name, value)
            VALUES ('identity', lower(hex(randomblob(16))))",
            [],
        )?;
    }
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.pragma_update(None, "user_version", newest)?;
    tx.commit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Reader;
    use crate::store::fixtures::{self, Poll};

    #[tokio::test]
    async fn a_later_step_keeps_what_is_stored_and_a_step_that_fails_changes_nothing() {
        let (dir, store) = fixtures::open();
        Poll::USUAL.shows(&store, &fixtures::records(1..=3)).await;
        store.close().await.unwrap();
        let path = dir.path().join("mirror.db");
        let mut tool = Connection::open(&path).unwrap();
        let version = |tool: &Connection| -> i64 {
            tool.query_row("PRAGMA user_version", [], |row| row.get(0))
                .unwrap()
        };
        let damaged = "ALTER TABLE gaps ADD COLUMN cause TEXT; ALTER TABLE none ADD COLUMN a;";
        migrate(&mut tool, &[STEPS[0], damaged]).unwrap_err();
        assert_eq!(version(&tool), 1);
        tool.prepare("SELECT cause FROM gaps").unwrap_err();

        migrate(
            &mut tool,
            &[STEPS[0], "ALTER TABLE gaps ADD COLUMN cause TEXT;"],
        )
        .unwrap();
        assert_eq!(version(&tool), 2);
        tool.prepare("SELECT cause FROM gaps").unwrap();
        let leads: i64 = tool
            .query_row("SELECT count(*) FROM leads", [], |row| row.get(0))
            .unwrap();
        assert_eq!(leads, 3);
        let newer = Reader::open(&path).unwrap_err();
        assert!(
            matches!(
                newer,
                StoreError::Newer {
                    found: 2,
                    known: 1,
                    ..
                }
            ),
            "{newer}"
        );
    }
}
