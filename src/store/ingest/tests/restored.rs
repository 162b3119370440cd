//! Workspaces that are restored from a backup, and ids that they use again.

use shopmirror_core::record::{Kind, Route};

use crate::store::fixtures::{Poll, open};
use crate::store::{PageOutcome, Store};

/// A lead, created some seconds after the first poll.
fn lead(id: i64, name: &str, second: i64) -> String {
    let at = jiff::Timestamp::from_second(1_800_000_000 + second).unwrap();
    format!(r#"{{"id":{id},"name":"{name}","created_at":"{at}"}}"#)
}

/// Leads that were created long before the first poll.
fn old(ids: std::ops::RangeInclusive<i64>) -> Vec<String> {
    ids.rev()
        .map(|id| lead(id, "old", 10 * id - 10_000))
        .collect()
}

async fn shows(store: &Store, second: i64, records: &[String]) -> PageOutcome {
    Poll::at(second).shows(store, records).await
}

/// The kind and the version of each change of a lead.
async fn changes_of(store: &Store, id: &str) -> Vec<(Kind, i64)> {
    let changes = store.read(|reader| reader.changes_after(0, 1_000));
    let mut found = Vec::new();
    for change in changes.await.unwrap() {
        if change.record_id.as_deref() == Some(id) {
            found.push((change.kind, change.version));
        }
    }
    found
}

async fn first_seen_at(store: &Store, id: &'static str) -> String {
    let row = store.read(move |reader| reader.record(Route::Leads, id));
    row.await.unwrap().unwrap()["_first_seen_at"].to_string()
}

#[tokio::test]
async fn an_id_that_a_restored_workspace_uses_again_is_another_record() {
    let (_dir, store) = open();
    shows(&store, 0, &old(1..=20)).await;
    let before = first_seen_at(&store, "19").await;
    // Restored without 19 and 20; then a lead gets the id 19.
    let mut restored = old(0..=18);
    restored.insert(0, lead(19, "new", 500));
    let outcome = shows(&store, 600, &restored).await;
    // The oldest one was never shown before.
    assert_eq!((outcome.created, outcome.updated), (2, 0));
    let changes = changes_of(&store, "19").await;
    assert_eq!(changes, [(Kind::Baseline, 1), (Kind::Created, 2)]);
    assert_ne!(first_seen_at(&store, "19").await, before);
    // The next id was known as well.
    restored.insert(0, lead(20, "new", 650));
    restored.truncate(20);
    let outcome = shows(&store, 700, &restored).await;
    assert_eq!((outcome.created, outcome.updated), (1, 0));
}

#[tokio::test]
async fn a_time_of_creation_that_is_corrected_is_an_update() {
    let (_dir, store) = open();
    shows(&store, 0, &old(1..=20)).await;
    let mut corrected = old(1..=20);
    corrected[1] = lead(19, "old", 500);
    shows(&store, 600, &corrected).await;
    // To an earlier time, on a page that lacks the newest record.
    let mut earlier = old(0..=19);
    earlier[1] = lead(18, "old", -20_000);
    shows(&store, 700, &earlier).await;
    for id in ["19", "18"] {
        let changes = changes_of(&store, id).await;
        assert!(
            changes.iter().all(|(kind, _)| *kind != Kind::Created),
            "{id}: {changes:?}"
        );
    }
}

#[tokio::test]
async fn ids_below_a_record_that_is_as_before_are_not_used_again() {
    let (_dir, store) = open();
    shows(&store, 0, &old(1..=20)).await;
    let mut edited = old(1..=20);
    edited[5] = lead(15, "other", 500);
    edited[6] = lead(14, "another", 500);
    let outcome = shows(&store, 600, &edited).await;
    assert_eq!((outcome.created, outcome.updated), (0, 2));
}

#[tokio::test]
async fn the_newest_are_gone_for_sure_after_ten_minutes_without_anything_newer() {
    let (_dir, store) = open();
    let gone = async || {
        let rows = store.read(|reader| reader.pollers()).await.unwrap();
        let newest_gone = rows[0].newest_gone.clone();
        newest_gone.map(|gone| (gone.ids, gone.is_sure))
    };
    shows(&store, 0, &old(1..=20)).await;
    let ids = vec!["20".to_owned(), "19".to_owned()];
    shows(&store, 60, &old(-1..=18)).await;
    shows(&store, 600, &old(-1..=18)).await;
    assert_eq!(gone().await, Some((ids.clone(), false)));
    shows(&store, 661, &old(-1..=18)).await;
    assert_eq!(gone().await, Some((ids, true)));
    let mut newer = old(0..=18);
    newer.insert(0, lead(21, "new", 700));
    shows(&store, 720, &newer).await;
    assert_eq!(gone().await, None);
}

#[tokio::test]
async fn a_vanished_record_that_comes_back_below_others_that_are_as_before_is_the_same() {
    let (_dir, store) = open();
    let mut without = old(1..=20);
    without.remove(10);
    shows(&store, 0, &old(1..=20)).await;
    shows(&store, 60, &without).await;
    assert_eq!(shows(&store, 120, &without).await.vanished, 1);
    // In a list by last change, with all that was shown before.
    let mut with_another = without;
    with_another.insert(0, lead(10, "new", 200));
    let outcome = shows(&store, 240, &with_another).await;
    assert_eq!((outcome.created, outcome.updated), (0, 1));
    let changes = changes_of(&store, "10").await;
    let kinds = [(Kind::Baseline, 1), (Kind::Vanished, 2), (Kind::Updated, 3)];
    assert_eq!(changes, kinds);
}

#[tokio::test]
async fn the_newest_that_moved_to_another_business_are_not_gone() {
    let (_dir, store) = open();
    let shows_in = async |business, second, records: Vec<String>| {
        let poll = Poll {
            business: Some(business),
            served: Some(business),
            second,
            ..Poll::USUAL
        };
        poll.shows(&store, &records).await
    };
    shows_in("1", 0, old(1..=20)).await;
    shows_in("2", 1, old(101..=120)).await;
    let mut with_moved = old(101..=120);
    with_moved.insert(3, lead(20, "old", 10 * 20 - 10_000));
    for minute in 1..=15 {
        shows_in("1", 60 * minute, old(0..=19)).await;
        shows_in("2", 60 * minute + 1, with_moved.clone()).await;
    }
    let rows = store.read(|reader| reader.pollers()).await.unwrap();
    assert!(rows.iter().all(|row| row.newest_gone.is_none()));
}
