//! Which rows of its range a replay sends: pure but for the versions that it reads.

use shopmirror_core::record::{Change, Kind};

use crate::config::{Condition, FieldTest, Side, SinkFilter};
use crate::deliver::filter::wants;
use crate::deliver::resend::any_newer;
use crate::store::{Reader, Replay, ReplayChoice, StoreError};

/// Which changes a replay sends: what the sink asks for, unless the operator names other
/// routes and kinds; fields that the operator names must fit as well.
#[must_use]
pub fn replay_filter(sink: &SinkFilter, choice: &ReplayChoice) -> SinkFilter {
    let mut filter = sink.clone();
    if !choice.routes.is_empty() {
        filter.routes = choice
            .routes
            .iter()
            .filter_map(|name| name.parse().ok())
            .collect();
    }
    if !choice.kinds.is_empty() {
        filter.changes = choice
            .kinds
            .iter()
            .filter_map(|name| name.parse().ok())
            .collect();
    }
    if !choice.wheres.is_empty() {
        // They have no fields that could fit.
        filter
            .changes
            .retain(|kind| !matches!(kind, Kind::Gap | Kind::Forgotten));
    }
    filter
        .conditions
        .extend(choice.wheres.iter().map(|(name, text)| {
            let as_text = serde_json::Value::from(text.as_str());
            let values = serde_json::from_str(text)
                .into_iter()
                .chain([as_text])
                .collect();
            Condition::Field {
                side: Side::After,
                name: name.clone(),
                wanted: FieldTest::In(values),
            }
        }));
    filter
}

/// What becomes of one row of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Take {
    /// The sink is to get it.
    Sent,
    /// It is not asked for.
    Unwanted,
    /// A replay asks for it, but it is in the queue, its record was forgotten, the sink got a newer
    /// version of it, or an older one is tried again.
    LeftOut,
}

/// Decides about one row of a replay. Unless the operator asked for all versions, only the newest
/// version of a record is sent, so that no record is in an older state than before whenever
/// the replay ends. `asked` is what the sink asks for, `filter` what the replay does, `upto` the
/// sink's position.
///
/// # Errors
/// If the store cannot be read.
pub fn replay_rule(
    reader: &Reader,
    replay: &Replay,
    (asked, filter): (&SinkFilter, &SinkFilter),
    upto: i64,
    change: &Change,
) -> Result<Take, StoreError> {
    if !wants(filter, change) {
        return Ok(Take::Unwanted);
    }
    let sink = &replay.sink;
    if reader.is_erased(change.seq)? || reader.is_queued(sink, change.seq)? {
        return Ok(Take::LeftOut);
    }
    let Some(id) = &change.record_id else {
        return Ok(Take::Sent);
    };
    if replay.choice.all_versions {
        return Ok(Take::Sent);
    }
    // A newer version that the sink got, or that this replay sends. One in the queue still comes.
    let counts =
        |newer: &Change| newer.seq <= replay.to_seq && wants(filter, newer) || wants(asked, newer);
    let rows = (change.seq, upto);
    let is_old = any_newer(reader, sink, (change.route, id), rows, counts)?;
    // An older version that is tried again would arrive after this one.
    if is_old || reader.is_held_up(sink, change)? {
        return Ok(Take::LeftOut);
    }
    Ok(Take::Sent)
}
