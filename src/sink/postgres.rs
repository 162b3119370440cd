//! A PostgreSQL database: the log, one mirror table for each route, and the sink's position.
//!
//! Rows, log and position are written in one transaction, and each change is stored exactly once:
//! what the database holds already is passed over. A database that holds less than it acknowledged
//! is noticed before anything is stored. Rows of several workspaces stand in the same tables and
//! differ in the column `workspace`. No text of a record is ever part of an SQL statement,
//! except names of fields in quotes.

mod derived;
mod error;
mod schema;
mod session;
mod tables;
mod write;

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use shopmirror_core::reading::ReadRules;
use shopmirror_core::record::Change;
use tokio_postgres::Client;

use super::lookup::current;
use super::reason::{Secrets, login};
use super::{Sink, SinkError, Verdict};
use crate::config::{PostgresSettings, postgres_target};
use error::Doing;
use schema::Schema;
use session::Session;

/// The most changes in one transaction.
const BATCH: usize = 1024;
/// How long after a hindrance new columns are tried again: readers of the table wait meanwhile.
const COLUMNS_AGAIN: Duration = Duration::from_secs(60);

/// One database.
pub(super) struct PostgresSink {
    name: String,
    settings: PostgresSettings,
    secrets: Secrets,
    /// `None` before the first delivery, and after a failure.
    open: Option<Session>,
    /// The position that the database must have at least.
    expected: i64,
    /// The position that it was found to have instead.
    lost: Option<i64>,
    /// When another session last kept a table from getting new columns.
    hindered_at: Option<Timestamp>,
    /// How the values that reports calculate with are read.
    rules: ReadRules,
}

impl PostgresSink {
    pub(super) fn build(name: &str, settings: &PostgresSettings) -> Result<Self, SinkError> {
        let target = current(&settings.url, postgres_target)?;
        let user = target.get_user().unwrap_or_default();
        let password = String::from_utf8_lossy(target.get_password().unwrap_or_default());
        Ok(Self {
            name: name.to_owned(),
            secrets: Secrets::new(login(user, &password)),
            settings: settings.clone(),
            open: None,
            expected: 0,
            lost: None,
            hindered_at: None,
            rules: ReadRules::default(),
        })
    }

    async fn store(
        &mut self,
        Session { client, schema, .. }: &mut Session,
        changes: &[&Change],
        now: Timestamp,
    ) -> Result<(), Verdict> {
        let Some(last) = changes.last() else {
            return Ok(());
        };
        let failed = schema.failed(Doing::Storing);
        let workspace = self.settings.workspace.clone();
        let tx = client.transaction().await.map_err(&failed)?;
        let stored = write::lock_position(&tx, schema, &workspace, &self.name).await?;
        if stored.seq < self.expected {
            self.lost = Some(stored.seq);
            self.expected = stored.seq;
            return Err(Verdict::NotTried);
        }
        write::store(&tx, schema, &workspace, &self.name, changes, &self.rules).await?;
        tx.commit().await.map_err(&failed)?;
        self.expected = last.seq.max(self.expected);
        self.add_columns(client, schema, now).await?;
        derived::catch_up(client, schema, &workspace, &self.name, &self.rules, stored).await
    }

    /// Adds the columns of new fields, unless that was hindered a moment ago.
    async fn add_columns(
        &mut self,
        client: &mut Client,
        schema: &Schema,
        now: Timestamp,
    ) -> Result<(), Verdict> {
        if let Some(at) = self.hindered_at
            && now.duration_since(at).unsigned_abs() < COLUMNS_AGAIN
        {
            return Ok(());
        }
        let hindrance = tables::add_columns(client, schema).await?;
        self.hindered_at = None;
        if let Some(who) = hindrance {
            self.hindered_at = Some(now);
            tracing::warn!(
                sink = %self.name,
                "{who}: its rows are stored without them, which are added and filled later; end \
                 the transaction of that session, for example with \
                 `SELECT pg_terminate_backend(PID)`"
            );
        }
        Ok(())
    }

    /// Connects, and creates the tables that are missing.
    async fn connect(&self) -> Result<Session, Verdict> {
        let mut session = Session::open(&self.settings).await?;
        let Session { client, schema, .. } = &mut session;
        let tx = client
            .transaction()
            .await
            .map_err(schema.failed(Doing::MakingTables))?;
        tables::create_missing(&tx, schema).await?;
        tx.commit()
            .await
            .map_err(schema.failed(Doing::MakingTables))?;
        Ok(session)
    }

    /// Does what a delivery does, without a change, and rolls it back.
    async fn dry_run(&self) -> Result<String, Verdict> {
        let Session { client, schema, .. } = &mut Session::open(&self.settings).await?;
        let tx = client
            .transaction()
            .await
            .map_err(schema.failed(Doing::Storing))?;
        tables::create_missing(&tx, schema).await?;
        write::lock_position(&tx, schema, &self.settings.workspace, &self.name).await?;
        let workspace = &self.settings.workspace;
        write::store(&tx, schema, workspace, &self.name, &[], &self.rules).await?;
        Ok(format!(
            "connected; this role may make and write the tables of schema {}",
            schema.name
        ))
    }
}

#[async_trait]
impl Sink for PostgresSink {
    fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    fn batch(&self) -> usize {
        BATCH
    }

    /// The server's fault concerns all changes. A text that it refuses is found by halving.
    fn keeps_order(&self) -> bool {
        true
    }

    fn limit(&self) -> (Duration, &'static str) {
        (
            self.settings.timeout,
            "check the server and the network, or raise `timeout`",
        )
    }

    async fn deliver(&mut self, changes: &[&Change], now: Timestamp) -> Result<(), Verdict> {
        // A test change is no row of the log.
        let mut logged = changes.to_vec();
        logged.retain(|change| !change.is_test());
        let mut session = match self.open.take() {
            Some(session) if !session.client.is_closed() => session,
            _ => self.connect().await?,
        };
        let stored = self.store(&mut session, &logged, now).await;
        if !matches!(stored, Err(Verdict::Fault { .. })) {
            self.open = Some(session);
        }
        stored
    }

    async fn probe(&self) -> Result<String, SinkError> {
        self.dry_run().await.map_err(Verdict::into_error)
    }

    /// The row of the log up to which the database has every change that was sent to it; `None`
    /// until a loss has been taken.
    fn stored(&self) -> Option<i64> {
        match self.lost {
            Some(_) => None,
            None => Some(self.expected),
        }
    }

    fn expect_stored(&mut self, seq: i64) {
        self.expected = seq;
    }

    fn keeps_read_values(&self) -> bool {
        true
    }

    fn read_by(&mut self, rules: ReadRules) {
        self.rules = rules;
    }

    fn take_lost(&mut self) -> Option<i64> {
        self.lost.take()
    }
}
