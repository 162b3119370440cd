use super::Lock;
use crate::store::Store;
use crate::store::fixtures::{Poll, open, record, records};

#[tokio::test]
async fn a_start_after_an_unclean_stop_waits_for_no_disk_and_the_upkeep_empties_the_log() {
    let (dir, store) = open();
    Poll::USUAL.shows(&store, &records(1..=20)).await;
    drop(store);
    let path = dir.path().join("mirror.db");
    let files = || ["mirror.db", "mirror.db-wal"].map(|name| std::fs::read(dir.path().join(name)));
    let before = files().map(Result::unwrap);
    let store = Store::open(&path).unwrap();
    assert!(
        files().map(Result::unwrap) == before,
        "the start has written to the store"
    );
    let now = jiff::Timestamp::from_second(1_800_000_000).unwrap();
    store
        .upkeep(Some(now), std::time::Duration::from_secs(86_400))
        .await
        .unwrap();
    assert!(
        files().map(Result::unwrap)[0] != before[0],
        "the log was not copied into the store"
    );
}

#[tokio::test]
async fn a_close_that_cannot_write_the_polls_gives_up_the_lock() {
    let (dir, store) = open();
    let path = dir.path().join("mirror.db");
    Poll::USUAL.shows(&store, &[record(1, "N")]).await;
    let tool = rusqlite::Connection::open(&path).unwrap();
    tool.execute_batch(
        "CREATE TRIGGER no_polls BEFORE INSERT ON _pollers BEGIN SELECT RAISE(ABORT, 'no'); END;",
    )
    .unwrap();
    Poll {
        second: 1,
        ..Poll::USUAL
    }
    .shows(&store, &[record(1, "N")])
    .await;
    assert!(store.close().await.is_err(), "the polls cannot be written");
    drop(store);
    assert!(Lock::take(&path).is_ok(), "the store is still locked");
}

#[test]
fn a_lock_that_is_given_up_is_free_although_a_program_that_is_being_started_has_a_copy() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mirror.db");
    let lock = Lock::take(&path).unwrap();
    let _copy = lock.file.try_clone().unwrap();
    drop(lock);
    let other = std::fs::File::open(dir.path().join("mirror.db-lock")).unwrap();
    assert!(other.try_lock().is_ok(), "the store is still locked");
}
