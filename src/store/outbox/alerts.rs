//! The table `_alerts`: what is wrong now, and how severe it was when each sink got its last alert.
//!
//! What is kept here and the notice about it are one transaction, so that a restart neither repeats
//! nor forgets an alert.

use std::collections::BTreeMap;

use rusqlite::named_params;

use crate::store::error::StoreError;
use crate::store::handle::Store;
use crate::store::open::write_tx;
use crate::store::outbox::notices::{self, NewNotice};
use crate::store::reader::Reader;
use crate::store::sql::Sql;

/// What one sink was sent about one matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertRow {
    /// When it was first seen.
    pub since: String,
    /// The severity in the last alert that the sink got; 0 before the first one.
    pub reported_severity: i64,
    /// When the sink got the last message about it; before the first one, when it was first seen.
    pub reported_at: String,
}

/// What to store about one matter, and what to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertStep {
    /// The matter: a sink, a route, the health.
    pub about: String,
    /// The row to store; `None` when it is over.
    pub row: Option<AlertRow>,
    /// The alert to send, if any.
    pub notice: Option<NewNotice>,
}

/// What a sink was sent, by matter.
const LIST: &str = "
    SELECT about, since, reported_severity, reported_at
    FROM _alerts
    WHERE sink = :sink
";

/// Stores what a sink is sent about one matter.
const KEEP: &str = "
    INSERT INTO _alerts (sink, about, since, reported_severity, reported_at)
    VALUES (:sink, :about, :since, :reported_severity, :reported_at)
    ON CONFLICT (sink, about) DO UPDATE SET
        reported_severity = excluded.reported_severity,
        reported_at = excluded.reported_at
";

/// Forgets a matter that is over.
const END: &str = "
    DELETE FROM _alerts
    WHERE sink = :sink
        AND about = :about
";

impl Reader {
    /// What a sink was sent about each matter that is wrong now.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn alerts(&self, sink: &str) -> Result<BTreeMap<String, AlertRow>, StoreError> {
        let mut statement = self.connection.prepare_cached(LIST)?;
        let rows = statement.query_map(named_params! {":sink": sink}, |row| {
            Ok((
                row.get(0)?,
                AlertRow {
                    since: row.get(1)?,
                    reported_severity: row.get(2)?,
                    reported_at: row.get(3)?,
                },
            ))
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}

impl Store {
    /// Keeps what is wrong and posts what is said about it to the sink, in one transaction.
    ///
    /// # Errors
    /// Nothing is stored.
    pub async fn save_alerts(&self, sink: String, steps: Vec<AlertStep>) -> Result<(), StoreError> {
        let dropped = self.write(move |writer| {
            let identity = writer.identities.first().to_owned();
            let tx = write_tx(&mut writer.connection)?;
            let mut dropped = 0;
            for AlertStep { about, row, notice } in &steps {
                match row {
                    Some(AlertRow {
                        since,
                        reported_severity,
                        reported_at,
                    }) => tx.run(
                        KEEP,
                        named_params! {
                            ":sink": sink,
                            ":about": about,
                            ":since": since,
                            ":reported_severity": reported_severity,
                            ":reported_at": reported_at,
                        },
                    )?,
                    None => tx.run(END, named_params! {":sink": sink, ":about": about})?,
                };
                if let Some(notice) = notice {
                    dropped += notices::add(&tx, &identity, std::slice::from_ref(&sink), notice)?;
                }
            }
            tx.commit()?;
            Ok(dropped)
        });
        notices::note_dropped(dropped.await?);
        Ok(())
    }
}
