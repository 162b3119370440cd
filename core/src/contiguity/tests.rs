use std::ops::RangeInclusive;

use super::*;
use Relation::NotShown;

const LIMIT: usize = 100;

/// The previous page held the ids 1 to 100, in order of creation.
const PREVIOUS: PreviousPage = PreviousPage {
    records: LIMIT,
    high_id: Some(100),
    usual_hole: 0,
    density: 1.0,
};

fn unchanged(id: i64) -> Relation {
    Relation::Unchanged(usize::try_from(100 - id).unwrap())
}

fn changed(id: i64) -> Relation {
    Relation::Changed(usize::try_from(100 - id).unwrap())
}

fn new(_: i64) -> Relation {
    NotShown
}

/// Records with these ids, the newest first.
fn all(ids: RangeInclusive<i64>, relation: fn(i64) -> Relation) -> Vec<Sighting> {
    ids.rev()
        .map(|id| Sighting {
            id: Some(id),
            relation: relation(id),
        })
        .collect()
}

fn without_integers(page: &[Sighting]) -> Vec<Sighting> {
    page.iter()
        .map(|record| Sighting {
            id: None,
            ..*record
        })
        .collect()
}

fn bounds(after: i64, before: i64, missed: i64) -> Bounds {
    Bounds {
        after: Some(after),
        before: Some(before),
        missed: Some(missed),
    }
}

#[test]
fn full_pages_are_classified_by_what_they_share() {
    let table = [
        (
            "one unchanged record",
            [all(101..=199, new), all(100..=100, unchanged)].concat(),
            Contiguity::Contiguous,
            Bounds::default(),
        ),
        (
            "edits beside unchanged records",
            [
                all(101..=102, new),
                all(100..=100, unchanged),
                all(3..=99, changed),
            ]
            .concat(),
            Contiguity::Contiguous,
            Bounds::default(),
        ),
        (
            "one edited record",
            [all(152..=250, new), all(50..=50, changed)].concat(),
            Contiguity::Gap,
            bounds(100, 152, 51),
        ),
        (
            "nothing shared",
            all(108..=207, new),
            Contiguity::Gap,
            bounds(100, 108, 7),
        ),
        (
            "ids that follow on",
            all(101..=200, new),
            Contiguity::Suspect,
            bounds(100, 101, 0),
        ),
        (
            "a new record past a hole",
            [all(251..=349, new), all(101..=101, new)].concat(),
            Contiguity::Gap,
            bounds(101, 251, 149),
        ),
        (
            "two holes",
            [
                all(252..=349, new),
                all(151..=151, new),
                all(101..=101, new),
            ]
            .concat(),
            Contiguity::Gap,
            bounds(101, 252, 149),
        ),
        (
            "every record edited",
            all(1..=100, changed),
            Contiguity::Suspect,
            Bounds::default(),
        ),
        (
            "every shared record edited",
            [all(101..=102, new), all(3..=100, changed)].concat(),
            Contiguity::Suspect,
            bounds(100, 101, 0),
        ),
        (
            "most edited, and a hole",
            [all(140..=141, new), all(3..=100, changed)].concat(),
            Contiguity::Gap,
            bounds(100, 140, 39),
        ),
        (
            "ids below what was known",
            all(-200..=-101, new),
            Contiguity::Gap,
            Bounds::default(),
        ),
    ];
    for (what, page, contiguity, bounds) in table {
        let proof = classify(Some(&PREVIOUS), &page, page.len());
        assert_eq!(
            (proof.contiguity, proof.bounds),
            (contiguity, bounds),
            "{what}"
        );
    }
}

#[test]
fn an_edit_that_leaves_a_record_as_it_was_proves_nothing() {
    use Contiguity::{Contiguous, Gap, Suspect};
    let far = || all(152..=250, new);
    let beside = [
        all(250..=344, new),
        all(98..=100, changed),
        all(40..=41, unchanged),
    ]
    .concat();
    let table = [
        (
            "the edit came last",
            [all(50..=50, unchanged), far()].concat(),
            Gap,
            Gap,
        ),
        (
            "the edit came first",
            [far(), all(50..=50, unchanged)].concat(),
            Gap,
            Gap,
        ),
        (
            "of the newest record, last",
            [all(100..=100, unchanged), far()].concat(),
            Gap,
            Gap,
        ),
        // As if 99 had followed the newest record: only the ids show that more did.
        (
            "of the newest record, first",
            [far(), all(100..=100, unchanged)].concat(),
            Suspect,
            Contiguous,
        ),
        ("beside edits", beside, Gap, Gap),
    ];
    for (what, page, with_integers, without) in table {
        assert_eq!(page.len(), LIMIT, "{what}");
        assert_eq!(
            classify(Some(&PREVIOUS), &page, LIMIT).contiguity,
            with_integers,
            "{what}"
        );
        let page = without_integers(&page);
        assert_eq!(
            classify(Some(&PREVIOUS), &page, LIMIT).contiguity,
            without,
            "{what}, text ids"
        );
    }
}

#[test]
fn records_that_leave_the_list_or_move_in_it_are_no_doubt() {
    let hidden = [2, 31, 60, 97, 100];
    let older = all(-20..=0, new);
    let mut fewer = [all(101..=110, new), all(1..=100, unchanged)].concat();
    fewer.retain(|record| record.id.is_none_or(|id| !hidden.contains(&id)));
    let mut moved = [all(101..=102, new), all(3..=100, unchanged)].concat();
    moved.swap(2, 3);
    moved.swap(98, 99);
    moved.swap(0, 5);
    let before = [all(1..=95, unchanged), all(-4..=0, new)].concat();
    let longer = [all(101..=110, new), all(1..=100, unchanged), older.clone()].concat();
    let lower = all(81..=100, unchanged);
    let unused_id = [
        all(103..=199, new),
        all(101..=101, new),
        all(99..=100, unchanged),
    ]
    .concat();
    for (what, page) in [
        ("some have left", [fewer, older].concat()[..LIMIT].to_vec()),
        ("some have moved", moved),
        ("an older page", before),
        ("a longer page", longer),
        ("a shorter page", lower),
        ("one id was never used", unused_id),
    ] {
        let proof = classify(Some(&PREVIOUS), &page, page.len());
        assert_eq!(proof.contiguity, Contiguity::Contiguous, "{what}");
    }
}

#[test]
fn short_pages_are_the_whole_list_unless_they_lack_what_was_there() {
    let table = [
        (
            "a part of it unchanged",
            all(70..=100, unchanged),
            Contiguity::Complete,
        ),
        (
            "all of it edited",
            all(1..=100, changed),
            Contiguity::Complete,
        ),
        (
            "a part of it, edited",
            all(70..=100, changed),
            Contiguity::Suspect,
        ),
        ("others", all(130..=140, new), Contiguity::Suspect),
        (
            "others after an edit that changed nothing",
            [all(50..=50, unchanged), all(130..=140, new)].concat(),
            Contiguity::Suspect,
        ),
        ("nothing", Vec::new(), Contiguity::Suspect),
    ];
    for (what, page, contiguity) in table {
        assert_eq!(
            classify(Some(&PREVIOUS), &page, 150).contiguity,
            contiguity,
            "{what}"
        );
    }
}

#[test]
fn a_list_that_was_empty_is_complete_until_a_page_is_full() {
    let empty = PreviousPage::default();
    assert_eq!(
        classify(Some(&empty), &[], LIMIT).contiguity,
        Contiguity::Complete
    );
    let few = all(1..=3, new);
    assert_eq!(
        classify(Some(&empty), &few, LIMIT).contiguity,
        Contiguity::Complete
    );
    let full = classify(Some(&empty), &all(1..=100, new), LIMIT);
    assert_eq!(full.contiguity, Contiguity::Gap);
    assert_eq!(
        full.bounds,
        Bounds {
            before: Some(1),
            ..Bounds::default()
        }
    );
    assert_eq!(classify(None, &few, LIMIT).contiguity, Contiguity::Baseline);
}

#[test]
fn ids_that_are_no_integers_have_no_bounds() {
    let unshared = without_integers(&all(101..=200, new));
    let edited = without_integers(&[all(152..=250, new), all(50..=50, changed)].concat());
    // One is enough: where it lies among the others is not known.
    let mut one = all(102..=201, new);
    one[0].id = None;
    for page in [unshared, edited, one] {
        let proof = classify(Some(&PREVIOUS), &page, LIMIT);
        assert_eq!(
            (proof.contiguity, proof.bounds),
            (Contiguity::Gap, Bounds::default())
        );
    }
    let most = without_integers(&[all(101..=110, new), all(11..=100, changed)].concat());
    assert_eq!(
        classify(Some(&PREVIOUS), &most, LIMIT).contiguity,
        Contiguity::Suspect
    );
}

/// Three businesses take the ids in turn.
const SHARED: PreviousPage = PreviousPage {
    usual_hole: 2,
    density: 1.0 / 3.0,
    ..PREVIOUS
};

fn every_third(numbers: std::ops::Range<i64>) -> Vec<Sighting> {
    numbers
        .map(|n| Sighting {
            id: Some(n * 3),
            relation: NotShown,
        })
        .collect()
}

#[test]
fn where_others_use_ids_too_only_wide_holes_are_holes_and_missed_records_lie_within_the_bounds() {
    let table = [
        (
            "nothing shared",
            every_third(200..300),
            bounds(100, 897, 166),
        ),
        // An edit brought 106 back; 103 was pushed out with 109 and the rest.
        (
            "one missed before the wide hole",
            [all(106..=106, new), every_third(200..299)].concat(),
            bounds(100, 894, 165),
        ),
        // Edits brought 600 and 606 back; 603 was pushed out with those before 600.
        (
            "one missed after the wide hole",
            [all(600..=600, new), every_third(202..301)].concat(),
            bounds(100, 900, 167),
        ),
        // Edits of old records pushed out any of the few that were created.
        (
            "no hole is wide",
            [every_third(34..40), all(-200..=-107, new)].concat(),
            bounds(100, 117, 0),
        ),
    ];
    for (what, page, bounds) in table {
        let proof = classify(Some(&SHARED), &page, LIMIT);
        assert_eq!(
            (proof.contiguity, proof.bounds),
            (Contiguity::Gap, bounds),
            "{what}"
        );
    }
}

#[test]
fn the_usual_hole_and_the_density_of_a_page_ignore_its_few_widest_holes() {
    let of = |ids: Vec<i64>| {
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let page = PreviousPage::new(&ids, None);
        (page.usual_hole, (page.density * 100.0).round())
    };
    assert_eq!(of(vec![]), (0, 100.0));
    assert_eq!(of(vec![7]), (0, 100.0));
    assert_eq!(of((1..=100).chain([5_000]).collect()), (0, 100.0));
    assert_eq!(
        of((0..100).map(|n| n * 3).chain([5_000]).collect()),
        (2, 33.0)
    );
    assert_eq!(of(vec![i64::MIN, i64::MAX]).0, i64::MAX - 1);
    assert_eq!(
        PreviousPage::new(&["a".to_owned(), "7".to_owned()], None).density,
        1.0
    );
}

mod random;
