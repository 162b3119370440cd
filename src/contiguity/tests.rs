use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use super::*;
use Relation::{Changed, NotShown, Unchanged};

const LIMIT: usize = 100;

/// The previous page held the ids 1 to 100.
const PREVIOUS: PreviousPage = PreviousPage { records: LIMIT, high_id: Some(100), usual_hole: 0 };

fn all(ids: RangeInclusive<i64>, relation: Relation) -> Vec<Sighting> {
    ids.map(|id| Sighting { id: Some(id), relation }).collect()
}

fn without_integers(page: &[Sighting]) -> Vec<Sighting> {
    page.iter().map(|record| Sighting { id: None, ..*record }).collect()
}

fn bounds(after: i64, before: i64, ids: i64) -> Bounds {
    Bounds {
        after: Some(after),
        before: Some(before),
        ids: Some(ids),
        regular_from: (ids > 0).then_some(before),
    }
}

#[test]
fn full_pages_are_classified_by_what_they_share() {
    let table = [
        (
            "one unchanged record",
            [all(100..=100, Unchanged), all(101..=199, NotShown)].concat(),
            Contiguity::Contiguous,
            Bounds::default(),
        ),
        (
            "edits beside unchanged records",
            [all(3..=99, Changed), all(100..=102, Unchanged)].concat(),
            Contiguity::Contiguous,
            Bounds::default(),
        ),
        (
            "one edited record",
            [all(50..=50, Changed), all(152..=250, NotShown)].concat(),
            Contiguity::Gap,
            bounds(100, 152, 51),
        ),
        ("nothing shared", all(108..=207, NotShown), Contiguity::Gap, bounds(100, 108, 7)),
        ("ids that follow on", all(101..=200, NotShown), Contiguity::Suspect, bounds(100, 101, 0)),
        (
            "a new record past a hole",
            [all(101..=101, NotShown), all(251..=349, NotShown)].concat(),
            Contiguity::Gap,
            bounds(101, 251, 149),
        ),
        (
            "two holes",
            [all(101..=101, NotShown), all(151..=151, NotShown), all(252..=349, NotShown)].concat(),
            Contiguity::Gap,
            bounds(101, 252, 149),
        ),
        ("every record edited", all(1..=100, Changed), Contiguity::Suspect, Bounds::default()),
        (
            "every shared record edited",
            [all(3..=100, Changed), all(101..=102, NotShown)].concat(),
            Contiguity::Suspect,
            bounds(100, 101, 0),
        ),
        (
            "most edited, and a hole",
            [all(3..=100, Changed), all(140..=141, NotShown)].concat(),
            Contiguity::Gap,
            bounds(100, 140, 39),
        ),
        (
            "ids below what was known",
            all(-200..=-101, NotShown),
            Contiguity::Gap,
            Bounds::default(),
        ),
    ];
    for (what, page, contiguity, bounds) in table {
        let proof = classify(Some(&PREVIOUS), &page, page.len());
        assert_eq!((proof.contiguity, proof.bounds), (contiguity, bounds), "{what}");
    }
}

#[test]
fn short_pages_are_the_whole_list_unless_they_lack_what_was_there() {
    let table = [
        ("a part of it unchanged", all(90..=120, Unchanged), Contiguity::Complete),
        ("all of it edited", all(1..=100, Changed), Contiguity::Complete),
        ("a part of it, edited", all(90..=120, Changed), Contiguity::Suspect),
        ("others", all(130..=140, NotShown), Contiguity::Suspect),
        ("nothing", Vec::new(), Contiguity::Suspect),
    ];
    for (what, page, contiguity) in table {
        assert_eq!(classify(Some(&PREVIOUS), &page, 150).contiguity, contiguity, "{what}");
    }
}

#[test]
fn a_list_that_was_empty_is_complete_until_a_page_is_full() {
    let empty = PreviousPage::default();
    assert_eq!(classify(Some(&empty), &[], LIMIT).contiguity, Contiguity::Complete);
    let few = all(1..=3, NotShown);
    assert_eq!(classify(Some(&empty), &few, LIMIT).contiguity, Contiguity::Complete);
    let full = classify(Some(&empty), &all(1..=100, NotShown), LIMIT);
    assert_eq!(full.contiguity, Contiguity::Gap);
    assert_eq!(full.bounds, Bounds { before: Some(1), ..Bounds::default() });
    assert_eq!(classify(None, &few, LIMIT).contiguity, Contiguity::Baseline);
}

#[test]
fn ids_that_are_no_integers_have_no_bounds() {
    let unshared = without_integers(&all(101..=200, NotShown));
    let edited = without_integers(&[all(50..=50, Changed), all(152..=250, NotShown)].concat());
    for page in [unshared, edited] {
        let proof = classify(Some(&PREVIOUS), &page, LIMIT);
        assert_eq!((proof.contiguity, proof.bounds), (Contiguity::Gap, Bounds::default()));
    }
    let most = without_integers(&[all(11..=100, Changed), all(101..=110, NotShown)].concat());
    assert_eq!(classify(Some(&PREVIOUS), &most, LIMIT).contiguity, Contiguity::Suspect);
}

/// Three businesses take the ids in turn.
const SHARED: PreviousPage = PreviousPage { usual_hole: 2, ..PREVIOUS };

fn every_third(numbers: std::ops::Range<i64>) -> Vec<Sighting> {
    numbers.map(|n| Sighting { id: Some(n * 3), relation: NotShown }).collect()
}

#[test]
fn holes_between_ids_that_others_use_are_not_wide() {
    assert_eq!(usual_hole((0..100).map(|n| n * 3)), SHARED.usual_hole);
    let proof = classify(Some(&SHARED), &every_third(200..300), LIMIT);
    assert_eq!(proof.bounds, Bounds { regular_from: Some(600), ..bounds(100, 897, 697) });
}

#[test]
fn a_record_missed_in_a_usual_hole_before_a_wide_one_lies_within_the_bounds() {
    // An edit brought 106 back; 103 was pushed out with 109 and the rest.
    let page = [all(106..=106, NotShown), every_third(200..299)].concat();
    let proof = classify(Some(&SHARED), &page, LIMIT);
    assert_eq!((proof.bounds.after, proof.bounds.regular_from), (Some(100), Some(600)));
}

#[test]
fn a_record_missed_in_a_usual_hole_after_a_wide_one_lies_within_the_bounds() {
    // Edits brought 600 and 606 back; 603 was pushed out with those before 600.
    let page = [all(600..=600, NotShown), every_third(202..301)].concat();
    let proof = classify(Some(&SHARED), &page, LIMIT);
    assert_eq!(proof.contiguity, Contiguity::Gap);
    assert_eq!((proof.bounds.after, proof.bounds.before), (Some(100), Some(900)));
}

#[test]
fn where_no_hole_is_wide_a_missed_record_may_lie_in_each() {
    // Edits of old records pushed out any of the few that were created.
    let page = [every_third(34..40), all(-200..=-107, NotShown)].concat();
    let proof = classify(Some(&SHARED), &page, LIMIT);
    assert_eq!(proof.contiguity, Contiguity::Gap);
    assert_eq!(proof.bounds, Bounds { regular_from: None, ..bounds(100, 117, 11) });
}

#[test]
fn the_usual_hole_ignores_the_few_widest() {
    assert_eq!(usual_hole([]), 0);
    assert_eq!(usual_hole([7]), 0);
    assert_eq!(usual_hole((1..=100).chain([5_000])), 0);
    assert_eq!(usual_hole([i64::MIN, i64::MAX]), i64::MAX - 1);
}

/// How the imitated workspace orders a list.
#[derive(Debug, Clone, Copy)]
enum Order {
    Creation,
    LastChange,
}

/// A list that grows and is edited; the number of each record's last change, by id.
struct List {
    order: Order,
    changed: BTreeMap<i64, u64>,
    clock: u64,
    newest: i64,
}

impl List {
    fn create(&mut self, step: i64) {
        self.newest += step;
        self.edit(self.newest);
    }

    fn edit(&mut self, id: i64) {
        self.clock += 1;
        self.changed.insert(id, self.clock);
    }

    fn page(&self, limit: usize) -> BTreeMap<i64, u64> {
        let mut all: Vec<(i64, u64)> = self.changed.iter().map(|(id, at)| (*id, *at)).collect();
        all.sort_unstable_by_key(|(id, at)| match self.order {
            Order::Creation => -id,
            Order::LastChange => -i64::try_from(*at).unwrap(),
        });
        all.into_iter().take(limit).collect()
    }

    /// What happened since `clock` that a page of unlimited length would show anew: every change
    /// where the order is by change; every new record where it is by creation, since edits of old
    /// records never return them to the page.
    fn arrivals(&self, clock: u64, known: i64) -> BTreeSet<i64> {
        let since = self.changed.iter().filter(|(id, at)| match self.order {
            Order::Creation => **id > known,
            Order::LastChange => **at > clock,
        });
        since.map(|(id, _)| *id).collect()
    }
}

fn sightings(
    previous: &BTreeMap<i64, u64>,
    page: &BTreeMap<i64, u64>,
    integers: bool,
) -> Vec<Sighting> {
    let relation = |id, at| match previous.get(id) {
        Some(before) if before == at => Unchanged,
        Some(_) => Changed,
        None => NotShown,
    };
    page.iter()
        .map(|(id, at)| Sighting { id: integers.then_some(*id), relation: relation(id, at) })
        .collect()
}

/// Polls one random list again and again; returns how many pages were proven, and how many were not
/// although nothing was missed.
fn polls(seed: u64) -> (u32, u32) {
    let mut random = fastrand::Rng::with_seed(seed);
    let order = if random.bool() { Order::Creation } else { Order::LastChange };
    let mut list = List { order, changed: BTreeMap::new(), clock: 0, newest: 0 };
    let integers = random.u8(..4) > 0;
    let limit = random.usize(1..12);
    let step = random.i64(1..4);
    for _ in 0..random.usize(..30) {
        list.create(random.i64(1..=step));
    }
    let mut previous = list.page(limit);
    let (mut clock, mut high) = (list.clock, list.newest);
    let (mut proven, mut careful) = (0, 0);
    for _ in 0..30 {
        let most = [3, 8, 30][random.usize(..3)];
        for _ in 0..random.usize(..most) {
            if random.bool() && !list.changed.is_empty() {
                let nth = random.usize(..list.changed.len());
                list.edit(*list.changed.keys().nth(nth).unwrap());
            } else {
                list.create(random.i64(1..=step));
            }
        }
        let page = list.page(limit);
        let known = PreviousPage {
            records: previous.len(),
            high_id: (integers && high > 0).then_some(high),
            usual_hole: usual_hole(previous.keys().copied()),
        };
        let proof = classify(Some(&known), &sightings(&previous, &page, integers), limit);
        let missed: Vec<i64> =
            list.arrivals(clock, high).into_iter().filter(|id| !page.contains_key(id)).collect();
        assert!(
            missed.is_empty() || !proof.contiguity.is_proven(),
            "seed {seed}, {order:?}, limit {limit}: {previous:?} then {page:?} missed {missed:?}: {proof:?}"
        );
        proven += u32::from(proof.contiguity.is_proven());
        careful += u32::from(!proof.contiguity.is_proven() && missed.is_empty());
        high = high.max(page.keys().next_back().copied().unwrap_or(0));
        (previous, clock) = (page, list.clock);
    }
    (proven, careful)
}

#[test]
fn no_page_is_called_contiguous_when_something_was_missed() {
    let (mut proven, mut careful) = (0, 0);
    for seed in 0..1_000 {
        let (p, c) = polls(seed);
        (proven, careful) = (proven + p, careful + c);
    }
    // The rule must not be safe by proving nothing.
    assert!(proven > 10_000 && careful * 4 < proven, "{proven} proven, {careful} too careful");
}
