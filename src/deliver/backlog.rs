//! Counts the changes after a sink's position that it asked for.
//!
//! A count is brought up to date from the one before, so that it costs only the rows that are new or
//! were passed since. One call reads a bounded number of rows; beyond them every row counts.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::filter::wants;
use super::{Deliverer, SinkActivity, SinkStatus};
use crate::config::SinkFilter;
use crate::store::{Lane, Reader, Replay, StoreError};

/// Rows read by one call when routes and kinds decide.
const MAX_ROWS: i64 = 50_000;
/// Rows read by one call when fields decide as well, whose text has to be parsed.
const MAX_PARSED: i64 = 2_000;

/// The changes that a sink asked for among the rows after `position` up to `upto`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counted {
    position: i64,
    upto: i64,
    changes: i64,
}

impl Counted {
    /// Brings the count up to date, and returns it with every row beyond it.
    fn update(
        &mut self,
        reader: &Reader,
        filter: &SinkFilter,
        position: i64,
        last: i64,
    ) -> Result<i64, StoreError> {
        let most = if filter.conditions.is_empty() { MAX_ROWS } else { MAX_PARSED };
        let passed = position - self.position;
        if (0..=most).contains(&passed) && position <= self.upto {
            self.changes -= count(reader, filter, self.position, position)?;
            self.position = position;
        } else {
            *self = Self { position, upto: position, changes: 0 };
        }
        let upto = last.min(self.upto.saturating_add(most)).max(self.upto);
        self.changes += count(reader, filter, self.upto, upto)?;
        self.upto = upto;
        Ok(self.changes + (last - upto).max(0))
    }
}

fn count(reader: &Reader, filter: &SinkFilter, after: i64, upto: i64) -> Result<i64, StoreError> {
    if filter.conditions.is_empty() || after >= upto {
        let SinkFilter { routes, changes, businesses, .. } = filter;
        return reader.count_changes(after, upto, routes, changes, businesses);
    }
    let mut wanted = 0;
    reader.scan_after(after, usize::try_from(upto - after).unwrap_or(usize::MAX), |change| {
        if change.seq > upto {
            return std::ops::ControlFlow::Break(());
        }
        wanted += i64::from(wants(filter, &change));
        std::ops::ControlFlow::Continue(())
    })?;
    Ok(wanted)
}

/// Counts the changes that a sink with this filter and position asked for and that were not handed over
/// yet: those after the position up to `last`, and those that are ready in its queue.
///
/// # Errors
/// If the store cannot be read.
pub fn behind(
    reader: &Reader,
    name: &str,
    filter: &SinkFilter,
    position: i64,
    last: i64,
) -> Result<i64, StoreError> {
    Ok(unread(reader, filter, position, last)? + reader.ready_rows(name, Lane::Change)?)
}

/// Counts the changes after a position up to `last` that a sink with this filter asked for; all other rows
/// beyond a bound count as well.
///
/// # Errors
/// If the store cannot be read.
pub fn unread(
    reader: &Reader,
    filter: &SinkFilter,
    position: i64,
    last: i64,
) -> Result<i64, StoreError> {
    Counted::default().update(reader, filter, position, last)
}

/// Shows the status of one delivery task; clones share its count.
#[derive(Clone)]
pub struct SinkView {
    status: watch::Receiver<Option<SinkStatus>>,
    filter: SinkFilter,
    counted: Arc<Mutex<Counted>>,
}

impl SinkView {
    /// A view of this task, which may run later.
    #[must_use]
    pub fn of(deliverer: &Deliverer) -> Self {
        Self {
            status: deliverer.view.subscribe(),
            filter: deliverer.settings.filter.clone(),
            counted: Arc::default(),
        }
    }

    /// What the sink is doing; `None` before its task has begun.
    #[must_use]
    pub fn activity(&self) -> Option<SinkActivity> {
        self.status.borrow().as_ref().map(|status| status.state)
    }

    /// The sink's status, with what it is behind the row `last`; `None` before its task has begun.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn status(&self, reader: &Reader, last: i64) -> Result<Option<SinkStatus>, StoreError> {
        let Some(mut status) = self.status.borrow().clone() else { return Ok(None) };
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let unread = counted.update(reader, &self.filter, status.position, last)?;
        status.behind = unread + reader.ready_rows(&status.name, Lane::Change)?;
        status.replay = reader.replay(&status.name)?.filter(Replay::is_shown);
        status.notices = reader.notice_counts(&status.name)?;
        Ok(Some(status))
    }
}
