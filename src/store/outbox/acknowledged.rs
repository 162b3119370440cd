//! What a destination that keeps its own account has acknowledged, in the table `_meta`.
//!
//! It is saved with the progress of the sink in one transaction. A destination that holds less has
//! lost something.

use rusqlite::Connection;

use crate::store::error::StoreError;
use crate::store::{Reader, meta};

/// The rows of the log that a destination was given: those after one row, up to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledged {
    /// It was given nothing up to this row.
    pub after: i64,
    /// It acknowledged what it was given up to this row.
    pub upto: i64,
}

fn name_of(sink: &str) -> String {
    format!("acknowledged by {sink}")
}

impl Reader {
    /// What the destination of a sink has acknowledged; `None` if there is no such sink.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn acknowledged(&self, sink: &str) -> Result<Option<Acknowledged>, StoreError> {
        let value = meta::value(&self.connection, &name_of(sink))?;
        Ok(value.as_deref().and_then(parsed))
    }
}

fn parsed(value: &str) -> Option<Acknowledged> {
    let (after, upto) = value.split_once(' ')?;
    Some(Acknowledged { after: after.parse().ok()?, upto: upto.parse().ok()? })
}

pub(in crate::store) fn set(
    connection: &Connection,
    sink: &str,
    acknowledged: Acknowledged,
) -> rusqlite::Result<()> {
    let Acknowledged { after, upto } = acknowledged;
    meta::set(connection, &name_of(sink), &format!("{after} {upto}"))
}

pub(in crate::store) fn forget(connection: &Connection, sink: &str) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM _meta WHERE name = ?1", [name_of(sink)]).map(|_| ())
}

pub(in crate::store) fn rename(
    connection: &Connection,
    sink: &str,
    new: &str,
) -> rusqlite::Result<()> {
    forget(connection, new)?;
    let names = (name_of(sink), name_of(new));
    connection.execute("UPDATE _meta SET name = ?2 WHERE name = ?1", names).map(|_| ())
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
