//! The changes that a sink is owed, for a sink that compares them with what its destination has.
//!
//! Reads the queue and the log, and changes nothing.

use std::ops::ControlFlow;
use std::sync::Arc;

use async_trait::async_trait;
use shopmirror_core::record::Change;

use super::Deliverer;
use super::call::read_change;
use super::filter::wants;
use crate::config::SinkFilter;
use crate::sink::{OwedChanges, SinkError};
use crate::store::{QueueLane, Reader, StoreError};

/// The most rows that are read, of the queue and of the log.
const MAX_ROWS: usize = 10_000;
/// Rows that are retried go later than their place: this many more bytes are read.
const MARGIN_BYTES: usize = 1024 * 1024;
/// Later than any time at which a row is due.
const END_OF_TIME: &str = "9999";

/// What one sink is owed.
pub(super) struct Owed(pub(super) Arc<Deliverer>);

#[async_trait]
impl OwedChanges for Owed {
    async fn next(&self, bytes: usize) -> Result<Vec<Change>, SinkError> {
        let name = self.0.name.clone();
        let filter = self.0.settings.filter.clone();
        let most = bytes.saturating_add(MARGIN_BYTES);
        let reading = self.0.store.read_long(move |reader| {
            let mut changes = queued(reader, &name, most)?;
            changes.extend(not_queued(reader, &name, &filter, most)?);
            Ok(changes)
        });
        reading
            .await
            .map_err(|error: StoreError| SinkError::from(format!("reading the queue: {error}")))
    }
}

fn queued(reader: &Reader, sink: &str, most: usize) -> Result<Vec<Change>, StoreError> {
    let (rows, _) = reader.next_rows(sink, QueueLane::Replay, END_OF_TIME, MAX_ROWS)?;
    let mut changes = Vec::new();
    let mut bytes = 0;
    for row in rows {
        if bytes > most {
            break;
        }
        if let Some(change) = read_change(reader, &row)? {
            bytes += change.body.len();
            changes.push(change);
        }
    }
    Ok(changes)
}

/// The changes after the saved position, which need no row of the queue.
fn not_queued(
    reader: &Reader,
    sink: &str,
    filter: &SinkFilter,
    most: usize,
) -> Result<Vec<Change>, StoreError> {
    let mut changes = Vec::new();
    let Some(row) = reader.sink(sink)? else {
        return Ok(changes);
    };
    let mut bytes = 0;
    reader.scan_after(row.position, MAX_ROWS, |change| {
        if bytes > most {
            return ControlFlow::Break(());
        }
        if wants(filter, &change) {
            bytes += change.body.len();
            changes.push(change);
        }
        ControlFlow::Continue(())
    })?;
    reader.add_jobs(&mut changes)?;
    Ok(changes)
}
