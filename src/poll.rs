//! The dispatcher: polls when the schedule says so and the budget allows it, stores each page, and
//! lets both learn from each response.
//!
//! A poller has at most one request in flight. A late poll is skipped, never queued. A page is
//! stored whole or not at all. A refused key, a wrong address, somebody between or a full disk holds
//! every poller back; [`hold`] has the rules.

mod background;
mod clocks;
mod completed;
mod hold;
mod once;
mod poller;
mod spending;
mod status;
mod waits;
mod workspace;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use secrecy::SecretString;
use shopmirror_core::budget::BudgetSettings;
use shopmirror_core::budget::{Budget, Purpose};
use shopmirror_core::clock::Clock;
use shopmirror_core::record::PollerId;
use shopmirror_core::schedule::{Next, PollerSettings, Schedule};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::api::{ApiError, Client};
use crate::store::{Reader, Store, StoreError, StoredWorkspace};
pub use background::{BackgroundClient, BackgroundError, Grant, GrantReply};
pub use clocks::{Clocks, clock_advice, clock_ahead_s};
use completed::Completed;
pub use completed::seen;
use hold::Hold;
pub use hold::PauseReason;
use poller::PollerHealth;
pub use spending::first_budget;
pub use status::{PollerState, PollerStatus, PollingStatus};

/// How long polling continues after a stop while a request is in flight. One that takes longer is
/// cut off.
const FINISH: Duration = Duration::from_secs(1);

/// How many requests of each poller are noted in the store before they are sent. If the process
/// ends early, the next one goes on in turn; later the pages that were stored show the turn.
const NOTED_REQUESTS: u64 = 3;

/// The longest sleep while nothing is due.
const MAX_SLEEP: Duration = Duration::from_secs(600);

/// How many records a page shows while no poller is configured.
const DEFAULT_LIMIT: u32 = 100;

/// Reads the key as it is now; `None` if it cannot be read.
pub type ReadKey = Arc<dyn Fn() -> Option<SecretString> + Send + Sync>;

/// One poller's place in the configuration.
#[derive(Debug, Clone)]
pub struct PollerPlan {
    /// What it polls.
    pub id: PollerId,
    /// How often it may poll.
    pub settings: PollerSettings,
}

/// What other tasks can request of the dispatcher.
pub enum DispatcherRequest {
    /// Send the status.
    Status(oneshot::Sender<PollingStatus>),
    /// Read the key again and end every pause that a refusal caused; SIGHUP does this.
    Resume,
    /// Grant a request that is not a poll; see [`BackgroundClient`].
    Background(GrantReply),
}

/// Polls every configured route of every configured business.
pub struct Dispatcher {
    client: Client,
    store: Store,
    clock: Clock,
    budget: Budget,
    schedule: Schedule,
    pollers: Vec<PollerHealth>,
    limit: u32,
    read_key: ReadKey,
    hold: Option<Hold>,
    /// When the store last refused a write, until it has taken everything for some time.
    store_refused_at: Option<Duration>,
    clocks: Clocks,
    /// The caller that waits for the grant of a background request, and since when.
    waiting: Option<(GrantReply, Duration)>,
    /// The workspace that filled the store, if its name was ever read.
    stored_workspace: Option<StoredWorkspace>,
    /// What a ping has said of another workspace, until the present key is verified.
    other_workspace: Option<ApiError>,
    /// The number of the key, once a ping has shown that it leads to that workspace.
    verified: Option<u64>,
    /// The pollers that a single run has yet to poll; `None` in a daemon.
    to_poll: Option<VecDeque<usize>>,
}

impl Dispatcher {
    /// A dispatcher that polls nothing until it is [configured](Self::configured).
    #[must_use]
    pub fn new(client: Client, store: Store, clock: Clock, budget: Budget) -> Self {
        let now = clock.now();
        Self {
            schedule: Schedule::new(vec![], budget.pace_per_minute(now), now),
            client,
            store,
            clock,
            budget,
            pollers: Vec::new(),
            limit: 0,
            read_key: Arc::new(|| None),
            hold: None,
            store_refused_at: None,
            clocks: Clocks::default(),
            waiting: None,
            stored_workspace: None,
            other_workspace: None,
            verified: None,
            to_poll: None,
        }
    }

    /// Begins with a configuration, or continues with another one. What earlier processes learned
    /// about new pollers is read from the store.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn configured(
        mut self,
        client: Client,
        budget: BudgetSettings,
        plan: Vec<PollerPlan>,
        read_key: ReadKey,
    ) -> Result<Self, StoreError> {
        let now = self.clock.now();
        // A wait that another key or address was asked for does not concern this one.
        let is_same_account = self.client.account() == client.account();
        if !is_same_account {
            self.other_workspace = None;
            self.budget.end_rest();
            self.clocks = Clocks::default();
        }
        self.budget.reconfigure(budget);
        if self.pollers.is_empty() {
            // A ping, and a poll of each.
            self.budget.start_cycle(1 + plan.len(), now);
        }
        let mut settings = Vec::new();
        for planned in &plan {
            let before = position_of(&planned.id, &self.pollers);
            settings.push((planned.settings.clone(), before));
        }
        let pace = self.budget.pace_per_minute(now);
        let mut schedule = self.schedule.reconfigured(settings.into_iter(), pace, now);
        for row in self.store.read(|reader| reader.pollers()).await? {
            let (Some(id), Some(learned)) = (row.id(), &row.learned) else {
                continue;
            };
            let place = plan.iter().position(|planned| planned.id == id);
            if let Some(place) = place
                && position_of(&id, &self.pollers).is_none()
            {
                schedule.restore(place, learned, now);
            }
        }
        let mut pollers = Vec::new();
        for planned in &plan {
            let mut poller = PollerHealth::new(planned.id.clone());
            if let Some(before) = position_of(&planned.id, &self.pollers) {
                poller.sent = self.pollers[before].sent;
                if is_same_account {
                    poller.continue_rest(&self.pollers[before], now.elapsed);
                }
            }
            pollers.push(poller);
        }
        let attempts = self.store.read(|reader| reader.attempts()).await?;
        let oldest = attempts.iter().filter_map(|attempt| attempt.at).min();
        for attempt in attempts {
            // What this process knows of a poller is newer.
            if position_of(&attempt.poller, &self.pollers).is_some() {
                continue;
            }
            let Some(place) = position_of(&attempt.poller, &pollers) else {
                continue;
            };
            match (attempt.at, oldest) {
                // It may not have been sent, or its page may have ended the process: it comes behind
                // the one that has waited longest.
                (Some(_), Some(oldest)) if !attempt.is_handled => {
                    schedule.restore_attempt(place, oldest + SignedDuration::from_millis(1));
                }
                (Some(at), _) => schedule.restore_attempt(place, at),
                (None, _) => {}
            }
            if let Some(rest) = &attempt.rest {
                pollers[place].restore_rest(rest, &client.account(), now);
            }
        }
        for (place, poller) in pollers.iter().enumerate() {
            if let Some(at) = poller.waits_until(now.elapsed) {
                schedule.wait_until(place, at);
            }
        }
        let limit = match plan.first() {
            Some(planned) => planned.settings.limit,
            None => DEFAULT_LIMIT,
        };
        let stored_workspace = self.store.read(Reader::workspace).await?;
        if let Some(stored) = &stored_workspace
            && stored.is_of(&client.account())
        {
            client.set_address_proven();
        }
        Ok(Self {
            stored_workspace,
            limit,
            hold: Some(Hold::new(now.elapsed)),
            verified: None,
            client,
            schedule,
            pollers,
            read_key,
            ..self
        })
    }

    /// The comparison of this machine's clock with the workspace's, which each poll renews.
    #[must_use]
    pub fn clocks(&self) -> Clocks {
        self.clocks.clone()
    }

    /// Polls until stopped, then saves what was learned and returns itself for the next
    /// configuration.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails for a reason that does not pass.
    pub async fn run(
        mut self,
        requests: &mut mpsc::Receiver<DispatcherRequest>,
        stop: CancellationToken,
    ) -> Result<Self, StoreError> {
        self.work(requests, &stop).await?;
        Ok(self)
    }

    /// Polls until stopped, or until a single run has ended, then saves what was learned.
    async fn work(
        &mut self,
        requests: &mut mpsc::Receiver<DispatcherRequest>,
        stop: &CancellationToken,
    ) -> Result<(), StoreError> {
        self.begin_sending().await?;
        let mut in_flight = JoinSet::new();
        // After a stop. A poll that is cut off was sent for nothing: its route waits longer than it
        // is allowed to.
        let mut cut_at: Option<Duration> = None;
        let outcome = loop {
            let now = self.clock.now().elapsed;
            if let Some(at) = cut_at
                && (in_flight.is_empty() || at <= now)
            {
                break Ok(());
            }
            if self.has_ended(&in_flight) {
                break Ok(());
            }
            let mut wake_at = self.start_due(&mut in_flight);
            if let Some(at) = cut_at {
                wake_at = wake_at.min(at);
            }
            let worked = tokio::select! {
                () = stop.cancelled(), if cut_at.is_none() => {
                    cut_at = Some(self.clock.now().elapsed + FINISH);
                    Ok(())
                }
                request = requests.recv() => match request {
                    Some(request) => {
                        self.handle(request);
                        Ok(())
                    }
                    None => break Ok(()),
                },
                Some(joined) = in_flight.join_next() => match completed(joined) {
                    Some(completed) => self.complete(completed).await,
                    None => Ok(()),
                },
                () = tokio::time::sleep_until(self.clock.instant(wake_at)) => self.wake().await,
            };
            if worked.is_err() {
                break worked;
            }
        };
        in_flight.shutdown().await;
        let ended = self.end_sending().await;
        outcome.and(ended)
    }

    fn handle(&mut self, request: DispatcherRequest) {
        match request {
            DispatcherRequest::Status(reply) => {
                // Sending fails if the caller has gone away, which changes nothing here.
                let _ = reply.send(self.status());
            }
            DispatcherRequest::Resume => {
                for poller in &mut self.pollers {
                    poller.key_is_good = false;
                    poller.workspace_answers = false;
                }
                self.try_changed_key();
                self.end_waits();
            }
            DispatcherRequest::Background(reply) => {
                self.waiting = Some((reply, self.clock.now().elapsed));
            }
        }
    }

    /// Starts every request that is due and allowed; returns when to check again.
    fn start_due(&mut self, in_flight: &mut JoinSet<Completed>) -> Duration {
        let now = self.clock.now().elapsed;
        let mut wake_at = now + MAX_SLEEP;
        if let Some(ping_at) = self.start_ping(in_flight) {
            wake_at = wake_at.min(ping_at);
        }
        if let Some(hold) = &self.hold {
            if let Some(advice) = hold.advice()
                && let Some((reply, _)) = self.waiting.take()
            {
                // Sending fails if the caller has gone away, which changes nothing here.
                let _ = reply.send(Err(BackgroundError::Paused(advice)));
            }
            return wake_at.min(hold.wake_at(now));
        }
        if let Some(background_at) = self.start_background(in_flight) {
            wake_at = wake_at.min(background_at);
        }
        if let Some(poll_at) = self.start_due_polls(in_flight) {
            wake_at = wake_at.min(poll_at);
        }
        wake_at
    }

    /// Starts the polls that are due; returns when the next one may be started, if any.
    fn start_due_polls(&mut self, in_flight: &mut JoinSet<Completed>) -> Option<Duration> {
        loop {
            let now = self.clock.now();
            let poller = if let Some(to_poll) = &self.to_poll {
                *to_poll.front()?
            } else {
                match self.schedule.next(now) {
                    Next::Poll(poller) => poller,
                    Next::WaitUntil(at) => return Some(at),
                    Next::Idle => return None,
                }
            };
            if let Err(at) = self.budget.try_take(Purpose::Poll, now) {
                self.schedule
                    .set_pace(self.budget.pace_per_minute(now), now);
                return Some(at);
            }
            let guarantee_s = self.schedule.guarantee(poller);
            tracing::debug!(poller = %self.pollers[poller].id, guarantee_s, "poll");
            if let Some(to_poll) = &mut self.to_poll {
                to_poll.pop_front();
            }
            self.schedule.started(poller, now);
            self.pollers[poller].started_at = now.elapsed;
            // The request counts as sent already.
            let mut spending = None;
            if self.pollers[poller].sent < NOTED_REQUESTS {
                spending = Some(self.spending(false));
            }
            self.pollers[poller].sent += 1;
            let store = self.store.clone();
            let client = self.client.clone();
            let id = self.pollers[poller].id.clone();
            let last = self.pollers[poller].last_page.clone();
            let asked_after = self.store.seq();
            in_flight.spawn(async move {
                if let Some(spending) = spending
                    && let Err(error) = store.note_attempt(id.clone(), now.wall, &spending).await
                {
                    tracing::debug!(poller = %id, %error, "the next process may begin with it again");
                }
                let (result, rate) = client.poll(&id, last).await;
                Completed::Poll {
                    poller,
                    asked_after,
                    result,
                    rate,
                }
            });
        }
    }

    /// Does what a wait was for: read the key, or probe the store.
    async fn wake(&mut self) -> Result<(), StoreError> {
        let now = self.clock.now().elapsed;
        if let Some(hold) = &mut self.hold
            && hold.start_check(now)
        {
            self.check_correction().await?;
        }
        let Some(hold) = &self.hold else {
            return Ok(());
        };
        if !hold.is_of_store() || hold.until > now {
            return Ok(());
        }
        let written = self.store.try_write().await;
        if written.is_ok() {
            self.release();
        }
        self.pause_if_transient(written)
    }

    /// Pauses polling after an error that passes, and returns any other.
    fn pause_if_transient(&mut self, written: Result<(), StoreError>) -> Result<(), StoreError> {
        match written {
            Err(error) if error.is_transient() => {
                self.pause_for_store(error);
                Ok(())
            }
            other => other,
        }
    }

    /// Saves what the schedule has learned, and what was sent.
    async fn end_sending(&mut self) -> Result<(), StoreError> {
        let mut learned = Vec::new();
        for (index, poller) in self.pollers.iter().enumerate() {
            learned.push((poller.id.clone(), self.schedule.learned(index)));
        }
        let saved = self.store.remember_learned(learned).await;
        match saved.and(self.note_spending(true).await) {
            Err(error) if error.is_transient() => Ok(()),
            other => other,
        }
    }
}

/// The place of a poller in the list; `None` if it is new.
fn position_of(id: &PollerId, pollers: &[PollerHealth]) -> Option<usize> {
    pollers.iter().position(|poller| poller.id == *id)
}

/// The completed request of a task; `None` if the task was cancelled. A panic is passed on.
fn completed(joined: Result<Completed, JoinError>) -> Option<Completed> {
    match joined {
        Ok(completed) => Some(completed),
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => None,
    }
}
