//! One record: what it is now, and its newest versions. Older ones are read by `shopmirror log`.

use std::ops::ControlFlow;

use rusqlite::OptionalExtension;
use serde::Serialize;
use shopmirror_core::record::{Change, Route};

use crate::store::error::StoreError;
use crate::store::reader::Reader;
use crate::store::sql::Sql;

/// The most versions of one record that are read at once.
const MAX_HISTORY: usize = 200;
/// The most bytes of their bodies.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// The newest versions of one record.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecordHistory {
    /// The versions, the oldest first.
    pub changes: Vec<Change>,
    /// Whether the log has older versions.
    pub has_older: bool,
}

impl Reader {
    /// The newest versions of one record that are in the log, at most 200. The newest one is always
    /// among them, however long it is.
    pub fn history(&self, route: Route, id: &str) -> Result<RecordHistory, StoreError> {
        let mut changes = Vec::new();
        let mut bytes = 0;
        let mut has_older = false;
        self.each_version((route, id), (0, i64::MAX), |change| {
            bytes += change.body.len();
            if let Some(before) = &change.before {
                bytes += before.len();
            }
            has_older = changes.len() == MAX_HISTORY || (bytes > MAX_BYTES && !changes.is_empty());
            if has_older {
                return ControlFlow::Break(());
            }
            changes.push(change);
            ControlFlow::Continue(())
        })?;
        changes.reverse();
        Ok(RecordHistory { changes, has_older })
    }

    /// When a page showed a record last; `None` while it is on the newest page of its list, or if
    /// the mirror has no such record.
    pub fn last_seen_at(&self, route: Route, id: &str) -> Result<Option<String>, StoreError> {
        let sql = format!("SELECT _last_seen_at FROM \"{route}\" WHERE id = ?");
        Ok(self.connection.value(&sql, [id]).optional()?.flatten())
    }

    /// The text of the version that a record's row in the mirror was made from; `None` if the
    /// mirror has no such record.
    pub fn current_body(&self, route: Route, id: &str) -> Result<Option<String>, StoreError> {
        let sql = format!(
            "SELECT c.body
            FROM \"{route}\" r
            JOIN changes c ON c.seq = r._seq
            WHERE r.id = ?"
        );
        Ok(self.connection.value(&sql, [id]).optional()?)
    }
}
