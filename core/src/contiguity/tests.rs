//! The rule of a single page. What is learned from many is tested in the modules below.

use std::ops::RangeInclusive;

use super::*;
use Relation::NotShown;

mod bounds;
mod length;
mod order;
mod random;
mod steps;

const LIMIT: usize = 100;

/// The previous page held the ids 1 to 100, in order of creation.
const PREVIOUS: PreviousPage = PreviousPage {
    records: LIMIT,
    is_full: true,
    high_id: Some(100),
    read_at: None,
};

/// A record that is shown without `created_at`.
fn sighting(id: i64, relation: Relation) -> Sighting {
    Sighting {
        id: Some(id),
        created_at: None,
        relation,
        is_edited: matches!(relation, Relation::Changed(_)),
    }
}

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
    ids.rev().map(|id| sighting(id, relation(id))).collect()
}

fn without_integers(page: &[Sighting]) -> Vec<Sighting> {
    page.iter()
        .map(|record| Sighting {
            id: None,
            ..*record
        })
        .collect()
}

/// The bounds in a list of dense ids whose order is not known: the upper id is still to come.
fn open_above(after: i64, shown: i64, missed: i64) -> Bounds {
    Bounds {
        after: Some(after),
        shown,
        shown_to: (shown > 0).then_some(after + shown + missed),
        missed: Some(missed),
        ..Bounds::default()
    }
}

/// A list whose ids have been this far apart on proven pages.
fn list_with_steps_of(step: i64) -> ListProfile {
    let first: Vec<Sighting> = (-39..=0)
        .map(|number| sighting(number * step, NotShown))
        .collect();
    let mut profile = ListProfile::default();
    profile.read_page(None, &first, LIMIT);
    let previous = PreviousPage {
        records: 40,
        is_full: false,
        high_id: Some(0),
        read_at: None,
    };
    let mut next: Vec<Sighting> = (1..=20)
        .rev()
        .map(|number| sighting(number * step, NotShown))
        .collect();
    for place in 0..20 {
        next.push(sighting(-step, Relation::Unchanged(place)));
    }
    let proof = profile.read_page(Some(previous), &next, next.len());
    assert_eq!(proof.contiguity, Contiguity::Contiguous);
    profile
}

/// What a page proves in a list with dense ids.
fn prove(page: &[Sighting], limit: usize) -> Proof {
    list_with_steps_of(1).read_page(Some(PREVIOUS), page, limit)
}

#[test]
fn each_example_of_the_table_has_the_verdict_of_its_row() {
    fn same(id: i64) -> Relation {
        Relation::Unchanged(usize::try_from(40 - id).unwrap())
    }
    fn edited(id: i64) -> Relation {
        Relation::Changed(usize::try_from(40 - id).unwrap())
    }
    use Contiguity::{Baseline, Complete, Contiguous, Gap, Suspect};
    let previous = PreviousPage {
        records: 20,
        is_full: false,
        high_id: Some(40),
        read_at: None,
    };
    let by_creation = [
        (
            4,
            [all(90..=90, new), all(22..=40, same)].concat(),
            Contiguous,
        ),
        (
            5,
            [all(81..=97, new), all(38..=40, same)].concat(),
            Contiguous,
        ),
        (6, [all(81..=99, new), all(40..=40, same)].concat(), Suspect),
        (7, all(41..=60, new), Contiguous),
        (11, all(42..=61, new), Gap),
    ];
    for (row, page, verdict) in by_creation {
        let mut profile = list_with_steps_of(1);
        profile.order = order::by_creation();
        let proof = profile.read_page(Some(previous), &page, 20);
        assert_eq!(proof.contiguity, verdict, "row {row}, by creation");
    }
    let unknown = [
        (
            3,
            [all(41..=59, new), all(40..=40, same)].concat(),
            Contiguous,
        ),
        (
            4,
            [all(90..=90, new), all(22..=40, same)].concat(),
            Contiguous,
        ),
        (6, [all(81..=97, new), all(38..=40, same)].concat(), Suspect),
        (6, [all(81..=99, new), all(40..=40, same)].concat(), Suspect),
        (9, all(41..=60, new), Suspect),
        (
            10,
            [all(41..=41, new), all(22..=40, edited)].concat(),
            Suspect,
        ),
        (11, all(61..=80, new), Gap),
    ];
    for (row, page, verdict) in unknown {
        let proof = list_with_steps_of(1).read_page(Some(previous), &page, 20);
        assert_eq!(proof.contiguity, verdict, "row {row}");
    }
    let short = [
        (
            2,
            [all(45..=45, new), all(21..=40, edited)].concat(),
            Complete,
        ),
        (
            3,
            [all(41..=49, new), all(31..=40, same)].concat(),
            Complete,
        ),
        (8, all(71..=79, new), Suspect),
    ];
    for (row, page, verdict) in short {
        let proof = list_with_steps_of(1).read_page(Some(previous), &page, 50);
        assert_eq!(proof.contiguity, verdict, "row {row}, short");
    }
    let first = ListProfile::default().read_page(None, &all(21..=40, new), 20);
    assert_eq!(first.contiguity, Baseline, "row 1");
}

#[test]
fn full_pages_are_judged_by_what_they_share() {
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
            open_above(100, 99, 51),
        ),
        (
            "nothing shared",
            all(108..=207, new),
            Contiguity::Gap,
            open_above(100, 100, 7),
        ),
        (
            "ids that follow on",
            all(101..=200, new),
            Contiguity::Suspect,
            open_above(100, 100, 0),
        ),
        (
            "a new record past a hole",
            [all(251..=349, new), all(101..=101, new)].concat(),
            Contiguity::Gap,
            open_above(100, 100, 149),
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
            open_above(100, 100, 149),
        ),
        (
            "every record edited",
            all(1..=100, changed),
            Contiguity::Suspect,
            open_above(100, 0, 0),
        ),
        (
            "every shared record edited",
            [all(101..=102, new), all(3..=100, changed)].concat(),
            Contiguity::Suspect,
            open_above(100, 2, 0),
        ),
        (
            "most edited, and a hole",
            [all(140..=141, new), all(3..=100, changed)].concat(),
            Contiguity::Gap,
            open_above(100, 2, 39),
        ),
        (
            "ids below what was known",
            all(-200..=-101, new),
            Contiguity::Gap,
            open_above(100, 0, 0),
        ),
    ];
    for (what, page, contiguity, bounds) in table {
        let proof = prove(&page, page.len());
        assert_eq!(proof, Proof { contiguity, bounds }, "{what}");
    }
}

#[test]
fn a_save_that_leaves_a_record_as_it_was_proves_nothing() {
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
            "the save came last",
            [all(50..=50, unchanged), far()].concat(),
            Gap,
            Gap,
        ),
        (
            "the save came first",
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
        assert_eq!(prove(&page, LIMIT).contiguity, with_integers, "{what}");
        let page = without_integers(&page);
        assert_eq!(prove(&page, LIMIT).contiguity, without, "{what}, text ids");
    }
}

/// The previous page holds 84 new records and 16 edited old ones, far apart. Then so many records
/// are lost, so many of the newest are saved again without a change, and the rest of the page is
/// new.
fn burst_behind_saves(lost: i64, saved_again: usize) -> Contiguity {
    let mut before: Vec<i64> = (1_917..=2_000).rev().collect();
    for number in (0..16).rev() {
        before.push(100 + 50 * number);
    }
    let first: Vec<Sighting> = before.iter().map(|id| sighting(*id, NotShown)).collect();
    let mut profile = ListProfile::default();
    profile.read_page(None, &first, LIMIT);

    let shown = i64::try_from(LIMIT - saved_again).unwrap();
    let mut page = all(2_001 + lost..=2_000 + lost + shown, new);
    for (place, id) in before.iter().enumerate().take(saved_again) {
        page.push(sighting(*id, Relation::Unchanged(place)));
    }
    let previous = PreviousPage {
        records: LIMIT,
        is_full: true,
        high_id: Some(2_000),
        read_at: None,
    };
    profile.read_page(Some(previous), &page, LIMIT).contiguity
}

#[test]
fn edited_old_records_do_not_widen_what_is_usual_so_that_a_burst_behind_saves_is_seen() {
    for (lost, saved_again) in [
        (190, 1),
        (150, 1),
        (30, 1),
        (30, 11),
        (30, 12),
        (30, 40),
        (30, 90),
    ] {
        assert_eq!(
            burst_behind_saves(lost, saved_again),
            Contiguity::Suspect,
            "{lost} lost behind {saved_again}"
        );
    }
}

#[test]
fn no_rule_can_see_a_narrow_loss_behind_saves_or_one_behind_nearly_a_page_of_saves() {
    for (lost, saved_again) in [(15, 1), (30, 91)] {
        assert_eq!(
            burst_behind_saves(lost, saved_again),
            Contiguity::Contiguous,
            "{lost} lost behind {saved_again}"
        );
    }
}

#[test]
fn what_is_misplaced_is_weighed_against_unchanged_records_below_the_anchor_alone() {
    // Four records of the previous page are absent, and 16 unchanged ones below them outweigh them.
    let mut page = all(101..=104, new);
    page.extend(all(81..=96, unchanged));
    page.extend(all(1..=80, changed));
    assert_eq!(prove(&page, LIMIT).contiguity, Contiguity::Contiguous);
    // Fifteen do not outweigh five, although the page shows twenty more that were saved again.
    let mut page = all(101..=104, new);
    page.extend(all(5..=24, unchanged).into_iter().rev());
    page.extend(all(81..=95, unchanged));
    page.extend(all(25..=80, changed));
    assert_eq!(page.len(), 95);
    assert_eq!(prove(&page, 95).contiguity, Contiguity::Suspect);
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
        let proof = prove(&page, page.len());
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
            "all of it, and a step as if others used the ids",
            [all(180..=180, new), all(1..=100, changed)].concat(),
            Contiguity::Complete,
        ),
        (
            "a part of it, edited",
            all(70..=100, changed),
            Contiguity::Suspect,
        ),
        ("others", all(130..=140, new), Contiguity::Suspect),
        (
            "others after a save that changed nothing",
            [all(50..=50, unchanged), all(130..=140, new)].concat(),
            Contiguity::Suspect,
        ),
        ("nothing", Vec::new(), Contiguity::Suspect),
    ];
    for (what, page, contiguity) in table {
        assert_eq!(prove(&page, 150).contiguity, contiguity, "{what}");
    }
}

#[test]
fn a_list_that_was_empty_is_complete_until_a_page_is_full() {
    let read = |previous, page: &[Sighting]| {
        let mut profile = ListProfile::default();
        profile.read_page(None, &[], LIMIT);
        profile.read_page(previous, page, LIMIT)
    };
    let empty = Some(PreviousPage::default());
    assert_eq!(read(empty, &[]).contiguity, Contiguity::Complete);
    let few = all(1..=3, new);
    assert_eq!(read(empty, &few).contiguity, Contiguity::Complete);
    let full = read(empty, &all(1..=100, new));
    assert_eq!(full.contiguity, Contiguity::Gap);
    assert_eq!(full.bounds, Bounds::default());
}

#[test]
fn ids_that_are_no_integers_have_no_bounds() {
    let unshared = without_integers(&all(101..=200, new));
    let edited = without_integers(&[all(152..=250, new), all(50..=50, changed)].concat());
    // One is enough: where it lies among the others is not known.
    let mut one = all(102..=201, new);
    one[0].id = None;
    for page in [unshared, edited, one] {
        let proof = prove(&page, LIMIT);
        let expected = Proof {
            contiguity: Contiguity::Gap,
            bounds: Bounds::default(),
        };
        assert_eq!(proof, expected);
    }
    let most = without_integers(&[all(101..=110, new), all(11..=100, changed)].concat());
    assert_eq!(prove(&most, LIMIT).contiguity, Contiguity::Suspect);
}

fn every_third(numbers: std::ops::Range<i64>) -> Vec<Sighting> {
    numbers
        .rev()
        .map(|number| sighting(number * 3, NotShown))
        .collect()
}

#[test]
fn where_others_use_ids_too_only_wide_steps_are_wide_and_missed_records_lie_within_the_bounds() {
    fn to(highest: i64, bounds: Bounds) -> Bounds {
        Bounds {
            shown_to: Some(highest),
            ..bounds
        }
    }
    let table = [
        (
            "nothing shared",
            every_third(200..300),
            to(897, open_above(100, 100, 166)),
        ),
        // An edit brought 106 back; 103 was pushed out with 109 and the rest.
        (
            "one missed before the wide step",
            [all(106..=106, new), every_third(200..299)].concat(),
            to(894, open_above(100, 100, 165)),
        ),
        // Edits brought 600 and 606 back; 603 was pushed out with those before 600.
        (
            "one missed after the wide step",
            [all(600..=600, new), every_third(202..301)].concat(),
            to(900, open_above(100, 100, 167)),
        ),
        // Edits of old records pushed out any of the few that were created.
        (
            "no step is wide",
            [every_third(34..40), all(-200..=-107, new)].concat(),
            to(117, open_above(100, 6, 0)),
        ),
    ];
    for (what, page, bounds) in table {
        let proof = list_with_steps_of(3).read_page(Some(PREVIOUS), &page, LIMIT);
        let expected = Proof {
            contiguity: Contiguity::Gap,
            bounds,
        };
        assert_eq!(proof, expected, "{what}");
    }
}

#[test]
fn new_records_below_the_end_of_a_short_list_are_not_older_ones() {
    let mut profile = ListProfile::default();
    profile.read_page(None, &all(1..=30, new), LIMIT);
    let previous = PreviousPage {
        records: 30,
        is_full: false,
        high_id: Some(30),
        read_at: None,
    };
    // The record 30 was saved again during a burst, whose first records are lost.
    let saved_again = vec![sighting(30, Relation::Unchanged(0))];
    let page = [all(116..=144, new), saved_again, all(46..=115, new)].concat();
    let proof = profile.read_page(Some(previous), &page, LIMIT);
    assert_eq!(proof.contiguity, Contiguity::Gap);
    assert_eq!(proof.bounds, open_above(30, 99, 15));
}

#[test]
fn text_ids_below_the_end_of_a_short_list_are_not_older_records() {
    let text = |relation| Sighting {
        id: None,
        ..sighting(0, relation)
    };
    let saved_again = vec![text(Relation::Unchanged(0))];
    let page = [
        vec![text(NotShown); 29],
        saved_again,
        vec![text(NotShown); 70],
    ]
    .concat();
    let verdict = |is_full| {
        let mut profile = ListProfile::default();
        profile.read_page(None, &vec![text(NotShown); 30], LIMIT);
        let previous = PreviousPage {
            records: 30,
            is_full,
            high_id: None,
            read_at: None,
        };
        profile.read_page(Some(previous), &page, LIMIT).contiguity
    };
    assert_eq!(verdict(false), Contiguity::Gap);
    assert_eq!(verdict(true), Contiguity::Contiguous, "a limit that grew");
}
