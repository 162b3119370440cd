//! Servers that show fewer records than requested.

use std::ops::RangeInclusive;

use shopmirror_core::record::Kind;

use crate::store::fixtures::{Poll, open, records};
use crate::store::{Contiguity, PageOutcome, Store};

async fn shows(store: &Store, second: i64, ids: RangeInclusive<i64>) -> PageOutcome {
    let poll = Poll {
        limit: 100,
        second,
        ..Poll::USUAL
    };
    poll.shows(store, &records(ids)).await
}

async fn complete_since(store: &Store) -> Option<String> {
    let rows = store.read(|reader| reader.pollers()).await.unwrap();
    rows[0].complete_since.clone()
}

#[tokio::test]
async fn a_list_is_complete_from_its_first_page_on_if_a_server_may_have_ended_that_page() {
    let (_dir, store) = open();
    shows(&store, 0, 1..=50).await;
    assert!(complete_since(&store).await.is_some());
    // The end stayed, and the page is longer: it was the end of the list.
    let next = shows(&store, 10, 1..=51).await;
    assert_eq!(next.contiguity, Contiguity::Complete);
    assert_eq!(complete_since(&store).await, None);
}

#[tokio::test]
async fn a_limit_of_the_server_that_is_found_later_takes_back_that_the_first_page_held_all() {
    let (_dir, store) = open();
    shows(&store, 0, 1..=37).await;
    assert_eq!(complete_since(&store).await, None);
    let mut said = Vec::new();
    for (second, ids) in [(10, 2..=38), (20, 3..=39), (30, 4..=40), (40, 5..=41)] {
        let outcome = shows(&store, second, ids).await;
        if outcome.server_limit != outcome.server_limit_before {
            said.push(outcome.server_limit);
        }
    }
    assert_eq!(said, [Some(37)], "once");
    let since = complete_since(&store).await.unwrap();
    assert!(since.starts_with("2027-01-15T08:00:00"), "{since}");
}

#[tokio::test]
async fn older_records_that_a_server_shows_now_and_then_were_there_before() {
    let (_dir, store) = open();
    shows(&store, 0, 451..=500).await;
    let longer = shows(&store, 10, 402..=501).await;
    assert_eq!(longer.contiguity, Contiguity::Contiguous);
    let changes = store.read(|reader| reader.changes_after(50, 1_000));
    let mut created = Vec::new();
    for change in changes.await.unwrap() {
        if change.kind == Kind::Created {
            created.extend(change.record_id);
        }
    }
    assert_eq!(created, ["501"]);
    let shorter = shows(&store, 20, 453..=502).await;
    assert_eq!(shorter.contiguity, Contiguity::Contiguous);
}
