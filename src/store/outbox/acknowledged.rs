//! What a destination that keeps its own account has acknowledged: two columns of the table `_sinks`.
//!
//! It is saved with the progress of the sink in one transaction. A destination that holds less has
//! lost something.

use rusqlite::{Connection, OptionalExtension};

use crate::store::error::StoreError;
use crate::store::reader::Reader;

/// The rows of the log that a destination was given: those after one row, up to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledged {
    /// It was given nothing up to this row.
    pub after: i64,
    /// It acknowledged what it was given up to this row.
    pub upto: i64,
}

impl Reader {
    /// What the destination of a sink has acknowledged; `None` if there is no such sink.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn acknowledged(&self, sink: &str) -> Result<Option<Acknowledged>, StoreError> {
        let sql = "SELECT given_after, given_upto FROM _sinks WHERE name = ?1";
        let read =
            |row: &rusqlite::Row<'_>| Ok(Acknowledged { after: row.get(0)?, upto: row.get(1)? });
        Ok(self.connection.prepare_cached(sql)?.query_row([sink], read).optional()?)
    }
}

pub(in crate::store) fn set(
    connection: &Connection,
    sink: &str,
    acknowledged: Acknowledged,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE _sinks SET given_after = ?2, given_upto = ?3 WHERE name = ?1")?
        .execute((sink, acknowledged.after, acknowledged.upto))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Begin;
    use crate::store::fixtures::open;

    #[tokio::test]
    async fn where_a_sink_begins_is_known_before_it_has_acknowledged_anything() {
        let (_dir, store) = open();
        let at = "2026-01-01T00:00:00.000000Z".to_owned();
        store.open_sink("db".into(), "postgres", Begin::Beginning, at).await.unwrap();
        let known = store.read(|reader| reader.acknowledged("db")).await.unwrap();
        assert_eq!(known, Some(Acknowledged { after: 0, upto: 0 }));
    }
}
