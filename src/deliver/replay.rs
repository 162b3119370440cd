//! Which rows of its range a replay sends: pure but for the versions that it reads.

use std::ops::ControlFlow;

use serde::Serialize;
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

/// What a replay would send now.
#[derive(Debug, Default, Serialize)]
pub struct ReplayPreview {
    /// The changes that would be sent.
    pub changes: i64,
    /// Changes that would be left out: those in the queue, and versions older than what the sink has.
    pub left_out: i64,
    /// The first change that would be sent.
    pub first: Option<PreviewedChange>,
    /// The last one.
    pub last: Option<PreviewedChange>,
}

/// A change that a replay would send.
#[derive(Debug, Clone, Serialize)]
pub struct PreviewedChange {
    /// Its row of the log.
    pub seq: i64,
    /// When it was observed.
    pub observed_at: String,
}

/// What a replay of this choice would send to a sink whose position is `position` and that asks
/// for `asked`.
///
/// # Errors
/// If the store cannot be read.
pub fn replay_preview(
    reader: &Reader,
    replay: &Replay,
    asked: &SinkFilter,
    position: i64,
) -> Result<ReplayPreview, StoreError> {
    let filter = replay_filter(asked, &replay.choice);
    let mut preview = ReplayPreview::default();
    let mut failure = None;
    reader.scan_after(replay.from_seq, usize::MAX, |change| {
        if change.seq > replay.to_seq {
            return ControlFlow::Break(());
        }
        match replay_rule(reader, replay, (asked, &filter), position, &change) {
            Ok(Take::Sent) => preview.add(change),
            Ok(Take::LeftOut) => preview.left_out += 1,
            Ok(Take::Unwanted) => {}
            Err(error) => {
                failure = Some(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })?;
    match failure {
        Some(error) => Err(error),
        None => Ok(preview),
    }
}

impl ReplayPreview {
    fn add(&mut self, change: Change) {
        let shown = PreviewedChange {
            seq: change.seq,
            observed_at: change.observed_at,
        };
        self.changes += 1;
        self.first.get_or_insert_with(|| shown.clone());
        self.last = Some(shown);
    }
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
