//! The sliding window over a healthy endpoint: as many changes under way as the sink takes, always.
//!
//! A slow answer stalls no change of another record. SinkProgress is saved in groups while deliveries go
//! on. The first sign of trouble ends the flow: nothing further is handed over, what is under way is
//! awaited, and `settle` judges all of it together. A crash repeats at most [`UNSAVED`] delivered
//! changes and those that were under way.

mod items;

use std::pin::Pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;

use super::health::Attempt;
use super::reading::ReadLimits;
use super::round::Round;
use super::settle::{settle, wait_until};
use super::task_state::{Ends, TaskState};
use super::{Deliverer, Wakes, woken};
use crate::sink::{Verdict, WindowedSink};
use crate::store::{SinkRow, StoreError};
use items::{InHand, Items};

/// Delivered changes after which the progress is saved …
const GROUP: usize = 64;
/// … or this long after the first of them.
const SAVE_AFTER: Duration = Duration::from_millis(100);
/// Delivered changes that are not saved yet, at most.
const UNSAVED: usize = 2 * GROUP;
/// Changes read ahead.
const AHEAD: usize = 256;
/// Deliveries that wait to be stored, above which nothing more is read.
const MAX_HELD: usize = 4 * AHEAD;
/// Bytes of records read ahead, above which nothing more is read.
const AHEAD_BYTES: usize = 1024 * 1024;

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
type Read = Result<(Option<SinkRow>, Option<Round>), StoreError>;

/// SinkProgress that is being saved.
struct Saving<'a> {
    done: Boxed<'a, Result<Option<SinkRow>, StoreError>>,
    position: i64,
    /// Delivered changes among it.
    delivered: usize,
    /// It writes to `deliveries`, so that what is read before it is saved would be out of date.
    parks: bool,
}

/// One flow of a sink; a restart loses it.
struct Flow<'a> {
    deliverer: &'a Deliverer,
    sink: &'a WindowedSink,
    ends: &'a Ends<'a>,
    items: Items,
    flights: FuturesUnordered<Boxed<'a, (i64, Verdict)>>,
    reading: Option<Boxed<'a, Read>>,
    /// Ends the wait for room of large changes that are not handed over yet.
    ending: CancellationToken,
    /// Changes of which nothing was sent: the next flow hands them over.
    not_tried: Vec<i64>,
    saving: Option<Saving<'a>>,
    /// When the first change was delivered that is not being saved.
    unsaved_since: Option<Duration>,
    /// The last row of the log when it was last read to its end.
    read_at: Option<i64>,
    /// Deliveries may be due that are not under way.
    look_for_due: bool,
    next_due: Option<String>,
    /// The sink takes nothing before it is configured again.
    is_disabled: bool,
}

impl Deliverer {
    /// Delivers until there is nothing left to hand over, the endpoint is in trouble, or a stop
    /// comes. Returns how long to wait before the next call, as an exchange does.
    pub(super) async fn flow<'a>(
        &'a self,
        sink: &'a WindowedSink,
        known: &mut TaskState,
        wakes: &mut Wakes,
        ends: &'a Ends<'a>,
    ) -> Result<Option<Duration>, StoreError> {
        let mut flow = Flow::new(self, sink, ends, known.position);
        loop {
            let last = *wakes.log.borrow_and_update();
            if flow.ends.finish.is_cancelled() {
                flow.end();
            }
            flow.hand_over();
            flow.begin_to_read(known, last);
            flow.begin_to_save(known);
            if flow.is_idle() && flow.saving.is_none() {
                break;
            }
            flow.wait(known, wakes).await?;
        }
        flow.conclude(known).await
    }
}

impl<'a> Flow<'a> {
    fn new(
        deliverer: &'a Deliverer,
        sink: &'a WindowedSink,
        ends: &'a Ends<'a>,
        position: i64,
    ) -> Self {
        Self {
            deliverer,
            sink,
            ends,
            items: Items::after(position),
            flights: FuturesUnordered::new(),
            reading: None,
            ending: CancellationToken::new(),
            not_tried: Vec::new(),
            saving: None,
            unsaved_since: None,
            read_at: None,
            look_for_due: true,
            next_due: None,
            is_disabled: false,
        }
    }

    /// Hands nothing further over.
    fn end(&mut self) {
        self.items.ending = true;
        self.reading = None;
        self.ending.cancel();
    }

    /// Hands changes over while the sink has room for more.
    fn hand_over(&mut self) {
        let (sink, cut) = (self.sink, self.ends.cut);
        while self.flights.len() < sink.concurrency()
            && self.unsaved() < UNSAVED
            && let Some((seq, in_hand)) = self.items.hand_over()
        {
            let (deliverer, ending) = (self.deliverer, self.ending.clone());
            let now = deliverer.clock.now().wall;
            self.flights.push(Box::pin(async move {
                let verdict = match in_hand {
                    InHand::Whole(change) => sink.deliver(&change, now, cut).await,
                    InHand::Large(bytes) => {
                        deliverer.deliver_large(sink, (seq, bytes), ending, cut).await
                    }
                };
                (seq, verdict)
            }));
        }
    }

    /// Delivered changes whose position is not saved yet.
    fn unsaved(&self) -> usize {
        let window = &self.items.window;
        let saving = self.saving.as_ref().map_or(0, |saving| saving.delivered);
        saving + window.delivered_below() + window.answered_above()
    }

    fn begin_to_read(&mut self, known: &TaskState, last: i64) {
        let only_due = known.only_due();
        let wanted = self.look_for_due || (!only_due && self.read_at != Some(last));
        let parks = self.saving.as_ref().is_some_and(|saving| saving.parks);
        let room = self.items.window.held() < AHEAD / 2
            && self.items.held() < MAX_HELD
            && self.items.bytes < AHEAD_BYTES;
        if !wanted
            || !room
            || self.items.ending
            || self.reading.is_some()
            || parks
            || self.items.must_be_saved()
        {
            return;
        }
        self.look_for_due = false;
        self.read_at = Some(last);
        self.items.begin_to_read();
        let deliverer = self.deliverer;
        let wanted = ReadLimits {
            after: self.items.window.read_to(),
            attempt: Attempt::Batch,
            most: AHEAD - self.items.window.held(),
            several: true,
            under_way: self.items.stored(),
            // Of large changes only the numbers are kept.
            room: usize::MAX,
            ends_at_large: false,
        };
        self.reading = Some(Box::pin(deliverer.read(wanted)));
    }

    fn is_idle(&self) -> bool {
        let ready = !self.items.ending && self.items.window.ready() > 0;
        self.flights.is_empty() && self.reading.is_none() && !ready
    }

    fn begin_to_save(&mut self, known: &mut TaskState) {
        let window = &self.items.window;
        let now = self.deliverer.clock.now().elapsed;
        let late = self.unsaved_since.is_some_and(|since| now >= since + SAVE_AFTER);
        let above = window.answered_above() >= GROUP;
        let due = self.items.must_be_saved()
            || window.delivered_below() >= GROUP
            || above
            || ((late || self.is_idle()) && window.delivered_below() > 0);
        if !due || self.saving.is_some() {
            return;
        }
        if above {
            self.items.set_aside();
        }
        let (progress, delivered) = self.items.take_progress(self.deliverer.clock.now().stamp());
        self.unsaved_since = None;
        known.note_dead(&progress);
        let position = progress.position.unwrap_or(known.position);
        let parks = !(progress.put.is_empty() && progress.settled.is_empty());
        let done = Box::pin(self.deliverer.save_all(progress, self.ends));
        self.saving = Some(Saving { done, position, delivered, parks });
    }

    /// Waits for whatever comes first, and takes it in.
    async fn wait(&mut self, known: &mut TaskState, wakes: &mut Wakes) -> Result<(), StoreError> {
        let clock = &self.deliverer.clock;
        let now = clock.now();
        let save_at = self.unsaved_since.filter(|_| self.saving.is_none());
        let save_in = save_at.map(|since| (since + SAVE_AFTER).saturating_sub(now.elapsed));
        // Only what is due later than the last read brings new work.
        let due_in = wait_until(self.next_due.as_deref(), now.wall);
        let ending = self.items.ending;
        tokio::select! {
            biased;
            Some((seq, verdict)) = self.flights.next(), if !self.flights.is_empty() => {
                self.landed(seq, verdict, now.elapsed);
            }
            read = pending(&mut self.reading) => {
                self.reading = None;
                self.take_in(known, read?);
            }
            saved = saved(&mut self.saving) => {
                let saving = self.saving.take();
                // What was settled or parked may have made another change due.
                self.look_for_due |= saving.as_ref().is_some_and(|saving| saving.parks);
                known.saved(saved?, saving.map(|saving| saving.position));
                self.deliverer.publish(known);
            }
            () = self.ends.finish.cancelled(), if !ending => {}
            // The next flow looks at what an operator changed, after what came beside the log.
            () = woken(&mut wakes.wake), if !ending => {
                known.look_beside();
                self.end();
            }
            changed = wakes.log.changed(), if !ending => {
                if changed.is_err() {
                    self.end();
                }
            }
            () = tokio::time::sleep(save_in.unwrap_or_default()), if save_in.is_some() => {}
            () = tokio::time::sleep(due_in.unwrap_or_default()), if due_in.is_some() && !ending => {
                self.next_due = None;
                self.look_for_due = true;
            }
        }
        Ok(())
    }

    fn landed(&mut self, seq: i64, verdict: Verdict, now: Duration) {
        if verdict == Verdict::NotTried {
            self.not_tried.push(seq);
            return self.end();
        }
        let done = verdict == Verdict::Done;
        let schedule = self.deliverer.schedule(self.deliverer.clock.now());
        self.items.landed(seq, verdict, &schedule);
        if done && self.items.window.delivered_below() > 0 {
            self.unsaved_since.get_or_insert(now);
        }
        if self.items.ending {
            self.end();
        }
    }

    fn take_in(&mut self, known: &mut TaskState, (row, round): (Option<SinkRow>, Option<Round>)) {
        if let Some(row) = row {
            known.adopt(row);
        }
        let Some(mut round) = round else {
            self.is_disabled = true;
            return self.end();
        };
        if round.flood {
            known.flooded = true;
            return self.end();
        }
        if !round.at_end {
            self.read_at = None;
        }
        self.look_for_due |= round.more_due;
        self.next_due = round.next_due.take();
        self.items.take_in(round);
    }

    /// Judges what ended the flow, and saves what is not saved yet.
    async fn conclude(mut self, known: &mut TaskState) -> Result<Option<Duration>, StoreError> {
        let moment = self.deliverer.clock.now();
        if self.items.trouble.is_empty() {
            let (progress, _) = self.items.take_last_progress(moment.stamp());
            self.deliverer.save(known, progress, self.ends).await?;
            if self.is_disabled {
                return Ok(None);
            }
            if self.items.ending && !self.ends.finish.is_cancelled() {
                return Ok(Some(Duration::ZERO));
            }
            return Ok(wait_until(self.next_due.as_deref(), moment.wall));
        }
        let not_tried = self.not_tried.into_iter().map(|seq| (seq, Verdict::NotTried));
        self.items.trouble.extend(not_tried);
        let (mut progress, _) = self.items.take_progress(moment.stamp());
        let (round, tried) = self.items.into_round(moment.stamp());
        let schedule = self.deliverer.schedule(moment);
        let mut settlement = settle(round, Attempt::Batch, &tried, &schedule);
        let judged = &mut settlement.progress;
        judged.position = judged.position.max(progress.position);
        judged.delivered += progress.delivered;
        judged.filtered += progress.filtered;
        judged.skipped += progress.skipped;
        progress.put.append(&mut judged.put);
        progress.settled.append(&mut judged.settled);
        (judged.put, judged.settled) = (progress.put, progress.settled);
        self.deliverer.settled(known, settlement, moment, self.ends).await
    }
}

/// Ends with the future, if there is one.
async fn pending<T>(future: &mut Option<Boxed<'_, T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

async fn saved(saving: &mut Option<Saving<'_>>) -> Result<Option<SinkRow>, StoreError> {
    match saving {
        Some(saving) => saving.done.as_mut().await,
        None => std::future::pending().await,
    }
}
