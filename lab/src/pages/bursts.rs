//! Judges the bounds of gaps ([`shopmirror_core::contiguity::Bounds`]): whether every record that
//! was lost in a gap lies within them, by its id and by its time of creation.
//!
//! Polls are far apart, so that bursts overflow a page: creations among edits, creations before
//! edits, and imports of older records.

use std::collections::{BTreeMap, HashMap, HashSet};

use fastrand::Rng;
use jiff::Timestamp;
use serde::Serialize;
use shopmirror_core::contiguity::{Bounds, ListProfile, PreviousPage, Relation, Sighting};
use shopmirror_core::record::CLOCK_SKEW;

use super::LIMIT;
use crate::table::columns;

const POLLS_PER_LIST: u64 = 120;

/// By what a list is sorted, the highest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SortedBy {
    Id,
    CreatedAt,
    Saved,
}

/// What overflows a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Burst {
    Mixed,
    EditsAfterCreations,
    ImportOldestFirst,
    ImportOldestLast,
    ImportMixed,
}

const SORTED_BY: [SortedBy; 3] = [SortedBy::Id, SortedBy::CreatedAt, SortedBy::Saved];
const BURSTS: [Burst; 5] = [
    Burst::Mixed,
    Burst::EditsAfterCreations,
    Burst::ImportOldestFirst,
    Burst::ImportOldestLast,
    Burst::ImportMixed,
];

/// What the gaps of one kind of list came to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct BurstOutcome {
    pub(crate) sorted_by: SortedBy,
    pub(crate) burst: Burst,
    pub(crate) gaps: u64,
    /// Records that were lost in gaps.
    pub(crate) lost: u64,
    /// Of these, outside the bounds of ids.
    pub(crate) outside_ids: u64,
    /// Of these, outside the bounds of times.
    pub(crate) outside_times: u64,
    /// Ids that the bounds can hold beside those that were shown, in all closed gaps.
    pub(crate) ids_wide: u64,
    pub(crate) closed: u64,
    /// Records that were lost without a gap, or that no page can show.
    pub(crate) silent: u64,
}

/// Polls so many lists of each kind.
pub(crate) fn run(lists: u64, seed: u64) -> Vec<BurstOutcome> {
    let mut random = Rng::with_seed(seed);
    let mut outcomes = Vec::new();
    for sorted_by in SORTED_BY {
        for burst in BURSTS {
            let mut outcome = BurstOutcome {
                sorted_by,
                burst,
                gaps: 0,
                lost: 0,
                outside_ids: 0,
                outside_times: 0,
                ids_wide: 0,
                closed: 0,
                silent: 0,
            };
            for _ in 0..lists {
                outcome.poll_list(&mut random);
            }
            outcomes.push(outcome);
        }
    }
    outcomes
}

#[derive(Debug, Clone, Copy)]
struct Record {
    created_at: f64,
    saved: u64,
    version: u64,
}

/// The list of one business of a workspace whose ids step by up to `widest_step`.
struct Shop {
    sorted_by: SortedBy,
    now: f64,
    saves: u64,
    last_id: i64,
    widest_step: i64,
    records: BTreeMap<i64, Record>,
    created: Vec<i64>,
}

impl Shop {
    fn create(&mut self, random: &mut Rng, created_at: f64) {
        self.last_id += random.i64(1..=self.widest_step);
        self.saves += 1;
        let record = Record {
            created_at,
            saved: self.saves,
            version: self.saves,
        };
        self.records.insert(self.last_id, record);
        self.created.push(self.last_id);
    }

    /// Saves one of the last records that were created, with a change or without.
    fn save(&mut self, random: &mut Rng, of_last: usize, changes: bool) {
        let back = random.usize(..of_last.min(self.created.len()));
        let id = self.created[self.created.len() - 1 - back];
        self.saves += 1;
        if let Some(record) = self.records.get_mut(&id) {
            record.saved = self.saves;
            if changes {
                record.version = self.saves;
            }
        }
    }

    fn live(&mut self, random: &mut Rng) {
        let happenings = [3, 20, 60][random.usize(..3)];
        for _ in 0..happenings {
            self.now += random.f64() * 40.0;
            if random.bool() {
                self.create(random, self.now);
                continue;
            }
            let of_last = if random.u8(..10) < 6 { 80 } else { 1_500 };
            let changes = random.u8(..10) < 9;
            self.save(random, of_last, changes);
        }
    }

    fn burst(&mut self, random: &mut Rng, burst: Burst) {
        let records = [60, 120, 200, 300][random.usize(..4)];
        match burst {
            Burst::Mixed => {
                let creations_of_10 = [10, 7, 4][random.usize(..3)];
                for _ in 0..records {
                    self.now += random.f64() * 2.0;
                    if random.u8(..10) < creations_of_10 {
                        self.create(random, self.now);
                    } else {
                        let changes = random.u8(..10) < 9;
                        self.save(random, 300, changes);
                    }
                }
            }
            Burst::EditsAfterCreations => {
                for _ in 0..records {
                    self.now += 0.1;
                    self.create(random, self.now);
                }
                for _ in 0..[40, 80, 130][random.usize(..3)] {
                    self.now += 1.0;
                    self.save(random, 500, true);
                }
            }
            Burst::ImportOldestFirst | Burst::ImportOldestLast | Burst::ImportMixed => {
                let mut dates = Vec::new();
                for _ in 0..records {
                    dates.push(self.now - random.f64() * 30.0 * 86_400.0);
                }
                dates.sort_unstable_by(f64::total_cmp);
                match burst {
                    Burst::ImportOldestLast => dates.reverse(),
                    Burst::ImportMixed => random.shuffle(&mut dates),
                    _ => {}
                }
                for created_at in dates {
                    self.now += 0.05;
                    self.create(random, created_at);
                }
            }
        }
    }

    fn page(&self) -> Vec<(i64, Record)> {
        let mut page: Vec<(i64, Record)> = Vec::new();
        for (id, record) in self.records.iter().rev() {
            page.push((*id, *record));
        }
        match self.sorted_by {
            SortedBy::Id => {}
            SortedBy::CreatedAt => {
                page.sort_by(|(_, one), (_, other)| other.created_at.total_cmp(&one.created_at));
            }
            SortedBy::Saved => page.sort_by_key(|(_, record)| std::cmp::Reverse(record.saved)),
        }
        page.truncate(LIMIT);
        page
    }
}

fn moment(second: f64) -> Timestamp {
    Timestamp::from_microsecond((second * 1e6) as i64).expect("a time of this century")
}

/// A gap, and what was lost in it.
struct FoundGap {
    bounds: Bounds,
    from: Timestamp,
    read_at: Timestamp,
    lost: Vec<(i64, Timestamp)>,
}

impl FoundGap {
    /// Takes the id of the first record that was created after the reading as the upper one.
    fn close(&mut self, page: &[(i64, Record)]) {
        let Some(after) = self.bounds.after else {
            return;
        };
        if self.bounds.before.is_some() {
            return;
        }
        for (id, record) in page {
            let is_later = moment(record.created_at).duration_since(self.read_at) > CLOCK_SKEW;
            if is_later && *id > after && self.bounds.before.is_none_or(|before| *id < before) {
                self.bounds.before = Some(*id);
            }
        }
    }

    fn holds_id(&self, id: i64) -> bool {
        self.bounds.after.is_none_or(|after| after < id)
            && self.bounds.before.is_none_or(|before| id < before)
    }

    fn holds_time(&self, created_at: Timestamp) -> bool {
        let (mut from, to) = match self.bounds.created {
            Some(created) => created,
            None => (self.from, self.read_at),
        };
        if let Some(import) = self.bounds.import {
            from = from.min(import.from);
            if import.may_be_older {
                from = Timestamp::MIN;
            }
        }
        from <= created_at && created_at <= to
    }
}

impl BurstOutcome {
    fn poll_list(&mut self, random: &mut Rng) {
        let mut shop = Shop {
            sorted_by: self.sorted_by,
            now: 1_800_000_000.0,
            saves: 0,
            last_id: 1_000,
            widest_step: [1, 1, 5][random.usize(..3)],
            records: BTreeMap::new(),
            created: Vec::new(),
        };
        for _ in 0..400 {
            shop.now += 1_800.0;
            shop.create(random, shop.now);
        }
        let mut profile = ListProfile::default();
        let mut places: HashMap<i64, (usize, u64)> = HashMap::new();
        let mut previous: Option<PreviousPage> = None;
        let mut unseen: HashSet<i64> = HashSet::new();
        let mut known = shop.created.len();
        let mut gaps: Vec<FoundGap> = Vec::new();
        for _ in 0..POLLS_PER_LIST {
            shop.live(random);
            if random.u8(..4) == 0 && previous.is_some() {
                shop.burst(random, self.burst);
            }
            shop.now += 1.0;
            let page = shop.page();
            let mut sightings = Vec::new();
            for (id, record) in &page {
                let relation = match places.get(id) {
                    Some((place, version)) if *version == record.version => {
                        Relation::Unchanged(*place)
                    }
                    Some((place, _)) => Relation::Changed(*place),
                    None => Relation::NotShown,
                };
                sightings.push(Sighting {
                    id: Some(*id),
                    created_at: Some(moment(record.created_at)),
                    relation,
                    is_edited: matches!(relation, Relation::Changed(_)),
                });
            }
            let proof = profile.read_page(previous, &sightings, LIMIT);
            for gap in &mut gaps {
                gap.close(&page);
            }
            if previous.is_some() {
                unseen.extend(&shop.created[known..]);
            }
            known = shop.created.len();
            for (id, _) in &page {
                unseen.remove(id);
            }
            let read_at = moment(shop.now);
            if proof.contiguity.is_proven() {
                self.silent += unseen.len() as u64;
            } else if let Some(before) = previous.and_then(|previous| previous.read_at) {
                let mut lost = Vec::new();
                for id in &unseen {
                    lost.push((*id, moment(shop.records[id].created_at)));
                }
                gaps.push(FoundGap {
                    bounds: proof.bounds,
                    from: before,
                    read_at,
                    lost,
                });
            }
            unseen.clear();
            places.clear();
            for (place, (id, record)) in page.iter().enumerate() {
                places.insert(*id, (place, record.version));
            }
            let highest = page.iter().map(|(id, _)| *id).max();
            previous = Some(PreviousPage {
                records: page.len(),
                is_full: page.len() >= LIMIT,
                high_id: previous.and_then(|previous| previous.high_id).max(highest),
                read_at: Some(read_at),
            });
        }
        for gap in &gaps {
            self.count(gap);
        }
    }

    fn count(&mut self, gap: &FoundGap) {
        self.gaps += 1;
        if let (Some(after), Some(before)) = (gap.bounds.after, gap.bounds.before) {
            self.closed += 1;
            let wide = before - after - 1 - gap.bounds.shown;
            self.ids_wide += u64::try_from(wide).unwrap_or(0);
        }
        for (id, created_at) in &gap.lost {
            // An older record that is imported into a list by time of creation shows on no page.
            if self.sorted_by == SortedBy::CreatedAt && *created_at < gap.from {
                self.silent += 1;
                continue;
            }
            self.lost += 1;
            self.outside_ids += u64::from(!gap.holds_id(*id));
            self.outside_times += u64::from(!gap.holds_time(*created_at));
        }
    }
}

/// What the outcomes miss, one sentence for each goal; empty if they reach all.
pub(crate) fn missed_bursts(outcomes: &[BurstOutcome]) -> Vec<String> {
    let mut missed = Vec::new();
    for outcome in outcomes {
        let (sorted_by, burst) = (outcome.sorted_by, outcome.burst);
        let outside = outcome.outside_ids + outcome.outside_times;
        if outside > 0 {
            missed.push(format!(
                "{sorted_by:?}, {burst:?}: {} of {} lost records outside the ids, {} outside the times",
                outcome.outside_ids, outcome.lost, outcome.outside_times
            ));
        }
    }
    missed
}

/// The outcomes as a table for people.
pub(crate) fn bursts_table(outcomes: &[BurstOutcome]) -> String {
    let mut table = columns(
        2,
        &[
            "sorted by",
            "burst",
            "gaps",
            "lost in them",
            "outside the ids",
            "outside the times",
            "mean width",
            "lost without a gap",
        ],
    );
    for outcome in outcomes {
        let width = outcome.ids_wide as f64 / outcome.closed.max(1) as f64;
        table.add_row([
            format!("{:?}", outcome.sorted_by),
            format!("{:?}", outcome.burst),
            outcome.gaps.to_string(),
            outcome.lost.to_string(),
            outcome.outside_ids.to_string(),
            outcome.outside_times.to_string(),
            format!("{width:.0}"),
            outcome.silent.to_string(),
        ]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same with many more lists is a stage of `.ci/long`.
    #[test]
    fn no_lost_record_lies_outside_the_bounds_of_its_gap_in_three_lists_of_each_kind() {
        let outcomes = run(3, 1);
        assert_eq!(missed_bursts(&outcomes), [] as [String; 0], "{outcomes:#?}");
        let gaps: u64 = outcomes.iter().map(|outcome| outcome.gaps).sum();
        assert!(gaps > 500, "{outcomes:#?}");
    }
}
