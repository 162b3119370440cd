//! Counts the changes after a sink's position that it asked for.
//!
//! One call reads a bounded number of rows; beyond them every row counts.

use std::ops::ControlFlow;

use tokio::sync::watch;

use super::filter::wants;
use super::{Deliverer, SinkActivity, SinkStatus};
use crate::config::SinkFilter;
use crate::store::{QueueLane, Reader, StoreError};

/// Rows read by one call when routes and kinds decide.
const MAX_ROWS: i64 = 20_000;
/// Rows read by one call when fields decide as well, whose text has to be parsed.
const MAX_PARSED: i64 = 2_000;

/// Counts the changes that a sink with this filter and position asked for and that were not sent
/// yet: those after the position up to `last`, and those that are ready in its queue.
///
/// # Errors
/// If the store cannot be read.
pub fn not_sent(
    reader: &Reader,
    name: &str,
    filter: &SinkFilter,
    position: i64,
    last: i64,
) -> Result<i64, StoreError> {
    Ok(unread(reader, filter, position, last)? + reader.ready_rows(name, QueueLane::Change)?)
}

/// Counts the changes after a position up to `last` that a sink with this filter asked for; all
/// other rows beyond a bound count as well.
///
/// # Errors
/// If the store cannot be read.
pub fn unread(
    reader: &Reader,
    filter: &SinkFilter,
    position: i64,
    last: i64,
) -> Result<i64, StoreError> {
    if filter.conditions.is_empty() {
        let SinkFilter {
            routes,
            changes,
            businesses,
            ..
        } = filter;
        let upto = last.min(position.saturating_add(MAX_ROWS));
        let counted = reader.count_changes(position, upto, routes, changes, businesses)?;
        return Ok(counted + (last - upto).max(0));
    }
    let upto = last.min(position.saturating_add(MAX_PARSED));
    let mut wanted = 0;
    let rows = usize::try_from(upto - position).unwrap_or_default();
    reader.scan_after(position, rows, |change| {
        if change.seq > upto {
            return ControlFlow::Break(());
        }
        wanted += i64::from(wants(filter, &change));
        ControlFlow::Continue(())
    })?;
    Ok(wanted + (last - upto).max(0))
}

/// Shows the status of one delivery task.
#[derive(Clone)]
pub struct SinkView {
    status: watch::Receiver<Option<SinkStatus>>,
    filter: SinkFilter,
}

impl SinkView {
    /// A view of this task, which may run later.
    #[must_use]
    pub fn new(deliverer: &Deliverer) -> Self {
        Self {
            status: deliverer.view.subscribe(),
            filter: deliverer.settings.filter.clone(),
        }
    }

    /// What the sink is doing; `None` before its task has begun.
    #[must_use]
    pub fn activity(&self) -> Option<SinkActivity> {
        self.status.borrow().as_ref().map(|status| status.state)
    }

    /// The sink's status, with its backlog up to the row `last`; `None` before its task has begun.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn status(&self, reader: &Reader, last: i64) -> Result<Option<SinkStatus>, StoreError> {
        let status = self.status.borrow().clone();
        status
            .map(|status| counted(status, reader, &self.filter, last))
            .transpose()
    }
}

/// A status with what the store knows of the sink up to the row `last`.
pub(super) fn counted(
    mut status: SinkStatus,
    reader: &Reader,
    filter: &SinkFilter,
    last: i64,
) -> Result<SinkStatus, StoreError> {
    let not_sent = not_sent(reader, &status.name, filter, status.position, last)?;
    status.backlog = not_sent + status.retrying;
    status.replay = reader.replay(&status.name)?;
    status.notices = reader.notice_counts(&status.name)?;
    Ok(status)
}
