use std::time::Duration;

use super::super::*;
use crate::store::{GapState, Store, fixtures};

pub(super) fn page(records: &[(i64, &str)]) -> Page {
    let text = |(id, name): &(i64, &str)| format!(r#"{{"id":{id},"name":"{name}","email":null}}"#);
    fixtures::page(&records.iter().map(text).collect::<Vec<_>>())
}

pub(super) fn customers() -> PollerId {
    PollerId {
        route: Route::Customers,
        business: None,
    }
}

pub(super) fn facts(limit: u32) -> PollFacts {
    let at = "2026-01-02T03:04:05Z".parse().unwrap();
    PollFacts {
        at,
        asked_after: i64::MAX,
        limit,
        page_age: Duration::ZERO,
        served_business: None,
    }
}

pub(super) fn found_by_search(page: Page, kind: Kind) -> Search {
    let at = "2026-01-02T03:05:00Z".parse().unwrap();
    Search {
        business: None,
        page,
        kind,
        at,
        asked_after: i64::MAX,
        backfill_term: None,
    }
}

pub(super) async fn kinds(store: &Store) -> Vec<(String, Kind)> {
    let rows = store
        .read(|reader| reader.changes_after(0, 100))
        .await
        .unwrap();
    rows.into_iter()
        .map(|row| (row.record_id.unwrap_or_default(), row.kind))
        .collect()
}

#[tokio::test]
async fn a_customer_newer_than_the_last_poll_is_news_although_a_search_sees_it_first() {
    let (_dir, store) = fixtures::open();
    store
        .store_page(
            customers(),
            page(&[(3, "Bob"), (2, "Ann")]),
            facts(100),
            None,
        )
        .await
        .unwrap();
    let found = found_by_search(page(&[(4, "Cleo"), (1, "Zoe")]), Kind::Baseline);
    store.store_found(found).await.unwrap();
    let now = page(&[(4, "Cleo"), (3, "Bob"), (2, "Ann")]);
    store
        .store_page(customers(), now, facts(100), None)
        .await
        .unwrap();
    let told = kinds(&store).await;
    let of = |id: &str| {
        told.iter()
            .filter(|(told, _)| told == id)
            .collect::<Vec<_>>()
    };
    assert_eq!(of("4"), [&("4".to_owned(), Kind::Created)]);
    assert_eq!(of("1"), [&("1".to_owned(), Kind::Baseline)]);
}

/// Customers with these ids, each created in this minute after three.
fn created(records: &[(i64, u32)]) -> Page {
    let mut texts = Vec::new();
    for (id, minute) in records {
        texts.push(format!(
            r#"{{"id":{id},"created_at":"2026-01-02T03:{minute:02}:00Z"}}"#
        ));
    }
    fixtures::page(&texts)
}

#[tokio::test]
async fn what_a_search_found_proves_no_contiguity_and_is_counted_in_its_gap() {
    let (_dir, store) = fixtures::open();
    let shows = async |records: &[(i64, u32)]| {
        let shown = store.store_page(customers(), created(records), facts(2), None);
        shown.await.unwrap()
    };
    let finds = async |records: &[(i64, u32)], kind| {
        let search = found_by_search(created(records), kind);
        store.store_found(search).await.unwrap();
    };
    let gap = async || {
        let gap = store.read(|reader| reader.gaps()).await.unwrap().remove(0);
        (gap.state, gap.repaired)
    };
    shows(&[(2, 1), (1, 0)]).await;
    // Found by search first: the page that shares it with nothing else is a gap all the same.
    finds(&[(7, 4)], Kind::Created).await;
    let stored = shows(&[(8, 4), (7, 4)]).await;
    assert_eq!(stored.contiguity, Contiguity::Gap);
    assert_eq!(stored.gap.map(|gap| gap.estimate), Some(Some(4)));

    // A customer from before the gap is not `created`, whatever the search was for; those in it
    // are.
    finds(&[(4, 4), (0, 4)], Kind::Baseline).await;
    assert_eq!(gap().await, (GapState::PartlyRepaired, 1));
    let kinds = kinds(&store).await;
    assert!(kinds.contains(&("4".to_owned(), Kind::Created)));
    assert!(kinds.contains(&("0".to_owned(), Kind::Baseline)));

    // The first record that was created after the reading lies above the gap.
    shows(&[(9, 30), (8, 4)]).await;
    finds(&[(6, 4), (5, 4), (3, 4)], Kind::Baseline).await;
    assert_eq!(gap().await, (GapState::Repaired, 4));
}

#[tokio::test]
async fn a_search_stores_every_field_that_it_shows() {
    let (_dir, store) = fixtures::open();
    let shown = r#"{"id":7,"name":"G","loyalty":{"points":3}}"#.to_owned();
    let found = found_by_search(fixtures::page(&[shown]), Kind::Created);
    store.store_found(found).await.unwrap();
    let read = store.read(|reader| reader.record(Route::Customers, "7"));
    let row = read.await.unwrap().unwrap();
    assert_eq!(row["loyalty"], r#"{"points":3}"#);
}
