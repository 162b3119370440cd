//! Collects the status from the running tasks, which also proves that they still respond.

use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::{mpsc, oneshot, watch};

use super::deliveries::{SinkHandle, SinkHandles};
use crate::clock::Clock;
use crate::control::ControlRequest;
use crate::poll::{BackgroundClient, DispatcherRequest};
use crate::status::{BackupStatus, ScheduledReportStatus, Stored, WorkspaceStatus};
use crate::store::Store;

/// A task that does not answer within this time is stuck.
const PATIENCE: Duration = Duration::from_secs(4);

fn reply(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("a reply holds plain values and valid JSON texts")
}

/// Where to ask.
#[derive(Clone)]
pub(super) struct Watch {
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) requests: mpsc::Sender<DispatcherRequest>,
    pub(super) background: BackgroundClient,
    pub(super) outside: Outside,
    pub(super) backup: watch::Receiver<Option<BackupStatus>>,
    pub(super) reports: watch::Receiver<Vec<ScheduledReportStatus>>,
}

/// State of the daemon's other parts that a status needs.
#[derive(Clone)]
pub(super) struct Outside {
    /// The running sinks.
    pub(super) sinks: watch::Receiver<SinkHandles>,
    /// Why the last reload was refused, in one line.
    pub(super) refusal: watch::Receiver<Option<String>>,
    /// Where the status page is open.
    pub(super) page: watch::Receiver<Option<SocketAddr>>,
}

impl Watch {
    /// The status of the workspace; `None` when the dispatcher or the store does not answer.
    pub(super) async fn snapshot(&self) -> Option<WorkspaceStatus> {
        let (sender, polling) = oneshot::channel();
        let asked = async {
            self.requests.send(DispatcherRequest::Status(sender)).await.ok()?;
            let polling = polling.await.ok()?;
            let sinks = self.outside.sinks.borrow().clone();
            let read = self.store.read(move |reader| {
                let stored = Stored::read(reader)?;
                let last = stored.status.last_seq;
                let status = |sink: &SinkHandle| sink.view.status(reader, last).transpose();
                let sinks: Result<Vec<_>, _> = sinks.values().filter_map(status).collect();
                Ok((stored, sinks?))
            });
            let (stored, sinks) = read.await.ok()?;
            Some((polling, stored, sinks))
        };
        let (polling, stored, sinks) = tokio::time::timeout(PATIENCE, asked).await.ok()??;
        let refusal = self.outside.refusal.borrow().clone();
        let page = self.outside.page.borrow().map(|address| format!("http://{address}/"));
        let now = self.clock.now().wall;
        let status = WorkspaceStatus::of_daemon(polling, sinks, &stored, refusal, page, now);
        let backup = self.backup.borrow().clone();
        let reports = self.reports.borrow().clone();
        Some(status.with_backup(backup).with_reports(reports))
    }

    pub(super) fn reply_to(
        &self,
        request: ControlRequest,
    ) -> impl Future<Output = Vec<u8>> + use<> {
        let watch = self.clone();
        async move {
            match request {
                ControlRequest::Status => match watch.snapshot().await {
                    Some(snapshot) => reply(&snapshot),
                    None => Vec::new(),
                },
                ControlRequest::Search(request) => reply(&watch.search(request).await),
                ControlRequest::Wake => {
                    for handle in watch.outside.sinks.borrow().values() {
                        handle.wake();
                    }
                    reply(&())
                }
            }
        }
    }
}
