//! What each poller saw last, in memory: its row, and of each record of its last page the version
//! and a digest of the text.
//!
//! It saves look-ups and is never the only place of anything that matters. Its invariant: a version
//! in it is the latest one of its record. So whatever writes a record another way drops it here.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use rusqlite::Connection;
use shopmirror_core::clock::stamp;
use shopmirror_core::record::{PollerId, Route};

use super::Reading;
use super::commit::Committed;
use super::compare::{Comparison, Finding};
use super::list::List;
use super::vanish::Vanished;
use crate::store::pollers::{self, PollerRow};
use crate::store::sql::Sql;

/// A digest of a record's text, by a function that each process draws at random. Two texts of a
/// record have one digest with a chance of 1 in 2^64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct Digest(u64);

/// A version of the log, and the text that was last seen to mean the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct Version {
    pub(in crate::store) seq: i64,
    pub(in crate::store) digest: Digest,
}

/// One record of a poller's last page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown {
    /// Its place on that page, from 0 for the first one, without the records that prove nothing.
    pub(super) place: usize,
    /// Its version, unless another one may have been stored since.
    pub(super) version: Option<Version>,
}

/// What one poller saw last.
pub(in crate::store) struct PollerMemory {
    /// The stored row may be older while pages change nothing.
    pub(super) row: PollerRow,
    /// The records of `row.head`, by id.
    pub(super) shown: HashMap<String, Shown>,
    /// Whether this process has read a page of it. Otherwise the stored row is as new.
    is_read: bool,
}

/// What the pollers saw last.
#[derive(Default)]
pub(in crate::store) struct Memory {
    pollers: HashMap<PollerId, PollerMemory>,
    /// The routes of which every poller is in memory.
    routes: HashSet<Route>,
    hasher: RandomState,
    /// Another number shows that another connection has written.
    data_version: i64,
}

impl Memory {
    pub(super) fn digest(&self, text: &str) -> Digest {
        Digest(self.hasher.hash_one(text))
    }

    /// Drops every version if another connection has written since the last call. Inside a
    /// transaction that writes, none can write until its end.
    pub(super) fn notice_other_writers(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let data_version = connection.value("PRAGMA data_version", [])?;
        if self.data_version != data_version {
            self.data_version = data_version;
            self.drop_versions();
        }
        Ok(())
    }

    /// Drops every version, so that each record of the next pages is looked up.
    pub(in crate::store) fn drop_versions(&mut self) {
        for poller in self.pollers.values_mut() {
            for shown in poller.shown.values_mut() {
                shown.version = None;
            }
        }
    }

    /// Drops what every poller of a route saw of a record.
    fn drop_record(&mut self, route: Route, id: &str) {
        for (poller, memory) in &mut self.pollers {
            if poller.route == route
                && let Some(shown) = memory.shown.get_mut(id)
            {
                shown.version = None;
            }
        }
    }

    /// Reads the rows of all pollers of a route, unless they are in memory.
    pub(super) fn load_route(
        &mut self,
        connection: &Connection,
        route: Route,
    ) -> rusqlite::Result<()> {
        if self.routes.contains(&route) {
            return Ok(());
        }
        for row in pollers::list(connection)? {
            if let Some(id) = row.id()
                && id.route == route
                && !self.pollers.contains_key(&id)
            {
                self.add(id, row);
            }
        }
        self.routes.insert(route);
        Ok(())
    }

    fn add(&mut self, id: PollerId, row: PollerRow) {
        let mut shown = HashMap::with_capacity(row.head.len());
        for (place, id) in row.head.iter().enumerate() {
            let version = None;
            shown.insert(id.clone(), Shown { place, version });
        }
        let is_read = false;
        let memory = PollerMemory {
            row,
            shown,
            is_read,
        };
        self.pollers.insert(id, memory);
    }

    /// Every poller of a route, with what it knows.
    pub(super) fn of_route(&self, route: Route) -> impl Iterator<Item = (&PollerId, &PollerRow)> {
        let of_route = self.pollers.iter().filter(move |(id, _)| id.route == route);
        of_route.map(|(id, memory)| (id, &memory.row))
    }

    /// Takes over which candidates end, and that the marked records have another version.
    pub(super) fn end_candidates(&mut self, vanished: &Vanished, route: Route) {
        for (id, row) in &vanished.shown.pollers {
            if let Some(memory) = self.pollers.get_mut(id) {
                memory.row.vanishing = row.vanishing.clone();
                memory.row.newest_gone = row.newest_gone.clone();
            }
        }
        for (id, _) in &vanished.marked {
            self.drop_record(route, id);
        }
    }

    /// What a poller saw last; `None` before its first page.
    pub(super) fn poller(&self, id: &PollerId) -> Option<&PollerMemory> {
        self.pollers.get(id)
    }

    pub(in crate::store) fn is_empty(&self) -> bool {
        self.rows().next().is_none()
    }

    /// The rows that may be newer than the stored ones.
    pub(in crate::store) fn rows(&self) -> impl Iterator<Item = (&PollerId, &PollerRow)> {
        let read = self.pollers.iter().filter(|(_, memory)| memory.is_read);
        read.map(|(id, memory)| (id, &memory.row))
    }

    /// Notes what the schedule learned of a poller.
    pub(super) fn set_learned(&mut self, id: &PollerId, learned: String) {
        if let Some(memory) = self.pollers.get_mut(id) {
            memory.row.learned = Some(learned);
        }
    }

    fn rename(&mut self, from: &PollerId, to: PollerId) {
        if let Some(mut memory) = self.pollers.remove(from) {
            memory.row.business.clone_from(&to.business);
            self.pollers.insert(to, memory);
        }
    }

    /// Takes over what was committed.
    pub(super) fn remember(
        &mut self,
        reading: &Reading,
        list: List,
        comparison: &Comparison,
        committed: Committed,
    ) {
        let records = reading.page.records();
        for (place, _) in &committed.versions {
            self.drop_record(reading.poller.route, records[*place].id.as_str());
        }
        let Some(row) = committed.row else { return };
        if let Some(business) = list.set_aside {
            let business = Some(business);
            let route = reading.poller.route;
            let own = PollerId { route, business };
            self.rename(&reading.poller, own.clone());
            if let Some(memory) = self.pollers.get_mut(&own) {
                memory.row.set_aside_at = Some(stamp(reading.at));
            }
        }
        if let Some(before) = list.poller {
            self.rename(&before, reading.poller.clone());
        }
        let memory = self
            .pollers
            .entry(reading.poller.clone())
            .or_insert_with(|| PollerMemory {
                row: row.clone(),
                shown: HashMap::new(),
                is_read: true,
            });
        memory.is_read = true;
        memory.row = row;
        if !committed.is_newest {
            return;
        }
        let mut place = 0;
        for (record, compared) in records.iter().zip(&comparison.records) {
            if compared.finding == Finding::Undecided {
                continue;
            }
            let version = compared.version();
            match memory.shown.get_mut(record.id.as_str()) {
                Some(shown) => *shown = Shown { place, version },
                None => {
                    let id = record.id.as_str().to_owned();
                    memory.shown.insert(id, Shown { place, version });
                }
            }
            place += 1;
        }
        for (place, seq) in committed.versions {
            let digest = comparison.records[place].digest;
            if let Some(shown) = memory.shown.get_mut(records[place].id.as_str()) {
                shown.version = Some(Version { seq, digest });
            }
        }
        let head = &memory.row.head;
        memory
            .shown
            .retain(|id, shown| head.get(shown.place).is_some_and(|on_page| on_page == id));
    }
}
