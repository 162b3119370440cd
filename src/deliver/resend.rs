//! Sends refused changes again, without giving a sink an older version of a record after a newer
//! one.

use std::ops::ControlFlow;

use shopmirror_core::record::{Change, Route};

use super::filter::wants;
use crate::config::SinkFilter;
use crate::store::{Operator, QueueRow, Reader, RowState, SinkRow, StoreError};

/// Changes that one call has sent again, at most.
const MAX: usize = 10_000;

/// Which refused changes to send again.
#[derive(Debug, Clone, Copy)]
pub struct Resend<'a> {
    /// What the sink asks for; `None` if it is no longer configured, then every version counts.
    pub filter: Option<&'a SinkFilter>,
    /// One change, by its number in the log; `None` means the oldest 10,000 in each state.
    pub seq: Option<i64>,
    /// Also send a version of a record after the sink got a newer one.
    pub all_versions: bool,
}

/// What is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resent {
    /// Changes that are sent again.
    pub changes: usize,
    /// Dead letters that are not, because the sink got a newer version of the record.
    pub superseded: usize,
}

/// Has dead letters and changes that are being retried sent again at once, with all their attempts
/// and under the same event ids.
///
/// # Errors
/// Nothing is changed.
pub fn resend(
    operator: &mut Operator,
    reader: &Reader,
    sink: &SinkRow,
    resend: &Resend<'_>,
) -> Result<Resent, StoreError> {
    let states = [RowState::Dead, RowState::Retrying, RowState::Waiting];
    let mut rows = match resend.seq {
        Some(seq) => reader.exception(&sink.name, seq)?.into_iter().collect(),
        None => reader.exceptions(&sink.name, &states, MAX)?,
    };
    // What waits and was never tried follows on its own.
    rows.retain(|row| row.state == RowState::Dead || row.due_at.is_some());
    let mut current = Vec::with_capacity(rows.len());
    let mut superseded = 0;
    for row in rows {
        let is_old = row.state == RowState::Dead
            && !resend.all_versions
            && is_superseded(reader, &sink.name, resend.filter, sink.position, &row)?;
        if is_old {
            superseded += 1
        } else {
            current.push(row)
        }
    }
    let changes = operator.resend(&sink.name, &current, !resend.all_versions)?;
    Ok(Resent {
        changes,
        superseded,
    })
}

/// Whether the sink got a newer version of the record among the rows up to `upto`: one that it
/// asked for and is not still owed.
pub(super) fn is_superseded(
    reader: &Reader,
    sink: &str,
    filter: Option<&SinkFilter>,
    upto: i64,
    row: &QueueRow,
) -> Result<bool, StoreError> {
    let (Ok(route), Some(_)) = (row.route.parse::<Route>(), row.record()) else {
        return Ok(false);
    };
    any_newer(
        reader,
        sink,
        (route, &row.record_id),
        (row.seq, upto),
        |newer| filter.is_none_or(|filter| wants(filter, newer)),
    )
}

/// Whether the sink got one of the newer versions of a record that count, among the rows after the
/// first one, up to the second one. The newest is looked at first.
pub(super) fn any_newer(
    reader: &Reader,
    sink: &str,
    record: (Route, &str),
    rows: (i64, i64),
    counts: impl Fn(&Change) -> bool,
) -> Result<bool, StoreError> {
    let mut found = Ok(false);
    reader.each_version(record, rows, |change| {
        if counts(&change) {
            found = reader
                .is_queued(sink, change.seq)
                .map(|is_queued| !is_queued);
        }
        if matches!(found, Ok(false)) {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    found
}
