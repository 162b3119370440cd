//! Feed: reads the log and queues what the sink is to get, a bounded number of rows ahead.
//!
//! A sink that is down costs no more than these rows: the log is its backlog. The position moves in
//! the transaction that queues the rows. A replay, and what a destination has lost, are read in the
//! same way from their own positions.

use std::ops::ControlFlow;
use std::time::Duration;

use shopmirror_core::record::{Change, Kind};

use super::filter::wants;
use super::flood::Burst;
use super::pace::Pace;
use super::task::Task;
use super::{MAX_DEAD, MAX_READY, MAX_RETRYING, Take, replay_filter, replay_rule};
use crate::config::SinkFilter;
use crate::store::{
    Acknowledged, Feed, GateState, Lane, Reader, Replay, ReplayState, SinkRow, SinkState,
    StoreError,
};

/// Rows of the log looked through in one read.
const SCAN: usize = 4_096;
/// Changes of a replay that are queued ahead, at most.
const MAX_REPLAYED: usize = 256;

/// How far the queue of one sink was filled.
#[derive(Default)]
pub(super) struct Feeding {
    /// The log may have rows after the position, and the queue has room for them.
    pub(super) look: bool,
    burst: Burst,
    /// An operator may have begun or ended a replay.
    pub(super) look_for_replay: bool,
    replay: Option<Replaying>,
    /// What it has lost and is given again.
    pub(super) refill: Option<Refill>,
}

/// A replay that is under way.
struct Replaying {
    replay: Replay,
    filter: SinkFilter,
    pace: Pace,
    /// When more of it may be queued.
    at: Duration,
}

impl Replaying {
    /// Whether all of it is queued.
    fn is_fed(&self) -> bool {
        self.replay.position >= self.replay.to_seq
    }
}

/// What a destination is given again: the changes after one row up to another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refill {
    at: i64,
    to: i64,
}

/// A part of the log that was looked through.
#[derive(Debug, Default)]
struct Scanned {
    rows: Vec<i64>,
    unwanted: i64,
    left_out: i64,
    upto: i64,
    /// There is nothing behind it.
    is_end: bool,
}

/// Looks at the rows after `after` up to `last`, until `most` are to be queued, or before one for
/// which `take` returns `None`.
fn scan(
    reader: &Reader,
    (after, last): (i64, i64),
    most: usize,
    mut take: impl FnMut(&Change) -> Result<Option<Take>, StoreError>,
) -> Result<Scanned, StoreError> {
    let mut scanned = Scanned {
        upto: after,
        ..Scanned::default()
    };
    let (mut is_cut, mut failure) = (most == 0, Ok(()));
    if is_cut {
        return Ok(scanned);
    }
    let shown = reader.scan_after(after, SCAN, |change| {
        if change.seq > last {
            return ControlFlow::Break(());
        }
        match take(&change) {
            Ok(Some(Take::Sent)) => scanned.rows.push(change.seq),
            Ok(Some(Take::Unwanted)) => scanned.unwanted += 1,
            Ok(Some(Take::LeftOut)) => scanned.left_out += 1,
            end => {
                (is_cut, failure) = (true, end.map(drop));
                return ControlFlow::Break(());
            }
        }
        scanned.upto = change.seq;
        is_cut = scanned.rows.len() == most;
        if is_cut {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    failure?;
    scanned.is_end = !is_cut && (shown < SCAN || scanned.upto >= last);
    Ok(scanned)
}

impl Feeding {
    /// Anything may have changed.
    pub(super) fn look_at_all(&mut self) {
        (self.look, self.look_for_replay) = (true, true);
    }
}

impl Task {
    /// Takes over the row as it was read; a new one if another program has deleted it.
    pub(super) async fn adopt(&mut self, row: Option<SinkRow>) -> Result<(), StoreError> {
        self.row = match row {
            Some(row) => row,
            None => self.it.open().await?,
        };
        Ok(())
    }

    /// The row up to which the sink has everything, or is owed it: what is lost counts as behind.
    pub(super) fn position(&self) -> i64 {
        self.feeding
            .refill
            .map_or(self.row.position, |refill| refill.at)
    }

    /// Whether changes of the log may be queued.
    pub(super) fn may_feed(&self) -> bool {
        let is_closed =
            self.is_held() || self.is_holding() || self.row.state == SinkState::Disabled;
        self.feeding.look && self.is_low() && !is_closed
    }

    /// Queues what is next, if there is room for it.
    pub(super) async fn feed(&mut self) -> Result<(), StoreError> {
        if self.row.state == SinkState::Disabled {
            return Ok(());
        }
        self.feed_refill().await?;
        if self.may_feed() {
            self.feed_changes().await?;
        }
        self.feed_replay().await
    }

    /// How long to wait until there may be something to feed.
    pub(super) fn feed_wait(&self, now: Duration) -> Option<Duration> {
        let is_open = self.row.state != SinkState::Disabled;
        let replay = self
            .feeding
            .replay
            .as_ref()
            .filter(|task| is_open && !task.is_fed())?;
        Some(replay.at.saturating_sub(now))
    }

    /// Whether an operator has to release new changes.
    pub(super) fn is_held(&self) -> bool {
        self.row.gate == GateState::Held
    }

    /// Whether the sink refused too much to get new changes.
    pub(super) fn is_holding(&self) -> bool {
        self.row.retrying >= MAX_RETRYING || self.row.dead >= MAX_DEAD
    }

    async fn feed_changes(&mut self) -> Result<(), StoreError> {
        let (name, filter) = (self.it.name.clone(), self.it.settings.filter.clone());
        let gate = (self.it.settings.hold_above, self.row.released_to);
        let after = self.row.position;
        let mut burst = self.feeding.burst.clone();
        let read = self.it.store.read(move |reader| {
            let room = MAX_READY - reader.ready_rows(&name, Lane::Change)?;
            let mut is_flood = false;
            let room = usize::try_from(room).unwrap_or_default();
            let scanned = scan(reader, (after, i64::MAX), room, |change| {
                if !wants(&filter, change) {
                    return Ok(Some(Take::Unwanted));
                }
                let (Some(most), released_to) = gate else {
                    return Ok(Some(Take::Sent));
                };
                // Of a record that was forgotten the sink gets no version.
                let counts = change.kind != Kind::Baseline
                    && change.seq > released_to
                    && !reader.is_erased(change.seq)?;
                if counts && let Ok(at) = change.observed_at.parse() {
                    is_flood = burst.exceeds(at, most);
                }
                Ok((!is_flood).then_some(Take::Sent))
            })?;
            Ok((scanned, burst, is_flood, room == 0))
        });
        let (scanned, burst, is_flood, is_full) = read.await?;
        if is_flood {
            return self.hold().await;
        }
        if scanned.upto > after {
            self.look |= !scanned.rows.is_empty();
            let range = (after, scanned.upto);
            self.queue(Lane::Change, range, scanned.rows, scanned.unwanted, false)
                .await?;
        }
        // Only now: after a failed write the same rows are looked at again.
        self.feeding.burst = burst;
        // An operator may have moved the position on: then nothing was queued.
        let is_all = scanned.is_end && self.row.position == scanned.upto;
        self.feeding.look = !is_all && !is_full;
        Ok(())
    }

    /// Queues rows of the log, and moves the position of their lane from the first row to the
    /// second.
    async fn queue(
        &mut self,
        lane: Lane,
        (after, upto): (i64, i64),
        rows: Vec<i64>,
        unwanted: i64,
        only_if_newest: bool,
    ) -> Result<(), StoreError> {
        let at = self.it.clock.now().stamp();
        let feed = Feed {
            lane,
            after,
            upto,
            rows,
            unwanted,
            only_if_newest,
            at,
        };
        let row = self.it.store.feed(self.it.name.clone(), feed).await?;
        self.adopt(row).await
    }

    /// Holds the sink, because too many changes came at once.
    async fn hold(&mut self) -> Result<(), StoreError> {
        let held = self.it.store.hold_sink(self.it.name.clone()).await?;
        self.adopt(held).await?;
        self.feeding.burst = Burst::default();
        let most = self.it.settings.hold_above.unwrap_or_default();
        let name = &self.it.name;
        tracing::warn!(sink = %name, hold_above = most,
            "more changes than `hold_above` came within a minute: the sink is held and keeps its changes; look at them with `shopmirror log`, then run `shopmirror sinks {name} release`, or add --skip to drop them");
        Ok(())
    }

    /// Takes over the replay that is under way according to the store, and says when it is done.
    async fn look_for_replay(&mut self) -> Result<(), StoreError> {
        let name = self.it.name.clone();
        let found = self
            .it
            .store
            .read(move |reader| reader.replay(&name))
            .await?;
        let before = self.feeding.replay.take();
        let Some(replay) = found else { return Ok(()) };
        let before = before.filter(|before| before.replay.id == replay.id);
        if replay.state == ReplayState::Running {
            let now = self.now();
            let (pace, at) = before.map_or_else(
                || (Pace::new(replay.rate, now), now),
                |before| (before.pace, before.at.min(now)),
            );
            let filter = replay_filter(&self.it.settings.filter, &replay.choice);
            self.feeding.replay = Some(Replaying {
                replay,
                filter,
                pace,
                at,
            });
        } else if before.is_some() && replay.state == ReplayState::Done {
            let Replay {
                sent,
                refused,
                left_out,
                ..
            } = replay;
            tracing::info!(sink = %self.it.name, sent, refused, left_out, "the replay is done");
        }
        Ok(())
    }

    async fn feed_replay(&mut self) -> Result<(), StoreError> {
        if std::mem::take(&mut self.feeding.look_for_replay) {
            self.look_for_replay().await?;
        }
        let (now, upto) = (self.now(), self.row.position);
        let Some(under_way) = &mut self.feeding.replay else {
            return Ok(());
        };
        if under_way.at > now || under_way.is_fed() {
            return Ok(());
        }
        let allowed = match under_way.pace.allows(now, MAX_REPLAYED) {
            Ok(allowed) => allowed,
            Err(wait) => {
                under_way.at = now + wait;
                return Ok(());
            }
        };
        let (replay, filter) = (under_way.replay.clone(), under_way.filter.clone());
        let (name, asked) = (self.it.name.clone(), self.it.settings.filter.clone());
        let read = self.it.store.read_long(move |reader| {
            // A second's worth at most, so that the rate holds after a pause as well.
            let ahead = (replay.rate.ceil() as usize).clamp(1, MAX_REPLAYED);
            let queued = usize::try_from(reader.ready_rows(&name, Lane::Replay)?).unwrap_or(ahead);
            let room = allowed.min(ahead.saturating_sub(queued));
            scan(reader, (replay.position, replay.to_seq), room, |change| {
                replay_rule(reader, &replay, (&asked, &filter), upto, change).map(Some)
            })
        });
        let scanned: Scanned = read.await?;
        let Some(under_way) = &mut self.feeding.replay else {
            return Ok(());
        };
        // The last rows of the range may be no longer in the log.
        let upto = if scanned.is_end {
            under_way.replay.to_seq
        } else {
            scanned.upto
        };
        if upto == under_way.replay.position {
            // What is queued goes first.
            under_way.at = now + Duration::from_secs(1);
            return Ok(());
        }
        under_way.pace.take(scanned.rows.len());
        under_way.at = now;
        let only_if_newest = !under_way.replay.choice.all_versions;
        let range = (under_way.replay.position, upto);
        self.queue(
            Lane::Replay,
            range,
            scanned.rows,
            scanned.left_out,
            only_if_newest,
        )
        .await?;
        (self.feeding.look_for_replay, self.look) = (true, true);
        Ok(())
    }

    /// Tells the sink where it stopped, and what its destination must have.
    pub(super) fn resume(&mut self) {
        let upto = self.row.acknowledged.upto;
        for sink in &mut self.idle {
            sink.resume(self.row.mark.as_deref());
            if sink.stored().is_some() {
                sink.expect_stored(upto);
            }
        }
    }

    /// What a destination that keeps its own account has acknowledged.
    pub(super) fn acknowledged(&self) -> Acknowledged {
        self.outcomes.acknowledged.unwrap_or(self.row.acknowledged)
    }

    /// The destination has the log only up to `held`: what it lacks goes before anything new.
    pub(super) fn begin_refill(&mut self, held: i64) {
        let Acknowledged { after, upto } = self.acknowledged();
        let (at, to) = (held.max(after), upto);
        self.ahead.clear();
        self.look = true;
        self.feeding.refill = Some(Refill { at, to });
        if at < to {
            let said = format!(
                "the database has the log up to change {held} only: {} to {to} are stored before anything new; the log may keep only the newest version of each record",
                at + 1
            );
            tracing::warn!(sink = %self.it.name, "{said}");
            self.outcomes.last_error = Some(said);
        }
    }

    /// Queues what the destination has lost. What it is still owed it never had, and of a forgotten
    /// record it needs to know only that.
    async fn feed_refill(&mut self) -> Result<(), StoreError> {
        let Some(Refill { at, to }) = self.feeding.refill else {
            return Ok(());
        };
        let (name, filter) = (self.it.name.clone(), self.it.settings.filter.clone());
        let read = self.it.store.read_long(move |reader| {
            let queued = reader.ready_rows(&name, Lane::Refill)?;
            let room = usize::try_from(MAX_READY - queued).unwrap_or_default();
            let scanned = scan(reader, (at, to), if at < to { room } else { 0 }, |change| {
                let is_lost = wants(&filter, change)
                    && !reader.is_queued(&name, change.seq)?
                    && !reader.is_erased(change.seq)?;
                Ok(Some(if is_lost { Take::Sent } else { Take::Unwanted }))
            })?;
            Ok::<_, StoreError>((scanned, reader.owed_rows(&name, Lane::Refill)?))
        });
        let (scanned, owed) = read.await?;
        let upto = if scanned.is_end { to } else { scanned.upto };
        if at < to && upto > at {
            self.look |= !scanned.rows.is_empty();
            self.queue(Lane::Refill, (at, upto), scanned.rows, 0, false)
                .await?;
            self.feeding.refill = Some(Refill { at: upto, to });
        } else if at >= to && owed == 0 && self.in_hand.is_empty() {
            tracing::info!(sink = %self.it.name, "the database has what it lacked");
            self.feeding.refill = None;
            self.look = true;
        }
        Ok(())
    }
}
