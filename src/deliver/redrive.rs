//! Sends dead letters again, without giving a sink an older version of a record after a newer one.

use std::ops::ControlFlow;

use super::filter::wants;
use crate::config::SinkFilter;
use crate::record::{Change, Route};
use crate::store::{Operator, PendingDelivery, Reader, SinkRow, StoreError};

/// Dead letters that one call makes due, at most.
const MAX: usize = 10_000;
/// Dead letters looked at together.
const STEP: usize = 1_000;

/// Which dead letters to send again.
#[derive(Debug, Clone, Copy)]
pub struct Redrive<'a> {
    /// What the sink asks for; `None` if it is no longer configured, then every version counts.
    pub filter: Option<&'a SinkFilter>,
    /// One dead letter, by its number in the log; `None` means the oldest 10,000.
    pub seq: Option<i64>,
    /// Also send a version of a record after the sink got a newer one.
    pub all_versions: bool,
}

/// What a redrive did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Redriven {
    /// Dead letters that are delivered again.
    pub changes: usize,
    /// Dead letters that were not changed, because the sink got a newer version of the record.
    pub superseded: usize,
}

/// Makes dead letters of a sink due again, with all their attempts and under the same event ids.
///
/// # Errors
/// Dead letters that were not reached stay dead.
pub fn redrive(
    operator: &mut Operator,
    reader: &Reader,
    sink: &SinkRow,
    redrive: &Redrive<'_>,
    at: &str,
) -> Result<Redriven, StoreError> {
    let mut done = Redriven { changes: 0, superseded: 0 };
    let mut after = 0;
    while done.changes < MAX {
        let mut letters = match redrive.seq {
            Some(seq) => reader.dead_letter(&sink.name, seq)?.into_iter().collect(),
            None => reader.dead_letters(&sink.name, after, STEP)?,
        };
        let Some(last) = letters.last() else { break };
        after = last.seq;
        let found = letters.len();
        if !redrive.all_versions {
            let mut current = Vec::with_capacity(found);
            for letter in letters {
                if !is_superseded(reader, sink, redrive.filter, &letter)? {
                    current.push(letter);
                }
            }
            letters = current;
            done.superseded += found - letters.len();
        }
        done.changes += operator.revive(&sink.name, &letters, !redrive.all_versions, at)?;
        if redrive.seq.is_some() {
            break;
        }
    }
    Ok(done)
}

/// Whether the sink got a newer version of the record: one that it asked for, that its position has
/// passed, and that is not parked. What is delivered and not saved yet is looked at again when the
/// letter's turn comes.
fn is_superseded(
    reader: &Reader,
    sink: &SinkRow,
    filter: Option<&SinkFilter>,
    letter: &PendingDelivery,
) -> Result<bool, StoreError> {
    let parked = |newer: &Change| reader.has_delivery(&sink.name, newer.seq);
    has_newer(
        reader,
        filter,
        (&letter.route, &letter.record_id),
        (letter.seq, sink.position),
        parked,
    )
}

/// Whether among the rows after the first one, up to the second one, is a newer version of a record that
/// the sink asked for. One that still comes to the sink, for example a parked one, does not count.
pub(super) fn has_newer(
    reader: &Reader,
    filter: Option<&SinkFilter>,
    (route, record_id): (&str, &str),
    (seq, upto): (i64, i64),
    still_comes: impl Fn(&Change) -> Result<bool, StoreError>,
) -> Result<bool, StoreError> {
    let Ok(route) = route.parse::<Route>() else { return Ok(false) };
    if record_id.is_empty() {
        return Ok(false);
    }
    let is_got = |change: &Change| {
        Ok(filter.is_none_or(|filter| wants(filter, change)) && !still_comes(change)?)
    };
    any_newer(reader, (route, record_id), (seq, upto), is_got)
}

/// Whether one of the newer versions of a record among the rows after the first one, up to the second
/// one, is as asked. The newest is looked at first.
pub(super) fn any_newer(
    reader: &Reader,
    record: (Route, &str),
    (after, upto): (i64, i64),
    is_asked: impl Fn(&Change) -> Result<bool, StoreError>,
) -> Result<bool, StoreError> {
    let mut found = Ok(false);
    reader.newer_versions(record, after, upto, |change| {
        found = is_asked(&change);
        if matches!(found, Ok(false)) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    found
}
