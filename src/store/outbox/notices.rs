//! The table `_notices`: what this program tells a sink by itself, until the sink has taken it.
//!
//! A notice has the shape of a change and is in no log. Its event id follows from what it says, so
//! that saying it twice stores it once. One that the sink refuses for good is kept, and an operator or a
//! reload has it handed over again. A sink keeps at most [`MAX`]; then the oldest goes.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::record::{Change, Kind, Route};
use crate::store::error::StoreError;
use crate::store::handle::Store;
use crate::store::open::write_tx;
use crate::store::operate::Operator;
use crate::store::reader::Reader;

/// Notices that wait for one sink, at most.
const MAX: i64 = 1_000;
/// The longest body, in bytes.
const BODY_MAX: usize = 4 * 1024 * 1024;

/// Something to tell sinks that is no stored change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewNotice {
    /// [`Kind::Alert`] or [`Kind::Report`].
    pub kind: Kind,
    /// What it is about: the receivers' key of what belongs together, at most 255 bytes.
    pub about: String,
    /// Counts what is said about the same matter, from 1.
    pub version: i64,
    /// When it was made, as [`crate::clock::stamp`] writes it; for a scheduled report, when it was due.
    pub made_at: String,
    /// A JSON object; receivers find it as `record`.
    pub body: String,
}

/// A notice that a sink has not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingNotice {
    /// Its number.
    pub id: i64,
    /// As it is handed to the sink.
    pub change: Change,
    /// How often the sink refused it.
    pub attempts: i64,
}

/// When a notice is handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueNotice {
    /// Its number.
    pub id: i64,
    /// Not before this time; `None` for at once.
    pub next_attempt_at: Option<String>,
}

/// What becomes of a notice that was handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoticeFate {
    /// The sink has taken it.
    Settled,
    /// The sink refused it for good.
    GivenUp {
        /// How often the sink refused it.
        attempts: i64,
        /// When.
        at: String,
        /// Why.
        last_error: String,
    },
    /// It is handed over again.
    PutOff {
        /// How often the sink refused it.
        attempts: i64,
        /// Not before this time.
        next_attempt_at: String,
        /// Why.
        last_error: String,
    },
}

/// Alerts and reports that a sink has not taken.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NoticeCounts {
    /// Those that will be handed over.
    pub waiting: i64,
    /// Why one of them was not taken at the last attempt; null if none was tried.
    pub waiting_error: Option<String>,
    /// Those that the sink refused for good. A reload has them handed over again.
    pub refused: i64,
    /// Why it refused the last one.
    pub refused_error: Option<String>,
}

const INSERT: &str = "INSERT OR IGNORE INTO _notices (sink, event_id, kind, about, version, made_at, body) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

const TRIM: &str = "DELETE FROM _notices WHERE sink = ?1 AND id <= (SELECT id FROM _notices WHERE sink = ?1 \
     ORDER BY id DESC LIMIT 1 OFFSET ?2)";

/// Reads the index only: a body may have 4 MiB.
const DUE: &str = "SELECT id, next_attempt_at FROM _notices WHERE sink = ?1 AND given_up_at IS NULL \
     ORDER BY max(coalesce(next_attempt_at, ''), ?3), id LIMIT ?2";

const PENDING: &str = "SELECT id, event_id, kind, about, version, made_at, body, attempts \
     FROM _notices WHERE id = ?1 AND given_up_at IS NULL";

const PUT_OFF: &str =
    "UPDATE _notices SET attempts = ?2, next_attempt_at = ?3, last_error = ?4 WHERE id = ?1";

const GIVE_UP: &str =
    "UPDATE _notices SET attempts = ?2, given_up_at = ?3, last_error = ?4 WHERE id = ?1";

const COUNT: &str = "SELECT count(*) - count(given_up_at), count(given_up_at), \
     (SELECT last_error FROM _notices WHERE sink = ?1 AND given_up_at IS NULL AND last_error IS NOT NULL \
     ORDER BY id DESC LIMIT 1), \
     (SELECT last_error FROM _notices WHERE sink = ?1 AND given_up_at IS NOT NULL ORDER BY given_up_at DESC LIMIT 1) \
     FROM _notices WHERE sink = ?1";

const ANY_GIVEN_UP: &str =
    "SELECT EXISTS (SELECT 1 FROM _notices WHERE sink = ?1 AND given_up_at IS NOT NULL)";

/// With all attempts that a new one has.
const REVIVE: &str = "UPDATE _notices SET given_up_at = NULL, attempts = 0, next_attempt_at = NULL \
     WHERE sink = ?1 AND given_up_at IS NOT NULL";

const DROP: &str = "DELETE FROM _notices WHERE sink = ?1 AND given_up_at IS NOT NULL";

/// The event id: the same for every sink and however often it is said. A report that is repeated for
/// the same time keeps its id, though records may have changed in between.
fn event_id(identity: &str, notice: &NewNotice) -> String {
    let mut hash = Sha256::new();
    let body = if notice.kind == Kind::Report { "" } else { &notice.body };
    for part in [identity, notice.kind.as_str(), &notice.about, &notice.made_at, body] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    format!("{}_{:x}", notice.kind, Bytes::copy_from_slice(&hash.finalize()[..12]))
}

/// Adds a notice for each of the sinks; returns how many were dropped because too many wait.
pub(in crate::store) fn add(
    connection: &Connection,
    identity: &str,
    sinks: &[String],
    notice: &NewNotice,
) -> Result<usize, StoreError> {
    if notice.body.len() > BODY_MAX {
        return Err(StoreError::Limit("a notice is longer than 4 MiB: make the report shorter"));
    }
    let event_id = event_id(identity, notice);
    let mut dropped = 0;
    for sink in sinks {
        connection.prepare_cached(INSERT)?.execute((
            sink,
            &event_id,
            notice.kind.as_str(),
            &notice.about,
            notice.version,
            &notice.made_at,
            &notice.body,
        ))?;
        dropped += connection.prepare_cached(TRIM)?.execute((sink, MAX))?;
    }
    Ok(dropped)
}

fn read(row: &Row<'_>) -> rusqlite::Result<PendingNotice> {
    let kind: String = row.get(2)?;
    let kind = if kind == Kind::Report.as_str() { Kind::Report } else { Kind::Alert };
    Ok(PendingNotice {
        id: row.get(0)?,
        change: Change {
            seq: 0,
            event_id: row.get(1)?,
            route: Route::Jobs,
            record_id: Some(row.get(3)?),
            kind,
            version: row.get(4)?,
            observed_at: row.get(5)?,
            business: None,
            body: row.get(6)?,
            before: None,
            job: None,
        },
        attempts: row.get(7)?,
    })
}

impl Reader {
    /// Up to `limit` notices that a sink has not taken, without what they say: those that are due at `now`,
    /// the oldest first, then those that are due next.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn due_notices(
        &self,
        sink: &str,
        limit: usize,
        now: &str,
    ) -> Result<Vec<DueNotice>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut statement = self.connection.prepare_cached(DUE)?;
        let rows = statement.query_map((sink, limit, now), |row| {
            Ok(DueNotice { id: row.get(0)?, next_attempt_at: row.get(1)? })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// A notice that the sink has not taken; `None` if an operator dropped it, or a newer one took its
    /// place.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn notice(&self, id: i64) -> Result<Option<PendingNotice>, StoreError> {
        Ok(self.connection.prepare_cached(PENDING)?.query_row([id], read).optional()?)
    }

    /// All notices that a sink has not taken, with what they say.
    #[cfg(test)]
    pub(crate) fn notices(&self, sink: &str) -> Result<Vec<PendingNotice>, StoreError> {
        let due = self.due_notices(sink, usize::MAX, "")?;
        due.iter().filter_map(|due| self.notice(due.id).transpose()).collect()
    }

    /// How many alerts and reports a sink has not taken, and why.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn notice_counts(&self, sink: &str) -> Result<NoticeCounts, StoreError> {
        let mut statement = self.connection.prepare_cached(COUNT)?;
        Ok(statement.query_row([sink], |row| {
            Ok(NoticeCounts {
                waiting: row.get(0)?,
                refused: row.get(1)?,
                waiting_error: row.get(2)?,
                refused_error: row.get(3)?,
            })
        })?)
    }
}

impl Operator {
    /// Has the alerts and reports that a sink refused for good handed over again; returns how many.
    ///
    /// # Errors
    /// Nothing is changed.
    pub fn revive_notices(&mut self, sink: &str) -> Result<usize, StoreError> {
        Ok(self.connection.execute(REVIVE, [sink])?)
    }

    /// Deletes the alerts and reports that a sink refused for good; returns how many.
    ///
    /// # Errors
    /// Nothing is changed.
    pub fn drop_notices(&mut self, sink: &str) -> Result<usize, StoreError> {
        Ok(self.connection.execute(DROP, [sink])?)
    }
}

impl Store {
    /// Keeps a notice until each of these sinks has taken it; wake their tasks afterwards. The same
    /// notice is kept once.
    ///
    /// # Errors
    /// Nothing is stored.
    pub async fn post_notice(
        &self,
        sinks: Vec<String>,
        notice: NewNotice,
    ) -> Result<(), StoreError> {
        let dropped = self.write(move |writer| {
            let identity = writer.identities.first().to_owned();
            let tx = write_tx(&mut writer.connection)?;
            let dropped = add(&tx, &identity, &sinks, &notice)?;
            tx.commit()?;
            Ok(dropped)
        });
        note_dropped(dropped.await?);
        Ok(())
    }

    /// Has everything handed over again that this sink refused for good, because its configuration or
    /// what it names may be another. Costs no write if there is nothing.
    ///
    /// # Errors
    /// Nothing is changed.
    pub async fn revive_notices(&self, sink: String) -> Result<(), StoreError> {
        self.write(move |writer| {
            let connection = &writer.connection;
            if connection.query_row(ANY_GIVEN_UP, [&sink], |row| row.get(0))? {
                connection.execute(REVIVE, [&sink])?;
            }
            Ok(())
        })
        .await
    }

    /// Stores what became of a notice.
    ///
    /// # Errors
    /// Nothing is stored; it is handed over again under the same event id.
    pub async fn settle_notice(&self, id: i64, fate: NoticeFate) -> Result<(), StoreError> {
        self.write(move |writer| {
            let connection = &writer.connection;
            match fate {
                NoticeFate::Settled => {
                    connection.execute("DELETE FROM _notices WHERE id = ?1", [id])?;
                }
                NoticeFate::PutOff { attempts, next_attempt_at, last_error } => {
                    let values = (id, attempts, next_attempt_at, last_error);
                    connection.prepare_cached(PUT_OFF)?.execute(values)?;
                }
                NoticeFate::GivenUp { attempts, at, last_error } => {
                    let values = (id, attempts, at, last_error);
                    connection.prepare_cached(GIVE_UP)?.execute(values)?;
                }
            }
            Ok(())
        })
        .await
    }
}

/// Says that notices were dropped.
pub(in crate::store) fn note_dropped(count: usize) {
    if count > 0 {
        tracing::warn!(
            count,
            "more than {MAX} notices waited for a sink, and the oldest were dropped: see `shopmirror sinks`"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::fixtures::open;

    fn notice(number: i64) -> NewNotice {
        NewNotice {
            kind: Kind::Alert,
            about: "key".into(),
            version: number,
            made_at: format!("2026-01-01T00:00:00.{number:06}Z"),
            body: "{}".into(),
        }
    }

    #[tokio::test]
    async fn a_notice_that_is_said_twice_is_kept_once_and_too_many_are_not_kept() {
        let (dir, store) = open();
        let sinks = || vec!["ops".to_owned(), "mail".to_owned()];
        for _ in 0..2 {
            store.post_notice(sinks(), notice(1)).await.unwrap();
        }
        let of = |sink: &'static str| store.read(move |reader| reader.notices(sink));
        let (ops, mail) = (of("ops").await.unwrap(), of("mail").await.unwrap());
        assert_eq!((ops.len(), mail.len()), (1, 1));
        assert_eq!(ops[0].change.event_id, mail[0].change.event_id, "one id for all sinks");
        for number in 2..=MAX + 5 {
            store.post_notice(vec!["ops".to_owned()], notice(number)).await.unwrap();
        }
        let ops = of("ops").await.unwrap();
        assert_eq!(i64::try_from(ops.len()).unwrap(), MAX);
        assert_eq!(ops[0].change.version, 6, "the oldest are dropped");
        assert_eq!(of("mail").await.unwrap().len(), 1);
        let connection = Connection::open(dir.path().join("mirror.db")).unwrap();
        for sql in [DUE, PENDING, TRIM, COUNT, ANY_GIVEN_UP, REVIVE, DROP, PUT_OFF, GIVE_UP] {
            let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let steps = statement.raw_query().mapped(|row| row.get::<_, String>("detail"));
            for step in steps.map(Result::unwrap) {
                assert!(!step.starts_with("SCAN ") || step == "SCAN CONSTANT ROW", "{step}: {sql}");
            }
        }
    }
}
