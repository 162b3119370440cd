//! Collects the status from the running tasks, which also proves that they still respond.

use std::net::SocketAddr;
use std::time::Duration;

use shopmirror_core::clock::Clock;
use tokio::sync::{mpsc, oneshot, watch};

use super::deliveries::{SinkHandle, SinkHandles};
use crate::poll::{BackgroundClient, DispatcherRequest};
use crate::status::{BackupStatus, ScheduledReportStatus, WorkspaceStatus};
use crate::store::Store;

/// A task that does not answer within this time is stuck.
const PATIENCE: Duration = Duration::from_secs(4);

/// What the parts of the daemon tell of themselves. Each sets its own, and outlives a reload with
/// it.
#[derive(Default)]
pub(super) struct DaemonState {
    /// The running sinks.
    pub(super) sinks: SinkHandles,
    /// Why the last reload was refused, in one line.
    pub(super) refusal: Option<String>,
    /// Where the status page is open.
    pub(super) page: Option<SocketAddr>,
    /// The daily backup; `None` if none are made.
    pub(super) backup: Option<BackupStatus>,
    /// The scheduled reports.
    pub(super) reports: Vec<ScheduledReportStatus>,
}

/// The one state that all parts share.
pub(super) type SharedState = watch::Sender<DaemonState>;

/// Where to ask.
#[derive(Clone)]
pub(super) struct Watch {
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) requests: mpsc::Sender<DispatcherRequest>,
    pub(super) background: BackgroundClient,
    pub(super) state: SharedState,
}

impl Watch {
    /// The status of the workspace; `None` when the dispatcher or the store does not answer.
    pub(super) async fn snapshot(&self) -> Option<WorkspaceStatus> {
        let (sender, polling) = oneshot::channel();
        let asked = async {
            self.requests
                .send(DispatcherRequest::Status(sender))
                .await
                .ok()?;
            let polling = polling.await.ok()?;
            let (sinks, now) = (self.state.borrow().sinks.clone(), self.clock.now().wall);
            let read = self.store.read(move |reader| {
                let stored = WorkspaceStatus::stored(reader, now)?;
                let last = stored.last_seq;
                let status = |sink: &SinkHandle| sink.view.status(reader, last).transpose();
                let sinks: Result<Vec<_>, _> = sinks.values().filter_map(status).collect();
                Ok(WorkspaceStatus {
                    sinks: sinks?,
                    ..stored
                })
            });
            Some((polling, read.await.ok()?))
        };
        let (polling, stored) = tokio::time::timeout(PATIENCE, asked).await.ok()??;
        let state = self.state.borrow();
        let known = WorkspaceStatus {
            page: state.page.map(|address| format!("http://{address}/")),
            reload_refused: state.refusal.clone(),
            backup: state.backup.clone(),
            reports: state.reports.clone(),
            ..stored
        };
        Some(known.of_daemon(polling))
    }
}
