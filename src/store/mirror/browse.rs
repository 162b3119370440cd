//! The records of a route in the order of their last change.

use rusqlite::named_params;
use rusqlite::types::Value;
use shopmirror_core::record::Route;

use crate::store::error::StoreError;
use crate::store::mirror::related::RelatedRecord;
use crate::store::reader::Reader;
use crate::store::sql::Sql;

impl Reader {
    /// The records of a route, the last changed first: at most `most` after the first `before`.
    pub fn newest_records(
        &self,
        route: Route,
        before: usize,
        most: usize,
    ) -> Result<Vec<RelatedRecord>, StoreError> {
        let sql = format!(
            "SELECT r.id, c.body
            FROM \"{route}\" r
            CROSS JOIN changes c ON c.seq = r._seq
            ORDER BY r._seq DESC
            LIMIT {most}
            OFFSET {before}"
        );
        Ok(self.connection.rows(&sql, [])?)
    }

    /// The rows of a route's table in the order of their last change: the number of that change,
    /// and the values of [`Reader::columns`].
    pub fn record_rows_after(
        &self,
        route: Route,
        after: i64,
        limit: i64,
    ) -> Result<Vec<(i64, Vec<Value>)>, StoreError> {
        let sql = format!(
            "SELECT *
            FROM \"{route}\"
            WHERE _seq > :after
            ORDER BY _seq
            LIMIT :limit"
        );
        let mut statement = self.connection.prepare(&sql)?;
        let width = statement.column_count();
        let mut rows = statement.query(named_params! { ":after": after, ":limit": limit })?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let mut values = Vec::with_capacity(width);
            for place in 0..width {
                values.push(row.get(place)?);
            }
            found.push((row.get("_seq")?, values));
        }
        Ok(found)
    }
}
