//! One call of a sink: reads what has to wait for room, hands the changes over, and returns each row
//! with its verdict. It changes nothing in the store.

use std::sync::Arc;

use shopmirror_core::record::{Change, Kind};
use tokio_util::sync::CancellationToken;

use super::Deliverer;
use super::resend::is_superseded;
use super::room::SMALL;
use crate::sink::{FaultScope, Sink, Verdict};
use crate::store::{QueueLane, QueueRow, Reader, RowState, StoreError};

/// A row that was read and is not in flight yet.
pub(super) struct Ahead {
    pub(super) row: QueueRow,
    /// Bytes of its record.
    pub(super) bytes: usize,
    /// `None` for a large record, which is read only when there is room for it.
    pub(super) change: Option<Change>,
}

impl Ahead {
    /// A change that was read from the log and has no row of the queue, with when that was.
    pub(super) fn direct(change: &Change, since: &str) -> Self {
        let copies = if change.kind == Kind::Updated { 2 } else { 1 };
        let bytes = change.body.len() * copies;
        let mut small = None;
        if bytes <= SMALL {
            small = Some(change.clone());
        }
        Self {
            row: QueueRow {
                lane: QueueLane::Change,
                seq: change.seq,
                route: change.route.as_str().to_owned(),
                record_id: change.record_id.clone().unwrap_or_default(),
                state: RowState::Ready,
                attempts: 0,
                faults: 0,
                due_at: None,
                last_error: None,
                last_error_quotation: None,
                since: since.to_owned(),
                only_if_newest: false,
            },
            bytes,
            change: small,
        }
    }

    /// Reads the record of a row unless it is large; `None` if it is no longer there.
    pub(super) fn read(reader: &Reader, row: &QueueRow) -> Result<Option<Self>, StoreError> {
        let Some(bytes) = reader.weight(row.lane, row.seq)? else {
            return Ok(None);
        };
        let mut change = None;
        if bytes <= SMALL {
            change = read_change(reader, row)?;
            if change.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(Self {
            row: row.clone(),
            bytes,
            change,
        }))
    }

    /// Adds the current state of the job of each record that was read.
    pub(super) fn add_jobs(reader: &Reader, rows: &mut [Self]) -> Result<(), StoreError> {
        let mut changes: Vec<Change> = Vec::with_capacity(rows.len());
        for ahead in rows.iter_mut() {
            changes.extend(ahead.change.take());
        }
        reader.add_jobs(&mut changes)?;
        let mut changes = changes.into_iter().peekable();
        for ahead in rows {
            if let Some(change) = changes.next_if(|change| change.seq == ahead.row.seq) {
                ahead.change = Some(change);
            }
        }
        Ok(())
    }

    /// Whether it may share a call with others: a notice, and a record for which there must be
    /// room, go alone.
    pub(super) fn is_small(&self) -> bool {
        self.row.lane != QueueLane::Notice && self.change.is_some()
    }

    /// Bytes of the record in memory.
    pub(super) fn bytes_read(&self) -> usize {
        if self.change.is_some() { self.bytes } else { 0 }
    }
}

pub(super) fn read_change(reader: &Reader, row: &QueueRow) -> Result<Option<Change>, StoreError> {
    if row.lane == QueueLane::Notice {
        return reader.notice(row.seq);
    }
    let mut changes = reader.changes(&[row.seq])?;
    reader.add_jobs(&mut changes)?;
    Ok(changes.pop())
}

/// A row with its verdict; `None` if it was not sent, because the sink has a newer version of the
/// record.
pub(super) type Judged = (QueueRow, Option<Verdict>);

/// A call that has ended.
pub(super) struct Ended {
    pub(super) sink: Box<dyn Sink>,
    pub(super) rows: Vec<Judged>,
}

/// A call that begins.
pub(super) struct Call {
    pub(super) deliverer: Arc<Deliverer>,
    pub(super) sink: Box<dyn Sink>,
    pub(super) batch: Vec<Ahead>,
    /// The queue was filled from the log up to this row.
    pub(super) upto: i64,
    /// Ends the wait for room in memory.
    pub(super) ending: CancellationToken,
    /// Cuts the call short.
    pub(super) cut: CancellationToken,
}

impl Call {
    /// Hands the changes over.
    pub(super) async fn run(mut self) -> Ended {
        let batch = std::mem::take(&mut self.batch);
        let rows: Vec<QueueRow> = batch.iter().map(|ahead| ahead.row.clone()).collect();
        let judged = match self.deliver(batch).await {
            Ok(judged) => judged,
            Err(error) => {
                // They are tried again after a pause.
                let fault = Verdict::Fault {
                    reason: format!("reading the change: {error}").into(),
                    retry_after: None,
                    scope: FaultScope::Endpoint,
                };
                let failed = rows.into_iter().map(|row| (row, Some(fault.clone())));
                failed.collect()
            }
        };
        Ended {
            sink: self.sink,
            rows: judged,
        }
    }

    async fn deliver(&mut self, batch: Vec<Ahead>) -> Result<Vec<Judged>, StoreError> {
        let mut judged = Vec::with_capacity(batch.len());
        let mut rows = Vec::with_capacity(batch.len());
        let mut changes = Vec::with_capacity(batch.len());
        // Held until the record is delivered.
        let mut permit = None;
        for Ahead { row, bytes, change } in batch {
            if row.only_if_newest && self.is_superseded(&row).await? {
                judged.push((row, None));
                continue;
            }
            match change {
                Some(change) => changes.push(change),
                None => {
                    let room = self.deliverer.room.take(bytes);
                    permit = self.ending.run_until_cancelled(room).await;
                    if permit.is_some() {
                        changes.extend(self.read_large(&row).await?);
                    }
                }
            }
            rows.push(row);
        }
        if rows.is_empty() {
            return Ok(judged);
        }
        if changes.len() < rows.len() {
            // The task ends, or a record was forgotten.
            let untried = rows.into_iter().map(|row| (row, Some(Verdict::NotTried)));
            judged.extend(untried);
            return Ok(judged);
        }
        if self.sink.keeps_read_values() {
            let rules = self.deliverer.store.read(Reader::read_rules).await?;
            self.sink.read_by(rules);
        }
        let now = self.deliverer.clock.now().wall;
        let verdicts = self.sink.send(&changes, now, &self.cut).await;
        drop(permit);
        for (row, verdict) in rows.into_iter().zip(verdicts) {
            judged.push((row, Some(verdict)));
        }
        Ok(judged)
    }

    async fn is_superseded(&self, row: &QueueRow) -> Result<bool, StoreError> {
        let deliverer = Arc::clone(&self.deliverer);
        let (row, upto) = (row.clone(), self.upto);
        let read = self.deliverer.store.read(move |reader| {
            let filter = Some(&deliverer.settings.filter);
            is_superseded(reader, &deliverer.name, filter, upto, &row)
        });
        read.await
    }

    async fn read_large(&self, row: &QueueRow) -> Result<Option<Change>, StoreError> {
        let row = row.clone();
        let store = &self.deliverer.store;
        store.read(move |reader| read_change(reader, &row)).await
    }
}
