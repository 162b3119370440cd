//! Random lists, polled again and again: what was missed, and what the rule says of it.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::contiguity::Order::{ByChange, ByCreation};

/// A list that grows and is edited.
struct List {
    order: Order,
    /// By id, the number of the last change.
    entries: BTreeMap<i64, u64>,
    clock: u64,
    newest: i64,
}

/// The ids of a page, newest first, and the number of each record's last change.
type Shown = Vec<(i64, u64)>;

impl List {
    fn new(order: Order) -> Self {
        Self {
            order,
            entries: BTreeMap::new(),
            clock: 0,
            newest: 0,
        }
    }

    fn create(&mut self, step: i64) {
        self.newest += step;
        self.edit(self.newest);
    }

    fn edit(&mut self, id: i64) {
        self.clock += 1;
        self.entries.insert(id, self.clock);
    }

    fn page(&self, limit: usize) -> Shown {
        let mut all: Shown = self
            .entries
            .iter()
            .map(|(id, changed)| (*id, *changed))
            .collect();
        all.sort_unstable_by_key(|(id, changed)| match self.order {
            ByChange => -i64::try_from(*changed).unwrap(),
            _ => -id,
        });
        all.truncate(limit);
        all
    }

    /// What happened since `clock` that a page of unlimited length would show again and `page` does
    /// not: every change where the order is by change; every new record where it is by creation,
    /// since edits of old records never return them to the page.
    fn missed(&self, clock: u64, known: i64, page: &Shown) -> Vec<i64> {
        let shown: BTreeSet<i64> = page.iter().map(|(id, _)| *id).collect();
        let arrived = self
            .entries
            .iter()
            .filter(|(id, changed)| match self.order {
                ByChange => **changed > clock,
                _ => **id > known,
            });
        arrived
            .map(|(id, _)| *id)
            .filter(|id| !shown.contains(id))
            .collect()
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
            created_at: Timestamp::from_second(id).ok(),
            relation: relation(id, change),
            is_edited: true,
        })
        .collect()
}

/// Polls one random list again and again; returns how many pages were proven, and how many were not
/// although nothing was missed.
fn polls(seed: u64) -> (u32, u32) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut list = List::new(if random.bool() { ByCreation } else { ByChange });
    let integers = random.u8(..4) > 0;
    let limit = random.usize(1..12);
    let step = random.i64(1..4);
    for _ in 0..random.usize(..30) {
        list.create(random.i64(1..=step));
    }
    let mut previous = list.page(limit);
    let mut profile = ListProfile::default();
    profile.read_page(None, &sightings(&Vec::new(), &previous, integers), limit);
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
        let before = PreviousPage {
            records: previous.len(),
            is_full: previous.len() >= limit,
            high_id: (integers && high > 0).then_some(high),
            read_at: None,
        };
        let page_now = sightings(&previous, &page, integers);
        let proof = profile.read_page(Some(before), &page_now, limit);
        let missed = list.missed(clock, high, &page);
        assert!(
            missed.is_empty() || !proof.contiguity.is_proven(),
            "seed {seed}, {:?}, limit {limit}: {previous:?} then {page:?} missed {missed:?}: {proof:?}",
            list.order
        );
        proven += u32::from(proof.contiguity.is_proven());
        careful += u32::from(!proof.contiguity.is_proven() && missed.is_empty());
        let learned_wrongly = match list.order {
            ByChange => ByCreation,
            _ => ByChange,
        };
        assert_ne!(profile.order.order(), learned_wrongly, "seed {seed}");
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
    assert!(
        proven > 6_000 && careful * 4 < proven,
        "{proven} proven, {careful} too careful"
    );
}
