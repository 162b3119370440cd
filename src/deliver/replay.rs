//! Replays: hands older changes to a sink once more, under their event ids, beside the new ones.
//!
//! New changes go first: a round of a replay is handed over only while nothing else is. It never
//! touches the position or the counters; only a wait that the endpoint asks for pauses the sink. It sends
//! the newest version of a record that the sink got, so that no record is in an older state than before
//! whatever ends the replay; all versions, in their order, only if the operator asks for them. A replay
//! always ends: a change that fails alone is passed, and one that gets nowhere is given up.

mod command;
mod pace;
mod rule;

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::Duration;

use super::health::{Comparing, Fault};
use super::room::{Share, large};
use super::round::record_key;
use super::task_state::{Ends, TaskState};
use super::{Deliverer, LOOK_AGAIN};
use crate::backoff::Backoff;
use crate::clock::Moment;
use crate::config::SinkFilter;
use crate::record::Change;
use crate::sink::{Sink, Verdict};
use crate::store::{Replay, ReplayState, SinkState, StoreError};
pub use command::going_on;
use pace::Pace;
pub use rule::{ReplayRule, replay_filter, replay_rule};

/// Rows of the log looked through in one round.
const SCAN: usize = 4_096;
/// Bytes of records in one round, above which it takes no further change.
const ROUND_BYTES: usize = 1024 * 1024;
/// Faults at one change after which it is compared with others, and how many others.
const COMPARED_AFTER: u32 = 3;
const COMPARED: usize = 4;
/// Times that a change is told to wait before all others, while the sink takes others, until it is passed.
const TOLD_ALONE: u32 = 2;
/// A replay that gets nowhere is given up after the waits of the sink's `retry`, and not before this. Only
/// the time in which the daemon runs counts: a machine that is off tries nothing.
const MIN_PATIENCE: Duration = Duration::from_secs(24 * 3_600);
/// When a replay looks again for room for a large record.
const ROOM_WAIT: Duration = Duration::from_secs(5);
const PAUSE: Backoff = Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(15 * 60) };

/// A replay that is under way; a restart loses only the pace and the faults.
pub(super) struct ReplayTask {
    pub(super) replay: Replay,
    filter: SinkFilter,
    pace: Pace,
    /// Faults in a row at the next change.
    faults: u32,
    /// What the sink had taken of its own changes at the last of them.
    delivered_then: i64,
    /// Whether it took another change in the last comparison.
    took_another: bool,
    /// Since then, how often the next change was handed over before all others and was told to wait.
    told_alone: u32,
    paused_until: Duration,
    /// When the time of failing was counted last.
    counted_at: Duration,
    /// Whether the endpoint asked for that pause: nobody ends it early.
    asked_to_wait: bool,
}

/// What a round came to.
struct Tried {
    /// Whether changes were compared.
    compares: bool,
    /// By the index of the change, in the order of the attempts.
    verdicts: Vec<(usize, Verdict)>,
    /// What the sink has taken of its own changes so far.
    delivered: i64,
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
            self.look_for_replay(known).await?;
        }
        let now = self.clock.now().elapsed;
        let most = self.replayed_at_once();
        let can_compare = self.comparing(Comparing::Patient) != Comparing::Never;
        let Some(task) = &mut known.replay else { return Ok(None) };
        if known.row.state == SinkState::Disabled || ends.finish.is_cancelled() {
            return Ok(Some(LOOK_AGAIN));
        }
        if task.paused_until > now {
            return Ok(Some(task.paused_until - now));
        }
        let turn = task.faults.checked_sub(COMPARED_AFTER).filter(|_| can_compare);
        let compares = turn.is_some();
        let taken = match task.pace.take(now, if compares { COMPARED } else { most }) {
            Ok(taken) => taken,
            Err(wait) => return Ok(Some(wait)),
        };
        let wanted = if compares { COMPARED } else { taken };
        let portion = self.portion(known, wanted).await?;
        let Some(task) = &mut known.replay else { return Ok(None) };
        let large = large(&portion.changes);
        // New changes of all sinks go first, also to the room.
        let Some(share) = (large == 0).then(Share::default).or_else(|| self.room.try_take(large))
        else {
            task.pace.give_back(taken);
            return Ok(Some(ROOM_WAIT));
        };
        task.pace.give_back(taken.saturating_sub(portion.changes.len()));
        let tried = self.give(&portion.changes, turn, ends).await;
        drop(share);
        let round = Tried { compares, verdicts: tried, delivered: known.row.delivered };
        let fault = task.note(&portion, round, self.clock.now(), self.patience());
        if let Some(fault) = fault {
            self.rest(known, &fault);
        }
        self.save_replay(known).await?;
        Ok(Some(Duration::ZERO))
    }

    /// Saves how far the replay has come, and says that it ended.
    async fn save_replay(&self, known: &mut TaskState) -> Result<(), StoreError> {
        let Some(task) = &known.replay else { return Ok(()) };
        let replay = task.replay.clone();
        let saved = self.store.save_replay(replay.clone()).await?;
        if saved && replay.state == ReplayState::Running {
            return Ok(());
        }
        known.replay = None;
        if !saved {
            // An operator ended it, and may have begun another one.
            known.look_for_replay = true;
            return Ok(());
        }
        let Replay { sent, refused, left_out, .. } = replay;
        if replay.state == ReplayState::Failed {
            let (reason, command) = (&replay.last_error, going_on(&replay));
            tracing::warn!(sink = %self.name, sent, refused, left_out, reason,
                "the replay got nowhere for too long and is given up: correct the sink, then go on with {command}");
        } else {
            tracing::info!(sink = %self.name, sent, refused, left_out, "the replay is done");
        }
        known.ended_replay = Some(replay).filter(Replay::is_shown);
        Ok(())
    }

    /// Takes over the replay that is under way according to the store, or one that ended and is shown.
    async fn look_for_replay(&self, known: &mut TaskState) -> Result<(), StoreError> {
        let name = self.name.clone();
        let found = self.store.read(move |reader| reader.replay(&name)).await?;
        let before = known.replay.take();
        known.ended_replay = None;
        match found {
            Some(replay) if replay.state == ReplayState::Running => {
                let before = before.filter(|before| before.replay.id == replay.id);
                known.replay = Some(match before {
                    Some(before) if before.asked_to_wait => before,
                    Some(before) => ReplayTask { paused_until: Duration::ZERO, ..before },
                    None => self.replay_task(replay),
                });
            }
            ended => known.ended_replay = ended.filter(Replay::is_shown),
        }
        Ok(())
    }

    fn replay_task(&self, replay: Replay) -> ReplayTask {
        let now = self.clock.now().elapsed;
        ReplayTask {
            filter: replay_filter(&self.settings.filter, &replay.choice),
            pace: Pace::new(replay.rate, now),
            counted_at: now,
            faults: 0,
            delivered_then: 0,
            took_another: false,
            told_alone: 0,
            paused_until: Duration::ZERO,
            asked_to_wait: false,
            replay,
        }
    }

    /// How long a replay may get nowhere while the daemon runs.
    fn patience(&self) -> Duration {
        self.settings.retry.iter().sum::<Duration>().max(MIN_PATIENCE)
    }

    /// The most changes of one round: new changes wait for its end.
    fn replayed_at_once(&self) -> usize {
        match &self.sink {
            Sink::Windowed(sink) => (4 * sink.concurrency()).min(64),
            Sink::Batched(sink) => sink.batch().min(256),
        }
    }

    async fn portion(&self, known: &TaskState, most: usize) -> Result<Portion, StoreError> {
        let Some(task) = &known.replay else {
            return Ok(Portion { changes: Vec::new(), left_out: 0, upto: 0 });
        };
        let (replay, filter) = (task.replay.clone(), task.filter.clone());
        let asked = self.settings.filter.clone();
        let several = !self.sink.can_fail_for_one();
        let upto = known.position;
        let read = self.store.read_long(move |reader| {
            let mut portion = Portion { changes: Vec::new(), left_out: 0, upto: replay.position };
            let (mut records, mut bytes, mut failure) = (HashSet::new(), 0, None);
            let (mut full, mut reached_end) = (false, false);
            let shown = reader.scan_after(replay.position, SCAN, |change| {
                if change.seq > replay.to_seq {
                    reached_end = true;
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
                            full = true;
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
            if !full && (reached_end || shown < SCAN) {
                // The last rows of the range may be no longer in the log.
                portion.upto = replay.to_seq;
            }
            reader.add_jobs(&mut portion.changes)?;
            Ok(portion)
        });
        read.await
    }

    /// Hands changes over: together, or one by one to compare them, from the last to the first. Each
    /// such turn begins with another one, because a wait that is asked for ends it.
    async fn give(
        &mut self,
        changes: &[Change],
        turn: Option<u32>,
        ends: &Ends<'_>,
    ) -> Vec<(usize, Verdict)> {
        let Some(turn) = turn else {
            let verdicts = self.sink.deliver(changes, self.clock.now().wall, ends.cut).await;
            return verdicts.into_iter().enumerate().collect();
        };
        let mut order: Vec<usize> = (0..changes.len()).rev().collect();
        order.rotate_left(turn as usize % changes.len().max(1));
        let mut tried = Vec::with_capacity(changes.len());
        for index in order {
            let one = std::slice::from_ref(&changes[index]);
            let verdicts = self.sink.deliver(one, self.clock.now().wall, ends.cut).await;
            tried.extend(verdicts.into_iter().map(|verdict| (index, verdict)));
            if let Some((_, Verdict::Fault { retry_after: Some(_), .. })) = tried.last() {
                // The endpoint asks for a wait: nothing more is sent before it is over.
                break;
            }
        }
        tried
    }
}

impl ReplayTask {
    /// Takes in what became of a round; returns a fault of the endpoint.
    fn note(
        &mut self,
        portion: &Portion,
        tried: Tried,
        moment: Moment,
        patience: Duration,
    ) -> Option<Fault> {
        let compares = tried.compares;
        // The sink took changes of its own since the last attempt.
        let took_own = compares && tried.delivered > self.delivered_then;
        let mut settled = vec![None; portion.changes.len()];
        let (mut took_another, mut fault) = (false, None::<Fault>);
        for (place, (index, verdict)) in tried.verdicts.into_iter().enumerate() {
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
                Verdict::Fault { reason, retry_after: None }
                    if compares && took_another || took_own && index == 0 =>
                {
                    self.replay.last_error = Some(reason);
                    settled[index] = Some(false);
                }
                Verdict::Fault { reason, retry_after } => {
                    // An endpoint that limits its rate takes this one after the wait.
                    let is_told = retry_after.is_some() && compares && (place, index) == (0, 0);
                    if is_told && (self.took_another || took_own) {
                        self.told_alone += 1;
                        settled[0] = (self.told_alone >= TOLD_ALONE).then_some(false);
                    }
                    let asked = fault.and_then(|before| before.asked).max(retry_after);
                    fault = Some(Fault { reason, asked });
                }
                Verdict::Gone { reason } => fault = Some(Fault { reason, asked: None }),
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
        self.took_another = took_another;
        if open.is_none_or(|first| first > 0) {
            (self.faults, self.told_alone) = (0, 0);
            self.took_another = false;
            self.replay.failing_since = None;
        }
        if let Some(fault) = &fault {
            self.failed(fault, tried.delivered, moment, patience);
        }
        if self.replay.position >= self.replay.to_seq {
            self.replay.state = ReplayState::Done;
        }
        if self.replay.state != ReplayState::Running {
            self.replay.ended_at = Some(moment.stamp());
        }
        fault
    }

    /// One more fault at the next change: the replay waits, or is given up.
    fn failed(&mut self, fault: &Fault, delivered: i64, moment: Moment, patience: Duration) {
        self.delivered_then = delivered;
        self.asked_to_wait = fault.asked.is_some();
        self.faults = self.faults.saturating_add(1);
        self.paused_until = moment.elapsed + PAUSE.wait(self.faults, 1.0, fault.asked);
        self.replay.last_error = Some(fault.reason.clone());
        let counted =
            moment.elapsed.saturating_sub(std::mem::replace(&mut self.counted_at, moment.elapsed));
        if self.replay.failing_since.is_none() {
            self.replay.failing_since = Some(moment.stamp());
            self.replay.failing_for = Duration::ZERO;
            return;
        }
        self.replay.failing_for += counted;
        // Also after a restart it is first compared with others.
        if self.faults > COMPARED_AFTER && self.replay.failing_for >= patience {
            self.replay.state = ReplayState::Failed;
        }
    }
}
