//! How narrow the bounds of a gap are.

use super::*;

/// The previous page was read at this second.
const READ_AT: i64 = 10_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A list by creation whose page before held the ids 1 to 100, each created at 100 times its id.
fn by_creation() -> ListProfile {
    let mut profile = list_with_steps_of(1);
    profile.order = order::by_creation();
    profile.newest_created_at = Some(at(9_900));
    profile
}

fn previous() -> PreviousPage {
    PreviousPage {
        read_at: Some(at(READ_AT)),
        ..PREVIOUS
    }
}

/// A new record, created at this second.
fn created(id: i64, second: i64) -> Sighting {
    Sighting {
        created_at: Some(at(second)),
        ..sighting(id, NotShown)
    }
}

fn bounds_of(mut profile: ListProfile, page: &[Sighting]) -> Bounds {
    let proof = profile.read_page(Some(previous()), page, page.len());
    assert_eq!(proof.contiguity, Contiguity::Gap);
    proof.bounds
}

#[test]
fn by_creation_a_gap_ends_at_the_oldest_record_of_the_page_in_the_key_that_never_rose() {
    let page: Vec<Sighting> = (121..=220).rev().map(|id| created(id, 100 * id)).collect();
    let both = bounds_of(by_creation(), &page);
    assert_eq!(
        (both.after, both.before, both.missed),
        (Some(100), Some(121), Some(20))
    );
    assert_eq!(both.created, Some((at(9_900), at(12_100))));

    let mut ids_rise = page.clone();
    ids_rise.swap(0, 1);
    ids_rise[0].created_at = page[0].created_at;
    ids_rise[1].created_at = page[1].created_at;
    let by_time = bounds_of(by_creation(), &ids_rise);
    assert_eq!((by_time.after, by_time.before), (Some(100), None));
    assert_eq!(by_time.created, Some((at(9_900), at(12_100))));

    let mut times_rise = page;
    times_rise[0].created_at = Some(at(12_500));
    let by_id = bounds_of(by_creation(), &times_rise);
    assert_eq!((by_id.after, by_id.before), (Some(100), Some(121)));
    assert_eq!(by_id.created, None);
}

#[test]
fn a_time_of_creation_that_is_still_to_come_does_not_narrow_a_gap() {
    let page: Vec<Sighting> = (121..=220).rev().map(|id| created(id, 100 * id)).collect();
    let mut profile = by_creation();
    profile.newest_created_at = Some(at(12_000));
    let bounds = bounds_of(profile, &page);
    assert_eq!(bounds.created, Some((at(READ_AT), at(12_100))));
}

#[test]
fn by_change_or_in_an_unknown_order_only_a_later_record_lies_above_a_gap() {
    let page: Vec<Sighting> = (121..=220).rev().map(|id| created(id, 100 * id)).collect();
    let mut profile = by_creation();
    profile.order = ListOrder::default();
    let bounds = bounds_of(profile, &page);
    assert_eq!(bounds, open_above(100, 100, 20));
}

/// What a gap says of an import of customers with these dates, the lowest id first.
fn import_of(dates: impl Iterator<Item = i64>) -> Option<Import> {
    let mut page: Vec<Sighting> = dates
        .zip(201..)
        .map(|(second, id)| created(id, second))
        .collect();
    page.reverse();
    bounds_of(by_creation(), &page).import
}

#[test]
fn new_records_dated_before_the_page_before_are_an_import_whose_earlier_days_are_unsure() {
    let from = at(1_000);
    let import = |may_be_older| Some(Import { from, may_be_older });
    assert_eq!(
        import_of((10..110).map(|n| n * 100)).map(|import| import.may_be_older),
        Some(true)
    );
    assert_eq!(
        import_of((10..50).map(|n| n * 100)),
        import(true),
        "the oldest came first"
    );
    assert_eq!(
        import_of((10..50).rev().map(|n| n * 100)),
        import(false),
        "the oldest came last"
    );
    let mixed = [3_000, 1_000, 4_000, 2_000, 5_000];
    assert_eq!(import_of(mixed.into_iter()), import(true));
    assert_eq!(import_of(20_000..20_050), None);
    let a_minute_apart = (9_850..9_900).rev();
    assert_eq!(import_of(a_minute_apart), None, "clocks differ by that");
}
