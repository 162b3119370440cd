//! Feed: reads the log and queues what the sink is to get, a bounded number of rows ahead.
//!
//! New changes go to the sender without a row of the queue while nothing hinders them: the position
//! follows once they are done. Else they are queued, and the position moves in the same transaction.
//! A sink that is down costs no more than the rows ahead: the log is its backlog. A replay, and what a
//! destination has lost, are queued from their own positions. The feeder sends nothing.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use shopmirror_core::record::{Change, Kind};

use super::call::Ahead;
use super::filter::wants;
use super::flood::Burst;
use super::pace::Pace;
use super::pending::Pending;
use super::window::Window;
use super::{Deliverer, MAX_DEAD, MAX_READY, MAX_RETRYING, Take, replay_filter, replay_rule};
use crate::config::SinkFilter;
use crate::store::{
    Acknowledged, Feed, GateState, QueueLane, Reader, Replay, ReplayState, SinkRow, SinkState,
    StoreError,
};

/// Rows of the log looked through in one read.
const SCAN: usize = 4_096;
/// Positions that pass only unwanted changes are saved this long after the first of them.
const SAVE_POSITIONS_AFTER: Duration = Duration::from_secs(1);
/// Changes of a replay that are queued ahead, at most.
const MAX_REPLAYED: usize = 256;

/// Fills the queue of one sink.
pub(super) struct Feeder {
    deliverer: Arc<Deliverer>,
    /// The sink's row as it was saved last, with its position.
    row: SinkRow,
    /// What was read from the log after the position.
    window: Window,
    /// All of the window is to be queued.
    must_queue: bool,
    /// A move of the position that is to be saved with those of other sinks, and when.
    noted: Option<Feed>,
    save_at: Option<Duration>,
    burst: Burst,
    replay: Option<Replaying>,
    /// What the destination has lost and is given again.
    refill: Option<Refill>,
}

/// What the sender has room for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Demand {
    /// New changes are welcome.
    pub(super) is_low: bool,
    /// No row is in flight or unsaved.
    pub(super) is_idle: bool,
    /// Changes go to the sender at once; else into the queue.
    pub(super) is_direct: bool,
    /// How many changes, and how many bytes of records.
    pub(super) room: (usize, usize),
}

/// What was fed.
#[derive(Default)]
pub(super) struct Fed {
    /// What there may be to do now.
    pending: Pending,
    /// Changes for the sender, which have no row of the queue.
    pub(super) rows: Vec<Ahead>,
    /// Nothing was fed, because a change has to be queued.
    pub(super) is_blocked: bool,
}

/// What one read of the log found for the sender.
struct FoundDirect {
    scanned: Scanned,
    /// The wanted changes, each with the number of unwanted ones before it.
    wanted: Vec<(i64, i64)>,
    /// The number of unwanted ones after the last wanted one.
    unwanted: i64,
    rows: Vec<Ahead>,
    burst: Burst,
    is_blocked: bool,
}

/// A replay in flight.
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

/// Checks the rows after `after` up to `last`, until `most` are to be queued, or before one for
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
    if most == 0 {
        return Ok(scanned);
    }
    let mut is_cut = false;
    let mut failure = Ok(());
    let shown = reader.scan_after(after, SCAN, |change| {
        if change.seq > last {
            return ControlFlow::Break(());
        }
        match take(&change) {
            Ok(Some(Take::Sent)) => scanned.rows.push(change.seq),
            Ok(Some(Take::Unwanted)) => scanned.unwanted += 1,
            Ok(Some(Take::LeftOut)) => scanned.left_out += 1,
            Ok(None) => {
                is_cut = true;
                return ControlFlow::Break(());
            }
            Err(error) => {
                failure = Err(error);
                return ControlFlow::Break(());
            }
        }
        scanned.upto = change.seq;
        if scanned.rows.len() == most {
            is_cut = true;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    failure?;
    scanned.is_end = !is_cut && (shown < SCAN || scanned.upto >= last);
    Ok(scanned)
}

/// What one read of the log found for the queue.
struct Found {
    scanned: Scanned,
    burst: Burst,
    /// The next change would be one too many for the flood gate.
    is_flood: bool,
    /// The queue has no room.
    is_full: bool,
}

/// Whether this change is one too many for the flood gate. The baseline does not count, nor what an
/// operator has released.
fn is_one_too_many(
    burst: &mut Burst,
    hold_above: Option<u32>,
    released_to: i64,
    change: &Change,
) -> bool {
    let Some(most) = hold_above else {
        return false;
    };
    if change.kind == Kind::Baseline || change.seq <= released_to {
        return false;
    }
    match change.observed_at.parse() {
        Ok(at) => burst.exceeds(at, most),
        Err(_) => false,
    }
}

impl Feeder {
    pub(super) fn new(deliverer: Arc<Deliverer>, row: SinkRow) -> Self {
        Self {
            deliverer,
            window: Window::new(row.position),
            row,
            must_queue: false,
            noted: None,
            save_at: None,
            burst: Burst::default(),
            replay: None,
            refill: None,
        }
    }

    /// The sink's row as it was saved last.
    pub(super) fn row(&self) -> &SinkRow {
        &self.row
    }

    /// Takes over the row as it was read; a new one if another program has deleted it. Returns
    /// whether the position is where the feeder moved it.
    pub(super) async fn adopt(&mut self, row: Option<SinkRow>) -> Result<bool, StoreError> {
        self.row = match row {
            Some(row) => row,
            None => self.deliverer.open().await?,
        };
        Ok(self.window.advance(self.row.position))
    }

    /// Takes over the row after the position was to move to `upto`. If it is elsewhere, nothing was
    /// queued: what follows it is read again.
    pub(super) async fn adopt_moved(
        &mut self,
        row: Option<SinkRow>,
        upto: Option<i64>,
    ) -> Result<bool, StoreError> {
        let is_as_read = self.adopt(row).await?;
        if upto.is_none_or(|upto| upto == self.row.position) {
            return Ok(is_as_read);
        }
        self.window = Window::new(self.row.position);
        Ok(false)
    }

    /// Has everything queued that was read from the log with the next save.
    pub(super) fn queue_all(&mut self) {
        self.must_queue |= self.window.has_wanted();
    }

    /// What moves the position when these changes after it are done; `None` if it stays.
    pub(super) async fn part(&mut self, done: &HashSet<i64>) -> Option<Feed> {
        self.withdraw().await;
        if self.window.is_empty() {
            self.must_queue = false;
            return None;
        }
        let upto = if self.must_queue {
            self.window.upto()
        } else {
            *done.iter().max()?
        };
        Some(self.feed_of_part(upto, done))
    }

    /// A part was saved.
    pub(super) fn saved(&mut self) {
        self.must_queue = false;
    }

    fn feed_of_part(&self, upto: i64, done: &HashSet<i64>) -> Feed {
        let part = self.window.part(upto, done);
        Feed {
            rows: part.rows,
            unwanted: part.unwanted,
            ..self.feed_of(QueueLane::Change, part.after, part.upto)
        }
    }

    /// Saves a position that only passes changes which the sink does not want, together with those
    /// of other sinks: a little later, or at once.
    pub(super) async fn save_position(&mut self, at_once: bool) -> Result<(), StoreError> {
        if self.window.is_empty() || self.window.has_wanted() {
            self.save_at = None;
            return Ok(());
        }
        if self.noted.is_none() {
            let feed = self.feed_of_part(self.window.upto(), &HashSet::new());
            self.noted = Some(feed.clone());
            let positions = &self.deliverer.positions;
            positions.note(&self.deliverer.name, feed).await;
        }
        let now = self.deliverer.clock.now().elapsed;
        let save_at = *self.save_at.get_or_insert(now + SAVE_POSITIONS_AFTER);
        if now >= save_at || at_once {
            let positions = &self.deliverer.positions;
            positions.save(&self.deliverer.store).await?;
            self.withdraw().await;
            self.save_at = None;
        }
        Ok(())
    }

    /// Takes back a move of the position that was to be saved with those of other sinks, or notes
    /// that it was saved.
    async fn withdraw(&mut self) {
        let Some(noted) = self.noted.take() else {
            return;
        };
        let positions = &self.deliverer.positions;
        if !positions.withdraw(&self.deliverer.name).await && self.row.position == noted.after {
            self.row.position = noted.upto;
            self.row.filtered += noted.unwanted;
            self.window.advance(noted.upto);
        }
    }

    /// The row up to which the sink has everything, or is owed it: what is lost counts as behind.
    pub(super) fn position(&self) -> i64 {
        match self.refill {
            Some(refill) => refill.at,
            None if self.window.has_wanted() => self.row.position,
            None => self.window.upto(),
        }
    }

    /// The changes up to [`Self::position`] that the sink does not want.
    pub(super) fn filtered(&self) -> i64 {
        if self.refill.is_some() || self.window.has_wanted() {
            return self.row.filtered;
        }
        self.row.filtered + self.window.unwanted()
    }

    /// Whether the endpoint is gone and takes nothing any more.
    pub(super) fn is_disabled(&self) -> bool {
        self.row.state == SinkState::Disabled
    }

    /// Whether an operator has to release new changes.
    pub(super) fn is_held(&self) -> bool {
        self.row.gate == GateState::Held
    }

    /// Whether the sink refused too much to get new changes.
    pub(super) fn has_refused_too_much(&self) -> bool {
        self.row.retrying >= MAX_RETRYING || self.row.dead >= MAX_DEAD
    }

    /// Whether new changes may be queued.
    pub(super) fn is_open(&self) -> bool {
        !self.is_held() && !self.has_refused_too_much() && !self.is_disabled()
    }

    /// Whether the destination gets what it has lost before anything else.
    pub(super) fn is_refilling(&self) -> bool {
        self.refill.is_some()
    }

    /// Queues what is next, or returns it for the sender, and notes what there may be to do after
    /// that. Each step notes its own, so that a later one that fails forgets nothing of it; and
    /// nothing that can fail follows the log, whose changes are in memory alone.
    pub(super) async fn feed(
        &mut self,
        pending: &mut Pending,
        demand: Demand,
    ) -> Result<Fed, StoreError> {
        if self.is_disabled() {
            return Ok(Fed::default());
        }
        if let Some(refill) = self.refill {
            let more = self.feed_refill(refill, demand.is_idle).await?;
            pending.add(more);
        }
        if pending.replay {
            self.find_replay().await?;
            pending.replay = false;
        }
        let more = self.feed_replay().await?;
        pending.add(more);
        if !pending.log || !demand.is_low || !self.is_open() {
            return Ok(Fed::default());
        }
        let fed = if demand.is_direct {
            self.feed_direct(demand.room).await?
        } else {
            self.feed_changes().await?
        };
        if !fed.is_blocked {
            pending.log = fed.pending.log;
            pending.queue |= fed.pending.queue;
        }
        Ok(fed)
    }

    /// How long to wait until there may be something to feed.
    pub(super) fn wait(&self, now: Duration) -> Option<Duration> {
        if self.must_queue {
            return Some(Duration::ZERO);
        }
        let mut at = self.save_at;
        if let Some(replay) = &self.replay
            && !self.is_disabled()
            && !replay.is_fed()
        {
            at = Some(at.map_or(replay.at, |at| at.min(replay.at)));
        }
        Some(at?.saturating_sub(now))
    }

    /// Reads what is next for the sender. What has to wait in the queue, and a flood, are left for
    /// [`Self::feed_changes`].
    async fn feed_direct(&mut self, room: (usize, usize)) -> Result<Fed, StoreError> {
        self.withdraw().await;
        let found = self.find_direct(room).await?;
        if found.is_blocked {
            return Ok(Fed {
                is_blocked: true,
                ..Fed::default()
            });
        }
        self.burst = found.burst;
        self.window
            .add(&found.wanted, found.unwanted, found.scanned.upto);
        let mut fed = Fed {
            rows: found.rows,
            ..Fed::default()
        };
        fed.pending.log = !found.scanned.is_end;
        Ok(fed)
    }

    async fn find_direct(
        &self,
        (most, most_bytes): (usize, usize),
    ) -> Result<FoundDirect, StoreError> {
        let deliverer = Arc::clone(&self.deliverer);
        let after = self.window.upto();
        let released_to = self.row.released_to;
        let has_tried = self.row.retrying > 0;
        let mut burst = self.burst.clone();
        let since = self.deliverer.clock.now().stamp();
        let read = self.deliverer.store.read(move |reader| {
            let settings = &deliverer.settings;
            let mut wanted = Vec::new();
            let mut unwanted = 0;
            let mut rows: Vec<Ahead> = Vec::new();
            let mut bytes = 0;
            let mut is_blocked = false;
            let scanned = scan(reader, (after, i64::MAX), most, |change| {
                if !wants(&settings.filter, change) {
                    unwanted += 1;
                    return Ok(Some(Take::Unwanted));
                }
                if bytes >= most_bytes {
                    return Ok(None);
                }
                // Of a record that was forgotten the sink gets no version.
                is_blocked = reader.is_erased(change.seq)?
                    || has_tried && reader.is_held_up(&deliverer.name, change)?
                    || is_one_too_many(&mut burst, settings.hold_above, released_to, change);
                if is_blocked {
                    return Ok(None);
                }
                let ahead = Ahead::direct(change, &since);
                bytes += ahead.bytes_read();
                rows.push(ahead);
                wanted.push((change.seq, std::mem::take(&mut unwanted)));
                Ok(Some(Take::Sent))
            })?;
            Ahead::add_jobs(reader, &mut rows)?;
            Ok(FoundDirect {
                scanned,
                wanted,
                unwanted,
                rows,
                burst,
                is_blocked,
            })
        });
        read.await
    }

    /// Queues what is next. Nothing is between the position and what was read.
    async fn feed_changes(&mut self) -> Result<Fed, StoreError> {
        let after = self.row.position;
        let Found {
            scanned,
            burst,
            is_flood,
            is_full,
        } = self.find_changes().await?;
        if is_flood {
            self.hold().await?;
            return Ok(Fed {
                pending: Pending::LOG,
                ..Fed::default()
            });
        }
        let mut fed = Fed::default();
        if scanned.upto > after {
            fed.pending.queue = !scanned.rows.is_empty();
            let feed = Feed {
                rows: scanned.rows,
                unwanted: scanned.unwanted,
                ..self.feed_of(QueueLane::Change, after, scanned.upto)
            };
            self.queue(feed).await?;
        }
        // Only now: after a failed write the same rows are read again.
        self.burst = burst;
        // An operator may have moved the position on: then nothing was queued.
        let is_all = scanned.is_end && self.row.position == scanned.upto;
        fed.pending.log = !is_all && !is_full;
        Ok(fed)
    }

    /// Reads the log after the position.
    async fn find_changes(&self) -> Result<Found, StoreError> {
        let deliverer = Arc::clone(&self.deliverer);
        let SinkRow {
            position,
            released_to,
            ..
        } = self.row;
        let mut burst = self.burst.clone();
        let read = self.deliverer.store.read(move |reader| {
            let settings = &deliverer.settings;
            let room = MAX_READY - reader.ready_rows(&deliverer.name, QueueLane::Change)?;
            let room = usize::try_from(room).unwrap_or_default();
            let mut is_flood = false;
            let scanned = scan(reader, (position, i64::MAX), room, |change| {
                if !wants(&settings.filter, change) {
                    return Ok(Some(Take::Unwanted));
                }
                // Of a record that was forgotten the sink gets no version.
                is_flood = settings.hold_above.is_some()
                    && !reader.is_erased(change.seq)?
                    && is_one_too_many(&mut burst, settings.hold_above, released_to, change);
                if is_flood {
                    return Ok(None);
                }
                Ok(Some(Take::Sent))
            })?;
            Ok(Found {
                scanned,
                burst,
                is_flood,
                is_full: room == 0,
            })
        });
        read.await
    }

    /// What moves a position of this lane from one row to another and queues nothing.
    fn feed_of(&self, lane: QueueLane, after: i64, upto: i64) -> Feed {
        Feed {
            lane,
            after,
            upto,
            rows: Vec::new(),
            unwanted: 0,
            only_if_newest: false,
            at: self.deliverer.clock.now().stamp(),
        }
    }

    /// Queues rows of the log, and moves the position of their lane.
    async fn queue(&mut self, feed: Feed) -> Result<(), StoreError> {
        let name = self.deliverer.name.clone();
        let row = self.deliverer.store.feed(name, feed).await?;
        self.adopt(row).await?;
        Ok(())
    }

    /// Holds the sink, because too many changes came at once.
    async fn hold(&mut self) -> Result<(), StoreError> {
        let name = &self.deliverer.name;
        let held = self.deliverer.store.hold_sink(name.clone()).await?;
        let most = self.deliverer.settings.hold_above.unwrap_or_default();
        tracing::warn!(sink = %name, hold_above = most,
            "more changes than `hold_above` came within a minute: the sink is held and keeps its changes; look at them with `shopmirror log`, then run `shopmirror sinks {name} release`, or add --skip to drop them");
        self.burst = Burst::default();
        self.adopt(held).await?;
        Ok(())
    }

    /// Takes over the replay that runs according to the store, and logs when it is done.
    async fn find_replay(&mut self) -> Result<(), StoreError> {
        let name = self.deliverer.name.clone();
        let read = self
            .deliverer
            .store
            .read(move |reader| reader.replay(&name));
        let found = read.await?;
        let before = self.replay.take();
        let Some(replay) = found else {
            return Ok(());
        };
        let before = before.filter(|before| before.replay.id == replay.id);
        if replay.state == ReplayState::Running {
            let now = self.deliverer.clock.now().elapsed;
            let (pace, at) = match before {
                Some(before) => (before.pace, before.at.min(now)),
                None => (Pace::new(replay.rate, now), now),
            };
            let filter = replay_filter(&self.deliverer.settings.filter, &replay.choice);
            self.replay = Some(Replaying {
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
            tracing::info!(sink = %self.deliverer.name, sent, refused, left_out, "the replay is done");
        }
        Ok(())
    }

    async fn feed_replay(&mut self) -> Result<Pending, StoreError> {
        let now = self.deliverer.clock.now().elapsed;
        let Some(running) = &mut self.replay else {
            return Ok(Pending::default());
        };
        if running.at > now || running.is_fed() {
            return Ok(Pending::default());
        }
        let allowed = match running.pace.allows(now, MAX_REPLAYED) {
            Ok(allowed) => allowed,
            Err(wait) => {
                running.at = now + wait;
                return Ok(Pending::default());
            }
        };
        let deliverer = Arc::clone(&self.deliverer);
        let upto = self.row.position;
        let (replay, filter) = (running.replay.clone(), running.filter.clone());
        let read = self.deliverer.store.read_long(move |reader| {
            // A second's worth at most, so that the rate holds after a pause as well.
            let ahead = (replay.rate.ceil() as usize).clamp(1, MAX_REPLAYED);
            let queued = reader.ready_rows(&deliverer.name, QueueLane::Replay)?;
            let queued = usize::try_from(queued).unwrap_or(ahead);
            let room = allowed.min(ahead.saturating_sub(queued));
            let filters = (&deliverer.settings.filter, &filter);
            scan(reader, (replay.position, replay.to_seq), room, |change| {
                replay_rule(reader, &replay, filters, upto, change).map(Some)
            })
        });
        let scanned: Scanned = read.await?;
        // The last rows of the range may be no longer in the log.
        let upto = if scanned.is_end {
            running.replay.to_seq
        } else {
            scanned.upto
        };
        let after = running.replay.position;
        if upto == after {
            // What is queued goes first.
            running.at = now + Duration::from_secs(1);
            return Ok(Pending::default());
        }
        running.pace.take(scanned.rows.len());
        running.at = now;
        let only_if_newest = !running.replay.choice.all_versions;
        let feed = Feed {
            rows: scanned.rows,
            unwanted: scanned.left_out,
            only_if_newest,
            ..self.feed_of(QueueLane::Replay, after, upto)
        };
        self.queue(feed).await?;
        Ok(Pending {
            queue: true,
            replay: true,
            ..Pending::default()
        })
    }

    /// The destination has the log only up to `held`: what it lacks of what it `acknowledged` goes
    /// before anything new. Returns what to report about it.
    pub(super) fn begin_refill(&mut self, held: i64, acknowledged: Acknowledged) -> Option<String> {
        let at = held.max(acknowledged.after);
        let to = acknowledged.upto;
        self.refill = Some(Refill { at, to });
        if at >= to {
            return None;
        }
        let report = format!(
            "the database has the log up to change {held} only: {} to {to} are stored before anything new; the log may keep only the newest version of each record",
            at + 1
        );
        tracing::warn!(sink = %self.deliverer.name, "{report}");
        Some(report)
    }

    /// Queues what the destination has lost. What it is still owed it never had, and of a forgotten
    /// record it needs to know only that.
    async fn feed_refill(
        &mut self,
        Refill { at, to }: Refill,
        is_idle: bool,
    ) -> Result<Pending, StoreError> {
        let deliverer = Arc::clone(&self.deliverer);
        let read = self.deliverer.store.read_long(move |reader| {
            let name = &deliverer.name;
            let queued = reader.ready_rows(name, QueueLane::Refill)?;
            let room = usize::try_from(MAX_READY - queued).unwrap_or_default();
            let room = if at < to { room } else { 0 };
            let scanned = scan(reader, (at, to), room, |change| {
                let is_lost = wants(&deliverer.settings.filter, change)
                    && !reader.is_queued(name, change.seq)?
                    && !reader.is_erased(change.seq)?;
                Ok(Some(if is_lost { Take::Sent } else { Take::Unwanted }))
            })?;
            Ok::<_, StoreError>((scanned, reader.owed_rows(name, QueueLane::Refill)?))
        });
        let (scanned, owed) = read.await?;
        let upto = if scanned.is_end { to } else { scanned.upto };
        let mut fed = Pending::default();
        if at < to && upto > at {
            fed.queue = !scanned.rows.is_empty();
            let feed = Feed {
                rows: scanned.rows,
                ..self.feed_of(QueueLane::Refill, at, upto)
            };
            self.queue(feed).await?;
            self.refill = Some(Refill { at: upto, to });
        } else if at >= to && owed == 0 && is_idle {
            tracing::info!(sink = %self.deliverer.name, "the database has what it lacked");
            self.refill = None;
            fed.queue = true;
        }
        Ok(fed)
    }
}
