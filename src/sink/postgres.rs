//! A PostgreSQL database: the log, one mirror table for each route, and the sink's position.
//!
//! Rows, log and position are written in one transaction, and each change is stored exactly once:
//! what the database holds already is passed over. A database that holds less than it acknowledged is
//! noticed before anything is stored. Rows of several workspaces stand in the same
//! tables and are kept apart by the column `workspace`. No text of a record is ever part of an SQL
//! statement, except names of fields in quotes.

mod guard;
mod hosts;
mod layout;
mod session;
mod text;
mod trouble;
mod write;

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use secrecy::ExposeSecret;
use tokio_postgres::Config;
use tokio_util::sync::CancellationToken;

use super::reason::Reason;
use super::secrets::Secrets;
use super::{SinkBuildError, Verdict};
use crate::config::{PostgresSettings, postgres_target};
use crate::duration;
use crate::record::{Change, Route, TEST_ID};
use layout::Layout;
use session::Session;
use trouble::Trouble;
use write::{ChangeRow, Owner, Statements};

/// The most changes in one transaction.
const BATCH: usize = 1024;

/// One database.
pub struct PostgresSink {
    name: String,
    target: Config,
    secrets: Secrets,
    ca_file: Option<PathBuf>,
    schema: String,
    workspace: String,
    timeout: Duration,
    /// Whether nothing is stored behind a change that was refused.
    /// `None` before the first delivery, and after a failure.
    open: Option<Open>,
    /// Routes whose table cannot be written, of which the log was told.
    waiting: HashSet<Route>,
    /// The position that the database must have at least.
    expected: i64,
    /// The position that it was found to have instead.
    lost: Option<i64>,
}

/// A connection, and what is known of the tables.
struct Open {
    session: Session,
    layout: Layout,
    statements: Statements,
}

impl PostgresSink {
    pub(super) fn build(name: &str, settings: &PostgresSettings) -> Result<Self, SinkBuildError> {
        let target = postgres_target(settings.url.expose_secret()).map_err(|problem| {
            SinkBuildError::Server { sink: name.to_owned(), problem: format!("the url {problem}") }
        })?;
        let user = target.get_user().unwrap_or_default();
        let password = String::from_utf8_lossy(target.get_password().unwrap_or_default());
        Ok(Self {
            name: name.to_owned(),
            secrets: Secrets::of_login(user, &password),
            target,
            ca_file: settings.ca_file.clone(),
            schema: settings.schema.clone(),
            workspace: settings.workspace.clone(),
            timeout: settings.timeout,
            open: None,
            waiting: HashSet::new(),
            expected: 0,
            lost: None,
        })
    }

    pub(super) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    pub(super) fn batch(&self) -> usize {
        BATCH
    }

    /// The server's fault concerns all changes. A text that it refuses is found by halving.
    pub(super) fn can_fail_for_one(&self) -> bool {
        false
    }

    /// What is there is stored at once: a copy should be as fresh as can be.
    pub(super) fn linger(&self) -> Duration {
        Duration::ZERO
    }

    pub(super) async fn deliver(
        &mut self,
        changes: &[Change],
        _now: Timestamp,
        stop: &CancellationToken,
    ) -> Vec<Verdict> {
        let mut verdicts: Vec<Option<Verdict>> = vec![None; changes.len()];
        // Parts still to be stored, the first one last.
        let mut parts: Vec<Vec<usize>> = vec![(0..changes.len()).collect()];
        let mut unfinished = Verdict::NotTried;
        while let Some(mut part) = parts.pop() {
            if part.is_empty() {
                continue;
            }
            let given: Vec<&Change> = part.iter().map(|index| &changes[*index]).collect();
            let storing = tokio::time::timeout(self.timeout, self.store(&given));
            let outcome = match stop.run_until_cancelled(storing).await {
                Some(Ok(outcome)) => outcome,
                Some(Err(_)) => Err(Trouble::Server(format!(
                    "no result within {}; check the server and the network, or raise `timeout`",
                    duration::text(self.timeout)
                ))),
                None => {
                    self.open = None;
                    unfinished = Verdict::CutShort;
                    break;
                }
            };
            match outcome {
                Ok(()) => part.iter().for_each(|index| verdicts[*index] = Some(Verdict::Done)),
                Err(Trouble::Data(_)) if part.len() > 1 => {
                    let later = part.split_off(part.len() / 2);
                    parts.extend([later, part]);
                }
                Err(error @ Trouble::Data(_)) => {
                    verdicts[part[0]] = Some(Verdict::refused(error));
                }
                Err(Trouble::Table { route, said }) => {
                    self.warn_of(route, &said);
                    for index in part.iter().filter(|index| changes[**index].route == route) {
                        verdicts[*index] = Some(Verdict::refused(&said));
                    }
                    part.retain(|index| verdicts[*index].is_none());
                    parts.push(part);
                }
                Err(Trouble::Lost(held)) => {
                    self.lost = Some(held);
                    self.expected = held;
                    break;
                }
                Err(error @ Trouble::Server(_)) => {
                    self.open = None;
                    let fault = Verdict::fault(error);
                    part.iter().for_each(|index| verdicts[*index] = Some(fault.clone()));
                    break;
                }
            }
        }
        verdicts.into_iter().map(|verdict| verdict.unwrap_or_else(|| unfinished.clone())).collect()
    }

    /// Says once that the changes of a route wait, and looks at the tables again at the next delivery.
    fn warn_of(&mut self, route: Route, said: &str) {
        self.open = None;
        if self.waiting.insert(route) {
            tracing::warn!(sink = %self.name, %route, reason = Reason::of(self.secrets.hide(said)),
                "changes of this route wait and are tried again; the others pass");
        }
    }

    /// The row of the log up to which the database has what it was given; `None` while it is not
    /// known what follows from a loss.
    pub(super) fn stored(&self) -> Option<i64> {
        self.lost.is_none().then_some(self.expected)
    }

    /// From now on the database must have what it was given up to this row of the log.
    pub(super) fn expect_stored(&mut self, seq: i64) {
        self.expected = seq;
    }

    /// If the database was found to hold less than it was given: the row up to which it does.
    pub(super) fn take_lost(&mut self) -> Option<i64> {
        self.lost.take()
    }

    async fn store(&mut self, changes: &[&Change]) -> Result<(), Trouble> {
        // A change that only tries the sink is no row of the log.
        let logged = changes.iter().filter(|change| !change.event_id.starts_with(TEST_ID));
        let rows = logged.map(|change| ChangeRow::of(change)).collect::<Result<Vec<_>, _>>()?;
        if self.open.as_ref().is_none_or(|open| open.session.is_closed()) {
            self.open = None;
            self.open = Some(self.connect().await?);
        }
        let Some(Open { session, layout, statements }) = &mut self.open else {
            unreachable!("it was opened above");
        };
        if rows.is_empty() {
            return Ok(());
        }
        let new = write::fields(&rows, layout);
        let of_rows = |route: &Route| changes.iter().any(|change| change.route == *route);
        for route in Route::ALL.into_iter().filter(of_rows) {
            let grown = match new.get(&route).filter(|_| layout.broken(route).is_none()) {
                Some(names) => layout.grow(&mut session.client, route, names).await?,
                None => false,
            };
            statements.know(&session.client, layout, route, grown).await?;
            self.waiting.remove(&route);
        }
        let owner = Owner { workspace: &self.workspace, sink: &self.name };
        let client = &mut session.client;
        write::store(client, statements, layout, &owner, self.expected, &rows).await?;
        let last = rows.iter().map(ChangeRow::seq).max();
        self.expected = last.unwrap_or_default().max(self.expected);
        Ok(())
    }

    async fn connect(&self) -> Result<Open, Trouble> {
        let mut session =
            Session::open(&self.target, self.ca_file.as_deref(), self.timeout).await?;
        let layout = Layout::prepare(&mut session.client, &self.schema).await?;
        let statements = Statements::prepare(&session.client, &self.schema).await?;
        Ok(Open { session, layout, statements })
    }

    /// Connects and looks at the tables; makes nothing.
    pub(super) async fn probe(&self) -> Result<String, String> {
        let looking = async {
            let session =
                Session::open(&self.target, self.ca_file.as_deref(), self.timeout).await?;
            layout::look(&session.client, &self.schema).await
        };
        match tokio::time::timeout(self.timeout, looking).await {
            Ok(Ok(is_complete)) => Ok(format!(
                "connected; the tables of schema {} {}",
                self.schema,
                if is_complete { "are there" } else { "will be made by the first delivery" }
            )),
            Ok(Err(error)) => Err(Reason::of(error)),
            Err(_) => Err("no answer in time; check the server and the network".to_owned()),
        }
    }
}
