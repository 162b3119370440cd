//! A list of a workspace whose truth is known: what was created, edited, saved and deleted, and
//! what a page of it shows.

use std::collections::{BTreeMap, HashSet};

use fastrand::Rng;
use jiff::Timestamp;
use shopmirror_core::contiguity::Order;

/// Former versions of a record that an edit may bring back.
const FORMER_VERSIONS: usize = 6;

/// How the ids of a list grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ids {
    /// By one.
    Dense,
    /// By one to five.
    Sparse,
    /// By one, of which this business takes one of so many at random.
    Shared(u64),
    /// The same, and another business imports up to 160 records now and then.
    SharedWithImports(u64),
    /// By one, and by ten from some time on.
    StepChanges,
    /// They are text.
    Text,
}

/// How a list orders records of the same second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ties {
    /// It knows times more finely than it shows them.
    None,
    /// The one that was saved last is first.
    SavedLastFirst,
    /// The one with the lowest id is first.
    LowestIdFirst,
    /// In another order at each request.
    Shuffled,
}

/// Everything that happens has a moment of its own; the workspace knows seconds.
#[derive(Debug, Clone, Copy)]
struct Moment {
    number: u64,
    second: i64,
}

#[derive(Debug, Clone)]
struct Record {
    created: Moment,
    /// When it was saved last, with a change or without.
    saved: Moment,
    /// When it was changed last.
    changed: Moment,
    version: u64,
    former_versions: Vec<u64>,
}

/// A record as a page shows it. `changed` is the truth beside it, which no poller sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) id: i64,
    pub(crate) version: u64,
    pub(crate) created_second: i64,
    pub(crate) changed: u64,
}

/// A page, and the time of the list whose state it shows.
#[derive(Debug, Clone)]
pub(super) struct Page {
    pub(super) records: Vec<Shown>,
    pub(super) state: u64,
}

impl Page {
    /// A time that grows with the state.
    pub(super) fn read_at(&self) -> Timestamp {
        let second = i64::try_from(self.state).unwrap_or(0);
        Timestamp::from_second(second).unwrap_or_default()
    }
}

/// What happened to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    Created(i64),
    Edited(i64),
    Deleted(i64),
}

pub(super) struct List {
    pub(super) order: Order,
    pub(super) ids: Ids,
    ties: Ties,
    /// The last moment.
    now: Moment,
    last_id: i64,
    last_version: u64,
    records: BTreeMap<i64, Record>,
    /// The ids of `records`, in no order, to draw from.
    existing: Vec<i64>,
    /// The records created last, the oldest first; some may be deleted.
    newest: Vec<i64>,
    /// What happened since it was taken last, with the time of each.
    events: Vec<(Event, u64)>,
}

impl List {
    pub(super) fn new(order: Order, ids: Ids, ties: Ties) -> Self {
        Self {
            order,
            ids,
            ties,
            now: Moment {
                number: 0,
                second: 1_800_000_000,
            },
            last_id: 1_000,
            last_version: 0,
            records: BTreeMap::new(),
            existing: Vec::new(),
            newest: Vec::new(),
            events: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn create(&mut self, random: &mut Rng) {
        self.last_id += self.next_step(random);
        self.now.number += 1;
        let version = self.next_version();
        let record = Record {
            created: self.now,
            saved: self.now,
            changed: self.now,
            version,
            former_versions: Vec::new(),
        };
        self.records.insert(self.last_id, record);
        self.existing.push(self.last_id);
        self.newest.push(self.last_id);
        if self.newest.len() > 400 {
            self.newest.drain(..200);
        }
        let event = Event::Created(self.last_id);
        self.events.push((event, self.now.number));
    }

    fn next_step(&self, random: &mut Rng) -> i64 {
        match self.ids {
            Ids::Dense | Ids::Text => 1,
            Ids::Sparse => random.i64(1..=5),
            Ids::Shared(businesses) | Ids::SharedWithImports(businesses) => {
                let mut step = 1;
                while random.u64(..businesses) > 0 {
                    step += 1;
                }
                step
            }
            Ids::StepChanges if self.records.len() > 300 => 10,
            Ids::StepChanges => 1,
        }
    }

    pub(super) fn pass_seconds(&mut self, seconds: i64) {
        self.now.second += seconds;
    }

    /// Another business takes ids of the sequence.
    pub(super) fn import_elsewhere(&mut self, records: i64) {
        self.last_id += records;
    }

    fn next_version(&mut self) -> u64 {
        self.last_version += 1;
        self.last_version
    }

    /// Edits a record, to a new version or back to its former one.
    pub(super) fn edit(&mut self, id: i64, is_back: bool) {
        let new_version = self.next_version();
        let Some(record) = self.records.get_mut(&id) else {
            return;
        };
        self.now.number += 1;
        let version = match record.former_versions.last() {
            Some(former) if is_back => *former,
            _ => new_version,
        };
        record.former_versions.push(record.version);
        if record.former_versions.len() > FORMER_VERSIONS {
            record.former_versions.remove(0);
        }
        record.version = version;
        record.saved = self.now;
        record.changed = self.now;
        self.events.push((Event::Edited(id), self.now.number));
    }

    /// Saves a record as it is.
    pub(super) fn save_unchanged(&mut self, id: i64) {
        if let Some(record) = self.records.get_mut(&id) {
            self.now.number += 1;
            record.saved = self.now;
        }
    }

    pub(super) fn delete(&mut self, id: i64) {
        if self.records.remove(&id).is_some() {
            self.now.number += 1;
            self.existing.retain(|existing| *existing != id);
            self.events.push((Event::Deleted(id), self.now.number));
        }
    }

    /// The record with the lowest id.
    pub(super) fn oldest(&self) -> i64 {
        *self.records.keys().next().expect("a list has records")
    }

    /// Any record.
    pub(super) fn any(&self, random: &mut Rng) -> i64 {
        self.existing[random.usize(..self.existing.len())]
    }

    /// One of the records created last; it may be deleted.
    pub(super) fn any_new(&self, random: &mut Rng) -> i64 {
        let back = random.usize(..self.newest.len().min(60));
        self.newest[self.newest.len() - 1 - back]
    }

    /// The records created last, of which some may be deleted.
    pub(super) fn created_last(&self, count: usize) -> HashSet<i64> {
        self.newest.iter().rev().take(count).copied().collect()
    }

    pub(super) fn take_events(&mut self) -> Vec<(Event, u64)> {
        std::mem::take(&mut self.events)
    }

    /// The first `limit` records, without `hidden` ones.
    pub(super) fn page(&self, random: &mut Rng, limit: usize, hidden: &HashSet<i64>) -> Page {
        let mut sorted: Vec<((i64, u64), Shown)> = Vec::with_capacity(self.records.len());
        for (id, record) in &self.records {
            if hidden.contains(id) {
                continue;
            }
            let shown = Shown {
                id: *id,
                version: record.version,
                created_second: record.created.second,
                changed: record.changed.number,
            };
            sorted.push((self.sort_key(*id, record, random), shown));
        }
        sorted.sort_unstable_by_key(|(key, _)| std::cmp::Reverse(*key));
        sorted.truncate(limit);
        Page {
            records: sorted.into_iter().map(|(_, shown)| shown).collect(),
            state: self.now.number,
        }
    }

    fn sort_key(&self, id: i64, record: &Record, random: &mut Rng) -> (i64, u64) {
        let moment = match self.order {
            Order::ByChange => record.saved,
            Order::ByCreation | Order::Unknown => record.created,
        };
        match self.ties {
            Ties::None => (moment.second, moment.number),
            Ties::SavedLastFirst => (moment.second, record.saved.number),
            Ties::LowestIdFirst => (moment.second, u64::MAX - id.unsigned_abs()),
            Ties::Shuffled => (moment.second, random.u64(..)),
        }
    }
}
