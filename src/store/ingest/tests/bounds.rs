//! The bounds of gaps, from the page that shows one until its upper id is known.

use crate::store::fixtures::{Poll, gaps, open};
use crate::store::{Gap, Store};

/// A record with a time of creation, some seconds after the first poll.
fn record((id, second): (i64, i64)) -> String {
    let at = jiff::Timestamp::from_second(1_800_000_000 + second).unwrap();
    format!(r#"{{"id":{id},"created_at":"{at}"}}"#)
}

/// Shows 20 records at a time, the newest first.
async fn shows(store: &Store, second: i64, newest_first: impl IntoIterator<Item = (i64, i64)>) {
    let mut records = Vec::new();
    for shown in newest_first {
        records.push(record(shown));
    }
    Poll::at(second).shows(store, &records).await;
}

async fn first_gap(store: &Store) -> Gap {
    store.read(|reader| reader.gaps()).await.unwrap().remove(0)
}

#[tokio::test]
async fn the_upper_id_of_a_gap_is_that_of_the_first_record_created_after_the_page() {
    let (_dir, store) = open();
    shows(&store, 1_000, (1..=20).rev().map(|id| (id, id))).await;
    shows(&store, 2_000, (31..=50).rev().map(|id| (id, 1_900))).await;
    let open_above = vec![("gap".to_owned(), "20..-: 10".to_owned())];
    assert_eq!(gaps(&store).await, open_above);
    // A clock that is a minute ahead may have stamped this one before the page was read.
    let next = |newest| {
        [newest]
            .into_iter()
            .chain((32..=50).rev().map(|id| (id, 1_900)))
    };
    shows(&store, 2_010, next((52, 2_055))).await;
    assert_eq!(gaps(&store).await, open_above);
    shows(&store, 2_100, next((60, 2_090))).await;
    let gap = first_gap(&store).await;
    assert_eq!(gap.before_id.as_deref(), Some("60"));
    assert_eq!((gap.estimate, gap.most()), (Some(19), Some(19)));
    shows(&store, 2_200, next((61, 2_190))).await;
    assert_eq!(first_gap(&store).await.before_id.as_deref(), Some("60"));
}

#[tokio::test]
async fn ids_that_touch_are_a_suspect_that_can_hide_nothing_once_its_upper_id_is_known() {
    let (_dir, store) = open();
    shows(&store, 1_000, (1..=20).rev().map(|id| (id, id))).await;
    shows(&store, 2_000, (21..=40).rev().map(|id| (id, 1_900))).await;
    let suspect = vec![("suspect".to_owned(), "20..-: 0".to_owned())];
    assert_eq!(gaps(&store).await, suspect);
    let next = [(41, 2_090)].into_iter();
    shows(
        &store,
        2_100,
        next.chain((22..=40).rev().map(|id| (id, 1_900))),
    )
    .await;
    assert_eq!(first_gap(&store).await.most(), Some(0));
}

#[tokio::test]
async fn an_import_is_a_part_of_its_gap() {
    let (_dir, store) = open();
    shows(
        &store,
        1_000_000,
        (1..=20).rev().map(|id| (id, 999_000 + id)),
    )
    .await;
    // The oldest record was imported first.
    let dates = (31..=50).rev().map(|id| (id, 1_000 * id));
    shows(&store, 1_000_100, dates).await;
    let gap = first_gap(&store).await;
    assert_eq!(
        gap.imported_from.as_deref(),
        Some("2027-01-15T16:36:40.000000Z")
    );
    assert!(gap.import_may_be_older);
}
