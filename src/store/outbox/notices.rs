//! The table `_notices`: alerts and reports that wait for delivery.
//!
//! A notice has the shape of a change and is in no log; the queue of a sink names it. Its event id
//! follows from what it says, so that saying it twice stores it once. One that a sink refuses for
//! good is kept, and an operator or a reload has it sent again. A sink keeps at most
//! [`MAX`]; then the oldest goes.

use rusqlite::{Connection, named_params};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use shopmirror_core::record::{Change, Kind};

use crate::store::error::StoreError;
use crate::store::handle::Store;
use crate::store::open::write_tx;
use crate::store::operator::Operator;
use crate::store::reader::Reader;
use crate::store::sql::Sql;
use crate::text::hex;

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
    /// When it was made, as [`shopmirror_core::clock::stamp`] writes it; for a scheduled report, when it was
    /// due.
    pub made_at: String,
    /// A JSON object; receivers find it as `record`.
    pub body: String,
}

/// Alerts and reports that a sink has not taken.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NoticeCounts {
    /// Those that will be sent.
    pub waiting: i64,
    /// Why one of them was not taken at the last attempt; null if none was tried.
    pub waiting_error: Option<String>,
    /// Those that the sink refused for good. A reload has them sent again.
    pub refused: i64,
    /// Why it refused the last one.
    pub refused_error: Option<String>,
}

/// Stores a notice once; returns its number.
const INSERT: &str = "
    INSERT INTO _notices (event_id, kind, about, version, made_at, body)
    VALUES (:event_id, :kind, :about, :version, :made_at, :body)
    ON CONFLICT (event_id) DO UPDATE SET event_id = event_id
    RETURNING id
";

/// Queues a notice for a sink. What is said about one matter arrives in order.
const QUEUE: &str = "
    INSERT INTO _queue (sink, lane, seq, route, record_id, since)
    VALUES (:sink, 0, :id, '', :about, :at)
    ON CONFLICT DO NOTHING
";

/// Drops the oldest notices beyond a number.
const TRIM: &str = "
    DELETE FROM _queue
    WHERE sink = :sink
        AND lane = 0
        AND seq <= (
            SELECT seq
            FROM _queue
            WHERE sink = :sink
                AND lane = 0
            ORDER BY seq DESC
            LIMIT 1 OFFSET :most
        )
";

/// A notice in the shape of a change.
const ONE: &str = "
    SELECT 0 AS seq,
        event_id,
        'jobs' AS route,
        about AS record_id,
        kind,
        version,
        made_at AS observed_at,
        body
    FROM _notices
    WHERE id = :id
";

/// How many notices a sink has not taken, and why.
const COUNT: &str = "
    SELECT count(*) FILTER (WHERE state <> 'dead') AS waiting,
        count(*) FILTER (WHERE state = 'dead') AS refused,
        (
            SELECT last_error
            FROM _queue
            WHERE sink = :sink
                AND lane = 0
                AND state <> 'dead'
                AND last_error IS NOT NULL
            ORDER BY seq DESC
            LIMIT 1
        ) AS waiting_error,
        (
            SELECT last_error
            FROM _queue
            WHERE sink = :sink
                AND lane = 0
                AND state = 'dead'
            ORDER BY seq DESC
            LIMIT 1
        ) AS refused_error
    FROM _queue
    WHERE sink = :sink
        AND lane = 0
";

/// Has what a sink refused for good sent again, with all attempts that a new notice has.
const REVIVE: &str = "
    UPDATE _queue
    SET state = 'retrying', attempts = 0, faults = 0, due_at = ''
    WHERE sink = :sink
        AND lane = 0
        AND state = 'dead'
";

/// Drops what a sink refused for good.
const DROP: &str = "
    DELETE FROM _queue
    WHERE sink = :sink
        AND lane = 0
        AND state = 'dead'
";

/// The event id: the same for every sink and however often it is said. A report that is repeated
/// for the same time keeps its id, though records may have changed in between.
fn event_id(identity: &str, notice: &NewNotice) -> String {
    let mut hash = Sha256::new();
    let body = if notice.kind == Kind::Report {
        ""
    } else {
        &notice.body
    };
    for part in [
        identity,
        notice.kind.as_str(),
        &notice.about,
        &notice.made_at,
        body,
    ] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    format!("{}_{}", notice.kind, hex(&hash.finalize()[..12]))
}

/// Adds a notice for each of the sinks; returns how many were dropped because too many wait.
pub(in crate::store) fn add(
    connection: &Connection,
    identity: &str,
    sinks: &[String],
    notice: &NewNotice,
) -> Result<usize, StoreError> {
    if notice.body.len() > BODY_MAX {
        return Err(StoreError::Limit(
            "a notice is longer than 4 MiB: make the report shorter",
        ));
    }
    if sinks.is_empty() {
        return Ok(0);
    }
    let event_id = event_id(identity, notice);
    let about = &notice.about;
    let values = named_params! {
        ":event_id": event_id,
        ":kind": notice.kind.as_str(),
        ":about": about,
        ":version": notice.version,
        ":made_at": notice.made_at,
        ":body": notice.body,
    };
    let id: i64 = connection.value(INSERT, values)?;
    let mut dropped = 0;
    for sink in sinks {
        let values =
            named_params! {":sink": sink, ":id": id, ":about": about, ":at": notice.made_at};
        connection.run(QUEUE, values)?;
        dropped += connection.run(TRIM, named_params! {":sink": sink, ":most": MAX})?;
    }
    Ok(dropped)
}

impl Reader {
    /// A notice as it is handed to sinks; `None` if each has taken it, or a newer one took its
    /// place.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn notice(&self, id: i64) -> Result<Option<Change>, StoreError> {
        Ok(self.connection.row(ONE, named_params! {":id": id})?)
    }

    /// How many alerts and reports a sink has not taken, and why.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn notice_counts(&self, sink: &str) -> Result<NoticeCounts, StoreError> {
        Ok(self
            .connection
            .row(COUNT, named_params! {":sink": sink})?
            .unwrap_or_default())
    }
}

impl Operator {
    /// Has the alerts and reports that a sink refused for good sent again; returns how many.
    ///
    /// # Errors
    /// Nothing is changed.
    pub fn revive_notices(&mut self, sink: &str) -> Result<usize, StoreError> {
        self.run(REVIVE, named_params! {":sink": sink})
    }

    /// Deletes the alerts and reports that a sink refused for good; returns how many.
    ///
    /// # Errors
    /// Nothing is changed.
    pub fn drop_notices(&mut self, sink: &str) -> Result<usize, StoreError> {
        self.run(DROP, named_params! {":sink": sink})
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

    /// Has everything sent again that this sink refused for good, because its configuration
    /// or what it names may be another. Costs no write if there is nothing.
    ///
    /// # Errors
    /// Nothing is changed.
    pub async fn revive_notices(&self, sink: String) -> Result<(), StoreError> {
        self.write(move |writer| {
            writer
                .connection
                .run(REVIVE, named_params! {":sink": sink})?;
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
    use crate::store::fixtures::{notices, open, plan};

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
        let of = |sink: &'static str| store.read(move |reader| notices(reader, sink));
        let (ops, mail) = (of("ops").await.unwrap(), of("mail").await.unwrap());
        assert_eq!((ops.len(), mail.len()), (1, 1));
        assert_eq!(ops[0].event_id, mail[0].event_id, "one id for all sinks");
        for number in 2..=MAX + 5 {
            store
                .post_notice(vec!["ops".to_owned()], notice(number))
                .await
                .unwrap();
        }
        let ops = of("ops").await.unwrap();
        assert_eq!(i64::try_from(ops.len()).unwrap(), MAX);
        assert_eq!(ops[0].version, 6, "the oldest are dropped");
        assert_eq!(of("mail").await.unwrap().len(), 1);
        let connection = Connection::open(dir.path().join("mirror.db")).unwrap();
        for sql in [QUEUE, ONE, TRIM, COUNT, REVIVE, DROP] {
            for step in plan(&connection, sql) {
                assert!(
                    !step.starts_with("SCAN ") || step == "SCAN CONSTANT ROW",
                    "{step}: {sql}"
                );
            }
        }
    }
}
