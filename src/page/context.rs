//! The shared state of the page: every response is made from it.
//!
//! However many requests come, it takes the status once a second at most, and reads the store for a
//! few viewers at the same time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use jiff::Timestamp;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;

use super::cached::Cached;
use super::not_shown::NotShown;
use super::rights::Rights;
use super::sign_in::SignIn;
use super::{Ask, StatusPage};
use crate::report::{self, Home, Range, Report};
use crate::status::WorkspaceStatus;
use crate::store::{Reader, Store};

/// How long a status, and the numbers of Home, are new enough.
pub(super) const EVERY: Duration = Duration::from_secs(1);
const NUMBERS_EVERY: Duration = Duration::from_secs(5);
/// Reads of reports and records at the same time.
const READS_MAX: usize = 2;
/// Live pages that stay current at the same time: fewer than connections, so that other requests
/// are answered beside them.
const STREAMS_MAX: usize = 192;
/// How long a request waits for its turn.
const TURN: Duration = Duration::from_secs(5);
/// The longest time that one request may read. A report has its own limit within this one.
const MAX_READ: Duration = Duration::from_secs(15);

/// Waits for a turn, and not for long.
async fn turn_of(turns: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, NotShown> {
    match timeout(TURN, Arc::clone(turns).acquire_owned()).await {
        Ok(Ok(turn)) => Ok(turn),
        _ => {
            let text = "Too many requests are being answered: try again in a few seconds.";
            Err(NotShown::new(StatusCode::SERVICE_UNAVAILABLE, text))
        }
    }
}

/// The state from which the responses are made.
pub(super) struct PageContext {
    /// The shop's name: that of the workspace, or its host until the workspace has returned one.
    shop: watch::Sender<String>,
    /// The numbers of Home for each of its ranges.
    numbers: HashMap<Range, Cached<Option<Arc<Home>>>>,
    newest: Cached<Option<Arc<WorkspaceStatus>>>,
    ask: Ask,
    store: Store,
    pub(super) page: StatusPage,
    pub(super) sign_in: SignIn,
    reads: Arc<Semaphore>,
    /// One permit: a second request for a report waits here, where it holds up no other page.
    report_reads: Arc<Semaphore>,
    /// One permit for each stream of a live page that may still be opened.
    pub(super) streams: Arc<Semaphore>,
}

impl PageContext {
    pub(super) fn new(page: StatusPage, store: Store, ask: Ask) -> Self {
        Self {
            shop: watch::Sender::new(page.shop.clone()),
            numbers: Range::HOME.map(|range| (range, Cached::default())).into(),
            newest: Cached::default(),
            ask,
            store,
            sign_in: SignIn::new(&page.settings),
            page,
            reads: Arc::new(Semaphore::new(READS_MAX)),
            report_reads: Arc::new(Semaphore::new(1)),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
        }
    }

    /// The shop's name.
    pub(super) fn shop(&self) -> String {
        self.shop.borrow().clone()
    }

    /// A status that is at most a second old; `None` if the daemon's tasks do not answer.
    pub(super) async fn status(&self) -> Option<Arc<WorkspaceStatus>> {
        // If the viewer leaves, its request ends, and the next viewer takes the status again.
        let take = async {
            let mut status = (self.ask)().await?;
            if !self.page.settings.show_records {
                status = status.without_quotations();
            }
            if let Some(name) = &status.workspace
                && !name.is_empty()
            {
                self.shop.send_replace(name.clone());
            }
            Some(Arc::new(status))
        };
        self.newest.newest(EVERY, take).await
    }

    /// The numbers of Home that are at most a few seconds old, as far as they are shown to a reader;
    /// `None` if the store does not answer.
    pub(super) async fn numbers(
        self: &Arc<Self>,
        range: Range,
        rights: Rights,
    ) -> Option<Arc<Home>> {
        let read = self.read(move |reader, context| {
            let StatusPage { reports, zone, .. } = &context.page;
            let ready = &reports.ready_status;
            Ok(report::home(reader, range, ready, zone, Timestamp::now())?)
        });
        let take = async { read.await.ok().map(Arc::new) };
        let home = self
            .numbers
            .get(&range)?
            .newest(NUMBERS_EVERY, take)
            .await?;
        if rights.shows_all() {
            return Some(home);
        }
        Some(Arc::new(home.without_money()))
    }

    /// Reads the store on a connection of its own. Busy if others read for too long.
    pub(super) async fn read<T, F>(self: &Arc<Self>, work: F) -> Result<T, NotShown>
    where
        T: Send + 'static,
        F: FnOnce(&mut Reader, &Self) -> Result<T, NotShown> + Send + 'static,
    {
        let turn = turn_of(&self.reads).await?;
        let context = Arc::clone(self);
        let read = move |reader: &mut Reader| {
            // A read continues although its client has left, so it keeps its turn until it ends.
            let _turn = turn;
            reader.limit_time(MAX_READ)?;
            work(reader, &context)
        };
        self.store.read_long(read).await
    }

    /// As [`Self::read`], for a report: one at a time, because its rows may need much memory.
    pub(super) async fn read_report<T, F>(self: &Arc<Self>, work: F) -> Result<T, NotShown>
    where
        T: Send + 'static,
        F: FnOnce(&mut Reader, &Self) -> Result<T, NotShown> + Send + 'static,
    {
        let turns = (
            turn_of(&self.report_reads).await?,
            turn_of(&self.reads).await?,
        );
        let context = Arc::clone(self);
        let read = move |reader: &mut Reader| {
            let _turns = turns;
            reader.limit_time(MAX_READ)?;
            work(reader, &context)
        };
        self.store.read_report(read).await
    }

    /// The reports that are shown to a reader, and what is wrong with the others. It reads files,
    /// so it is called within [`Self::read`].
    pub(super) fn reports(&self, rights: Rights) -> (Vec<Report>, Vec<String>) {
        let mut folder = None;
        if rights.shows_records() && rights.shows_all() {
            folder = self.page.reports.folder.as_deref();
        }
        let (mut reports, errors) = report::list(folder);
        reports.retain(|report| rights.shows_report(report));
        (reports, errors.iter().map(ToString::to_string).collect())
    }

    /// The report of a name, if it is shown to a reader.
    pub(super) fn report(&self, rights: Rights, name: &str) -> Result<Report, NotShown> {
        let (reports, _) = self.reports(rights);
        match reports.into_iter().find(|report| report.name == name) {
            Some(report) => Ok(report),
            None => {
                let text = "There is no such report here.";
                Err(NotShown::new(StatusCode::NOT_FOUND, text))
            }
        }
    }
}
