//! A list belongs to the business that served it, whatever name it is requested by.

use std::ops::RangeInclusive;

use crate::store::fixtures::{Poll, gaps, open, records};
use crate::store::{Contiguity, Store};

/// What a page of a business proves, and how many of its records count as created.
async fn shows(
    store: &Store,
    business: Option<&'static str>,
    served: Option<&'static str>,
    ids: RangeInclusive<i64>,
) -> (Contiguity, i64) {
    let before = store.seq();
    let poll = Poll {
        business,
        served,
        ..Poll::USUAL
    };
    let outcome = poll.shows(store, &records(ids)).await;
    let created = store.read(move |reader| {
        let kinds = [shopmirror_core::record::Kind::Created];
        let routes = [shopmirror_core::record::Route::Leads];
        reader.count_changes(before, i64::MAX, &routes, &kinds, &[])
    });
    (outcome.contiguity, created.await.unwrap())
}

/// The name of each poller and the business that served it.
async fn pollers(store: &Store) -> Vec<(Option<String>, Option<String>)> {
    let rows = store.read(|reader| reader.pollers()).await.unwrap();
    rows.into_iter()
        .map(|row| (row.business, row.served_business))
        .collect()
}

fn names(names: [(Option<&str>, &str); 2]) -> Vec<(Option<String>, Option<String>)> {
    names
        .map(|(name, served)| (name.map(str::to_owned), Some(served.to_owned())))
        .to_vec()
}

#[tokio::test]
async fn a_default_business_that_gets_a_name_goes_on_whichever_business_answers_first() {
    for first in ["1", "2"] {
        let (_dir, store) = open();
        let baseline = (Contiguity::Baseline, 0);
        assert_eq!(shows(&store, None, Some("1"), 1..=20).await, baseline);
        if first == "2" {
            let other = shows(&store, Some("2"), Some("2"), 1001..=1020).await;
            assert_eq!(other, baseline);
        }
        let named = shows(&store, Some("1"), Some("1"), 251..=270).await;
        assert_eq!(named, (Contiguity::Gap, 20), "{first} first");
        if first == "1" {
            let other = shows(&store, Some("2"), Some("2"), 1001..=1020).await;
            assert_eq!(other, baseline);
        }
        let gaps = store.read(|reader| reader.gaps()).await.unwrap();
        assert_eq!(gaps.len(), 1);
        assert_eq!(gaps[0].business.as_deref(), Some("1"));
        let both = names([(Some("1"), "1"), (Some("2"), "2")]);
        assert_eq!(pollers(&store).await, both);
        let again = shows(&store, Some("1"), Some("1"), 252..=271).await;
        assert_eq!(again, (Contiguity::Contiguous, 1));
    }
}

#[tokio::test]
async fn a_named_business_that_becomes_the_default_goes_on() {
    let (_dir, store) = open();
    shows(&store, Some("1"), Some("1"), 1..=20).await;
    shows(&store, Some("2"), Some("2"), 1001..=1020).await;
    shows(&store, Some("1"), Some("1"), 31..=50).await;
    let unnamed = shows(&store, None, Some("1"), 33..=52).await;
    assert_eq!(unnamed, (Contiguity::Contiguous, 2));
    let both = names([(None, "1"), (Some("2"), "2")]);
    assert_eq!(pollers(&store).await, both);
    let gap = store.read(|reader| reader.gaps()).await.unwrap().remove(0);
    assert_eq!(gap.business, None, "it is shown with its poller");
}

#[tokio::test]
async fn another_default_business_begins_with_a_baseline_and_the_first_one_goes_on_when_it_is_back()
{
    let (_dir, store) = open();
    shows(&store, None, Some("1"), 1..=20).await;
    let other = shows(&store, None, Some("2"), 1001..=1020).await;
    assert_eq!(other, (Contiguity::Baseline, 0));
    let both = names([(None, "2"), (Some("1"), "1")]);
    assert_eq!(pollers(&store).await, both);
    let back = shows(&store, None, Some("1"), 251..=270).await;
    assert_eq!(back, (Contiguity::Gap, 20));
    let both = names([(None, "1"), (Some("2"), "2")]);
    assert_eq!(pollers(&store).await, both);
    let named = shows(&store, Some("2"), Some("2"), 1002..=1021).await;
    assert_eq!(named, (Contiguity::Contiguous, 1));
    assert_eq!(gaps(&store).await.len(), 1);
}

#[tokio::test]
async fn where_no_response_names_a_business_a_new_name_may_be_the_list_of_the_default() {
    let (_dir, store) = open();
    shows(&store, None, None, 1..=20).await;
    for name in ["2", "1"] {
        let named = shows(&store, Some(name), None, 251..=270).await;
        assert_eq!(named.0, Contiguity::Suspect, "{name}");
    }
    assert_eq!(gaps(&store).await.len(), 2);
    let unnamed = shows(&store, None, None, 252..=271).await;
    assert_eq!(
        unnamed,
        (Contiguity::Gap, 1),
        "its own last page is what counts"
    );
}

#[tokio::test]
async fn a_list_goes_on_when_its_responses_begin_to_name_its_business() {
    let (_dir, store) = open();
    shows(&store, None, None, 1..=20).await;
    let named = shows(&store, None, Some("1"), 3..=22).await;
    assert_eq!(named, (Contiguity::Contiguous, 2));
    let silent = shows(&store, None, None, 4..=23).await;
    assert_eq!(silent, (Contiguity::Contiguous, 1));
    let configured = shows(&store, Some("1"), None, 5..=24).await;
    assert_eq!(configured, (Contiguity::Contiguous, 1));
}

#[tokio::test]
async fn a_record_that_moved_to_another_business_without_a_change_is_followed_there() {
    let (_dir, store) = open();
    let business_of_20 = async || {
        let read = store.read(|reader| reader.record(shopmirror_core::record::Route::Leads, "20"));
        read.await.unwrap().unwrap()["_business"].clone()
    };
    shows(&store, Some("1"), Some("1"), 1..=20).await;
    shows(&store, Some("2"), Some("2"), 101..=120).await;
    assert_eq!(business_of_20().await, "1");
    let before = store.seq();
    let poll = Poll {
        business: Some("2"),
        served: Some("2"),
        ..Poll::USUAL
    };
    let mut shown = records(102..=120);
    shown.extend(records(20..=20));
    poll.shows(&store, &shown).await;
    assert_eq!(business_of_20().await, "2");
    assert_eq!(store.seq(), before, "it is no change of the record");
    // The list that it left does not take it back.
    shows(&store, Some("1"), Some("1"), 1..=19).await;
    assert_eq!(business_of_20().await, "2");
}

#[tokio::test]
async fn the_default_business_under_its_own_name_is_no_other_one() {
    let (_dir, store) = open();
    shows(&store, None, Some("1"), 1..=20).await;
    let named = shows(&store, Some("1"), Some("1"), 1..=20).await;
    assert_eq!(named, (Contiguity::Contiguous, 0));
}
