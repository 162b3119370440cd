//! What a poller knows, kept in memory: its row, the ids and the texts of its last page.
//!
//! It saves look-ups, and is never the only place of anything that matters.

use std::collections::{HashMap, HashSet};

use rusqlite::Connection;

use super::Writer;
use super::pollers::{self, PollerRow};
use crate::record::{Page, PollerId, Route};

/// What a poller knows, in memory.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) row: PollerRow,
    pub(super) head: HashSet<String>,
    /// The head as the store holds it.
    pub(super) saved: HashSet<String>,
    pub(super) page: Page,
    pub(super) by_id: HashMap<String, usize>,
}

impl Known {
    pub(super) fn new(row: PollerRow) -> Self {
        let head: HashSet<String> = serde_json::from_str(&row.head).unwrap_or_default();
        let saved = head.clone();
        Self { row, head, saved, page: Page::default(), by_id: HashMap::new() }
    }

    /// Whether the head in the store has little left of this page: a restart would find no overlap
    /// and take it for a gap. It happens where another poller stores the records first.
    pub(super) fn has_drifted(&self, page: &Page) -> bool {
        let held = page.records().iter().filter(|r| self.saved.contains(r.id.as_str())).count();
        held * 2 < page.records().len()
    }

    /// When the page has grown since the last poll: the lowest id of the head, while all are
    /// integers. What lies below it was there before.
    pub(super) fn older_than(&self, limit: u32) -> Option<i64> {
        if self.row.page_limit >= i64::from(limit) {
            return None;
        }
        let ids: Option<Vec<i64>> = self.head.iter().map(|id| id.parse().ok()).collect();
        ids?.into_iter().min()
    }

    /// Writes what has changed in memory alone: when the poller last succeeded.
    pub(super) fn save(&self, connection: &Connection, key: &PollerId) -> rusqlite::Result<()> {
        pollers::save(connection, key, &self.row)
    }

    pub(super) fn learn(&mut self, learned: String) {
        self.row.learned = Some(learned);
    }

    /// Makes the next page be compared with what is stored, not with the page before it.
    pub(super) fn forget_texts(&mut self) {
        self.by_id.clear();
        self.page = Page::default();
    }

    pub(super) fn text_of(&self, id: &str) -> Option<&str> {
        let record = &self.page.records()[*self.by_id.get(id)?];
        Some(self.page.text(record))
    }

    pub(super) fn take_page(&mut self, page: Page) {
        self.by_id =
            page.records().iter().enumerate().map(|(i, r)| (r.id.as_str().to_owned(), i)).collect();
        self.head = self.by_id.keys().cloned().collect();
        self.row.head = head_json(&page);
        self.page = page;
    }
}

impl Writer {
    /// Makes the next page of the route's other pollers be compared with what is stored: it was
    /// written since their last one.
    pub(super) fn forget_texts(&mut self, route: Route, but: Option<&PollerId>) {
        for (key, known) in &mut self.known {
            if key.route == route && Some(key) != but {
                known.forget_texts();
            }
        }
    }
}

/// A page's ids as the store holds them.
pub(super) fn head_json(page: &Page) -> String {
    let ids: Vec<&str> = page.records().iter().map(|r| r.id.as_str()).collect();
    serde_json::to_string(&ids).expect("ids are text")
}
