//! What a page proves and which of its records are new, seen through the store.

use std::collections::HashMap;
use std::time::Duration;

use crate::record::{Kind, Page, PollerId, Repeats, Route};
use crate::store::fixtures::{Poll, count, gaps, open, page, record, records, with_text_ids};
use crate::store::{PollFacts, Store, StoreError};

fn said(certainty: &'static str, bounds: &str) -> Vec<(&'static str, String)> {
    vec![(certainty, bounds.to_owned())]
}

#[tokio::test]
async fn an_edited_record_does_not_hide_what_was_missed() {
    for reopens in [false, true] {
        let (dir, mut store) = open();
        Poll::USUAL.shows(&store, &records(1..=20)).await;
        if reopens {
            drop(store);
            store = Store::open(&dir.path().join("mirror.db")).unwrap();
        }
        let mut shown = records(42..=60);
        shown.insert(0, record(10, "Edited"));
        Poll::USUAL.shows(&store, &shown).await;
        assert_eq!(gaps(&store).await, said("gap", "20..42: 21"), "reopened: {reopens}");
    }
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
async fn a_record_twice_on_a_full_page_does_not_hide_what_was_missed() {
    let (_dir, store) = open();
    Poll::USUAL.shows(&store, &records(1..=20)).await;
    // Twenty items, one of them twice: a page of nineteen records is full all the same.
    let shown = page(&records(42..=60));
    let repeats = Repeats { count: 1, two_texts: None };
    let shown = Page::with_repeats(shown.body().to_owned(), shown.records().to_vec(), repeats);
    let key = PollerId { route: Route::Leads, business: None };
    for expected in [19, 0] {
        let facts = Poll::USUAL.facts(&store);
        let outcome = store.store_page(key.clone(), shown.clone(), facts, None).await.unwrap();
        assert_eq!(outcome.created, expected);
        assert_ne!(outcome.contiguity, crate::contiguity::Contiguity::Complete);
    }
    assert_eq!(gaps(&store).await, said("gap", "20..42: 21"));
}

#[tokio::test]
async fn a_record_past_a_hole_does_not_make_the_gap_small() {
    let (_dir, store) = open();
    Poll::USUAL.shows(&store, &records(1..=20)).await;
    let mut shown = records(61..=79);
    shown.push(record(21, "N"));
    Poll::USUAL.shows(&store, &shown).await;
    assert_eq!(gaps(&store).await, said("gap", "21..61: 39"));
}

#[tokio::test]
async fn edits_beside_an_unchanged_record_are_no_suspect_also_after_a_restart() {
    for reopens in [false, true] {
        let (dir, mut store) = open();
        Poll::USUAL.shows(&store, &records(1..=20)).await;
        if reopens {
            drop(store);
            store = Store::open(&dir.path().join("mirror.db")).unwrap();
        }
        let mut shown: Vec<String> = (12..=20).map(|id| record(id, "Edited")).collect();
        shown.extend(records(21..=30));
        shown.push(record(11, "N"));
        let outcome = Poll::USUAL.shows(&store, &shown).await;
        assert_eq!((outcome.created, outcome.updated), (10, 9));
        assert_eq!(gaps(&store).await, [], "reopened: {reopens}");
    }
}

#[tokio::test]
async fn a_record_that_another_poller_saw_change_and_change_back_proves_nothing() {
    let (_dir, store) = open();
    let poll = |business| Poll { business: Some(business), ..Poll::USUAL };
    poll("1").shows(&store, &records(1..=20)).await;
    poll("2").shows(&store, &records(1..=20)).await;
    let mut changed = records(1..=20);
    changed[0] = record(20, "Edited");
    poll("2").shows(&store, &changed).await;
    poll("2").shows(&store, &records(1..=20)).await;
    // For the first poller, record 20 looks as before.
    let mut shown = records(61..=79);
    shown.push(record(20, "N"));
    poll("1").shows(&store, &shown).await;
    let found = gaps(&store).await;
    assert!(found.len() == 1 && found[0].1.starts_with("20..61"), "{found:?}");
}

#[tokio::test]
async fn a_list_whose_every_record_changes_all_the_time_is_one_suspect() {
    let (_dir, store) = open();
    for second in 0..6 {
        let shown: Vec<String> = (1..=20).map(|id| record(id, &second.to_string())).collect();
        Poll { second, ..Poll::USUAL }.shows(&store, &shown).await;
    }
    assert_eq!(gaps(&store).await, said("suspect", "-..-: ?"));
    assert_eq!(count(&store, Kind::Gap).await, 1);
    let gap = store.read(|reader| reader.gaps()).await.unwrap().remove(0);
    assert!(gap.to_at.ends_with(":05.000000Z"), "{gap:?}");
}

#[tokio::test]
async fn an_old_record_that_an_edit_brings_to_the_front_is_news() {
    let (_dir, store) = open();
    Poll::USUAL.shows(&store, &records(101..=120)).await;
    let mut shown = records(102..=120);
    shown.insert(0, record(7, "Edited"));
    let outcome = Poll::USUAL.shows(&store, &shown).await;
    assert_eq!((outcome.created, gaps(&store).await.len()), (1, 0));
    assert_eq!(count(&store, Kind::Created).await, 1);
}

#[tokio::test]
async fn a_raised_limit_forwards_nothing_that_was_there_before() {
    let created = r#","created_at":"2026-01-"#;
    let day = |records: &[String]| -> Vec<String> {
        let dated = |text: &String| {
            let id: i64 =
                crate::record::field(text, "id").unwrap().trim_matches(['"', 'k']).parse().unwrap();
            format!("{}{created}{:02}T00:00:00Z\"}}", &text[..text.len() - 1], id - 80)
        };
        records.iter().map(dated).collect()
    };
    let as_they_are = |records: &[String]| records.to_vec();
    let dated_text = |records: &[String]| day(&with_text_ids(records));
    type Shape<'a> = &'a dyn Fn(&[String]) -> Vec<String>;
    let shapes: [Shape<'_>; 3] = [&as_they_are, &with_text_ids, &dated_text];
    for shape in shapes {
        let (_dir, store) = open();
        Poll::USUAL.shows(&store, &shape(&records(91..=110))).await;
        let longer = Poll { limit: 30, ..Poll::USUAL };
        let outcome = longer.shows(&store, &shape(&records(82..=111))).await;
        assert_eq!(outcome.created, 10);
        assert_eq!(count(&store, Kind::Created).await, 1, "only 111 is new");
        assert_eq!(count(&store, Kind::Baseline).await, 29);
    }
}

#[tokio::test]
async fn a_route_that_turns_empty_is_told_by_its_poller_until_it_shows_records_again() {
    let (dir, mut store) = open();
    Poll::USUAL.shows(&store, &records(1..=20)).await;
    for second in 1..=3 {
        Poll { second, ..Poll::USUAL }.shows(&store, &[]).await;
        let rows = store.read(|reader| reader.pollers()).await.unwrap();
        assert!(rows[0].emptied_at.as_ref().is_some_and(|at| at.ends_with(":01.000000Z")));
        drop(store);
        store = Store::open(&dir.path().join("mirror.db")).unwrap();
    }
    Poll { second: 4, ..Poll::USUAL }.shows(&store, &records(1..=20)).await;
    assert_eq!(store.read(|reader| reader.pollers()).await.unwrap()[0].emptied_at, None);
    assert_eq!(gaps(&store).await, []);
}

#[tokio::test]
async fn a_body_seen_before_is_noted_without_being_decoded() {
    let (_dir, store) = open();
    let poller = crate::record::PollerId { route: Route::Leads, business: None };
    let shown = records(1..=20);
    let body = crate::store::fixtures::page(&shown).body().to_owned();
    let facts = Poll::USUAL.facts(&store);
    assert_eq!(
        store.note_unchanged(&poller, body.as_bytes(), &facts),
        None,
        "no page is known yet"
    );
    Poll::USUAL.shows(&store, &shown).await;
    let noted = store.note_unchanged(&poller, body.as_bytes(), &facts).unwrap();
    assert!(noted.unchanged && noted.overlap == 20);
    assert_eq!(store.note_unchanged(&poller, b"[]", &facts), None);
    // A search that changes a stored record makes the store look again.
    Poll { business: Some("2"), ..Poll::USUAL }.shows(&store, &[record(20, "Edited")]).await;
    assert_eq!(store.note_unchanged(&poller, body.as_bytes(), &facts), None);
}

#[tokio::test]
async fn a_mirror_row_deleted_by_hand_comes_back_with_the_versions_of_the_log() {
    let (dir, store) = open();
    Poll::USUAL.shows(&store, &records(1..=5)).await;
    drop(store);
    let path = dir.path().join("mirror.db");
    let tool = rusqlite::Connection::open(&path).unwrap();
    tool.execute("DELETE FROM leads WHERE id IN ('2', '3')", []).unwrap();
    drop(tool);
    let store = Store::open(&path).unwrap();
    let mut shown = records(1..=5);
    shown[2] = record(3, "Edited");
    let outcome = Poll { second: 9, ..Poll::USUAL }.shows(&store, &shown).await;
    assert_eq!((outcome.created, outcome.updated), (0, 1));
    let versions = store.read(|reader| reader.history(Route::Leads, "3")).await.unwrap().changes;
    assert_eq!(versions.iter().map(|change| change.version).collect::<Vec<_>>(), [1, 2]);
    for (id, seq) in [("2", 2), ("3", 6)] {
        let row = store.read(move |reader| reader.record(Route::Leads, id)).await.unwrap().unwrap();
        assert_eq!(row["_seq"], seq);
        let whole = store.read(|reader| reader.record(Route::Leads, "1")).await.unwrap().unwrap();
        assert_eq!(row["_first_seen_at"], whole["_first_seen_at"], "it was seen before");
        assert_eq!(row["_changed_at"] == whole["_changed_at"], id == "2");
    }
}

#[tokio::test]
async fn half_of_a_surrogate_pair_in_a_field_name_keeps_its_data_and_stops_nothing() {
    let (_dir, store) = open();
    Poll::USUAL.shows(&store, &[r#"{"id":1,"a\ud800":"x","b":2}"#.to_owned()]).await;
    let reordered =
        Poll::USUAL.shows(&store, &[r#"{"id":1,"b":2,"a\ud800":"x"}"#.to_owned()]).await;
    assert_eq!(reordered.updated, 0, "the order of fields means nothing here either");
    let row = store.read(|reader| reader.record(Route::Leads, "1")).await.unwrap().unwrap();
    assert_eq!((&row[r"a\ud800"], &row["b"]), (&"x".into(), &2.into()));
}

fn ignoring(fields: &[&str]) -> HashMap<Route, Vec<String>> {
    [(Route::Leads, fields.iter().map(|&field| field.to_owned()).collect())].into()
}

/// Records of which each says how old it is.
fn aged(age: u32, edited: &str) -> Vec<String> {
    let aged = |text: String| text.replace('}', &format!(",\"age\":\"{age} min ago\"}}"));
    (1..=20).rev().map(|id| aged(record(id, if id == 7 { edited } else { "N" }))).collect()
}

#[tokio::test]
async fn an_ignored_field_changes_nothing_and_one_that_changes_by_itself_hides_no_proof() {
    let (dir, mut store) = open();
    store.ignore_fields(ignoring(&["age"])).await.unwrap();
    Poll::USUAL.shows(&store, &aged(0, "N")).await;
    // Until three pages have shown it, the field could be the trace of edits.
    for age in 1..=3 {
        let outcome = Poll::USUAL.shows(&store, &aged(age, "N")).await;
        assert_eq!((outcome.updated, outcome.contiguity.is_proven()), (0, false), "{age}");
    }
    assert_eq!(gaps(&store).await, said("suspect", "-..-: ?"), "one that grew");
    for age in 4..8 {
        if age == 6 {
            store.close().await.unwrap();
            store = Store::open(&dir.path().join("mirror.db")).unwrap();
            store.ignore_fields(ignoring(&["age"])).await.unwrap();
        }
        let outcome = Poll::USUAL.shows(&store, &aged(age, "N")).await;
        assert!(outcome.unchanged && outcome.contiguity.is_proven(), "{age}: {outcome:?}");
    }
    assert_eq!(Poll::USUAL.shows(&store, &aged(8, "Edited")).await.updated, 1);
    let row = store.read(|reader| reader.record(Route::Leads, "7")).await.unwrap().unwrap();
    assert_eq!((&row["name"], &row["age"]), (&"Edited".into(), &"8 min ago".into()));
    assert_eq!(gaps(&store).await.len(), 1);
    // No longer ignored, each record has changed.
    store.ignore_fields([].into()).await.unwrap();
    assert_eq!(Poll::USUAL.shows(&store, &aged(8, "Edited")).await.updated, 19);
}

#[tokio::test]
async fn a_touched_record_proves_nothing_although_the_field_that_shows_it_is_ignored() {
    let touched = |text: String, at: i64| text.replace('}', &format!(",\"updated_at\":{at}}}"));
    for reopens in [false, true] {
        let (dir, mut store) = open();
        store.ignore_fields(ignoring(&["updated_at"])).await.unwrap();
        let first = |last: i64| -> Vec<String> {
            (last - 19..=last).rev().map(|id| touched(record(id, "N"), id)).collect()
        };
        Poll::USUAL.shows(&store, &first(20)).await;
        // Edits in other places show some records changed and others not.
        let mut shown = first(21);
        shown[5] = touched(record(16, "N"), 100);
        assert!(Poll::USUAL.shows(&store, &shown).await.contiguity.is_proven());
        if reopens {
            drop(store);
            store = Store::open(&dir.path().join("mirror.db")).unwrap();
            store.ignore_fields(ignoring(&["updated_at"])).await.unwrap();
        }
        // 30 were missed, and one of the page before was touched and came to the front.
        let mut shown: Vec<String> = first(70)[..19].to_vec();
        shown.insert(0, touched(record(10, "N"), 200));
        let outcome = Poll::USUAL.shows(&store, &shown).await;
        assert_eq!((outcome.created, outcome.updated), (19, 0));
        assert_eq!(gaps(&store).await, said("gap", "21..52: 30"), "reopened: {reopens}");
    }
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

/// Leads of one shop, each with a name and the creation time that `at` gives for its id, in days.
fn made_at(ids: std::ops::RangeInclusive<i64>, name: &str, at: impl Fn(i64) -> i64) -> Vec<String> {
    ids.rev()
        .map(|id| {
            let made = jiff::Timestamp::from_second(1_500_000_000 + at(id) * 86_400).unwrap();
            format!(r#"{{"id":{id},"name":"{name} {id}","created_at":"{made}"}}"#)
        })
        .collect()
}

#[tokio::test]
async fn the_records_of_another_shop_are_refused_and_new_creation_times_are_not() {
    let (_dir, store) = open();
    Poll::USUAL.shows(&store, &made_at(1..=20, "Ann", |id| id)).await;
    let poller = || PollerId { route: Route::Leads, business: None };
    let theirs = page(&made_at(1..=20, "Bob", |id| id * 7));
    let refused = store.store_page(poller(), theirs, Poll::USUAL.facts(&store), None).await;
    assert!(matches!(refused, Err(StoreError::OtherShop)), "{refused:?}");
    assert_eq!(count(&store, Kind::Updated).await, 0);
    // The same people, whose dates were made anew or corrected one by one.
    let imported = Poll::USUAL.shows(&store, &made_at(1..=20, "Ann", |id| 900 + id % 3)).await;
    assert_eq!(imported.updated, 20);
    // All are edited at once, and none is made anew.
    let edited = Poll::USUAL.shows(&store, &made_at(1..=20, "Cem", |id| 900 + id % 3)).await;
    assert_eq!(edited.updated, 20);
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
