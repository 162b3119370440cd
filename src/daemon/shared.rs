//! What the tasks of the daemon share: the store, the clock, the ways to reach one another, and the
//! state that they publish.
//!
//! Nothing here starts or ends a task.

use std::collections::BTreeMap;

use anyhow::anyhow;
use shopmirror_core::clock::Clock;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinError;

use super::reload::ReloadRequests;
use crate::deliver::SinkView;
use crate::page::PageState;
use crate::poll::{BackgroundClient, DispatcherRequest};
use crate::status::{BackupStatus, OffsiteStatus, ScheduledReportStatus};
use crate::store::Store;

/// What every task holds.
#[derive(Clone)]
pub(super) struct DaemonHandle {
    pub(super) store: Store,
    pub(super) clock: Clock,
    /// To the dispatcher.
    pub(super) requests: mpsc::Sender<DispatcherRequest>,
    pub(super) background: BackgroundClient,
    pub(super) reload: ReloadRequests,
    pub(super) state: SharedState,
}

/// The state that all tasks share.
pub(super) type SharedState = watch::Sender<DaemonState>;

/// The state that the tasks publish. Each sets its own part, which stays over a reload with its
/// task.
#[derive(Default)]
pub(super) struct DaemonState {
    /// The running sinks.
    pub(super) sinks: SinkHandles,
    /// Why the last reload was refused, in one line.
    pub(super) refusal: Option<String>,
    /// Whether and where the status page is open.
    pub(super) page: PageState,
    /// The daily backup; `None` if none are made.
    pub(super) backup: Option<BackupStatus>,
    /// The off-site backup; `None` if none are made.
    pub(super) offsite: Option<OffsiteStatus>,
    /// The scheduled reports.
    pub(super) reports: Vec<ScheduledReportStatus>,
}

/// What other tasks need of a running delivery task.
#[derive(Clone)]
pub(super) struct SinkHandle {
    pub(super) view: SinkView,
    pub(super) waker: watch::Sender<()>,
}

impl SinkHandle {
    /// Makes the task read its queue again, because somebody else changed it.
    pub(super) fn wake(&self) {
        self.waker.send_replace(());
    }
}

/// The running sinks, by name.
pub(super) type SinkHandles = BTreeMap<String, SinkHandle>;

/// The result of a task that has ended; a panic is an error.
pub(super) fn result_of(ended: Result<anyhow::Result<()>, JoinError>) -> anyhow::Result<()> {
    match ended {
        Ok(result) => result,
        Err(error) => Err(anyhow!(error).context("a task panicked")),
    }
}
