//! A route of a workspace whose truth is known: which records each business has, and what a page of
//! its list shows.

use std::collections::{BTreeMap, BTreeSet};

use clap::ValueEnum;
use fastrand::Rng;
use serde::Serialize;

use crate::pages::Shown;

/// Microseconds of a second.
const SECOND: i64 = 1_000_000;

/// By what the workspace orders its lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ListedBy {
    /// The highest id first.
    Id,
    /// The latest `created_at` first.
    CreatedAt,
    /// The last saved one first, also by a save that changes nothing.
    Change,
}

/// Why a record is in no list any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    InList,
    Deleted,
    /// It is there, and the workspace no longer lists it.
    Hidden,
}

#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) business: usize,
    pub(super) presence: Presence,
    version: u64,
    created: i64,
    saved: i64,
    /// The order among records of one key. It is drawn again whenever a list changed.
    tie: u64,
    is_tied: bool,
}

pub(super) struct World {
    listed_by: ListedBy,
    /// In microseconds.
    now: i64,
    last_id: i64,
    last_version: u64,
    records: BTreeMap<i64, Record>,
    /// The records of each business by their key and id.
    lists: Vec<BTreeSet<(i64, i64)>>,
    has_changed: bool,
}

impl World {
    pub(super) fn new(listed_by: ListedBy, businesses: usize) -> Self {
        Self {
            listed_by,
            now: 1_800_000_000 * SECOND,
            last_id: 1_000,
            last_version: 0,
            records: BTreeMap::new(),
            lists: vec![BTreeSet::new(); businesses],
            has_changed: false,
        }
    }

    pub(super) fn businesses(&self) -> usize {
        self.lists.len()
    }

    pub(super) fn record(&self, id: i64) -> &Record {
        &self.records[&id]
    }

    pub(super) fn pass(&mut self, seconds: f64) {
        self.now += (seconds * SECOND as f64) as i64;
    }

    pub(super) fn create(&mut self, business: usize, is_tied: bool) {
        self.last_id += 1;
        let record = Record {
            business,
            presence: Presence::InList,
            version: 0,
            created: self.now,
            saved: self.now,
            tie: 0,
            is_tied: is_tied && self.listed_by != ListedBy::Id,
        };
        self.records.insert(self.last_id, record);
        self.put(self.last_id);
    }

    /// Saves a record; whether that changes what is shown of it, and whether its new place among
    /// records of the same moment is drawn.
    pub(super) fn save(&mut self, id: i64, is_change: bool, is_tied: bool) {
        self.take_out(id);
        if is_change {
            self.last_version += 1;
        }
        let record = self.records.get_mut(&id).expect("records are kept");
        record.saved = self.now;
        if is_change {
            record.version = self.last_version;
        }
        if self.listed_by == ListedBy::Change {
            record.is_tied = is_tied;
        }
        self.put(id);
    }

    /// Takes a record from its list.
    pub(super) fn remove(&mut self, id: i64, presence: Presence) {
        self.take_out(id);
        self.records
            .get_mut(&id)
            .expect("records are kept")
            .presence = presence;
    }

    pub(super) fn move_to(&mut self, id: i64, business: usize, is_change: bool) {
        self.take_out(id);
        self.records
            .get_mut(&id)
            .expect("records are kept")
            .business = business;
        self.put(id);
        self.save(id, is_change, false);
    }

    fn key(&self, id: i64) -> (i64, i64) {
        let record = &self.records[&id];
        match self.listed_by {
            ListedBy::Id => (id, id),
            ListedBy::CreatedAt => (record.created, id),
            ListedBy::Change => (record.saved, id),
        }
    }

    fn put(&mut self, id: i64) {
        let business = self.records[&id].business;
        let key = self.key(id);
        self.lists[business].insert(key);
        self.has_changed = true;
    }

    fn take_out(&mut self, id: i64) {
        let business = self.records[&id].business;
        let key = self.key(id);
        self.lists[business].remove(&key);
        self.has_changed = true;
    }

    /// The ids of the first records of a list.
    pub(super) fn newest(&self, business: usize, count: usize) -> Vec<i64> {
        let list = self.lists[business].iter().rev().take(count);
        list.map(|(_, id)| *id).collect()
    }

    /// The page of a list, without its `lacking` records that were created last.
    pub(super) fn page(
        &mut self,
        random: &mut Rng,
        business: usize,
        limit: usize,
        lacking: usize,
    ) -> Vec<Shown> {
        if self.has_changed {
            for record in self.records.values_mut() {
                if record.is_tied {
                    record.tie = random.u64(..);
                }
            }
            self.has_changed = false;
        }
        let lacks_from = self.first_of_newest(business, lacking);
        let mut page: Vec<(i64, u64, i64)> = Vec::new();
        for (key, id) in self.lists[business].iter().rev() {
            // Records of the last moment compete for the last places.
            if page.len() >= limit && page[page.len() - 1].0 != *key {
                break;
            }
            if *id < lacks_from {
                page.push((*key, self.records[id].tie, *id));
            }
        }
        page.sort_by(|a, b| b.cmp(a));
        page.truncate(limit);
        let mut shown = Vec::with_capacity(limit);
        for (_, _, id) in page {
            let record = &self.records[&id];
            shown.push(Shown {
                id,
                version: record.version,
                created_second: record.created / SECOND,
                changed: 0,
            });
        }
        shown
    }

    /// The id of the first of so many records of a list that were created last; above all ids for
    /// none.
    fn first_of_newest(&self, business: usize, count: usize) -> i64 {
        let newest = self.records.iter().rev().filter(|(_, record)| {
            record.business == business && record.presence == Presence::InList
        });
        newest.take(count).last().map_or(i64::MAX, |(id, _)| *id)
    }
}
