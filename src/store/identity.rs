//! The random identity of the store, which every event id is derived from.
//!
//! A restore gives the store another identity for the rows that are added from then on. An event id
//! uses the identity of the version before: a change that is seen again after a restore gets the
//! event id that it had, and what follows it never gets one of those that the restore has lost.

use rusqlite::{Connection, named_params};

/// The name of the identity of the first rows in `meta`.
const FIRST: &str = "identity";
/// The names of later ones: with the last row before them.
const LATER: &str = "identity_after_";

/// The identities of a store, each with the last row of the log before it, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identities(Vec<(i64, String)>);

impl Identities {
    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let sql = "
            SELECT
                iif(name = :first, -1, CAST(substr(name, length(:later) + 1) AS INTEGER)) AS after,
                value
            FROM _meta
            WHERE name = :first OR name GLOB :later || '*'
            ORDER BY after";
        let all: Vec<(i64, String)> = connection
            .prepare(sql)?
            .query_map(named_params! { ":first": FIRST, ":later": LATER }, |row| {
                row.try_into()
            })?
            .collect::<rusqlite::Result<_>>()?;
        if all.is_empty() {
            return Err(rusqlite::Error::QueryReturnedNoRows);
        }
        Ok(Self(all))
    }

    /// The identity for a row that follows no other version: the first one.
    pub(super) fn first(&self) -> &str {
        match self.0.first() {
            Some((_, identity)) => identity,
            None => "",
        }
    }

    /// The identity for the next version of a record, given the row of the version before it.
    pub(super) fn for_next(&self, before: Option<i64>) -> &str {
        let earlier = match before {
            Some(seq) => self.0.iter().rfind(|(after, _)| *after < seq),
            None => None,
        };
        match earlier {
            Some((_, identity)) => identity,
            None => self.first(),
        }
    }

    /// Every identity, the first one first.
    pub(super) fn all(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(_, identity)| identity.as_str())
    }
}

/// Gives a store another identity for the rows that follow.
pub(super) fn renew(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT OR REPLACE INTO _meta (name, value)
        SELECT :later || coalesce(max(seq), 0), lower(hex(randomblob(16)))
        FROM changes",
        named_params! { ":later": LATER },
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_before_decides_the_identity() {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch(
                "CREATE TABLE _meta (name TEXT PRIMARY KEY, value TEXT);
                 CREATE TABLE changes (seq INTEGER PRIMARY KEY);
                 INSERT INTO _meta VALUES
                    ('identity', 'a'),
                    ('identity_after_10', 'c'),
                    ('identity_after_9', 'b');",
            )
            .unwrap();
        let identities = Identities::read(&connection).unwrap();
        let next = |before: i64| identities.for_next(Some(before));
        assert_eq!([1, 9, 10, 11, 99].map(next), ["a", "a", "b", "c", "c"]);
        assert_eq!(identities.for_next(None), "a");
        connection
            .execute_batch("INSERT INTO changes VALUES (12)")
            .unwrap();
        renew(&connection).unwrap();
        renew(&connection).unwrap();
        let identities = Identities::read(&connection).unwrap();
        assert_eq!(identities.for_next(Some(12)), "c");
        assert_eq!(identities.for_next(Some(13)).len(), 32);
        assert_eq!(identities.all().count(), 4);
    }
}
