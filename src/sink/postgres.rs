//! A PostgreSQL database: the log, one mirror table for each route, and the sink's position.
//!
//! Rows, log and position are written in one transaction, and each change is stored exactly once:
//! what the database holds already is passed over. A database that holds less than it acknowledged is
//! noticed before anything is stored. Rows of several workspaces stand in the same
//! tables and are kept apart by the column `workspace`. No text of a record is ever part of an SQL
//! statement, except names of fields in quotes.

mod error;
mod session;
mod tables;
mod write;

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio_postgres::Config;
use tokio_util::sync::CancellationToken;

use super::lookup::{current, first};
use super::reason::Secrets;
use super::{Sink, SinkBuildError, Verdict};
use crate::config::{PostgresSettings, SinkUrl, postgres_target};
use crate::duration;
use crate::record::Change;
use error::{Doing, PostgresError};
use session::Session;
use write::Owner;

/// The most changes in one transaction.
const BATCH: usize = 1024;

/// One database.
pub(super) struct PostgresSink {
    name: String,
    url: SinkUrl,
    secrets: Secrets,
    ca_file: Option<PathBuf>,
    schema: String,
    workspace: String,
    timeout: Duration,
    /// `None` before the first delivery, and after a failure.
    open: Option<Session>,
    /// The position that the database must have at least.
    expected: i64,
    /// The position that it was found to have instead.
    lost: Option<i64>,
}

impl PostgresSink {
    pub(super) fn build(name: &str, settings: &PostgresSettings) -> Result<Self, SinkBuildError> {
        let target = first(name, &settings.url, postgres_target)?;
        let user = target.get_user().unwrap_or_default();
        let password = String::from_utf8_lossy(target.get_password().unwrap_or_default());
        Ok(Self {
            name: name.to_owned(),
            secrets: Secrets::of_login(user, &password),
            url: settings.url.clone(),
            ca_file: settings.ca_file.clone(),
            schema: settings.schema.clone(),
            workspace: settings.workspace.clone(),
            timeout: settings.timeout,
            open: None,
            expected: 0,
            lost: None,
        })
    }

    fn too_late(&self) -> String {
        let limit = duration::text(self.timeout);
        format!("no result within {limit}; check the server and the network, or raise `timeout`")
    }

    async fn store(&mut self, changes: &[Change]) -> Result<(), PostgresError> {
        // A change that only tries the sink is no row of the log.
        let logged: Vec<&Change> = changes.iter().filter(|change| !change.is_test()).collect();
        if self.open.as_ref().is_none_or(Session::is_closed) {
            self.open = None;
            self.open = Some(self.connect().await?);
        }
        let Some(Session { client, schema, .. }) = &mut self.open else {
            unreachable!("it was opened above");
        };
        let Some(last) = logged.iter().map(|change| change.seq).max() else { return Ok(()) };
        let failed = schema.failed(Doing::Storing);
        let tx = client.transaction().await.map_err(&failed)?;
        let owner = Owner { workspace: &self.workspace, sink: &self.name };
        write::store(&tx, schema, owner, self.expected, &logged).await?;
        tx.commit().await.map_err(&failed)?;
        self.expected = last.max(self.expected);
        Ok(())
    }

    /// The server at this attempt.
    async fn target(&self) -> Result<Config, PostgresError> {
        current(&self.url, postgres_target).await.map_err(PostgresError::Server)
    }

    /// Connects, and makes the tables that are missing.
    async fn connect(&self) -> Result<Session, PostgresError> {
        let mut session = self.session().await?;
        let Session { client, schema, .. } = &mut session;
        let tx = client.transaction().await.map_err(schema.failed(Doing::MakingTables))?;
        tables::make(&tx, schema).await?;
        tx.commit().await.map_err(schema.failed(Doing::MakingTables))?;
        Ok(session)
    }

    async fn session(&self) -> Result<Session, PostgresError> {
        Session::open(&self.target().await?, self.ca_file.as_deref(), &self.schema, self.timeout)
            .await
    }

    async fn look<T>(
        &self,
        looking: impl Future<Output = Result<T, PostgresError>>,
    ) -> Result<T, String> {
        match tokio::time::timeout(self.timeout, looking).await {
            Ok(found) => found.map_err(|error| error.to_string()),
            Err(_) => Err(self.too_late()),
        }
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

    async fn deliver(
        &mut self,
        changes: &[Change],
        _now: Timestamp,
        stop: &CancellationToken,
    ) -> Vec<Verdict> {
        let mut verdicts = vec![Verdict::NotTried; changes.len()];
        // Parts still to be stored, the first one last.
        let mut parts = vec![(0, changes.len())];
        while let Some((start, end)) = parts.pop() {
            let part = &mut verdicts[start..end];
            let storing = tokio::time::timeout(self.timeout, self.store(&changes[start..end]));
            let outcome = match stop.run_until_cancelled(storing).await {
                Some(Ok(outcome)) => outcome,
                Some(Err(_)) => Err(PostgresError::Server(self.too_late())),
                None => {
                    self.open = None;
                    verdicts[start..].fill(Verdict::CutShort);
                    break;
                }
            };
            match outcome {
                Ok(()) => part.fill(Verdict::Done),
                Err(PostgresError::Data(_)) if part.len() > 1 => {
                    let middle = usize::midpoint(start, end);
                    parts.extend([(middle, end), (start, middle)]);
                }
                Err(error @ PostgresError::Data(_)) => part.fill(Verdict::refused(error)),
                Err(PostgresError::Lost(held)) => {
                    self.lost = Some(held);
                    self.expected = held;
                    break;
                }
                Err(error @ PostgresError::Server(_)) => {
                    self.open = None;
                    part.fill(Verdict::fault(error));
                    break;
                }
            }
        }
        verdicts
    }

    /// Does what a delivery does, without a change, and takes it back.
    async fn probe(&self) -> Result<String, String> {
        self.look(async {
            let Session { client, schema, .. } = &mut self.session().await?;
            let tx = client.transaction().await.map_err(schema.failed(Doing::Storing))?;
            tables::make(&tx, schema).await?;
            let owner = Owner { workspace: &self.workspace, sink: &self.name };
            write::store(&tx, schema, owner, 0, &[]).await?;
            Ok(format!(
                "connected; this role may make and write the tables of schema {}",
                schema.name
            ))
        })
        .await
    }

    /// The row of the log up to which the database has what it was given; `None` while it is not
    /// known what follows from a loss.
    fn stored(&self) -> Option<i64> {
        self.lost.is_none().then_some(self.expected)
    }

    /// From now on the database must have what it was given up to this row of the log.
    fn expect_stored(&mut self, seq: i64) {
        self.expected = seq;
    }

    /// If the database was found to hold less than it was given: the row up to which it does.
    fn take_lost(&mut self) -> Option<i64> {
        self.lost.take()
    }
}
