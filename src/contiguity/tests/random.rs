//! Random lists, polled again and again: what was missed, and what the rule says of it.

use std::collections::{BTreeMap, BTreeSet};

use super::super::*;

/// How the imitated workspace orders a list.
#[derive(Debug, Clone, Copy)]
enum Order {
    Creation,
    LastChange,
}

/// One record of the list.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// The number of the last edit, also of one that left the record as it was.
    edited: u64,
    /// The number of the last edit that changed it.
    changed: u64,
}

/// A list that grows and is edited, by id.
struct List {
    order: Order,
    entries: BTreeMap<i64, Entry>,
    clock: u64,
    newest: i64,
}

/// The ids of a page, newest first, and the number of each record's last change.
type Shown = Vec<(i64, u64)>;

impl List {
    fn new(order: Order) -> Self {
        Self { order, entries: BTreeMap::new(), clock: 0, newest: 0 }
    }

    fn create(&mut self, step: i64) {
        self.newest += step;
        self.edit(self.newest);
    }

    fn edit(&mut self, id: i64) {
        self.clock += 1;
        self.entries.insert(id, Entry { edited: self.clock, changed: self.clock });
    }

    /// An edit that sets the values that the record has.
    fn touch(&mut self, id: i64) {
        self.clock += 1;
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.edited = self.clock;
        }
    }

    fn page(&self, limit: usize) -> Shown {
        let mut all: Vec<(i64, Entry)> = self.entries.iter().map(|(id, e)| (*id, *e)).collect();
        all.sort_unstable_by_key(|(id, entry)| match self.order {
            Order::Creation => -id,
            Order::LastChange => -i64::try_from(entry.edited).unwrap(),
        });
        all.into_iter().take(limit).map(|(id, entry)| (id, entry.changed)).collect()
    }

    /// What happened since `clock` that a page of unlimited length would show anew and `page` does
    /// not: every change where the order is by change; every new record where it is by creation,
    /// since edits of old records never return them to the page.
    fn missed(&self, clock: u64, known: i64, page: &Shown) -> Vec<i64> {
        let shown: BTreeSet<i64> = page.iter().map(|(id, _)| *id).collect();
        let arrived = self.entries.iter().filter(|(id, entry)| match self.order {
            Order::Creation => **id > known,
            Order::LastChange => entry.changed > clock,
        });
        arrived.map(|(id, _)| *id).filter(|id| !shown.contains(id)).collect()
    }
}

fn sightings(previous: &Shown, page: &Shown, integers: bool) -> Vec<Sighting> {
    let relation = |id: i64, change: u64| {
        let place = previous.iter().position(|(before, _)| *before == id);
        match place.map(|place| (place, previous[place].1 == change)) {
            Some((place, true)) => Relation::Unchanged(place),
            Some((place, false)) => Relation::Changed(place),
            None => Relation::NotShown,
        }
    };
    page.iter()
        .map(|&(id, change)| Sighting {
            id: integers.then_some(id),
            relation: relation(id, change),
        })
        .collect()
}

fn known(previous: &Shown, high: i64, integers: bool) -> PreviousPage {
    let ids: Vec<String> = previous.iter().map(|(id, _)| id.to_string()).collect();
    PreviousPage::new(&ids, (integers && high > 0).then_some(high))
}

/// Polls one random list again and again; returns how many pages were proven, and how many were not
/// although nothing was missed.
fn polls(seed: u64) -> (u32, u32) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut list = List::new(if random.bool() { Order::Creation } else { Order::LastChange });
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
            if random.bool() && !list.entries.is_empty() {
                let nth = random.usize(..list.entries.len());
                list.edit(*list.entries.keys().nth(nth).unwrap());
            } else {
                list.create(random.i64(1..=step));
            }
        }
        let page = list.page(limit);
        let known = known(&previous, high, integers);
        let proof = classify(Some(&known), &sightings(&previous, &page, integers), limit);
        let missed = list.missed(clock, high, &page);
        assert!(
            missed.is_empty() || !proof.contiguity.is_proven(),
            "seed {seed}, {:?}, limit {limit}: {previous:?} then {page:?} missed {missed:?}: {proof:?}",
            list.order
        );
        proven += u32::from(proof.contiguity.is_proven());
        careful += u32::from(!proof.contiguity.is_proven() && missed.is_empty());
        high = high.max(page.iter().map(|(id, _)| *id).max().unwrap_or(0));
        (previous, clock) = (page, list.clock);
    }
    (proven, careful)
}

#[test]
fn no_page_is_called_contiguous_when_something_was_missed() {
    let (mut proven, mut careful) = (0, 0);
    for seed in 0..600 {
        let (p, c) = polls(seed);
        (proven, careful) = (proven + p, careful + c);
    }
    // The rule must not be safe by proving nothing.
    assert!(proven > 6_000 && careful * 4 < proven, "{proven} proven, {careful} too careful");
}

/// One interval in which more than a page happened, among it one to three edits that left records
/// of the previous page as they were. Returns whether something was missed, and whether the rule
/// calls the page proven.
fn burst_with_edits_that_change_nothing(seed: u64, integers: bool) -> (bool, bool) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut list = List::new(Order::LastChange);
    let limit = random.usize(20..=100);
    let step = random.i64(1..4);
    for _ in 0..2 * limit {
        list.create(random.i64(1..=step));
    }
    let previous = list.page(limit);
    let (clock, high) = (list.clock, list.newest);
    let known = known(&previous, high, integers);
    let (edited, untouched) = previous.split_at(limit / 2);
    let happened = limit + random.usize(1..limit);
    let touched_at: Vec<usize> =
        (0..random.usize(1..4)).map(|_| random.usize(..happened)).collect();
    for number in 0..happened {
        if touched_at.contains(&number) {
            // The newest ones are the likeliest to be edited again.
            let of = if random.bool() { untouched } else { &edited[..3] };
            list.touch(random.choice(of).unwrap().0);
        } else if random.u8(..4) == 0 {
            list.edit(random.choice(&edited[3..]).unwrap().0);
        } else {
            list.create(random.i64(1..=step));
        }
    }
    let page = list.page(limit);
    let proof = classify(Some(&known), &sightings(&previous, &page, integers), limit);
    (!list.missed(clock, high, &page).is_empty(), proof.contiguity.is_proven())
}

#[test]
fn edits_that_change_nothing_hide_a_burst_in_less_than_one_of_a_hundred_intervals() {
    for integers in [true, false] {
        let (mut missed, mut silent) = (0, 0);
        for seed in 0..1_000 {
            let (was_missed, is_proven) = burst_with_edits_that_change_nothing(seed, integers);
            missed += u32::from(was_missed);
            silent += u32::from(was_missed && is_proven);
        }
        assert!(missed > 750, "{missed}");
        assert!(silent * 100 < missed, "{silent} of {missed} unseen, integers: {integers}");
    }
}
