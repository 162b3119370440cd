use crate::record::Kind;
use crate::store::fixtures::{Poll, count, gaps, open, records};

const NAMED: Poll = Poll { business: Some("1"), second: 60, ..Poll::USUAL };

#[tokio::test]
async fn naming_the_business_goes_on_from_what_the_default_poller_knew() {
    for served in [None, Some("1")] {
        let (_dir, store) = open();
        Poll { served, ..Poll::USUAL }.shows(&store, &records(1..=20)).await;
        Poll { served, ..NAMED }.shows(&store, &records(4..=23)).await;
        assert_eq!(count(&store, Kind::Created).await, 3, "what came meanwhile is created");
        assert_eq!(gaps(&store).await, []);
        let rows = store.read(|reader| reader.pollers()).await.unwrap();
        assert_eq!(rows.len(), 1, "one poller is left: {rows:?}");
        assert_eq!(rows[0].business.as_deref(), Some("1"));
    }
}

#[tokio::test]
async fn what_was_missed_while_the_business_was_named_is_a_gap_or_a_suspect() {
    for (served, certainty) in [(Some("1"), "gap"), (None, "suspect")] {
        let (_dir, store) = open();
        Poll { served, ..Poll::USUAL }.shows(&store, &records(1..=20)).await;
        Poll { served, ..NAMED }.shows(&store, &records(221..=240)).await;
        assert_eq!(gaps(&store).await, [(certainty, "20..221: 200".to_owned())], "{served:?}");
        assert_eq!(count(&store, Kind::Created).await, 20);
    }
}

#[tokio::test]
async fn the_default_business_goes_on_from_the_one_that_was_named() {
    let (_dir, store) = open();
    Poll { served: Some("1"), ..NAMED }.shows(&store, &records(1..=20)).await;
    let back = Poll { served: Some("1"), second: 120, ..Poll::USUAL };
    back.shows(&store, &records(31..=50)).await;
    assert_eq!(gaps(&store).await, [("gap", "20..31: 10".to_owned())]);
}

#[tokio::test]
async fn another_business_begins_with_a_baseline() {
    let (_dir, store) = open();
    Poll { served: Some("1"), ..Poll::USUAL }.shows(&store, &records(1..=20)).await;
    let other = Poll { business: Some("2"), served: Some("2"), second: 60, ..Poll::USUAL };
    other.shows(&store, &records(101..=120)).await;
    Poll { business: Some("3"), second: 90, ..Poll::USUAL }.shows(&store, &[]).await;
    assert_eq!(gaps(&store).await, []);
    assert_eq!(count(&store, Kind::Created).await, 0);
}

#[tokio::test]
async fn a_business_added_long_after_the_default_one_ended_begins_with_a_baseline() {
    let (_dir, store) = open();
    Poll::USUAL.shows(&store, &records(1..=20)).await;
    NAMED.shows(&store, &records(101..=120)).await;
    let later = Poll { business: Some("2"), second: 90_000, ..Poll::USUAL };
    later.shows(&store, &records(201..=220)).await;
    assert_eq!(gaps(&store).await.len(), 1, "only the first one is a suspect");
    assert_eq!(count(&store, Kind::Created).await, 20);
}
