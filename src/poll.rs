//! The one dispatcher of polls: asks when the schedule says so and the budget allows it, stores
//! the page, and teaches both from the answer.
//!
//! Every poller has at most one request under way; a late poll is skipped, never queued. A page
//! is stored whole or not at all. What a refused key, a wrong host or a full disk means for all
//! pollers is decided here, once, in [`gate`].

mod answer;
mod gate;
mod once;
mod poller;
mod spare;
mod status;

use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::api::{ApiError, Client, Ping, Rate};
use crate::backoff::Backoff;
use crate::budget::{Budget, Purpose};
use crate::clock::Clock;
use crate::record::{Page, PollerId};
use crate::schedule::{Next, PollerSettings, Schedule};
use crate::store::{Store, StoreError};
pub use answer::seen;
use gate::Gate;
use poller::{Clocks, Poller, word};
pub use spare::{Background, Spare, SpareError};
pub use status::{PollerStatus, PollingStatus};

/// Waits after a poll that failed in a way that may pass.
const BUSY: Backoff = Backoff { base: Duration::from_secs(2), cap: Duration::from_secs(300) };
/// How often a full disk is tried.
const DISK_PROBE: Duration = Duration::from_secs(30);
/// How often a store is tried whose write lock another program holds.
const LOCK_PROBE: Duration = Duration::from_secs(1);
/// Polls that are only remembered are written at least this often.
const FLUSH_EVERY: Duration = Duration::from_secs(600);

/// Gives the key as it stands now; `None` when it cannot be read.
pub type ReadKey = Arc<dyn Fn() -> Option<SecretString> + Send + Sync>;

/// One poller's place in the configuration.
#[derive(Debug, Clone)]
pub struct PollerPlan {
    /// What it asks for.
    pub key: PollerId,
    /// How often it may.
    pub settings: PollerSettings,
}

/// What the dispatcher can be asked while it runs.
pub enum Request {
    /// How everything stands.
    View(oneshot::Sender<PollingStatus>),
    /// Read the key again and end every pause; SIGHUP asks for it.
    Resume,
    /// Ask something else when no poll needs the request; see [`Spare`].
    Background(Background),
}

/// What the dispatcher works with.
pub struct Dispatcher {
    client: Client,
    store: Store,
    clock: Clock,
    budget: Budget,
    schedule: Schedule,
    pollers: Vec<Poller>,
    limit: u32,
    read_key: ReadKey,
    gate: Gate,
    store_pause: Option<StorePause>,
    flushed: Duration,
    clocks: Clocks,
    background: spare::Waiting,
}

/// Why nothing is polled although the workspace would answer.
struct StorePause {
    /// When the store is tried again.
    until: Duration,
    /// What it said.
    why: String,
    /// Whether the disk is full; else another program is in the way.
    full: bool,
}

/// A request that came back.
enum Answer {
    Page { poller: usize, asked_after: i64, result: Result<Page, ApiError>, rate: Rate },
    Probe { result: Result<Ping, ApiError>, rate: Rate },
    Background { rate: Rate },
}

impl Dispatcher {
    /// Joins the parts; the pollers' learned rates are taken from the store.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read.
    pub async fn new(
        client: Client,
        store: Store,
        clock: Clock,
        budget: Budget,
        plan: Vec<PollerPlan>,
        read_key: ReadKey,
    ) -> Result<Self, StoreError> {
        let now = clock.now();
        let limit = plan.first().map_or(100, |p| p.settings.limit);
        let settings = plan.iter().map(|p| p.settings.clone()).collect();
        let mut schedule = Schedule::new(settings, budget.snapshot(now).pace_per_minute, now);
        let known = store.read(|reader| reader.pollers()).await?;
        for row in known {
            let (Some(key), Some(learned)) = (row.key(), &row.learned) else { continue };
            if let Some(index) = plan.iter().position(|p| p.key == key) {
                schedule.restore(index, learned, now);
            }
        }
        let pollers = plan.into_iter().map(|p| Poller::new(p.key)).collect();
        Ok(Self {
            client,
            store,
            clock,
            budget,
            schedule,
            pollers,
            limit,
            read_key,
            gate: Gate::default(),
            store_pause: None,
            flushed: now.elapsed,
            clocks: Clocks::default(),
            background: spare::Waiting::default(),
        })
    }

    /// Polls until stopped; then what was learned is handed to the store, and what was spent
    /// returned for whoever polls next.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails in a way that waiting cannot mend.
    pub async fn run(
        mut self,
        mut requests: mpsc::Receiver<Request>,
        stop: CancellationToken,
    ) -> Result<Budget, StoreError> {
        let mut under_way = JoinSet::new();
        let outcome = loop {
            let wake = self.start_due(&mut under_way);
            let answer = tokio::select! {
                () = stop.cancelled() => break Ok(()),
                request = requests.recv() => {
                    match request {
                        Some(Request::View(reply)) => {
                            // The one who asked may have gone away.
                            let _ = reply.send(self.view());
                        }
                        Some(Request::Resume) => {
                            for poller in &mut self.pollers {
                                poller.refused_alone = false;
                            }
                            self.resume();
                        }
                        Some(Request::Background(asked)) => self.background.put(asked),
                        None => break Ok(()),
                    }
                    continue;
                }
                Some(answer) = under_way.join_next() => answer,
                () = tokio::time::sleep_until(self.clock.instant(wake)) => {
                    if let Err(error) = self.tick().await { break Err(error) }
                    continue;
                }
            };
            let answer = match answer {
                Ok(answer) => answer,
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(_) => continue,
            };
            if let Err(error) = self.take(answer).await {
                break Err(error);
            }
        };
        under_way.shutdown().await;
        self.remember().await?;
        outcome.map(|()| self.budget)
    }

    /// Starts what is due and allowed; returns when to look again.
    fn start_due(&mut self, under_way: &mut JoinSet<Answer>) -> Duration {
        let mut now = self.clock.now();
        let latest = (self.flushed + FLUSH_EVERY).max(now.elapsed + Duration::from_secs(1));
        if let Some(pause) = &self.store_pause {
            let wake = pause.until.min(latest);
            self.background.refuse("the store takes no writes; see `shopmirror status`");
            return wake;
        }
        if let Some(halt) = self.gate.halt() {
            if halt.probe_due(now.elapsed) && self.budget.try_take(Purpose::Background, now).is_ok()
            {
                self.gate.probe_started();
                let client = self.client.clone();
                under_way.spawn(async move {
                    let (result, rate) = client.automation_ping().await;
                    Answer::Probe { result, rate }
                });
            }
            self.background.refuse(halt.halt.advice());
            return self.gate.next_look(now.elapsed).min(latest);
        }
        let wake = loop {
            match self.schedule.next(now) {
                Next::Poll(poller) => {
                    if let Err(at) = self.budget.try_take(Purpose::Poll, now) {
                        break at;
                    }
                    self.schedule.started(poller, now);
                    let (client, key) = (self.client.clone(), self.pollers[poller].key.clone());
                    let asked_after = self.store.seq();
                    under_way.spawn(async move {
                        let (result, rate) = client.poll(&key).await;
                        Answer::Page { poller, asked_after, result, rate }
                    });
                    now = self.clock.now();
                }
                Next::WaitUntil(at) => break at,
                Next::Idle => break latest,
            }
        };
        self.start_background(under_way).map_or(wake, |at| at.min(wake)).min(latest)
    }

    /// What is done when a wait ends: nothing as a rule.
    async fn tick(&mut self) -> Result<(), StoreError> {
        let now = self.clock.now();
        if self.gate.take_look(now.elapsed) {
            self.look_for_new_key();
        }
        if self.store_pause.as_ref().is_some_and(|pause| pause.until <= now.elapsed) {
            match self.store.try_write().await {
                Ok(()) => {
                    tracing::info!("the store takes writes again: polling goes on");
                    self.store_pause = None;
                    for poller in 0..self.pollers.len() {
                        self.schedule.resume(poller, now);
                    }
                }
                Err(error) if error.passes() => self.wait_for_store(&error),
                Err(error) => return Err(error),
            }
        } else if self.flushed + FLUSH_EVERY <= now.elapsed {
            self.flushed = now.elapsed;
            match self.store.flush().await {
                Err(error) if !error.passes() => return Err(error),
                Err(error) => self.wait_for_store(&error),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Hands what was learned to the store and writes what is only remembered.
    async fn remember(&mut self) -> Result<(), StoreError> {
        let learned = self
            .pollers
            .iter()
            .enumerate()
            .map(|(index, poller)| (poller.key.clone(), self.schedule.learned(index)))
            .collect();
        match self.store.remember_learned(learned).await {
            Err(error) if error.passes() => Ok(()),
            other => other,
        }
    }
}
