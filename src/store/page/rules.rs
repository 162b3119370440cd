//! What a page proves and which of its records are new, seen through the store.

use std::time::Duration;

use crate::record::{PollerId, Route};
use crate::store::fixtures::{Poll, gaps, open, page, record, records, with_text_ids};
use crate::store::{PollFacts, Store, StoreError};

fn said(certainty: &'static str, bounds: &str) -> Vec<(&'static str, String)> {
    vec![(certainty, bounds.to_owned())]
}

#[tokio::test]
async fn an_edit_that_leaves_a_record_as_it_was_does_not_hide_what_was_missed() {
    for (reopens, text_ids) in [(false, false), (true, false), (false, true), (true, true)] {
        let shape = |records: &[String]| match text_ids {
            true => with_text_ids(records),
            false => records.to_vec(),
        };
        let (dir, mut store) = open();
        Poll::USUAL.shows(&store, &shape(&records(1..=20))).await;
        if reopens {
            drop(store);
            store = Store::open(&dir.path().join("mirror.db")).unwrap();
        }
        let mut shown = records(42..=60);
        shown.insert(0, record(10, "N"));
        Poll::USUAL.shows(&store, &shape(&shown)).await;
        let bounds = if text_ids { "-..-: ?" } else { "20..42: 21" };
        assert_eq!(gaps(&store).await, said("gap", bounds), "reopened: {reopens}");
    }
}

#[tokio::test]
async fn a_page_is_stored_whole_with_its_gap_or_not_at_all() {
    let (dir, store) = open();
    Poll::USUAL.shows(&store, &records(1..=20)).await;
    let tool = rusqlite::Connection::open(dir.path().join("mirror.db")).unwrap();
    let fault =
        "CREATE TRIGGER fault BEFORE INSERT ON gaps BEGIN SELECT RAISE(ABORT, 'fault'); END";
    tool.execute_batch(fault).unwrap();
    let poller = PollerId { route: Route::Leads, business: None };
    let shown = page(&records(31..=50));
    let refused = store.store_page(poller, shown, Poll::USUAL.facts(&store), None).await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(store.read(|reader| reader.changes_after(0, 100)).await.unwrap().len(), 20);
    assert_eq!(store.read(|reader| reader.record(Route::Leads, "50")).await.unwrap(), None);
    tool.execute_batch("DROP TRIGGER fault").unwrap();
    let stored = Poll::USUAL.shows(&store, &records(31..=50)).await;
    assert_eq!(stored.created, 20);
    assert_eq!(gaps(&store).await, said("gap", "20..31: 10"));
}

#[tokio::test]
async fn a_gap_begins_when_the_page_before_was_requested_and_suspects_still_grow_into_one() {
    let (_dir, store) = open();
    let poller = PollerId { route: Route::Leads, business: None };
    let show = async |second: i64, shown: Vec<String>| {
        let poll = Poll { second, ..Poll::USUAL };
        let facts = PollFacts { latency: Duration::from_millis(1_500), ..poll.facts(&store) };
        store.store_page(poller.clone(), page(&shown), facts, None).await.unwrap();
    };
    show(10, records(1..=20)).await;
    show(20, records(31..=50)).await;
    for second in [30, 40, 50] {
        let edited = (31..=50).rev().map(|id| record(id, &second.to_string())).collect();
        show(second, edited).await;
    }
    let gaps = store.read(|reader| reader.gaps()).await.unwrap();
    let at = |second: i64, millis: i64| {
        let at = Poll { second, ..Poll::USUAL }.facts(&store).at;
        crate::clock::stamp(at.checked_sub(jiff::SignedDuration::from_millis(millis)).unwrap())
    };
    let spans: Vec<_> = gaps.iter().rev().map(|g| (g.from_at.clone(), g.to_at.clone())).collect();
    // What happened between the request and the response may be missing from the response.
    assert_eq!(spans, [(at(10, 1_500), at(20, 0)), (at(20, 1_500), at(50, 0))]);
}

#[tokio::test]
async fn the_records_of_another_shop_are_refused_although_most_of_their_fields_are_null_or_equal() {
    let shop = |name: &'static str, days: i64| {
        let lead = move |id: i64| {
            let made = jiff::Timestamp::from_second(1_500_000_000 + id * days * 86_400).unwrap();
            format!(
                r#"{{"id":{id},"name":"{name} {id}","status":"new","status_stage":"open","email":null,"source":null,"due_on":null,"comment":null,"created_at":"{made}"}}"#
            )
        };
        (1..=20).rev().map(lead).collect::<Vec<_>>()
    };
    let (_dir, store) = open();
    Poll::USUAL.shows(&store, &shop("Ann", 1)).await;
    let poller = PollerId { route: Route::Leads, business: None };
    let theirs = page(&shop("Bob", 7));
    let refused = store.store_page(poller, theirs, Poll::USUAL.facts(&store), None).await;
    assert!(matches!(refused, Err(StoreError::OtherShop)), "{refused:?}");
    // The creation times are corrected, the status is renamed, and every lead gets a source.
    let corrected: Vec<String> = shop("Ann", 5)
        .iter()
        .map(|lead| lead.replace(r#""source":null"#, r#""source":"web""#))
        .map(|lead| lead.replace(r#""status":"new""#, r#""status":"Neu""#))
        .collect();
    assert_eq!(Poll::USUAL.shows(&store, &corrected).await.updated, 20);
}
