//! A workspace whose truth is known: its lists, with ids that it uses again after it was restored
//! from a backup.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;

use crate::pages::Shown;
use crate::vanished::ListedBy;

/// Parts of a record beside its times; an edit changes one of them.
pub(super) const PARTS: usize = 4;
/// Lists of a workspace; each has ids of its own.
pub(super) const LISTS: usize = 3;

/// A record. Two records that had the same id one after the other differ in their identity.
#[derive(Debug, Clone)]
struct Record {
    identity: u64,
    version: u64,
    /// The version of each part of all but its times.
    content: [u64; PARTS],
    created: i64,
    saved: i64,
}

/// One list.
#[derive(Debug, Clone, Default)]
struct List {
    records: BTreeMap<i64, Record>,
    last_id: i64,
}

/// A record as a page shows it, with what it really is.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) shown: Shown,
    pub(super) content: [u64; PARTS],
    pub(super) identity: u64,
}

/// A state of all lists, to which the workspace can be restored.
pub(super) struct Backup(Vec<List>);

pub(super) struct World {
    listed_by: ListedBy,
    /// In seconds.
    pub(super) now: i64,
    lists: Vec<List>,
    last_identity: u64,
    last_version: u64,
}

impl Row {
    /// Whether half of what the record says is something else than this.
    pub(super) fn has_other_content(&self, before: &[u64; PARTS]) -> bool {
        let parts = self.content.iter().zip(before);
        let others = parts.filter(|(part, before)| part != before).count();
        2 * others >= PARTS
    }
}

impl World {
    pub(super) fn new(listed_by: ListedBy, now: i64) -> Self {
        Self {
            listed_by,
            now,
            lists: vec![List::default(); LISTS],
            last_identity: 0,
            last_version: 0,
        }
    }

    pub(super) fn create(&mut self, list: usize) {
        self.last_identity += 1;
        self.last_version += 1;
        let record = Record {
            identity: self.last_identity,
            version: self.last_version,
            content: [self.last_version; PARTS],
            created: self.now,
            saved: self.now,
        };
        let list = &mut self.lists[list];
        list.last_id += 1;
        list.records.insert(list.last_id, record);
    }

    /// One of the newest records of a list.
    pub(super) fn recent(&self, random: &mut Rng, list: usize, count: usize) -> Option<i64> {
        let ids = self.lists[list].records.keys().rev().take(count);
        random.choice(ids.copied().collect::<Vec<i64>>())
    }

    pub(super) fn newest(&self, list: usize) -> Option<i64> {
        self.lists[list].records.keys().next_back().copied()
    }

    /// Saves a record; whether that changes what is shown of it.
    pub(super) fn save(&mut self, random: &mut Rng, list: usize, id: i64, is_change: bool) {
        if is_change {
            self.last_version += 1;
        }
        let version = self.last_version;
        let now = self.now;
        if let Some(record) = self.lists[list].records.get_mut(&id) {
            record.saved = now;
            if is_change {
                record.version = version;
                record.content[random.usize(..PARTS)] = version;
            }
        }
    }

    /// Gives a record another time of creation.
    pub(super) fn correct(&mut self, list: usize, id: i64, created: i64) {
        self.last_version += 1;
        if let Some(record) = self.lists[list].records.get_mut(&id) {
            record.created = created;
            record.saved = self.now;
            record.version = self.last_version;
        }
    }

    pub(super) fn delete(&mut self, list: usize, id: i64) {
        self.lists[list].records.remove(&id);
    }

    pub(super) fn back_up(&self) -> Backup {
        Backup(self.lists.clone())
    }

    pub(super) fn restore(&mut self, backup: &Backup) {
        self.lists.clone_from(&backup.0);
    }

    /// The identities of the records of a list.
    pub(super) fn identities(&self, list: usize) -> BTreeSet<u64> {
        let records = self.lists[list].records.values();
        records.map(|record| record.identity).collect()
    }

    /// The page of a list, without its `lacking` records with the highest ids.
    pub(super) fn page(&self, list: usize, limit: usize, lacking: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        for (id, record) in self.lists[list].records.iter().rev().skip(lacking) {
            let key = match self.listed_by {
                ListedBy::Id => *id,
                ListedBy::CreatedAt => record.created,
                ListedBy::Change => record.saved,
            };
            rows.push((key, *id, record));
        }
        rows.sort_by_key(|(key, id, _)| std::cmp::Reverse((*key, *id)));
        rows.truncate(limit);
        let mut page = Vec::with_capacity(rows.len());
        for (_, id, record) in rows {
            page.push(Row {
                shown: Shown {
                    id,
                    version: record.version,
                    created_second: record.created,
                    changed: 0,
                },
                content: record.content,
                identity: record.identity,
            });
        }
        page
    }
}
