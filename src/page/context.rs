//! What every response of the page is made from.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use super::StatusPage;
use super::not_shown::NotShown;
use super::shared::Shared;
use super::snapshot::{SharedSnapshot, Snapshot};
use crate::report::{self, Home, Range, Report};
use crate::status::WorkspaceStatus;
use crate::store::{Reader, Store, StoreError};

/// How long a snapshot, and the numbers of Home, are new enough.
pub(super) const EVERY: Duration = Duration::from_secs(1);
const NUMBERS_EVERY: Duration = Duration::from_secs(5);
/// Reads of reports and records at the same time.
const READS_MAX: usize = 2;
/// How long a request waits for its turn.
const TURN: Duration = Duration::from_secs(5);
/// How long a viewer waits for a snapshot.
const SNAPSHOT: Duration = Duration::from_secs(14);
/// The longest time that one request may read. A report has its own limit within this one.
const MAX_READ: Duration = Duration::from_secs(15);

/// Asks for the status; `None` if the daemon's tasks do not answer.
pub(super) type Ask = Box<dyn Fn() -> BoxFuture<'static, Option<WorkspaceStatus>> + Send + Sync>;

/// What the responses are made from.
pub(super) struct PageContext {
    /// The shop's name: that of the workspace, or its host until the workspace has told it.
    shop: watch::Sender<String>,
    /// The numbers of Home for each of its ranges.
    numbers: HashMap<Range, Shared<Option<Arc<Home>>>>,
    snapshots: Shared<SharedSnapshot>,
    status: Ask,
    store: Store,
    pub(super) page: StatusPage,
    reads: Arc<Semaphore>,
}

impl PageContext {
    pub(super) fn new(page: StatusPage, store: Store, status: Ask) -> Self {
        Self {
            shop: watch::Sender::new(page.shop.clone()),
            numbers: Range::HOME.map(|range| (range, Shared::default())).into(),
            snapshots: Shared::default(),
            status,
            store,
            page,
            reads: Arc::new(Semaphore::new(READS_MAX)),
        }
    }

    /// Whether single records may be shown.
    pub(super) fn shows_records(&self) -> bool {
        self.page.settings.show_records
    }

    /// The shop's name.
    pub(super) fn shop(&self) -> String {
        self.shop.borrow().clone()
    }

    /// A snapshot that is at most a second old.
    pub(super) async fn snapshot(&self) -> SharedSnapshot {
        let take = async {
            let taken = Snapshot::take((self.status)().await?, &self.store).await?;
            if let Some(name) = taken.workspace.as_ref().filter(|name| !name.is_empty()) {
                self.shop.send_replace(name.clone());
            }
            Some(Arc::new(taken))
        };
        // A viewer that leaves ends its own take, and the next one begins anew.
        timeout(SNAPSHOT, self.snapshots.newest(EVERY, take)).await.unwrap_or(None)
    }

    /// The numbers of Home that are at most a few seconds old; `None` if the store does not answer.
    pub(super) async fn numbers(self: &Arc<Self>, range: Range) -> Option<Arc<Home>> {
        let read = self.read(move |reader, shared| {
            let StatusPage { ready_status, zone, .. } = &shared.page;
            let numbers = report::home(reader, range, ready_status, zone, Timestamp::now());
            Ok(numbers.map_err(|error| error.to_string())?)
        });
        let take = async { read.await.ok().map(Arc::new) };
        self.numbers.get(&range)?.newest(NUMBERS_EVERY, take).await
    }

    /// Reads the store on a connection of its own. Busy if others read for too long, or if the store cannot
    /// be opened.
    pub(super) async fn read<T, F>(self: &Arc<Self>, work: F) -> Result<T, NotShown>
    where
        T: Send + 'static,
        F: FnOnce(&mut Reader, &Self) -> Result<T, NotShown> + Send + 'static,
    {
        let turn = timeout(TURN, Arc::clone(&self.reads).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else { return Err(NotShown::busy()) };
        let shared = Arc::clone(self);
        // A read continues although its client has left, so it keeps its turn until it ends.
        let work = move |reader: &mut Reader| -> Result<Result<T, NotShown>, StoreError> {
            let found = reader.limit_time(MAX_READ).map(|()| work(reader, &shared));
            drop(turn);
            found
        };
        self.store.read_long(work).await.unwrap_or_else(|_| Err(NotShown::busy()))
    }

    /// The reports that may be shown, and what is wrong with the others. Reads files, so it belongs into
    /// [`Self::read`].
    pub(super) fn reports(&self) -> (Vec<Report>, Vec<String>) {
        let folder = self.page.folder.as_deref().filter(|_| self.shows_records());
        let (mut reports, errors) = report::list(folder);
        reports.retain(|report| self.shows_records() || !report.shows_records());
        (reports, errors.iter().map(ToString::to_string).collect())
    }
}
