//! A poller as the daemon has one, without a database: what it stored, and what it compares the
//! next page with.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;

use jiff::Timestamp;
use shopmirror_core::contiguity::{
    Contiguity, ListProfile, PreviousPage, Relation, Sighting, UsualSteps,
};
use shopmirror_core::vanishing::{SeenPage, Vanishing};

use super::list::Shown;

/// Pages in a row that are taken for older ones.
const MOST_STALE_PAGES: u32 = 2;

/// The version of a record that was stored last, and in which row of the log.
struct Stored {
    version: u64,
    row: u64,
}

/// What is stored of the records of a route, which the pollers of its businesses share.
#[derive(Default)]
pub(crate) struct Mirror {
    stored: HashMap<i64, Stored>,
    /// Every version that was ever stored of each record.
    log: HashMap<i64, Vec<u64>>,
    last_row: u64,
    created_seconds: HashMap<i64, i64>,
}

pub(crate) struct Poller {
    ids_are_text: bool,
    limit: usize,
    /// The ids of the page that the next one is compared with, and the last row when it was read.
    head: Vec<i64>,
    head_row: u64,
    high_id: Option<i64>,
    has_page: bool,
    stale_pages: u32,
    /// Earlier versions that the last pages showed and that were not stored.
    waiting: HashMap<i64, u64>,
    pub(crate) profile: ListProfile,
    pub(crate) vanishing: Vanishing,
}

impl Poller {
    pub(crate) fn new(limit: usize, ids_are_text: bool) -> Self {
        Self {
            ids_are_text,
            limit,
            head: Vec::new(),
            head_row: 0,
            high_id: None,
            has_page: false,
            stale_pages: 0,
            waiting: HashMap::new(),
            profile: ListProfile::default(),
            vanishing: Vanishing::default(),
        }
    }

    /// The ids between which records may have been lost without a trace but for their width: the
    /// highest known one and those of the page above it. Empty while ids are text.
    pub(super) fn new_ids(&self, page: &[Shown]) -> Vec<i64> {
        let mut ids = Vec::new();
        let Some(high_id) = self.high_id else {
            return ids;
        };
        ids.push(high_id);
        for record in page {
            if record.id > high_id {
                ids.push(record.id);
            }
        }
        ids.sort_unstable();
        ids
    }

    pub(super) fn usual_steps(&self) -> UsualSteps {
        self.profile.steps.clone()
    }

    /// The ids of the page that the next one is compared with.
    pub(crate) fn head(&self) -> &[i64] {
        &self.head
    }

    /// Stores a page that was read at some time; what it proves.
    pub(crate) fn read(
        &mut self,
        mirror: &mut Mirror,
        page: &[Shown],
        at: Timestamp,
    ) -> Contiguity {
        let sightings = self.compare(mirror, page);
        let is_stale =
            self.has_page && self.stale_pages < MOST_STALE_PAGES && self.is_older(mirror, page);
        let may_be_older = self.store(mirror, page);
        if is_stale {
            self.stale_pages += 1;
            return Contiguity::Stale;
        }
        let previous = self.has_page.then_some(PreviousPage {
            records: self.head.len(),
            is_full: self.head.len() >= self.limit,
            high_id: self.high_id,
            read_at: None,
        });
        let proof = self.profile.read_page(previous, &sightings, self.limit);
        let previous_ids = texts(self.head.iter().copied());
        let ids = texts(page.iter().map(|record| record.id));
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let seen = SeenPage {
            at,
            order: self.profile.order.order(),
            contiguity: proof.contiguity,
            previous: &previous_ids,
            ids: &ids,
            sightings: &sightings,
            may_be_older,
        };
        let created_at = |id: &str| {
            let second = id
                .parse()
                .ok()
                .and_then(|id| mirror.created_seconds.get(&id));
            Ok(second.and_then(|second| Timestamp::from_second(*second).ok()))
        };
        let Ok(()) = self.vanishing.read_page::<Infallible>(&seen, created_at);
        self.stale_pages = 0;
        self.has_page = true;
        self.head = page.iter().map(|record| record.id).collect();
        self.head_row = mirror.last_row;
        if !self.ids_are_text {
            let highest = page.iter().map(|record| record.id).max();
            self.high_id = self.high_id.max(highest);
        }
        proof.contiguity
    }

    fn compare(&self, mirror: &Mirror, page: &[Shown]) -> Vec<Sighting> {
        let mut places = HashMap::new();
        for (place, id) in self.head.iter().enumerate() {
            places.insert(*id, place);
        }
        let mut sightings = Vec::with_capacity(page.len());
        for record in page {
            let is_unchanged = match mirror.stored.get(&record.id) {
                Some(stored) => stored.version == record.version && stored.row <= self.head_row,
                None => false,
            };
            let relation = match places.get(&record.id) {
                Some(place) if is_unchanged => Relation::Unchanged(*place),
                Some(place) => Relation::Changed(*place),
                None => Relation::NotShown,
            };
            sightings.push(Sighting {
                id: (!self.ids_are_text).then_some(record.id),
                created_at: Timestamp::from_second(record.created_second).ok(),
                relation,
                is_edited: !mirror.had(record),
            });
        }
        sightings
    }

    /// Whether a lagging server may have shown the page: it shows no record for the first time, and
    /// lacks the first record of the page before or its highest id.
    fn is_older(&self, mirror: &Mirror, page: &[Shown]) -> bool {
        if mirror.shows_new_record(page) {
            return false;
        }
        let ids: HashSet<i64> = page.iter().map(|record| record.id).collect();
        let lacks_first = match self.head.first() {
            Some(first) => !ids.contains(first),
            None => false,
        };
        let lacks_highest = !self.ids_are_text && ids.iter().max() < self.head.iter().max();
        lacks_first || lacks_highest
    }

    /// Stores what differs. On a page without a new record an earlier version waits until it is
    /// shown once more; whether one does.
    fn store(&mut self, mirror: &mut Mirror, page: &[Shown]) -> bool {
        let may_wait = !mirror.shows_new_record(page);
        let mut waits = false;
        for record in page {
            mirror
                .created_seconds
                .insert(record.id, record.created_second);
            let is_stored = match mirror.stored.get(&record.id) {
                Some(stored) => stored.version == record.version,
                None => false,
            };
            let waited = self.waiting.get(&record.id) == Some(&record.version);
            if is_stored {
                self.waiting.remove(&record.id);
                continue;
            }
            if may_wait && mirror.had(record) && !waited {
                self.waiting.insert(record.id, record.version);
                waits = true;
                continue;
            }
            self.waiting.remove(&record.id);
            mirror.store(record);
        }
        waits
    }
}

impl Mirror {
    /// Whether the log ever had the record in this version.
    pub(crate) fn had(&self, record: &Shown) -> bool {
        match self.log.get(&record.id) {
            Some(versions) => versions.contains(&record.version),
            None => false,
        }
    }

    fn shows_new_record(&self, page: &[Shown]) -> bool {
        page.iter()
            .any(|record| !self.stored.contains_key(&record.id))
    }

    fn store(&mut self, record: &Shown) {
        self.last_row += 1;
        let stored = Stored {
            version: record.version,
            row: self.last_row,
        };
        self.stored.insert(record.id, stored);
        let versions = self.log.entry(record.id).or_default();
        versions.push(record.version);
    }
}

fn texts(ids: impl Iterator<Item = i64>) -> Vec<String> {
    ids.map(|id| id.to_string()).collect()
}
