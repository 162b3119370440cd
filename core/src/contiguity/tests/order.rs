//! How the order of a list is learned.

use super::*;

/// A page as a list of words: the record's place on the previous page, or `-` if it was not on it;
/// `'` after an edit; `@` and the second in which it was created, else its own.
fn page(words: &str) -> Vec<Sighting> {
    let mut page = Vec::new();
    for (number, word) in (0..).zip(words.split_whitespace()) {
        let (word, second) = match word.split_once('@') {
            Some((word, second)) => (word, second.parse().unwrap()),
            None => (word, 1_000 - number),
        };
        let place: Option<usize> = word.trim_end_matches('\'').parse().ok();
        let is_edited = word.ends_with('\'');
        let relation = match place {
            Some(place) if is_edited => Relation::Changed(place),
            Some(place) => Relation::Unchanged(place),
            None => NotShown,
        };
        page.push(Sighting {
            id: Some(1_000 - number),
            created_at: Some(Timestamp::from_second(second).unwrap()),
            relation,
            is_edited,
        });
    }
    page
}

/// Ten unchanged records, then one that was edited, then two more.
const EDITED_IN_PLACE: &str = "0 1 2 3 4 5 6 7 8 9 10' 11 12";

/// What is known of a list after three pages on which an edited record stayed in its place.
pub(super) fn by_creation() -> ListOrder {
    learned(&[EDITED_IN_PLACE; 3])
}

fn learned(pages: &[&str]) -> ListOrder {
    let mut order = ListOrder::default();
    for words in pages {
        order.learn(&page(words));
    }
    order
}

#[test]
fn one_edited_record_above_one_that_was_above_it_shows_for_good_that_the_list_is_by_change() {
    assert_eq!(learned(&["3' 0 1 2 4"]).order(), Order::ByChange);
    let mut order = by_creation();
    order.learn(&page("3' 0 1 2 4"));
    assert_eq!(order.order(), Order::ByChange, "also after all");
    for _ in 0..9 {
        order.learn(&page(EDITED_IN_PLACE));
    }
    assert_eq!(order.order(), Order::ByChange, "for good");
    assert!(!order.ids_never_rise());
}

#[test]
fn three_pages_on_which_an_edited_record_stays_show_that_a_list_is_by_creation() {
    assert_eq!(learned(&[EDITED_IN_PLACE; 2]).order(), Order::Unknown);
    assert_eq!(learned(&[EDITED_IN_PLACE; 3]).order(), Order::ByCreation);
    // A lagging server shows an edited record a little below its place.
    let nine = "0 1 2 3 4 5 6 7 8 9' 10 11";
    assert_eq!(learned(&[nine; 9]).order(), Order::Unknown);
}

#[test]
fn what_says_nothing_about_the_order_teaches_nothing() {
    let without_edits = "- - 0 1 2 3 4 5 6 7 8 9 10";
    let another_order = "3' 1 0 2 4";
    let of_one_second = "3'@7 0@7 1@7 2@7 4";
    for words in [without_edits, another_order, of_one_second] {
        assert_eq!(learned(&[words; 9]).order(), Order::Unknown, "{words}");
    }
    // Records of one second may change places without a save.
    assert_eq!(learned(&["3' 1@7 0@7 2 4"]).order(), Order::ByChange);

    let mut older_copies = page("3' 0 1 2 4");
    older_copies[0].is_edited = false;
    let mut without_times = page("3' 0 1 2 4");
    for record in &mut without_times {
        record.created_at = None;
    }
    for page in [older_copies, without_times] {
        let mut order = ListOrder::default();
        order.learn(&page);
        assert_eq!(order.order(), Order::Unknown);
    }
}

#[test]
fn the_key_of_a_list_by_creation_is_what_never_rose_down_a_page() {
    let keys = |order: &ListOrder| (order.ids_never_rise(), order.created_at_never_rises());
    let mut order = by_creation();
    assert_eq!(keys(&order), (true, true));
    assert_eq!(keys(&learned(&[EDITED_IN_PLACE; 2])), (false, false));

    let mut imported = page("- - 0 1");
    imported[1].created_at = Some(Timestamp::from_second(5).unwrap());
    order.learn(&imported);
    assert_eq!(keys(&order), (true, false), "an import of old dates");

    let mut text = page("- - 0 1");
    text[0].id = None;
    order.learn(&text);
    assert_eq!(keys(&order), (false, false), "an id that is no integer");
}

#[test]
fn what_was_learned_is_the_same_after_it_was_stored() {
    let mut profile = list_with_steps_of(3);
    profile.order = by_creation();
    let text = serde_json::to_string(&profile).unwrap();
    let stored: ListProfile = serde_json::from_str(&text).unwrap();
    assert_eq!(stored, profile);
    assert!(text.contains(r#""order":"by_creation""#), "{text}");
}
