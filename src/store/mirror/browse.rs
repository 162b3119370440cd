//! The records of a route in the order of their last change.

use shopmirror_core::record::Route;

use crate::store::error::StoreError;
use crate::store::mirror::related::RelatedRecord;
use crate::store::reader::Reader;
use crate::store::sql::Sql;
use rusqlite::types::Value;

impl Reader {
    /// The records of a route, the last changed first: `most` after the first `before`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn newest_records(
        &self,
        route: Route,
        before: usize,
        most: usize,
    ) -> Result<Vec<RelatedRecord>, StoreError> {
        let sql = format!(
            "SELECT r.id, c.body FROM \"{route}\" r CROSS JOIN changes c ON c.seq = r._seq \
             ORDER BY r._seq DESC LIMIT {most} OFFSET {before}"
        );
        Ok(self.connection.rows(&sql, [])?)
    }

    /// The rows of a route's table in the order of their last change: the number of that change,
    /// and the values of [`Reader::columns`].
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn record_rows_after(
        &self,
        route: Route,
        after: i64,
        limit: i64,
    ) -> Result<Vec<(i64, Vec<Value>)>, StoreError> {
        let sql = format!("SELECT * FROM \"{route}\" WHERE _seq > ?1 ORDER BY _seq LIMIT ?2");
        let mut statement = self.connection.prepare(&sql)?;
        let width = statement.column_count();
        let rows = statement.query_map([after, limit], |row| {
            let values = (0..width).map(|index| row.get(index));
            Ok((
                row.get("_seq")?,
                values.collect::<rusqlite::Result<Vec<Value>>>()?,
            ))
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}
