//! Collects the status from the running tasks, which also proves that they still respond.

use std::time::Duration;

use tokio::sync::oneshot;

use super::shared::DaemonHandle;
use crate::page::PageState;
use crate::poll::{DispatcherRequest, PollingStatus};
use crate::status::WorkspaceStatus;

/// A task that does not answer within this time is stuck.
const PATIENCE: Duration = Duration::from_secs(4);

impl DaemonHandle {
    /// The status of the workspace; `None` when the dispatcher or the store does not answer.
    pub(super) async fn snapshot(&self) -> Option<WorkspaceStatus> {
        let collecting = async {
            let polling = self.polling_status().await?;
            let stored = self.stored_status().await?;
            Some((polling, stored))
        };
        let (polling, stored) = tokio::time::timeout(PATIENCE, collecting).await.ok()??;
        let state = self.state.borrow();
        let (page, page_refused) = match &state.page {
            PageState::Closed => (None, None),
            PageState::Open(address) => (Some(address.clone()), None),
            PageState::Refused(why) => (None, Some(why.clone())),
        };
        let status = WorkspaceStatus {
            page,
            page_refused,
            reload_refused: state.refusal.clone(),
            backup: state.backup.clone(),
            offsite: state.offsite.clone(),
            reports: state.reports.clone(),
            ..stored
        };
        Some(status.with_polling(polling))
    }

    async fn polling_status(&self) -> Option<PollingStatus> {
        let (reply, status) = oneshot::channel();
        let request = DispatcherRequest::Status(reply);
        self.requests.send(request).await.ok()?;
        status.await.ok()
    }

    /// The status as the store and the running sinks have it.
    async fn stored_status(&self) -> Option<WorkspaceStatus> {
        let handles = self.state.borrow().sinks.clone();
        let now = self.clock.now().wall;
        let read = self.store.read(move |reader| {
            let stored = WorkspaceStatus::stored(reader, now)?;
            let mut sinks = Vec::new();
            for handle in handles.values() {
                sinks.extend(handle.view.status(reader, stored.last_seq)?);
            }
            Ok(WorkspaceStatus { sinks, ..stored })
        });
        read.await.ok()
    }
}
