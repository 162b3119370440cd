//! Removing one record's data from the store for good, as a privacy request demands.
//!
//! What stays is a tombstone: the record's id, its versions and their event ids, so that no event
//! id is ever used twice, and that it was forgotten, so that no page stores the record again. Sinks
//! that ask for `forgotten` get a change; they must remove their copies themselves.

use std::path::Path;

use rusqlite::{Connection, Transaction, named_params};
use shopmirror_core::record::{Change, Kind, Route, field_text};

use crate::store::error::StoreError;
use crate::store::identity::Identities;
use crate::store::log::{self, NewChange};
use crate::store::maintenance::{self, restore};
use crate::store::mirror::field_rules::FieldRules;
use crate::store::mirror::{Mirror, job_states, reread};
use crate::store::open::{self, write_tx};
use crate::store::operator::Operator;
use crate::store::outbox::queue;
use crate::store::search_index;
use crate::store::sightings;
use crate::store::sql::Sql;
use crate::store::withheld;

/// The text of a waiting alert, in the place of one that may have quoted the record.
const REMOVED: &str =
    "the details were removed together with a forgotten record; see `shopmirror status`";

/// The result of forgetting a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forgotten {
    /// Neither the mirror nor the log has the record.
    Unknown,
    /// It was forgotten before.
    Before,
    /// Its data is removed.
    Now {
        /// Versions whose text was removed from the log.
        versions: usize,
    },
}

impl Operator {
    /// Removes the data of records from the mirror and from every version in the log, beside a
    /// running daemon or without one. If one of them is unknown, nothing is changed.
    /// [`Self::purge`] has to follow.
    pub fn forget_records(
        &mut self,
        records: &[(Route, String)],
        at: &str,
    ) -> Result<Vec<Forgotten>, StoreError> {
        // What is deleted is overwritten with zeros, not only left to be reused.
        self.connection
            .execute_batch("PRAGMA secure_delete = ON;")?;
        let tx = self.write_tx()?;
        let mut forgotten = Vec::with_capacity(records.len());
        let mut is_removed = false;
        for (route, id) in records {
            let outcome = remove(&tx, *route, id, at)?;
            is_removed |= matches!(outcome, Forgotten::Now { .. });
            forgotten.push(outcome);
        }
        if forgotten.contains(&Forgotten::Unknown) {
            return Ok(forgotten);
        }
        if is_removed {
            remove_quotes(&tx)?;
        }
        tx.commit()?;
        Ok(forgotten)
    }

    /// Deletes the search index and what a killed restore left, writes the whole file again and
    /// empties the write-ahead log; returns whether the log is empty. If a program reads the store,
    /// the log keeps a copy until the daemon empties it.
    ///
    /// SQLite copies rows when it divides a page, and what was copied stays in the old page, beyond
    /// the reach of `secure_delete`: only a file that is written again holds no word of a forgotten
    /// record. On a large store it takes seconds, and as much room as the store beside it and in
    /// the folder for temporary files.
    ///
    /// # Errors
    /// The files may still hold words of the records.
    pub fn purge(&mut self) -> Result<bool, StoreError> {
        // All are tried, even if one of them fails.
        let deleted = search_index::remove(&self.path);
        let leftovers_removed = restore::remove_unused_leftovers(&self.path);
        let rewritten = self.connection.execute_batch("VACUUM");
        let is_cut = maintenance::cut_wal(&self.connection);
        deleted?;
        leftovers_removed?;
        rewritten?;
        is_cut
    }
}

/// Removes a record's data in the caller's transaction and adds the change for the sinks. If the
/// record was there, the caller removes what quotes it, once, by [`remove_quotes`].
fn remove(tx: &Transaction<'_>, route: Route, id: &str, at: &str) -> Result<Forgotten, StoreError> {
    let Some(newest) = log::latest_version(tx, route, id)? else {
        return Ok(Forgotten::Unknown);
    };
    if newest.kind == Kind::Forgotten {
        return Ok(Forgotten::Before);
    }
    let tombstone = format!(
        "{{\"id\":{}}}",
        field_text(&newest.body, "id").unwrap_or("null")
    );
    let jobs = Mirror::load(tx, route)?.jobs_of(tx, id)?;
    tx.execute(&format!("DELETE FROM \"{route}\" WHERE id = ?"), [id])?;
    job_states::refresh(tx, &jobs)?;
    let mut rules = FieldRules::load(tx, route)?;
    if !sightings::is_imported(tx, route, id)? {
        rules.unlearn(Some(&newest.body));
    }
    if rules.judge(newest.seq) {
        reread::begin(tx, route)?;
    }
    rules.save(tx)?;
    sightings::forget(tx, route, id)?;
    withheld::remove(tx, route, id)?;
    let versions = tx.execute(
        ERASE,
        named_params! { ":route": route.as_str(), ":id": id, ":tombstone": tombstone },
    )?;
    queue::skip_record(tx, route.as_str(), id, at)?;
    let change = NewChange {
        route,
        record_id: id,
        kind: Kind::Forgotten,
        version: newest.version + 1,
        observed_at: at,
        business: newest.business.as_deref(),
        body: &tombstone,
    };
    let identities = Identities::read(tx)?;
    log::append(tx, identities.for_next(Some(newest.seq)), &change)?;
    Ok(Forgotten::Now { versions })
}

/// Leaves the tombstone in every version of a record.
const ERASE: &str = "
    UPDATE changes
    SET body = :tombstone
    WHERE route = :route AND record_id = :id";

/// A report that waits for its sink may name the record; the next one does not.
const REMOVE_REPORTS: &str = "
    DELETE FROM _queue
    WHERE lane = 0
        AND seq IN (SELECT id FROM _notices WHERE kind = 'report')";

const CLEAR_QUEUE: &str = "UPDATE _queue SET last_error = NULL, last_error_quotation = NULL";
const CLEAR_SINKS: &str = "UPDATE _sinks SET last_error = NULL, last_error_quotation = NULL";

/// An alert that waits may quote the record.
const CLEAR_ALERTS: &str = "
    UPDATE _notices
    SET body = json_set(body, '$.text', :text, '$.reasons', json_array())
    WHERE kind = 'alert'
        AND json_extract(body, '$.state') = 'begun'";

/// Removes the texts of records that tables beside the mirror and the log hold, whichever record
/// they quote: errors and alerts with the response of a receiver, waiting reports, and the search
/// terms of a backfill.
fn remove_quotes(tx: &Transaction<'_>) -> rusqlite::Result<()> {
    tx.execute(REMOVE_REPORTS, [])?;
    tx.execute(CLEAR_QUEUE, [])?;
    tx.execute(CLEAR_ALERTS, named_params! { ":text": REMOVED })?;
    tx.execute("UPDATE _replays SET last_error = NULL", [])?;
    tx.execute(CLEAR_SINKS, [])?;
    // They are beginnings of names. A later backfill searches all of them again.
    tx.execute("DELETE FROM _backfill_terms", [])?;
    Ok(())
}

/// The tombstones of a store, which a backup made before a `forget` lacks; `None` if the store
/// cannot be read.
pub(in crate::store) fn tombstones(store: &Path) -> Option<Vec<Change>> {
    let sql = format!("{} WHERE c.kind = 'forgotten' ORDER BY c.seq", log::SELECT);
    let connection = open::open_reader(store).ok()?;
    connection.rows(&sql, []).ok()
}

/// Forgets these records in a copy of an older store that no other process has open; returns how
/// many of them it still held. The copy has the schema of this program; the caller syncs the file.
pub(in crate::store) fn forget_again(
    connection: &mut Connection,
    tombstones: &[Change],
) -> Result<usize, StoreError> {
    if tombstones.is_empty() {
        return Ok(0);
    }
    connection.execute_batch("PRAGMA secure_delete = ON;")?;
    let tx = write_tx(connection)?;
    let mut held = 0;
    for Change {
        route,
        record_id,
        observed_at,
        business,
        body,
        ..
    } in tombstones
    {
        let id = record_id.as_deref().unwrap_or_default();
        match remove(&tx, *route, id, observed_at)? {
            Forgotten::Now { .. } => held += 1,
            Forgotten::Before => {}
            // It is younger than the backup. Only a row of the log keeps the next page from storing
            // it again.
            Forgotten::Unknown => {
                let tombstone = NewChange {
                    route: *route,
                    record_id: id,
                    kind: Kind::Forgotten,
                    version: 1,
                    observed_at,
                    business: business.as_deref(),
                    body,
                };
                log::append(&tx, Identities::read(&tx)?.first(), &tombstone)?;
            }
        }
    }
    if held > 0 {
        remove_quotes(&tx)?;
    }
    tx.commit()?;
    if held > 0 {
        connection.execute_batch("VACUUM")?;
    }
    Ok(held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::fixtures::{self, Poll, open, record};
    use crate::store::{Store, rebuild};

    /// Whether any file of the store holds the text.
    fn is_on_disk(folder: &Path, text: &str) -> bool {
        std::fs::read_dir(folder).unwrap().any(|file| {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            bytes
                .windows(text.len())
                .any(|window| window == text.as_bytes())
        })
    }

    #[tokio::test]
    async fn a_search_index_that_cannot_be_deleted_keeps_no_word_in_the_store() {
        let (dir, store) = open();
        Poll::USUAL
            .shows(&store, &[record(1, "Quetzal Private")])
            .await;
        store.close().await.unwrap();
        Store::open(&dir.path().join("search.db"))
            .unwrap()
            .close()
            .await
            .unwrap();
        let mut operator = Operator::open(&dir.path().join("mirror.db")).unwrap();
        operator
            .forget_records(&[(Route::Leads, "1".to_owned())], "2026")
            .unwrap();
        assert!(operator.purge().is_err());
        assert!(!is_on_disk(dir.path(), "Quetzal"));
    }

    #[tokio::test]
    async fn a_forgotten_record_leaves_a_tombstone_and_is_never_stored_again() {
        let (dir, store) = open();
        let path = dir.path().join("mirror.db");
        Poll::USUAL
            .shows(&store, &[record(1, "Quetzal Private"), record(2, "N")])
            .await;
        Poll::USUAL
            .shows(&store, &[record(1, "Quetzal Renamed"), record(2, "N")])
            .await;
        let before = store
            .read(|reader| reader.history(Route::Leads, "1"))
            .await
            .unwrap()
            .changes;
        store.close().await.unwrap();
        drop(store);
        let tool = rusqlite::Connection::open(&path).unwrap();
        tool.execute_batch(
            "INSERT INTO _sinks (name, type, state, position, delivered, created_at, last_error,
               last_error_quotation)
               VALUES ('erp', 'webhook', 'active', 0, 0, '2026', 'down', 'down for Quetzal');
             INSERT INTO _notices (id, event_id, kind, about, version, made_at, body)
               VALUES (1, 'r', 'report', 'late', 1, '2026', 'Quetzal owes 3');
             INSERT INTO _queue (sink, lane, seq, route, record_id, since)
               VALUES ('ops', 0, 1, '', 'late', '2026');
             INSERT INTO _backfill_terms (business, term, returned, asked_at)
               VALUES ('', 'Quetzal', 1, '2026');",
        )
        .unwrap();
        drop(tool);
        assert!(is_on_disk(dir.path(), "Quetzal"));

        let mut operator = Operator::open(&path).unwrap();
        assert_eq!(
            fixtures::forget(&mut operator, "9", "2026"),
            Forgotten::Unknown
        );
        let now = fixtures::forget(&mut operator, "1", "2026");
        assert_eq!(now, Forgotten::Now { versions: 2 });
        assert_eq!(
            fixtures::forget(&mut operator, "1", "2026"),
            Forgotten::Before
        );
        drop(operator);
        assert!(!is_on_disk(dir.path(), "Quetzal"));

        let store = Store::open(&path).unwrap();
        for name in ["Quetzal Renamed", "Quetzal Else"] {
            let outcome = Poll::USUAL
                .shows(&store, &[record(1, name), record(2, "N")])
                .await;
            assert_eq!((outcome.created, outcome.updated), (0, 0), "{name}");
        }
        let after = store
            .read(|reader| reader.history(Route::Leads, "1"))
            .await
            .unwrap()
            .changes;
        assert_eq!(
            after
                .iter()
                .map(|change| change.version)
                .collect::<Vec<_>>(),
            [1, 2, 3]
        );
        assert_eq!(after[2].kind, Kind::Forgotten);
        let ids = |changes: &[shopmirror_core::record::Change]| -> Vec<String> {
            changes
                .iter()
                .take(2)
                .map(|change| change.event_id.clone())
                .collect()
        };
        assert_eq!(ids(&after), ids(&before));
        assert!(after.iter().all(|change| change.body == r#"{"id":1}"#));
        assert_eq!(
            store
                .read(|reader| reader.record(Route::Leads, "1"))
                .await
                .unwrap(),
            None
        );
        let counts = store.read(|reader| reader.counts()).await.unwrap();
        assert!(counts.contains(&(Route::Leads, 1)), "{counts:?}");
        store.close().await.unwrap();
        drop(store);
        assert!(!is_on_disk(dir.path(), "Quetzal"));
        let rebuilt = rebuild(&path, jiff::Timestamp::UNIX_EPOCH, &mut |_, _| ()).unwrap();
        assert_eq!(rebuilt.records, 1);
    }
}
