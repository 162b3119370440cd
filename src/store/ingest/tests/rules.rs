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
    assert_eq!(gaps(&store).await, said("gap", "20..-: 10"));
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
            page_age: Duration::from_millis(1_500),
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
async fn a_gap_begins_above_the_highest_id_that_any_page_showed() {
    let (_dir, store) = open();
    Poll::USUAL.shows(&store, &records(31..=50)).await;
    // By last change: a page of old records.
    Poll::USUAL.shows(&store, &records(1..=20)).await;
    Poll::USUAL.shows(&store, &records(71..=90)).await;
    let gap = store.read(|reader| reader.gaps()).await.unwrap().remove(0);
    let bounds = (gap.after_id.as_deref(), gap.before_id.as_deref());
    assert_eq!(bounds, (Some("50"), None));
}

#[tokio::test]
async fn a_full_page_that_shows_a_record_twice_is_not_the_whole_list() {
    let (_dir, store) = open();
    Poll::USUAL.shows(&store, &records(1..=20)).await;
    let mut shown = records(101..=119);
    shown.push(record(119, "N"));
    let outcome = Poll::USUAL.shows(&store, &shown).await;
    assert_eq!(outcome.contiguity, Contiguity::Gap);
}

/// A full page with dense ids: 84 of its records are new, and 16 old ones were edited, far apart.
fn new_and_edited_old() -> Vec<i64> {
    let mut ids: Vec<i64> = (1_917..=2_000).rev().collect();
    for number in (0..16).rev() {
        ids.push(100 + 50 * number);
    }
    ids
}

fn named(ids: &[i64]) -> Vec<String> {
    ids.iter().map(|id| record(*id, "N")).collect()
}

#[tokio::test]
async fn a_burst_behind_saves_that_change_nothing_is_no_silent_loss_while_its_ids_show_it() {
    for (lost, saved_again) in [(190, 1), (150, 1), (30, 1), (30, 11), (30, 12), (30, 40)] {
        let (_dir, store) = open();
        let poll = |second| Poll {
            limit: 100,
            second,
            ..Poll::USUAL
        };
        let before = new_and_edited_old();
        let lowest = 2_001 + lost;
        let new = 100 - i64::try_from(saved_again).unwrap();
        let mut after: Vec<i64> = (lowest..lowest + new).rev().collect();
        after.extend(&before[..saved_again]);
        poll(0).shows(&store, &named(&before)).await;
        poll(10).shows(&store, &named(&after)).await;
        let bounds = format!("2000..-: {lost}");
        assert_eq!(
            gaps(&store).await,
            said("suspect", &bounds),
            "{lost} lost behind {saved_again}"
        );
    }
}

/// A page of records with the time of their creation, the newest first; one is edited.
fn created_by_the_minute(
    ids: std::ops::RangeInclusive<i64>,
    edited: i64,
    name: &str,
) -> Vec<String> {
    let mut texts = Vec::new();
    for id in ids.rev() {
        let name = if id == edited { name } else { "N" };
        let minute = id % 60;
        texts.push(format!(
            r#"{{"id":{id},"created_at":"2026-01-02T03:{minute:02}:00Z","name":"{name}"}}"#
        ));
    }
    texts
}

#[tokio::test]
async fn the_order_of_a_list_is_learned_and_outlives_the_process() {
    use shopmirror_core::contiguity::Order;
    let (dir, store) = open();
    let order = async |store: &Store| {
        let pollers = store.read(|reader| reader.pollers()).await.unwrap();
        pollers[0].profile.order
    };
    Poll::at(0)
        .shows(&store, &created_by_the_minute(1..=20, 5, "N"))
        .await;
    for (second, name) in [(10, "A"), (20, "B")] {
        Poll::at(second)
            .shows(&store, &created_by_the_minute(1..=20, 5, name))
            .await;
    }
    assert_eq!(order(&store).await.order(), Order::Unknown);
    drop(store);

    let store = Store::open(&dir.path().join("mirror.db")).unwrap();
    Poll::at(30)
        .shows(&store, &created_by_the_minute(1..=20, 5, "C"))
        .await;
    let learned = order(&store).await;
    assert_eq!(learned.order(), Order::ByCreation);
    assert!(learned.ids_never_rise() && learned.created_at_never_rises());

    // An edit brings a record to the front after all.
    let mut shown = created_by_the_minute(1..=20, 5, "D");
    let edited = shown.remove(15);
    shown.insert(0, edited);
    Poll::at(40).shows(&store, &shown).await;
    assert_eq!(order(&store).await.order(), Order::ByChange);
}

#[tokio::test]
async fn a_gap_of_text_ids_is_not_hidden_in_the_suspect_before_it() {
    let (_dir, store) = open();
    let texts = |ids: std::ops::RangeInclusive<i64>, name: &str| -> Vec<String> {
        let text = |id| format!(r#"{{"id":"r{id}","name":"{name}"}}"#);
        ids.rev().map(text).collect()
    };
    Poll::at(0).shows(&store, &texts(1..=20, "N")).await;
    Poll::at(10).shows(&store, &texts(1..=20, "A")).await;
    Poll::at(20).shows(&store, &texts(1..=20, "B")).await;
    Poll::at(30).shows(&store, &texts(31..=50, "N")).await;
    Poll::at(40).shows(&store, &texts(31..=50, "A")).await;
    let all = gaps(&store).await;
    let certainties: Vec<&str> = all
        .iter()
        .map(|(certainty, _)| certainty.as_str())
        .collect();
    assert_eq!(certainties, ["suspect", "gap", "suspect"]);
}

#[tokio::test]
async fn a_gap_begins_at_the_highest_id_ever_shown_though_the_last_page_lacks_it() {
    let (_dir, store) = open();
    Poll::at(0).shows(&store, &records(1..=40)).await;
    // Edits of old records push the newest ones off the page.
    let mut edited: Vec<String> = (1..=15).rev().map(|id| record(id, "edited")).collect();
    edited.extend(records(16..=40).into_iter().skip(20));
    Poll::at(10).shows(&store, &edited).await;
    Poll::at(20).shows(&store, &records(61..=80)).await;
    let last = gaps(&store).await.pop();
    let expected = ("gap".to_owned(), "40..-: 20".to_owned());
    assert_eq!(last, Some(expected));
}
