//! A mirror of a simulated workspace: the program's own store, which gets the pages that a daemon
//! would read, at virtual times.
//!
//! A list that has not changed is read only when a report is asked, or right after it changed: the
//! store is told nothing new by the pages between.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use fastrand::Rng;
use jiff::tz::TimeZone;
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use shopmirror::api::decode;
use shopmirror::store::{PollFacts, Reader, Store};
use shopmirror_core::record::{PollerId, Route};
use tempfile::TempDir;

use super::records::Business;
use super::world::{Places, World};

/// How many times a list is read after it changed: what is missing from a page is decided by the
/// page that follows.
const READINGS: u32 = 2;

pub(super) struct Mirror {
    dir: TempDir,
    store: Store,
    rng: Rng,
    /// Readings that a list still needs.
    due: BTreeMap<(Route, Business), u32>,
    /// Each record as a page showed it last.
    pub(super) shown: World,
    /// The workspace when every list was read last.
    pub(super) read: World,
}

impl Mirror {
    pub(super) async fn new(world: &World, zone: &TimeZone, seed: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("mirror.db")).unwrap();
        store
            .store_time_zone(zone.clone(), world.now)
            .await
            .unwrap();
        let empty = World::new(world.now, world.order);
        Self {
            dir,
            store,
            rng: Rng::with_seed(seed),
            due: BTreeMap::new(),
            shown: empty.clone(),
            read: empty,
        }
    }

    pub(super) fn reader(&self) -> Reader {
        Reader::open(&self.path()).unwrap()
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("mirror.db")
    }

    /// Reads some of the lists that changed, in any order, as polls beside one another do.
    pub(super) async fn read_some(&mut self, world: &mut World) {
        for list in std::mem::take(&mut world.changed) {
            self.due.insert(list, READINGS);
        }
        let mut lists: Vec<_> = self.due.keys().copied().collect();
        self.rng.shuffle(&mut lists);
        for list in lists {
            if self.rng.u8(..10) > 0 {
                self.read_list(world, list).await;
            }
        }
    }

    /// Reads every list.
    pub(super) async fn read_all(&mut self, world: &mut World) {
        for list in std::mem::take(&mut world.changed) {
            self.due.insert(list, READINGS);
        }
        for list in World::lists() {
            self.read_list(world, list).await;
        }
        // A daemon writes the times of its readings once a minute.
        self.store.remember_learned(Vec::new()).await.unwrap();
        self.read = world.clone();
    }

    async fn read_list(&mut self, world: &World, list: (Route, Business)) {
        let (route, business) = list;
        let page = world.page(route, business);
        let (ids, records): (Vec<i64>, Vec<Value>) = page.into_iter().unzip();
        let poller = PollerId {
            route,
            business: Some(business.to_string()),
        };
        let facts = PollFacts {
            at: world.now,
            asked_after: self.store.seq(),
            limit: 100,
            page_age: Duration::ZERO,
            served_business: Some(business.to_string()),
        };
        let body = decode(serde_json::to_vec(&records).unwrap()).unwrap();
        self.store
            .store_page(poller, body, facts, None)
            .await
            .unwrap();
        while self.store.reread_step().await.unwrap() {}
        self.shown.copy(world, route, &ids);
        if let Some(times) = self.due.get_mut(&list) {
            *times -= 1;
            if *times == 0 {
                self.due.remove(&list);
            }
        }
    }

    /// Which of these records the mirror has, and not as gone from the list.
    pub(super) fn counted(&self, records: BTreeSet<(Route, i64)>) -> BTreeSet<(Route, i64)> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let file = Connection::open_with_flags(self.path(), flags).unwrap();
        let mut counted = BTreeSet::new();
        for (route, id) in records {
            let sql = format!("SELECT 1 FROM {route} WHERE id = ?1 AND _vanished_at IS NULL");
            let found = file.prepare(&sql).unwrap().exists([id.to_string()]);
            if found.unwrap() {
                counted.insert((route, id));
            }
        }
        counted
    }

    /// In which business the mirror takes each repair to be, and its status changes and payments.
    pub(super) fn places(&self) -> Places {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let file = Connection::open_with_flags(self.path(), flags).unwrap();
        let mut places = Places::new();
        for route in [Route::Jobs, Route::JobStatusChanges, Route::Payments] {
            let sql = format!(
                "SELECT CAST(id AS INTEGER), CAST(_business AS INTEGER)
                 FROM {route}
                 WHERE _vanished_at IS NULL"
            );
            let mut statement = file.prepare(&sql).unwrap();
            let mut rows = statement.query([]).unwrap();
            while let Some(row) = rows.next().unwrap() {
                places.insert((route, row.get(0).unwrap()), row.get(1).unwrap());
            }
        }
        places
    }

    /// Ends the daemon and starts another one on the same file.
    pub(super) async fn restart(&mut self) {
        self.store.close().await.unwrap();
        self.store = Store::open(&self.path()).unwrap();
    }
}
