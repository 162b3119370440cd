//! Which steps between ids are usual.

use super::*;

fn first_page(ids: impl IntoIterator<Item = i64>) -> UsualSteps {
    let page: Vec<Sighting> = ids.into_iter().map(|id| sighting(id, NotShown)).collect();
    UsualSteps::from_first_page(&page)
}

/// Adds a proven page with these ids above the highest known one.
fn learn(steps: &mut UsualSteps, high_id: i64, ids: impl IntoIterator<Item = i64>) {
    let page: Vec<Sighting> = ids.into_iter().map(|id| sighting(id, NotShown)).collect();
    steps.learn(&NewIds::above(Some(high_id), &page).unwrap());
}

#[test]
fn before_twenty_steps_are_known_the_median_of_the_first_page_says_what_is_wide() {
    let table = [
        (first_page([]), 16, 1.0),
        (first_page([7]), 16, 1.0),
        (first_page((1..=100).chain([5_000])), 16, 1.0),
        (
            first_page((1..=100).map(|number| number * 3)),
            48,
            1.0 / 3.0,
        ),
    ];
    for (steps, widest_usual, density) in table {
        assert!(!steps.is_wide(widest_usual));
        assert!(steps.is_wide(widest_usual + 1));
        assert!((steps.density() - density).abs() < 1e-9);
    }
    let far = first_page([i64::MIN, i64::MAX]);
    assert!(!far.is_wide(i64::MAX), "the numbers do not overflow");
}

#[test]
fn from_twenty_steps_on_four_times_their_99th_percentile_is_the_widest_usual_one() {
    let mut steps = first_page(0..100);
    learn(&mut steps, 99, (1..=19).map(|number| 99 + number * 10));
    assert!(steps.is_wide(17), "nineteen are too few");
    learn(&mut steps, 289, [299]);
    assert!(!steps.is_wide(40));
    assert!(steps.is_wide(41));
    assert!((steps.density() - 0.1).abs() < 1e-9);
    // One of 200 does not count, and neither does what is longer ago.
    learn(&mut steps, 299, 300..=498);
    learn(&mut steps, 498, [10_000]);
    assert!(!steps.is_wide(4));
    assert!(steps.is_wide(5));
    assert!(
        (steps.density() - 1.0).abs() < 1e-9,
        "the wide one is left out"
    );
}

#[test]
fn the_step_from_the_highest_known_id_counts_too() {
    let mut steps = first_page(0..100);
    for number in 1..=20 {
        learn(&mut steps, number * 100, [number * 100 + 7]);
    }
    assert!(!steps.is_wide(28));
    assert!(steps.is_wide(29));
}

#[test]
fn only_pages_that_prove_that_nothing_was_missed_say_what_is_usual() {
    let mut profile = list_with_steps_of(1);
    let before = profile.steps.clone();
    let page = all(1_101..=1_200, new);
    let proof = profile.read_page(Some(PREVIOUS), &page, LIMIT);
    assert_eq!(proof.contiguity, Contiguity::Gap);
    assert_eq!(profile.steps, before);
}
