//! Which rows of its range a replay hands over: pure but for the versions that it reads.

use crate::config::{Condition, Side, SinkFilter, Wanted};
use crate::deliver::filter::wants;
use crate::deliver::redrive::has_newer;
use crate::record::{Change, Kind};
use crate::store::{Reader, Replay, ReplayChoice, StoreError};

/// Which changes a replay hands over: what the sink asks for, unless the operator names other routes
/// and kinds; fields that the operator names must fit as well.
#[must_use]
pub fn replay_filter(sink: &SinkFilter, choice: &ReplayChoice) -> SinkFilter {
    let mut filter = sink.clone();
    if !choice.routes.is_empty() {
        filter.routes = choice.routes.iter().filter_map(|name| name.parse().ok()).collect();
    }
    if !choice.kinds.is_empty() {
        filter.changes = choice.kinds.iter().filter_map(|name| name.parse().ok()).collect();
    }
    if !choice.wheres.is_empty() {
        filter.changes.retain(|kind| *kind != Kind::Gap);
    }
    filter.conditions.extend(choice.wheres.iter().map(|(name, text)| {
        let as_text = serde_json::Value::from(text.as_str());
        let values = serde_json::from_str(text).into_iter().chain([as_text]).collect();
        Condition::Field { side: Side::After, name: name.clone(), wanted: Wanted::In(values) }
    }));
    filter
}

/// What a replay does with one row of its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayRule {
    /// It is not asked for.
    Unwanted,
    /// It is parked, or the sink got a newer version of its record that the replay does not send.
    LeftOut,
    /// It is handed over.
    HandedOver,
}

/// Decides about one row of a replay. `asked` is what the sink asks for, `filter` what the replay does,
/// `upto` the sink's position.
///
/// # Errors
/// If the store cannot be read.
pub fn replay_rule(
    reader: &Reader,
    replay: &Replay,
    (asked, filter): (&SinkFilter, &SinkFilter),
    upto: i64,
    change: &Change,
) -> Result<ReplayRule, StoreError> {
    if !wants(filter, change) {
        return Ok(ReplayRule::Unwanted);
    }
    let choice = &replay.choice;
    let parked = |seq: i64| reader.has_delivery(&replay.sink, seq);
    let still_comes = |newer: &Change| {
        let is_sent = newer.seq <= replay.to_seq && wants(filter, newer);
        Ok(is_sent || parked(newer.seq)?)
    };
    // Without a choice of kinds and values all that the sink got within the range is sent.
    let sends_all = choice.kinds.is_empty() && choice.wheres.is_empty();
    let after = if sends_all { replay.to_seq } else { change.seq };
    let is_old = || match &change.record_id {
        Some(id) if !choice.all_versions => {
            let record = (change.route.as_str(), id.as_str());
            has_newer(reader, Some(asked), record, (after, upto), still_comes)
        }
        _ => Ok(false),
    };
    Ok(if parked(change.seq)? || is_old()? { ReplayRule::LeftOut } else { ReplayRule::HandedOver })
}
