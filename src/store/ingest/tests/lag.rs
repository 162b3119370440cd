//! A server whose data lags behind that of another one shows records in an earlier version. Nothing
//! is changed back for its sake, and nothing waits longer than until the next page that shows it.

use crate::store::fixtures::{Poll, open, record, records};
use crate::store::{Contiguity, PageOutcome, Store};

/// Shows a page some seconds after the start.
async fn shows(store: &Store, second: i64, shown: &[String]) -> PageOutcome {
    Poll::at(second).shows(store, shown).await
}

/// A page of 20 records down from this one; the record 10 is in this state.
fn page(newest: i64, state: &str) -> Vec<String> {
    let mut shown = records(newest - 19..=newest);
    let place = usize::try_from(newest - 10).unwrap();
    shown[place] = record(10, state);
    shown
}

/// The states of the record 10 in the log.
async fn states(store: &Store) -> Vec<String> {
    let changes = store
        .read(|reader| reader.changes_after(0, 1_000))
        .await
        .unwrap();
    let of_record = changes
        .iter()
        .filter(|change| change.record_id.as_deref() == Some("10"));
    of_record
        .map(|change| {
            let name = shopmirror_core::record::field_text(&change.body, "name").unwrap();
            name.trim_matches('"').to_owned()
        })
        .collect()
}

#[tokio::test]
async fn a_page_that_lags_changes_nothing_and_is_not_what_the_next_is_compared_with() {
    let (_dir, store) = open();
    shows(&store, 0, &page(20, "A")).await;
    shows(&store, 10, &page(21, "B")).await;
    let lagging = shows(&store, 20, &page(20, "A")).await;
    assert_eq!(
        (lagging.contiguity, lagging.updated),
        (Contiguity::Stale, 0)
    );
    let next = shows(&store, 30, &page(22, "B")).await;
    assert_eq!(next.contiguity, Contiguity::Contiguous);
    assert_eq!(states(&store).await, ["A", "B"]);
    // What was missed is bounded by the last page that did not lag.
    shows(&store, 40, &page(22, "B")).await;
    let lagging = shows(&store, 50, &page(21, "B")).await;
    assert_eq!(lagging.contiguity, Contiguity::Stale);
    shows(&store, 60, &records(31..=50)).await;
    let gap = store.read(|reader| reader.gaps()).await.unwrap().remove(0);
    assert_eq!(
        (gap.after_id.as_deref(), gap.before_id.as_deref()),
        (Some("22"), None)
    );
}

#[tokio::test]
async fn after_the_newest_record_was_deleted_every_edit_is_stored_at_once_in_every_process() {
    let (dir, mut store) = open();
    shows(&store, 0, &page(20, "A")).await;
    let mut shown = page(20, "A");
    shown.remove(0);
    for (second, state) in [(10, "B"), (20, "C"), (30, "D"), (40, "E")] {
        shown[9] = record(10, state);
        let outcome = shows(&store, second, &shown).await;
        assert_eq!(outcome.updated, 1, "{state}");
        let is_older = second < 30;
        assert_eq!(
            outcome.contiguity == Contiguity::Stale,
            is_older,
            "{second}"
        );
        // As in `shopmirror once`.
        store.close().await.unwrap();
        drop(store);
        store = Store::open(&dir.path().join("mirror.db")).unwrap();
    }
}

#[tokio::test]
async fn there_and_back_again_on_three_pages_is_two_changes_in_one_process_and_in_many() {
    for is_once in [false, true] {
        let (dir, mut store) = open();
        let mut updated = Vec::new();
        for (second, state) in [(0, "A"), (10, "B"), (20, "A"), (30, "A"), (40, "A")] {
            updated.push(shows(&store, second, &page(20, state)).await.updated);
            if is_once {
                store.close().await.unwrap();
                drop(store);
                store = Store::open(&dir.path().join("mirror.db")).unwrap();
            }
        }
        assert_eq!(
            updated,
            [0, 1, 0, 1, 0],
            "the second once the next page shows it too"
        );
        assert_eq!(states(&store).await, ["A", "B", "A"]);
    }
}

#[tokio::test]
async fn a_state_that_was_there_before_is_a_change_at_once_if_the_server_cannot_lag() {
    let (_dir, store) = open();
    shows(&store, 0, &page(20, "A")).await;
    shows(&store, 10, &page(20, "B")).await;
    let with_new_record = shows(&store, 20, &page(21, "A")).await;
    assert_eq!((with_new_record.created, with_new_record.updated), (1, 1));
    let later = 20 + 10 * 60;
    assert_eq!(shows(&store, later, &page(21, "B")).await.updated, 1);
    assert_eq!(states(&store).await, ["A", "B", "A", "B"]);
}

#[tokio::test]
async fn what_waits_waits_until_a_page_shows_it_and_is_dropped_if_it_shows_the_newer_state() {
    let (_dir, store) = open();
    let without = |newest: i64| -> Vec<String> {
        let mut shown = page(newest, "");
        shown.retain(|text| *text != record(10, ""));
        shown
    };
    shows(&store, 0, &page(20, "A")).await;
    shows(&store, 10, &page(20, "B")).await;
    assert_eq!(shows(&store, 20, &page(20, "A")).await.updated, 0);
    shows(&store, 30, &without(20)).await;
    assert_eq!(shows(&store, 40, &page(20, "A")).await.updated, 1);
    assert_eq!(shows(&store, 50, &page(20, "B")).await.updated, 0);
    assert_eq!(shows(&store, 60, &page(20, "A")).await.updated, 0);
    assert_eq!(shows(&store, 70, &page(20, "B")).await.updated, 0);
    assert_eq!(states(&store).await, ["A", "B", "A"]);
}

#[tokio::test]
async fn an_unchanged_page_is_stored_only_if_it_decides_what_waited() {
    let (dir, store) = open();
    let tool = rusqlite::Connection::open(dir.path().join("mirror.db")).unwrap();
    let data_version = || -> i64 {
        let version = tool.query_row("PRAGMA data_version", [], |row| row.get(0));
        version.unwrap()
    };
    shows(&store, 0, &page(20, "A")).await;
    shows(&store, 10, &page(20, "B")).await;
    let before = data_version();
    shows(&store, 20, &page(20, "B")).await;
    assert_eq!(data_version(), before);
    shows(&store, 30, &page(20, "A")).await;
    let waits = data_version();
    assert_ne!(waits, before);
    shows(&store, 40, &page(20, "B")).await;
    assert_ne!(data_version(), waits, "nothing waits any more");
}

#[tokio::test]
async fn a_record_that_was_shown_in_an_earlier_state_and_is_not_now_proves_nothing() {
    let (_dir, store) = open();
    let named = |id: &str, state: &str| format!(r#"{{"id":"{id}","name":"{state}"}}"#);
    let shown = |first: &str, state: &str, letter: &str| {
        let mut shown = vec![named(first, state)];
        for number in 0..19 {
            shown.push(named(&format!("{letter}{number}"), "N"));
        }
        shown
    };
    shows(&store, 0, &shown("first", "A", "a")).await;
    shows(&store, 10, &shown("first", "B", "a")).await;
    assert_eq!(
        shows(&store, 20, &shown("first", "A", "a")).await.updated,
        0
    );
    // Some records are lost between `first`, which was saved again, and those below it before.
    let mut burst = shown("first", "B", "b");
    burst.rotate_left(1);
    assert_eq!(shows(&store, 30, &burst).await.contiguity, Contiguity::Gap);
}

#[tokio::test]
async fn what_left_the_page_waits_no_longer_than_a_server_can_lag() {
    let (_dir, store) = open();
    shows(&store, 0, &page(20, "A")).await;
    shows(&store, 10, &page(20, "B")).await;
    assert_eq!(shows(&store, 20, &page(20, "A")).await.updated, 0);
    let waiting = async || -> usize {
        let rows = store.read(|reader| reader.pollers()).await.unwrap();
        rows[0].waiting.len()
    };
    shows(&store, 30, &records(12..=31)).await;
    assert_eq!(waiting().await, 1);
    shows(&store, 20 + 10 * 60, &records(13..=32)).await;
    assert_eq!(waiting().await, 0);
}

#[tokio::test]
async fn a_state_of_more_than_a_hundred_versions_ago_is_no_lagging_servers() {
    let (_dir, store) = open();
    for second in 0..=101 {
        shows(&store, second, &page(20, &format!("S{second}"))).await;
    }
    assert_eq!(shows(&store, 102, &page(20, "S1")).await.updated, 0);
    assert_eq!(shows(&store, 103, &page(20, "S0")).await.updated, 1);
}
