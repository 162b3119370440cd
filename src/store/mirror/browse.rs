//! The records of a route in the order of their last change.

use crate::record::Route;
use crate::store::error::StoreError;
use crate::store::mirror::related::RelatedRecord;
use crate::store::reader::Reader;
use crate::store::sql::Sql;

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
}
