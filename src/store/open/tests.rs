use std::os::unix::fs::FileExt;
use std::path::Path;

use rusqlite::Connection;

use super::{APPLICATION_ID, Lock, MIGRATIONS};
use crate::store::fixtures::{Poll, gaps, open, record, records};
use crate::store::{Store, StoreError, mirror};

#[tokio::test]
async fn after_an_unclean_stop_the_file_is_checked_beside_the_work_and_damage_is_told() {
    let (dir, store) = open();
    let path = dir.path().join("mirror.db");
    let long = "N".repeat(4_000);
    let shown: Vec<String> = (1..=400).map(|id| record(id, &long)).collect();
    Poll { limit: 400, ..Poll::USUAL }.shows(&store, &shown).await;
    store.close().await.unwrap();
    drop(store);

    let store = Store::open(&path).unwrap();
    drop(store);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    let middle = file.metadata().unwrap().len() / 2;
    file.write_all_at(&[0xff; 64 * 1024], middle).unwrap();
    // It opens at once: nothing has read the damaged pages yet.
    let store = Store::open(&path).unwrap();
    assert!(matches!(store.check().await, Err(StoreError::Corrupt(_))));
    store.close().await.unwrap();
    drop(store);
    // Closed in order, but still to be checked.
    let store = Store::open(&path).unwrap();
    assert!(matches!(store.check().await, Err(StoreError::Corrupt(_))));
}

#[tokio::test]
async fn a_start_after_an_unclean_stop_waits_for_no_disk_and_the_upkeep_empties_the_log() {
    let (dir, store) = open();
    Poll::USUAL.shows(&store, &records(1..=20)).await;
    drop(store);
    let path = dir.path().join("mirror.db");
    let files = || ["mirror.db", "mirror.db-wal"].map(|name| std::fs::read(dir.path().join(name)));
    let before = files().map(Result::unwrap);
    let store = Store::open(&path).unwrap();
    assert!(files().map(Result::unwrap) == before, "the start has written to the store");
    let now = jiff::Timestamp::from_second(1_800_000_000).unwrap();
    store.upkeep(Some(now), std::time::Duration::from_secs(86_400)).await.unwrap();
    assert!(files().map(Result::unwrap)[0] != before[0], "the log was not copied into the store");
}

#[tokio::test]
async fn a_sound_file_is_checked_once() {
    let (dir, store) = open();
    Poll::USUAL.shows(&store, &[record(1, "N")]).await;
    drop(store);
    let path = dir.path().join("mirror.db");
    let store = Store::open(&path).unwrap();
    store.check().await.unwrap();
    store.close().await.unwrap();
    drop(store);
    assert_eq!(std::fs::read(dir.path().join("mirror.db-lock")).unwrap(), b"");
}

#[test]
fn a_lock_that_is_given_up_is_free_although_a_program_that_is_being_started_has_a_copy() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mirror.db");
    let (lock, _) = Lock::take(&path).unwrap();
    let _copy = lock.file.try_clone().unwrap();
    drop(lock);
    let other = std::fs::File::open(dir.path().join("mirror.db-lock")).unwrap();
    assert!(other.try_lock().is_ok(), "the store is still locked");
}

/// A store of the first schema with 20 leads, one poller and one sink with parked changes.
fn first_schema(path: &Path) {
    let old = Connection::open(path).unwrap();
    old.execute_batch(MIGRATIONS[0]).unwrap();
    mirror::create_tables(&old).unwrap();
    old.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
    old.pragma_update(None, "user_version", 1).unwrap();
    old.execute_batch(
        "INSERT INTO meta VALUES ('identity', '0123456789abcdef');
         WITH RECURSIVE ids (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM ids WHERE n < 20)
         INSERT INTO changes (event_id, route, record_id, kind, version, observed_at, body)
         SELECT 'evt_' || n, 'leads', CAST(n AS TEXT), 'created', 1, '2026-01-01T00:00:00.000000Z',
             '{\"id\":' || n || ',\"name\":\"N\"}' FROM ids;
         INSERT INTO leads (id, name, _first_seen_at, _changed_at, _seq)
         SELECT record_id, 'N', observed_at, observed_at, seq FROM changes;
         INSERT INTO pollers (route, business, first_polled_at, last_success_at, high_id, page_limit, head)
         SELECT 'leads', '', '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z', 20, 20,
             json_group_array(record_id) FROM changes;
         INSERT INTO sinks (name, type, state, position, created_at)
         VALUES ('audit', 'webhook', 'active', 12, '2026-01-01T00:00:00.000000Z');
         INSERT INTO deliveries (sink, seq, route, record_id, state, attempts, next_attempt_at, since) VALUES
             ('audit', 3, 'leads', '3', 'dead', 9, '2026-01-02T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z'),
             ('audit', 4, 'leads', '4', 'retrying', 1, NULL, '2026-01-01T00:00:00.000000Z'),
             ('audit', 5, 'leads', '4', 'waiting', 0, '2026-01-02T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z');",
    )
    .unwrap();
}

#[tokio::test]
async fn a_store_of_the_first_schema_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mirror.db");
    first_schema(&path);
    let store = Store::open(&path).unwrap();
    let sinks = store.read(|reader| reader.sinks()).await.unwrap();
    assert_eq!((sinks[0].position, sinks[0].retrying, sinks[0].dead), (12, 2, 1));

    // A retry without a time is due, and no other row has a time.
    let by = crate::store::DueBy { now: "2026-01-01T00:00:00.000000Z", latest: "2027" };
    let due = {
        let reader = crate::store::Reader::open(&path).unwrap();
        reader.due_deliveries("audit", &by, 10).unwrap()
    };
    assert_eq!(due.iter().map(|delivery| delivery.seq).collect::<Vec<_>>(), [4]);

    // The page that the old program read last still proves that nothing was missed.
    let outcome = Poll::USUAL.shows(&store, &records(2..=21)).await;
    assert_eq!((outcome.created, outcome.updated, outcome.overlap), (1, 0, 19));
    assert_eq!(gaps(&store).await, []);
    let history = store.read(|reader| reader.history(crate::record::Route::Leads, "20")).await;
    assert_eq!(history.unwrap().changes[0].event_id, "evt_20");
}
