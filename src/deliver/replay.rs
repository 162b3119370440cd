//! Replays: hands older changes to a sink once more, under their event ids, beside the new ones.
//!
//! New changes go first: a round of a replay is handed over only while nothing else is. It never
//! touches the position, the counters, or what is known of the endpoint. Within a replay the order
//! per record is kept; a version is left out if the sink got a newer one that the replay does not send
//! once more, so that no record ends in an older state than it had.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::Duration;

use super::filter::wants;
use super::redrive::has_newer;
use super::round::record_key;
use super::task_state::{Ends, TaskState};
use super::{Deliverer, LOOK_AGAIN};
use crate::backoff::Backoff;
use crate::clock::Moment;
use crate::config::{Condition, InOrder, Side, SinkFilter, Wanted};
use crate::record::{Change, Kind};
use crate::sink::{Sink, Verdict};
use crate::store::{Reader, Replay, ReplayChoice, ReplayState, SinkState, StoreError};

/// Rows of the log looked through in one round.
const SCAN: usize = 4_096;
/// Bytes of records in one round, above which it takes no further change.
const ROUND_BYTES: usize = 1024 * 1024;
/// Faults at one change after which it is compared with others, and how many others.
const COMPARED_AFTER: u32 = 3;
const COMPARED: usize = 4;
const PAUSE: Backoff = Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(15 * 60) };

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

/// A replay that is under way; a restart loses only the pace and the faults.
pub(super) struct ReplayTask {
    pub(super) replay: Replay,
    filter: SinkFilter,
    pace: Pace,
    faults: u32,
    paused_until: Duration,
}

/// How many changes may be handed over now: no more per second than asked for, and not in tiny rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Pace {
    rate: f64,
    at: Duration,
    saved: f64,
}

impl Pace {
    /// Takes up to `most`; the error is the wait until there are enough.
    fn take(&mut self, now: Duration, most: usize) -> Result<usize, Duration> {
        let most = u32::try_from(most).map_or(f64::MAX, f64::from);
        // Half a second's worth at once; no more than a second's worth is saved up.
        let enough = (self.rate / 2.0).clamp(1.0, most.max(1.0));
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.at = now;
        self.saved = (self.saved + passed * self.rate).min(self.rate.max(1.0));
        if self.saved + 1e-6 < enough {
            return Err(Duration::from_secs_f64((enough - self.saved) / self.rate));
        }
        let taken = self.saved.min(most).floor().max(1.0);
        self.saved -= taken;
        Ok(taken as usize)
    }

    /// Gives back what was taken and not used.
    fn give_back(&mut self, changes: usize) {
        self.saved += u32::try_from(changes).map_or(0.0, f64::from);
    }
}

/// What one round hands over.
struct Portion {
    changes: Vec<Change>,
    left_out: i64,
    /// The last row that was looked at.
    upto: i64,
}

impl Deliverer {
    /// Hands over the next changes of a replay, if one is under way; returns the wait before the next
    /// round, `None` if there is no replay.
    pub(super) async fn replay(
        &mut self,
        known: &mut TaskState,
        ends: &Ends<'_>,
    ) -> Result<Option<Duration>, StoreError> {
        if std::mem::take(&mut known.look_for_replay) {
            known.replay = self.stored_replay(known.replay.take()).await?;
        }
        let now = self.clock.now().elapsed;
        let most = self.replayed_at_once();
        let Some(task) = &mut known.replay else { return Ok(None) };
        if known.row.state == SinkState::Disabled || ends.finish.is_cancelled() {
            return Ok(Some(LOOK_AGAIN));
        }
        if task.paused_until > now {
            return Ok(Some(task.paused_until - now));
        }
        let compares = task.faults >= COMPARED_AFTER;
        let taken = match task.pace.take(now, if compares { COMPARED } else { most }) {
            Ok(taken) => taken,
            Err(wait) => return Ok(Some(wait)),
        };
        let wanted = if compares { COMPARED } else { taken };
        let portion = self.portion(known, wanted, compares).await?;
        let Some(task) = &mut known.replay else { return Ok(None) };
        task.pace.give_back(taken.saturating_sub(portion.changes.len()));
        let tried = self.give(&portion.changes, compares, ends).await;
        let moment = self.clock.now();
        let Some(task) = &mut known.replay else { return Ok(None) };
        task.note(&portion, tried, moment);
        let replay = task.replay.clone();
        if replay.state != ReplayState::Running {
            let Replay { sent, refused, left_out, .. } = replay;
            tracing::info!(sink = %self.name, sent, refused, left_out, "the replay is done");
        }
        let ended = replay.state != ReplayState::Running;
        if !self.store.save_replay(replay).await? || ended {
            // An operator may have begun another one.
            known.look_for_replay = !ended;
            known.replay = None;
        }
        Ok(Some(Duration::ZERO))
    }

    /// The replay that is under way according to the store.
    async fn stored_replay(
        &self,
        before: Option<ReplayTask>,
    ) -> Result<Option<ReplayTask>, StoreError> {
        let name = self.name.clone();
        let found = self.store.read(move |reader| reader.replay(&name)).await?;
        let Some(replay) = found.filter(|replay| replay.state == ReplayState::Running) else {
            return Ok(None);
        };
        if let Some(before) = before.filter(|before| before.replay.id == replay.id) {
            return Ok(Some(ReplayTask { paused_until: Duration::ZERO, ..before }));
        }
        let (rate, at) = (replay.rate, self.clock.now().elapsed);
        Ok(Some(ReplayTask {
            filter: replay_filter(&self.settings.filter, &replay.choice),
            pace: Pace { rate, at, saved: 0.0 },
            faults: 0,
            paused_until: Duration::ZERO,
            replay,
        }))
    }

    /// The most changes of one round: new changes wait for its end.
    fn replayed_at_once(&self) -> usize {
        match &self.sink {
            Sink::Windowed(_) if self.settings.in_order == InOrder::Sink => 1,
            Sink::Windowed(sink) => (4 * sink.concurrency()).min(64),
            Sink::Batched(sink) => sink.batch().min(256),
        }
    }

    async fn portion(
        &self,
        known: &TaskState,
        most: usize,
        compares: bool,
    ) -> Result<Portion, StoreError> {
        let Some(task) = &known.replay else {
            return Ok(Portion { changes: Vec::new(), left_out: 0, upto: 0 });
        };
        let (replay, filter) = (task.replay.clone(), task.filter.clone());
        let asked = self.settings.filter.clone();
        let several = !self.sink.can_fail_for_one() && !compares;
        let upto = known.position;
        let read = self.store.read(move |reader| {
            let mut portion = Portion { changes: Vec::new(), left_out: 0, upto: replay.position };
            let (mut records, mut bytes, mut failure) = (HashSet::new(), 0, None);
            let shown = reader.scan_after(replay.position, SCAN, |change| {
                if change.seq > replay.to_seq {
                    return ControlFlow::Break(());
                }
                let rule = replay_rule(reader, &replay, (&asked, &filter), upto, &change);
                match rule {
                    Err(error) => {
                        failure = Some(error);
                        return ControlFlow::Break(());
                    }
                    Ok(ReplayRule::Unwanted) => {}
                    Ok(ReplayRule::LeftOut) => portion.left_out += 1,
                    Ok(ReplayRule::HandedOver) => {
                        let is_new = record_key(&change).is_none_or(|key| records.insert(key));
                        let room = portion.changes.len() < most && bytes < ROUND_BYTES;
                        if !room || !(several || is_new) {
                            return ControlFlow::Break(());
                        }
                        bytes += change.body.len();
                        portion.upto = change.seq;
                        portion.changes.push(change);
                        return ControlFlow::Continue(());
                    }
                }
                portion.upto = change.seq;
                ControlFlow::Continue(())
            })?;
            if let Some(error) = failure {
                return Err(error);
            }
            if shown < SCAN && portion.upto >= reader.last_seq()?.min(replay.to_seq) {
                // The rest of the range is no longer in the log.
                portion.upto = replay.to_seq;
            }
            Ok(portion)
        });
        read.await
    }

    /// Hands changes over: together, or one by one from the last to the first to compare them.
    async fn give(
        &mut self,
        changes: &[Change],
        compares: bool,
        ends: &Ends<'_>,
    ) -> Vec<(usize, Verdict)> {
        if !compares {
            let verdicts = self.sink.deliver(changes, self.clock.now().wall, ends.cut).await;
            return verdicts.into_iter().enumerate().collect();
        }
        let mut tried = Vec::with_capacity(changes.len());
        for index in (0..changes.len()).rev() {
            let one = std::slice::from_ref(&changes[index]);
            let verdicts = self.sink.deliver(one, self.clock.now().wall, ends.cut).await;
            tried.extend(verdicts.into_iter().map(|verdict| (index, verdict)));
        }
        tried
    }
}

impl ReplayTask {
    /// Takes in what became of a round.
    fn note(&mut self, portion: &Portion, tried: Vec<(usize, Verdict)>, moment: Moment) {
        let compares = self.faults >= COMPARED_AFTER;
        let mut settled = vec![None; portion.changes.len()];
        let (mut took_another, mut fault, mut asked) = (false, None, None);
        for (index, verdict) in tried {
            match verdict {
                Verdict::Done => {
                    took_another = true;
                    settled[index] = Some(true);
                }
                Verdict::Refused { reason, .. } => {
                    self.replay.last_error = Some(reason);
                    settled[index] = Some(false);
                }
                // It took another change just before: this one is to blame itself.
                Verdict::Fault { reason, .. } if compares && took_another => {
                    self.replay.last_error = Some(reason);
                    settled[index] = Some(false);
                }
                Verdict::Fault { reason, retry_after } => {
                    asked = asked.max(retry_after);
                    fault = Some(reason);
                }
                Verdict::Gone { reason } => fault = Some(reason),
                Verdict::NotTried | Verdict::CutShort => {}
            }
        }
        let open = settled.iter().position(Option::is_none);
        for done in settled.iter().take(open.unwrap_or(settled.len())).flatten() {
            *(if *done { &mut self.replay.sent } else { &mut self.replay.refused }) += 1;
        }
        self.replay.position = match open {
            Some(first) => portion.changes[first].seq - 1,
            None => portion.upto,
        };
        // What was left out behind an open change is met again.
        if open.is_none() {
            self.replay.left_out += portion.left_out;
        }
        if open.is_none_or(|first| first > 0) {
            self.faults = 0;
        }
        if let Some(reason) = fault {
            self.faults = self.faults.saturating_add(1);
            let wait = PAUSE.wait(self.faults, 1.0, asked);
            self.paused_until = moment.elapsed + wait;
            self.replay.last_error = Some(reason);
        }
        if self.replay.position >= self.replay.to_seq {
            self.replay.state = ReplayState::Done;
            self.replay.ended_at = Some(moment.stamp());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_changes_per_second_are_taken_than_asked_for() {
        for rate in [0.1, 1.0, 10.0, 333.0, 5_000.0] {
            let mut pace = Pace { rate, at: Duration::ZERO, saved: 0.0 };
            let (mut now, mut taken, mut rounds) = (Duration::ZERO, 0, 0);
            while now < Duration::from_secs(100) {
                match pace.take(now, 64) {
                    Ok(changes) => {
                        taken += changes;
                        rounds += 1;
                    }
                    Err(wait) => now += wait,
                }
                let most = rate * now.as_secs_f64() + 1.0;
                assert!(taken as f64 <= most, "{taken} after {now:?} at {rate}");
            }
            assert!(taken as f64 >= rate * 100.0 * 0.98 - 1.0, "{taken} at {rate}");
            assert!(rounds <= taken && rounds <= 210.max(taken / 60), "{rounds} rounds at {rate}");
        }
    }
}
