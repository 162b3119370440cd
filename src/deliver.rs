//! Delivery: moves the log to one sink, in order per record, at least once.
//!
//! One task a sink; a dead sink slows no other. The position is saved only after the sink has
//! acknowledged, so a crash repeats at most one round, under the same event ids. What one change's
//! own refusal parks stands in `deliveries`; a fault of the endpoint pauses the sink and fills no
//! table. Nothing here knows how records got into the store.

mod round;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::clock::{Clock, stamp};
use crate::config;
use crate::record::Change;
use crate::sink::{Sink, Verdict};
use crate::store::{Begin, PendingDelivery, Progress, SinkRow, Store, StoreError};
use round::Round;

/// Waits between the probes of an endpoint that is at fault.
const PAUSE: Backoff = Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(15 * 60) };
/// After this many faults in a row over the same change, the one behind it is tried as well: an
/// endpoint that takes that one fails for this change alone.
const SUSPECT_AFTER: u32 = 3;
/// Changes a suspect endpoint is tried with at most.
const MAX_PROBES: usize = 8;
/// Exceptions a sink may have open before it takes nothing new.
const MAX_PARKED: i64 = 10_000;
/// A sink looks again after this long although nothing woke it.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// How long a delivery waits before it tries again to save its position on a full disk.
const DISK_WAIT: Duration = Duration::from_secs(10);

/// How a sink stands, for people.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SinkStatus {
    /// The sink's name.
    pub name: String,
    /// `webhook`, `file`, `command`
    #[serde(rename = "type")]
    pub type_name: String,
    /// `active`, `paused` (the endpoint is at fault), `holding` (too many refusals), `disabled`
    pub state: String,
    /// Everything up to this row of the log is behind the sink.
    pub position: i64,
    /// Rows of the log not behind it yet.
    pub behind: i64,
    /// Changes delivered since the sink was first seen.
    pub delivered: i64,
    /// Changes being retried, or waiting behind one that is.
    pub retrying: i64,
    /// Changes refused for good.
    pub dead: i64,
    /// Seconds until the next attempt while paused.
    pub next_attempt_s: Option<f64>,
    /// The last fault.
    pub last_error: Option<String>,
}

/// What one delivery task is made of.
pub struct Deliverer {
    /// The sink's name.
    pub name: String,
    /// Where changes go.
    pub sink: Sink,
    /// What the sink asked for.
    pub settings: config::Sink,
    /// Where they come from.
    pub store: Store,
    /// The time.
    pub clock: Clock,
    /// Woken when an operator changed something.
    pub poke: watch::Receiver<()>,
    /// Where the sink's standing is told.
    pub view: watch::Sender<Option<SinkStatus>>,
}

/// What is remembered between two rounds; all of it may be lost.
#[derive(Default)]
struct Memory {
    position: i64,
    faults: u32,
    paused_until: Option<Duration>,
    last_fault: Option<String>,
    /// Set while a pause may be one change's own doing and the log held nothing to tell by: the new
    /// changes that were tried then. More of them end the pause.
    alone: Option<usize>,
    /// The last fault came with a wait that the destination asked for.
    told_to_wait: bool,
}

impl Memory {
    /// How much longer the sink pauses.
    fn pause(&self, now: Duration) -> Option<Duration> {
        self.paused_until.filter(|until| *until > now).map(|until| until - now)
    }
}

impl Deliverer {
    /// Delivers until `finish`, which lets the round in hand end; `cut` ends that as well.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails in a way that waiting cannot mend.
    pub async fn run(
        mut self,
        finish: CancellationToken,
        cut: CancellationToken,
    ) -> Result<(), StoreError> {
        let row = self.open().await?;
        let mut memory = Memory { position: row.position, ..Memory::default() };
        let mut log = self.store.last_seq();
        // A first delivery may take its time; who asks sees the sink all the same.
        self.tell(&memory).await?;
        let mut grown = false;
        loop {
            // Before reading: growth between the read and the wait would otherwise be missed.
            log.borrow_and_update();
            let pause = memory.pause(self.clock.now().elapsed);
            let stirred = std::mem::take(&mut grown);
            let wait = if pause.is_some() && !stirred {
                pause
            } else {
                match self.round(&mut memory, &finish, &cut).await {
                    Ok(wait) => wait,
                    Err(error) if error.passes() => Some(DISK_WAIT),
                    Err(error) => return Err(error),
                }
            };
            self.tell(&memory).await?;
            let wait = wait.unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN);
            if wait.is_zero() && !finish.is_cancelled() {
                continue;
            }
            let deaf = memory.paused_until.is_some() && memory.alone.is_none();
            tokio::select! {
                biased;
                () = finish.cancelled() => return Ok(()),
                () = poked(&mut self.poke) => memory.paused_until = None,
                changed = log.changed(), if !deaf => match changed {
                    Ok(()) => grown = true,
                    Err(_) => return Ok(()),
                },
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Delivers what is in the log and due now, and returns how the sink stands then.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub async fn once(mut self, cut: &CancellationToken) -> Result<Option<SinkStatus>, StoreError> {
        let row = self.open().await?;
        let mut memory = Memory { position: row.position, ..Memory::default() };
        // A run that is to end does not wait for room on the disk.
        let finish = CancellationToken::new();
        finish.cancel();
        loop {
            let wait = self.round(&mut memory, &finish, cut).await?;
            let more = wait == Some(Duration::ZERO);
            // It cannot wait, so that it looks at once whether what failed fails alone.
            let look = memory.faults == 1 && !memory.told_to_wait && self.sink.can_fail_for_one();
            if cut.is_cancelled() || !(more || look) {
                break;
            }
            if look {
                memory.faults = SUSPECT_AFTER;
            }
        }
        self.tell(&memory).await?;
        Ok(self.view.borrow().clone())
    }

    /// Makes the sink's row if it has none: from here on it misses nothing.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub async fn open(&self) -> Result<SinkRow, StoreError> {
        let begin = match self.settings.start {
            config::Start::Now => Begin::Now,
            config::Start::Beginning => Begin::Beginning,
            config::Start::At(time) => Begin::At(stamp(time)),
        };
        let at = self.clock.now().stamp();
        self.store.open_sink(self.name.clone(), self.settings.kind.type_name(), begin, at).await
    }

    /// One round: what is due again, and what is new. Returns how long to wait before the next.
    async fn round(
        &mut self,
        memory: &mut Memory,
        finish: &CancellationToken,
        cut: &CancellationToken,
    ) -> Result<Option<Duration>, StoreError> {
        let suspect = memory.faults >= SUSPECT_AFTER && self.sink.can_fail_for_one();
        let Some(round) = self.plan(memory, suspect).await? else { return Ok(None) };
        let pause = memory.pause(self.clock.now().elapsed);
        if pause.is_some() && memory.alone.is_some_and(|tried| round.fresh() <= tried) {
            return Ok(pause);
        }
        let verdicts = self.hand_over(round.changes(), suspect, cut).await;
        let moment = self.clock.now();
        let refusals = round::Refusals {
            waits: &self.settings.retry,
            chance: fastrand::f64(),
            now: moment.wall,
        };
        let stopping = cut.is_cancelled();
        // What was cut short is nobody's refusal.
        let result = round.settle(&verdicts, suspect && !stopping, &refusals);
        let mut progress = result.progress;
        let first_fault = result.fault.is_some() && memory.faults == 0 && !stopping;
        if let Some((reason, _)) = &result.fault
            && first_fault
        {
            tracing::warn!(sink = %self.name, reason, "the sink does not take changes; they are kept and tried again");
            progress.fault = Some(reason.clone());
        }
        for dead in progress.put.iter().filter(|d| d.state == "dead") {
            tracing::warn!(sink = %self.name, seq = dead.seq, route = %dead.route, reason = dead.last_error.as_deref(),
                "a change is dead: see `shopmirror dead {} list`", self.name);
        }
        if progress.disable {
            tracing::error!(sink = %self.name, "the endpoint is gone (410): the sink is disabled and keeps its changes");
        }
        if progress.worth_saving(memory.position) {
            self.save(&progress, finish).await?;
        }
        memory.position = progress.position.unwrap_or(memory.position);
        match result.fault {
            Some((reason, asked)) if !stopping => {
                memory.faults =
                    if progress.delivered > 0 { 1 } else { memory.faults.saturating_add(1) };
                let wait = PAUSE.wait(memory.faults, fastrand::f64(), asked);
                memory.paused_until = Some(moment.elapsed + wait);
                memory.last_fault = Some(reason);
                memory.told_to_wait = asked.is_some();
                memory.alone = result.alone.filter(|_| suspect && asked.is_none());
                return Ok(Some(wait));
            }
            Some(_) => {}
            None if progress.disable => memory.last_fault = progress.fault,
            None => {
                if memory.faults > 0 && !verdicts.is_empty() {
                    tracing::info!(sink = %self.name, "the sink takes changes again");
                    memory.faults = 0;
                    memory.last_fault = None;
                }
            }
        }
        memory.paused_until = None;
        Ok(result.more.then_some(Duration::ZERO).or(result.next_due))
    }

    /// Saves what a round came to. What the sink has taken is not handed over again because the
    /// disk is full: only the saving is tried again.
    async fn save(
        &self,
        progress: &Progress,
        finish: &CancellationToken,
    ) -> Result<(), StoreError> {
        let mut told = false;
        loop {
            match self.store.save_progress(self.name.clone(), progress.clone()).await {
                Err(error) if error.passes() => {
                    if !std::mem::replace(&mut told, true) {
                        tracing::warn!(sink = %self.name, %error, "could not save what was delivered; trying again");
                    }
                    tokio::select! {
                        () = finish.cancelled() => return Err(error),
                        () = tokio::time::sleep(DISK_WAIT) => {}
                    }
                }
                saved => return saved,
            }
        }
    }

    /// Hands the changes over; behind a suspect change each goes alone, the last first, since a
    /// sink begins nothing after a fault.
    async fn hand_over(
        &mut self,
        changes: &[Change],
        suspect: bool,
        cut: &CancellationToken,
    ) -> Vec<Verdict> {
        if changes.is_empty() {
            return Vec::new();
        }
        if !suspect {
            return self.sink.deliver(changes, self.clock.now().wall, cut).await;
        }
        let mut verdicts = Vec::with_capacity(changes.len());
        for change in changes.iter().rev() {
            let now = self.clock.now().wall;
            verdicts.extend(self.sink.deliver(std::slice::from_ref(change), now, cut).await);
            if let Some(told @ Verdict::Fault { retry_after: Some(_), .. }) = verdicts.last() {
                // It asks for a wait: nothing more is sent, and nothing is learned of the rest.
                verdicts.resize(changes.len(), told.clone());
                break;
            }
        }
        verdicts.reverse();
        verdicts
    }

    /// Reads what the next round is made of; `None` while the sink is to do nothing.
    async fn plan(&self, memory: &Memory, suspect: bool) -> Result<Option<Round>, StoreError> {
        // A sink that was at fault is probed with one change, and with ever more once that one is
        // suspect: several in a row may be to blame themselves.
        let batch = match memory.faults {
            0 => self.sink.batch(),
            faults if suspect => {
                usize::try_from(faults - 1).map_or(MAX_PROBES, |n| n.min(MAX_PROBES))
            }
            _ => 1,
        };
        let name = self.name.clone();
        let position = memory.position;
        let filter = self.settings.filter.clone();
        let now = self.clock.now();
        // Half as much again as the longest wait with its jitter.
        let longest = self.settings.retry.iter().max().copied().unwrap_or_default().mul_f64(1.8);
        let latest = now.wall.checked_add(longest).map(stamp).unwrap_or_default();
        let now = now.stamp();
        self.store
            .read(move |reader| {
                let row = reader.sink(&name)?;
                if row.as_ref().is_some_and(|row| row.state == "disabled") {
                    return Ok(None);
                }
                let full = row.is_some_and(|row| row.retrying >= MAX_PARKED);
                Ok(Some(Round::read(
                    reader,
                    &round::Scope {
                        sink: &name,
                        position,
                        filter: &filter,
                        batch,
                        now: &now,
                        latest: &latest,
                        suspect,
                        only_due: full,
                    },
                )?))
            })
            .await
    }

    async fn tell(&self, memory: &Memory) -> Result<(), StoreError> {
        let name = self.name.clone();
        let read =
            self.store.read(move |reader| Ok((reader.sink(&name)?, reader.last_seq()?))).await;
        let (row, last) = match read {
            Ok((Some(row), last)) => (row, last),
            Ok((None, _)) | Err(StoreError::Closing) => return Ok(()),
            Err(error) if error.passes() => return Ok(()),
            Err(error) => return Err(error),
        };
        let now = self.clock.now().elapsed;
        let state = match () {
            () if row.state == "disabled" => "disabled",
            () if memory.paused_until.is_some() => "paused",
            () if row.retrying >= MAX_PARKED => "holding",
            () => "active",
        };
        self.view.send_replace(Some(SinkStatus {
            name: row.name,
            type_name: row.type_name,
            state: state.to_owned(),
            position: memory.position,
            behind: (last - memory.position).max(0),
            delivered: row.delivered,
            retrying: row.retrying,
            dead: row.dead,
            next_attempt_s: memory
                .paused_until
                .map(|until| until.saturating_sub(now).as_secs_f64()),
            last_error: memory.last_fault.clone(),
        }));
        Ok(())
    }
}

/// Lets go of the sinks that are configured no longer, and says what each leaves undelivered.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub async fn retire(store: &Store, configured: Vec<String>) -> Result<(), StoreError> {
    for (sink, behind) in store.retire_sinks(configured).await? {
        if behind > 0 {
            tracing::warn!(%sink, behind, "the sink is no longer configured and had not got everything: it goes on from there when it is configured again under this name");
        }
    }
    Ok(())
}

/// Ends when an operator changed something; never when nobody can any more.
async fn poked(poke: &mut watch::Receiver<()>) {
    if poke.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

impl Progress {
    /// Whether the round left anything to write.
    fn worth_saving(&self, position: i64) -> bool {
        self.position.is_some_and(|new| new != position)
            || self.delivered > 0
            || !self.put.is_empty()
            || !self.settled.is_empty()
            || self.fault.is_some()
            || self.disable
    }
}
