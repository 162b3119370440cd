//! The maintenance of the store: upkeep in bounded steps (checkpoints whose result is read, and
//! retention); and in the folder, what a person or the schedule asks for: backup, restore, checks,
//! `forget`, and rebuilding the mirror.

#[cfg(feature = "s3")]
pub(super) mod archive;
pub(super) mod backup;
pub(super) mod backup_folder;
pub(super) mod forget;
#[cfg(feature = "s3")]
pub(super) mod offsite;
pub(super) mod rebuild;
pub(super) mod restore;
mod salvage;
pub(super) mod verify;

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, named_params};
use shopmirror_core::clock::stamp;

use crate::store::error::StoreError;
use crate::store::handle::Store;
use crate::store::log;
use crate::store::sql::Sql;
use crate::store::writer::Writer;

/// Rows of the log that one step of retention checks.
const PRUNE_SPAN: i64 = 2_000;
/// After this many rounds of upkeep, half a minute each, the times at which each route was read are
/// written.
const READING_TIMES_EVERY: u64 = 2;
/// Past this size the write-ahead log is cut, not only copied.
const WAL_TARGET: u64 = 16 * 1024 * 1024;

/// What one round of upkeep found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upkeep {
    /// Size of the write-ahead log in bytes.
    pub wal_bytes: u64,
    /// Whether a reader kept the checkpoint from finishing.
    pub reader_in_the_way: bool,
    /// Rows that retention deleted.
    pub pruned: usize,
}

impl Store {
    /// Writes a few pages of random bytes, to find out whether the disk takes them.
    ///
    /// # Errors
    /// [`StoreError::Full`] as long as it does not.
    pub async fn try_write(&self) -> Result<(), StoreError> {
        self.write(|writer| {
            writer.refuse_long_wal()?;
            writer.connection.execute(
                "INSERT OR REPLACE INTO _meta (name, value)
                VALUES ('room', hex(randomblob(4096)))",
                [],
            )?;
            Ok(())
        })
        .await
    }

    /// One bounded step of upkeep: retention, unless `now` is unknown, and a checkpoint.
    ///
    /// # Errors
    /// A checkpoint that cannot write is an error of the disk, and ends the process.
    pub async fn upkeep(
        &self,
        now: Option<Timestamp>,
        retention: Duration,
    ) -> Result<Upkeep, StoreError> {
        self.write(move |writer| {
            // First: on a full disk it is what gives room back.
            let is_copied = copy_wal(writer)?;
            let wal_bytes = writer.wal_size();
            let pruned = match now {
                Some(now) => prune(writer, now, retention)?,
                None => 0,
            };
            writer.rounds += 1;
            if writer.rounds.is_multiple_of(READING_TIMES_EVERY) {
                writer.save_memory()?;
            }
            Ok(Upkeep {
                wal_bytes,
                reader_in_the_way: !is_copied,
                pruned,
            })
        })
        .await
    }
}

/// Copies the write-ahead log into the store, and cuts it when it is large and no reader is open;
/// returns whether nothing was in the way.
fn copy_wal(writer: &Writer) -> Result<bool, StoreError> {
    // The copy goes as far as it can; what readers keep from being cut is cut by a later round.
    let is_copied = checkpoint(&writer.connection, "PASSIVE")?;
    if is_copied && writer.wal_size() > WAL_TARGET {
        return checkpoint(&writer.connection, "TRUNCATE");
    }
    Ok(is_copied)
}

/// Copies the write-ahead log into the store and cuts it, if no reader is in the way.
pub(super) fn cut_wal(connection: &Connection) -> Result<bool, StoreError> {
    Ok(checkpoint(connection, "PASSIVE")? && checkpoint(connection, "TRUNCATE")?)
}

/// Runs a checkpoint; returns whether it copied everything.
pub(super) fn checkpoint(connection: &Connection, mode: &str) -> Result<bool, StoreError> {
    let sql = format!("PRAGMA wal_checkpoint({mode})");
    let (busy, in_log, moved): (i64, i64, i64) =
        connection.query_row(&sql, [], |row| row.try_into())?;
    Ok(busy == 0 && in_log == moved)
}

/// Whether the next row of the log after `:seq` is older than the retention. A row from the future
/// was observed while the clock was wrong: it says nothing of those behind it.
const IS_NEXT_OLD: &str = "
    SELECT coalesce(
        (
            SELECT observed_at
            FROM changes
            WHERE seq > :seq
            ORDER BY seq
            LIMIT 1
        ) NOT BETWEEN :oldest AND :now,
        0
    )";

fn prune(writer: &mut Writer, now: Timestamp, retention: Duration) -> Result<usize, StoreError> {
    let last = log::last_seq(&writer.connection)?;
    let from = if writer.prune_from >= last {
        0
    } else {
        writer.prune_from
    };
    let oldest = now.checked_sub(retention).map(stamp).unwrap_or_default();
    let is_next_old: bool = writer.connection.value(
        IS_NEXT_OLD,
        named_params! { ":seq": from, ":oldest": oldest, ":now": stamp(now) },
    )?;
    // The common case on a young store, and it costs one look-up.
    if !is_next_old {
        writer.prune_from = 0;
        return Ok(0);
    }
    writer.prune_from = from.saturating_add(PRUNE_SPAN);
    let span = (from, writer.prune_from, &oldest);
    Ok(writer.connection.run(log::PRUNE, span)?)
}

#[cfg(test)]
mod tests {
    use crate::store::fixtures::{self, Poll};
    use crate::store::{PollFacts, Store};
    use shopmirror_core::record::{PollerId, Route};

    use super::*;

    async fn see(store: &Store, id: i64, name: &str, at: &str) {
        let facts = PollFacts {
            at: at.parse().unwrap(),
            ..Poll::USUAL.facts(store)
        };
        let poller = PollerId {
            route: Route::Leads,
            business: None,
        };
        let page = fixtures::page(&[fixtures::record(id, name)]);
        store.store_page(poller, page, facts, None).await.unwrap();
    }

    async fn versions(store: &Store, id: &'static str) -> Vec<i64> {
        let left = store
            .read(|reader| reader.history(Route::Leads, id))
            .await
            .unwrap()
            .changes;
        left.iter().map(|change| change.version).collect()
    }

    #[tokio::test]
    async fn a_reader_that_stays_open_bounds_the_write_ahead_log_and_loses_nothing() {
        const MAX: u64 = 2 * 1024 * 1024;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mirror.db");
        let store = Store::open(&path).unwrap();
        store.shared.writer.lock().await.as_mut().unwrap().wal_most = MAX;
        let poll = |second: i64| {
            let shown: Vec<String> = (second * 10..second * 10 + 20)
                .rev()
                .map(|id| fixtures::record(id, &"N".repeat(400)))
                .collect();
            (
                Poll {
                    second,
                    ..Poll::USUAL
                },
                shown,
            )
        };
        let (first, shown) = poll(0);
        first.shows(&store, &shown).await;
        let tool = rusqlite::Connection::open(&path).unwrap();
        tool.execute_batch("BEGIN; SELECT count(*) FROM leads;")
            .unwrap();
        // Five minutes of polls, and the upkeep between them.
        let mut refused = Vec::new();
        for second in 1..300 {
            let (poll, shown) = poll(second);
            let facts = poll.facts(&store);
            if second % 30 == 0 {
                store.upkeep(Some(facts.at), MONTH).await.unwrap();
            }
            let poller = PollerId {
                route: Route::Leads,
                business: None,
            };
            if let Err(error) = store
                .store_page(poller, fixtures::page(&shown), facts, None)
                .await
            {
                assert!(
                    error.is_transient() && store.try_write().await.is_err(),
                    "{error}"
                );
                refused.push(second);
            }
        }
        let size = std::fs::metadata(dir.path().join("mirror.db-wal"))
            .unwrap()
            .len();
        assert!(size < MAX + 512 * 1024, "{size}");
        assert!(!refused.is_empty(), "the reader was never in the way");
        tool.execute_batch("COMMIT").unwrap();
        store.try_write().await.unwrap();
        let (last, shown) = poll(300);
        last.shows(&store, &shown).await;
        let gaps = store.read(|reader| reader.gaps()).await.unwrap();
        assert_eq!(gaps.len(), 1, "what went by meanwhile is one gap: {gaps:?}");
    }

    #[tokio::test]
    async fn when_an_unchanged_page_was_read_is_written_once_a_minute() {
        let (dir, store) = fixtures::open();
        let poll = |second| Poll {
            second,
            ..Poll::USUAL
        };
        let row = async || {
            store
                .read(|reader| reader.pollers())
                .await
                .unwrap()
                .remove(0)
        };
        let shown = [fixtures::record(1, "N")];
        poll(0).shows(&store, &shown).await;
        let first = row().await.last_success_at;
        let tool = rusqlite::Connection::open(dir.path().join("mirror.db")).unwrap();
        let version = || -> i64 {
            tool.query_row("PRAGMA data_version", [], |row| row.get(0))
                .unwrap()
        };
        let before = version();
        for second in [30, 40, 50] {
            assert!(poll(second).shows(&store, &shown).await.unchanged);
        }
        assert_eq!(version(), before, "an unchanged page writes nothing");
        for _ in 0..READING_TIMES_EVERY {
            store.upkeep(None, MONTH).await.unwrap();
        }
        assert_ne!(version(), before, "the measure sees a write");
        let read: Timestamp = row().await.last_success_at.parse().unwrap();
        assert_eq!(read.duration_since(first.parse().unwrap()).as_secs(), 50);
    }

    const MONTH: Duration = Duration::from_secs(30 * 86_400);

    #[tokio::test]
    async fn what_grows_old_is_pruned_although_the_log_never_rests_and_the_clock_was_wrong_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mirror.db");
        let store = Store::open(&path).unwrap();
        see(&store, 1, "Ann", "2090-01-01T00:00:00Z").await;
        for month in 1..=9 {
            let at = format!("2026-0{month}-01T00:00:00Z");
            see(&store, 2, &format!("Bo {month}"), &at).await;
            store
                .upkeep(Some(at.parse().unwrap()), MONTH * 4)
                .await
                .unwrap();
        }
        let left = versions(&store, "2").await;
        assert!(left.len() < 7 && left.contains(&9), "{left:?}");
        for _ in 0..2 {
            store
                .upkeep(Some("2027-06-01T00:00:00Z".parse().unwrap()), MONTH)
                .await
                .unwrap();
        }
        assert_eq!(versions(&store, "2").await, [9]);
        assert_eq!(
            versions(&store, "1").await,
            [1],
            "the newest version of a record always stays"
        );
    }
}
