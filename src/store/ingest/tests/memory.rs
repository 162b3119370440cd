//! What a poller saw last is in memory. Whatever writes a record another way has to be noticed.

use shopmirror_core::record::Kind;

use super::search::{customers, facts, found_by_search, kinds, page};
use crate::store::fixtures::{self, Poll, record};

#[tokio::test]
async fn a_state_that_a_search_showed_between_two_equal_pages_is_two_changes() {
    let (_dir, store) = fixtures::open();
    let shows = async |name: &str| {
        let page = page(&[(2, name), (1, "Ann")]);
        let stored = store.store_page(customers(), page, facts(100), None).await;
        stored.unwrap().updated
    };
    shows("A").await;
    assert_eq!(shows("A").await, 0);
    let search = found_by_search(page(&[(2, "B")]), Kind::Created);
    assert_eq!(store.store_found(search).await.unwrap().updated, 1);
    // The server may lag behind the one that answered the search.
    let updated = [shows("A").await, shows("A").await, shows("A").await];
    assert_eq!(updated, [0, 1, 0]);
    let of_record: Vec<Kind> = kinds(&store)
        .await
        .into_iter()
        .filter(|(id, _)| id == "2")
        .map(|(_, kind)| kind)
        .collect();
    assert_eq!(of_record, [Kind::Baseline, Kind::Updated, Kind::Updated]);
}

#[tokio::test]
async fn a_state_that_another_poller_saw_between_two_equal_pages_is_two_changes() {
    let (_dir, store) = fixtures::open();
    let shows = async |business: &'static str, name: &str| {
        let poll = Poll {
            business: Some(business),
            served: Some(business),
            ..Poll::USUAL
        };
        poll.shows(&store, &[record(1, name)]).await.updated
    };
    shows("1", "A").await;
    assert_eq!(shows("2", "B").await, 1);
    // The server may lag behind the one that answered the other poller.
    let updated = [
        shows("1", "A").await,
        shows("1", "A").await,
        shows("1", "A").await,
    ];
    assert_eq!(updated, [0, 1, 0]);
}

#[tokio::test]
async fn a_version_that_another_process_stored_is_noticed() {
    let (dir, store) = fixtures::open();
    let shown = [record(1, "A")];
    Poll::USUAL.shows(&store, &shown).await;
    Poll::USUAL.shows(&store, &shown).await;
    let other = rusqlite::Connection::open(dir.path().join("mirror.db")).unwrap();
    let sql = "INSERT INTO changes (event_id, route, record_id, kind, version, observed_at, body)
         VALUES ('evt_x', 'leads', '1', 'updated', 2, '2026-01-01T00:00:00Z', ?1)";
    other.execute(sql, [record(1, "B")]).unwrap();
    let seq = store.read(|reader| reader.last_seq()).await.unwrap();
    let mut facts = Poll::USUAL.facts(&store);
    facts.asked_after = seq;
    let poller = shopmirror_core::record::PollerId {
        route: shopmirror_core::record::Route::Leads,
        business: None,
    };
    let stored = store.store_page(poller, fixtures::page(&shown), facts, None);
    assert_eq!(stored.await.unwrap().updated, 1);
}
