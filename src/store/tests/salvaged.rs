//! What a rebuild does with a store that lost some of what only the store knows, and with another
//! process that writes to it.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use shopmirror_core::record::Route;
use tempfile::TempDir;

use crate::store::fixtures::{self, Poll, records};
use crate::store::{Forgotten, Operator, StoreError, rebuild};

/// A closed store with so many leads.
async fn closed(leads: i64) -> (TempDir, PathBuf) {
    let (dir, store) = fixtures::open();
    Poll::at(0).shows(&store, &records(1..=leads)).await;
    store.close().await.unwrap();
    let path = dir.path().join("mirror.db");
    (dir, path)
}

#[tokio::test]
async fn no_write_of_another_process_is_lost_by_a_rebuild() {
    // Enough for a report of the progress.
    let (_dir, path) = closed(300).await;
    let lead = [(Route::Leads, "1".to_owned())];
    let mut early = Operator::open(&path).unwrap();
    let mut during = None;
    rebuild(&path, Timestamp::UNIX_EPOCH, &mut |_, _| {
        let mut operator = Operator::open(&path).unwrap();
        operator.connection.busy_timeout(Duration::ZERO).unwrap();
        during = Some(operator.forget_records(&lead, "2026"));
    })
    .unwrap();
    assert!(matches!(during, Some(Err(StoreError::Busy))), "{during:?}");
    let refused = early.forget_records(&lead, "2026").unwrap_err();
    assert!(matches!(refused, StoreError::Replaced(_)), "{refused}");
    let mut operator = Operator::open(&path).unwrap();
    let forgotten = operator.forget_records(&lead, "2026").unwrap();
    assert_eq!(forgotten, [Forgotten::Now { versions: 1 }]);
}
