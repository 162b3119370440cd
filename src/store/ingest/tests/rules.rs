//! What a page proves and which of its records are new, seen through the store.

use std::time::Duration;

use shopmirror_core::record::{PollerId, Route};

use crate::store::fixtures::{Poll, gaps, open, page, record, records};
use crate::store::{Certainty, Contiguity, PollFacts, Store};

fn said(certainty: &str, bounds: &str) -> Vec<(String, String)> {
    vec![(certainty.to_owned(), bounds.to_owned())]
}

#[tokio::test]
async fn a_page_is_stored_whole_with_its_gap_or_not_at_all() {
    let (dir, store) = open();
    Poll::USUAL.shows(&store, &records(1..=20)).await;
    let tool = rusqlite::Connection::open(dir.path().join("mirror.db")).unwrap();
    let fault =
        "CREATE TRIGGER fault BEFORE INSERT ON gaps BEGIN SELECT RAISE(ABORT, 'fault'); END";
    tool.execute_batch(fault).unwrap();
    let poller = PollerId {
        route: Route::Leads,
        business: None,
    };
    let shown = page(&records(31..=50));
    let refused = store
        .store_page(poller, shown, Poll::USUAL.facts(&store), None)
        .await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(
        store
            .read(|reader| reader.changes_after(0, 100))
            .await
            .unwrap()
            .len(),
        20
    );
    assert_eq!(
        store
            .read(|reader| reader.record(Route::Leads, "50"))
            .await
            .unwrap(),
        None
    );
    tool.execute_batch("DROP TRIGGER fault").unwrap();
    let stored = Poll::USUAL.shows(&store, &records(31..=50)).await;
    assert_eq!(stored.created, 20);
    assert_eq!(gaps(&store).await, said("gap", "20..31: 10"));
}

#[tokio::test]
async fn a_gap_begins_when_the_page_before_was_requested_and_suspects_still_grow_into_one() {
    let (_dir, store) = open();
    let poller = PollerId {
        route: Route::Leads,
        business: None,
    };
    let show = async |second: i64, shown: Vec<String>| {
        let poll = Poll {
            second,
            ..Poll::USUAL
        };
        let facts = PollFacts {
            latency: Duration::from_millis(1_500),
            ..poll.facts(&store)
        };
        store
            .store_page(poller.clone(), page(&shown), facts, None)
            .await
            .unwrap();
    };
    show(10, records(1..=20)).await;
    show(20, records(31..=50)).await;
    for second in [30, 40, 50] {
        let edited = (31..=50)
            .rev()
            .map(|id| record(id, &second.to_string()))
            .collect();
        show(second, edited).await;
    }
    let gaps = store.read(|reader| reader.gaps()).await.unwrap();
    let at = |second: i64, millis: i64| {
        let at = Poll {
            second,
            ..Poll::USUAL
        }
        .facts(&store)
        .at;
        shopmirror_core::clock::stamp(
            at.checked_sub(jiff::SignedDuration::from_millis(millis))
                .unwrap(),
        )
    };
    let spans: Vec<_> = gaps
        .iter()
        .rev()
        .map(|g| (g.from_at.clone(), g.to_at.clone()))
        .collect();
    // What happened between the request and the response may be missing from the response.
    assert_eq!(
        spans,
        [(at(10, 1_500), at(20, 0)), (at(20, 1_500), at(50, 0))]
    );
}

/// The kind of each change of a store, by the record's id; `-` for a gap.
async fn kinds(store: &Store, after: i64) -> Vec<String> {
    let changes = store
        .read(move |reader| reader.changes_after(after, 100))
        .await
        .unwrap();
    let shown = |change: shopmirror_core::record::Change| {
        format!(
            "{} {}",
            change.record_id.unwrap_or_else(|| "-".to_owned()),
            change.kind.as_str()
        )
    };
    changes.into_iter().map(shown).collect()
}

#[tokio::test]
async fn a_record_shown_twice_does_not_make_the_next_page_look_longer() {
    let (_dir, store) = open();
    let mut shown = records(3..=20);
    shown.extend([record(20, "N"), record(19, "N")]);
    Poll::USUAL.shows(&store, &shown).await;
    let before = store.seq();
    Poll::USUAL.shows(&store, &records(1..=20)).await;
    assert_eq!(kinds(&store, before).await, ["1 created", "2 created"]);
}

#[tokio::test]
async fn what_a_raised_limit_shows_below_the_page_before_is_baseline() {
    let (_dir, store) = open();
    Poll {
        limit: 10,
        ..Poll::USUAL
    }
    .shows(&store, &records(11..=20))
    .await;
    let before = store.seq();
    Poll::USUAL.shows(&store, &records(2..=21)).await;
    let mut expected: Vec<String> = (2..=10).map(|id| format!("{id} baseline")).collect();
    expected.push("21 created".to_owned());
    assert_eq!(kinds(&store, before).await, expected);
}

#[tokio::test]
async fn a_page_that_is_older_than_the_one_before_proves_nothing_and_replaces_nothing() {
    let (_dir, store) = open();
    let at = |second: i64| Poll {
        second,
        ..Poll::USUAL
    };
    at(0).shows(&store, &records(1..=20)).await;
    let mut edited = records(2..=21);
    edited[5] = record(16, "edited");
    at(10).shows(&store, &edited).await;
    let before = store.seq();
    let stale = at(20).shows(&store, &records(1..=20)).await;
    assert_eq!((stale.contiguity, stale.updated), (Contiguity::Stale, 0));
    assert_eq!(kinds(&store, before).await, [] as [&str; 0]);
    at(30).shows(&store, &records(31..=50)).await;
    let gap = store.read(|reader| reader.gaps()).await.unwrap().remove(0);
    assert_eq!(
        gap.from_at,
        shopmirror_core::clock::stamp(at(10).facts(&store).at)
    );
    // A record that was deleted in the workspace does not keep the route waiting.
    for (second, contiguity) in [
        (40, Contiguity::Stale),
        (50, Contiguity::Stale),
        (60, Contiguity::Contiguous),
    ] {
        let mut shown = records(30..=49);
        shown[3] = record(46, "edited");
        let outcome = at(second).shows(&store, &shown).await;
        assert_eq!(outcome.contiguity, contiguity, "{second}");
    }
    assert_eq!(kinds(&store, store.seq() - 1).await, ["46 updated"]);
}

#[tokio::test]
async fn a_new_poller_of_a_mirrored_route_begins_with_a_suspect_and_forwards_what_is_newer() {
    let (_dir, store) = open();
    Poll::USUAL.shows(&store, &records(1..=20)).await;
    let before = store.seq();
    let named = Poll {
        business: Some("2"),
        second: 30,
        limit: 6,
        ..Poll::USUAL
    };
    let mut shown = records(20..=23);
    shown.extend(["-1", "-2"].map(|id| record(id.parse().unwrap(), "old")));
    named.shows(&store, &shown).await;
    let expected = [
        "- gap",
        "-2 baseline",
        "-1 baseline",
        "21 created",
        "22 created",
        "23 created",
    ];
    assert_eq!(kinds(&store, before).await, expected);
    let gap = store.read(|reader| reader.gaps()).await.unwrap().remove(0);
    assert_eq!(
        (gap.certainty, gap.business.as_deref()),
        (Certainty::Suspect, Some("2"))
    );
    assert_eq!(
        gap.from_at,
        shopmirror_core::clock::stamp(Poll::USUAL.facts(&store).at)
    );
}

#[tokio::test]
async fn a_change_of_ignored_fields_alone_is_no_change_and_spoils_no_proof() {
    let (_dir, store) = open();
    let ignored = [(Route::Leads, vec!["age".to_owned()])]
        .into_iter()
        .collect();
    store.ignore_fields(ignored).await.unwrap();
    let shown = |age: u32| -> Vec<String> {
        (1..=20)
            .rev()
            .map(|id| format!(r#"{{"id":{id},"name":"N","age":{age}}}"#))
            .collect()
    };
    Poll::USUAL.shows(&store, &shown(1)).await;
    let outcome = Poll::USUAL.shows(&store, &shown(2)).await;
    assert!(
        outcome.unchanged && outcome.contiguity.is_proven(),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn a_poller_of_another_business_is_complete_from_its_own_first_page_on() {
    let (_dir, store) = open();
    let since = async |business: Option<&'static str>, served, second| {
        let poll = Poll {
            business,
            served: Some(served),
            second,
            limit: 20,
        };
        poll.shows(&store, &records(1..=20)).await;
        let pollers = store.read(|reader| reader.pollers()).await.unwrap();
        let row = pollers
            .into_iter()
            .find(|row| row.business.as_deref() == business);
        row.unwrap().complete_since.unwrap()
    };
    let first = since(Some("5"), "5", 0).await;
    let second = since(None, "3", 100).await;
    assert!(second > first, "nothing was known of 3");
    assert_eq!(
        since(Some("3"), "3", 200).await,
        second,
        "it is the list of the one before"
    );
}

#[tokio::test]
async fn an_added_business_begins_anew() {
    let (_dir, store) = open();
    let kind = async |poll: Poll, ids| poll.shows(&store, &records(ids)).await.contiguity;
    let poll = |business, served, second| Poll {
        business,
        served,
        second,
        ..Poll::USUAL
    };
    assert_eq!(
        kind(poll(None, Some("1"), 0), 1..=20).await,
        Contiguity::Baseline
    );
    assert_eq!(
        kind(poll(Some("1"), Some("1"), 10), 3..=22).await,
        Contiguity::Suspect
    );
    assert_eq!(
        kind(poll(Some("2"), Some("2"), 20), 101..=120).await,
        Contiguity::Baseline
    );
    assert_eq!(gaps(&store).await.len(), 1);
}

#[tokio::test]
async fn what_only_an_older_page_shows_is_not_on_the_newest_page() {
    let (dir, store) = open();
    Poll::USUAL.shows(&store, &records(21..=40)).await;
    let mut shown = records(21..=39);
    shown.push(record(20, "N"));
    let outcome = Poll::USUAL.shows(&store, &shown).await;
    assert_eq!(
        (outcome.contiguity, outcome.created),
        (Contiguity::Stale, 1)
    );
    let tool = rusqlite::Connection::open(dir.path().join("mirror.db")).unwrap();
    let ids = "SELECT group_concat(id) FROM leads WHERE _last_seen_at IS NOT NULL";
    let left: Option<String> = tool.query_row(ids, [], |row| row.get(0)).unwrap();
    assert_eq!(left.as_deref(), Some("20"));
}
