//! What the dispatcher does with each completed request: what it stores, learns, logs and pauses.

use std::time::Duration;

use bytes::Bytes;

use super::Dispatcher;
use super::hold::{Held, Hold, PauseReason};
use super::poller::{ages, outcome_of, word};
use crate::api::{self, ApiError, Class, Ping, RateHeaders};
use crate::budget::{KeyReading, LONG_REST};
use crate::clock::stamp;
use crate::schedule::PollResult;
use crate::store::{LastPoll, PageOutcome, PollFacts, StoreError};

/// How long the store has to take every page until the journal says that it can be written again.
const STORE_WORKS_AFTER: Duration = Duration::from_secs(60);

/// A request that was answered or has failed.
pub(super) enum Completed {
    /// A poll.
    Poll { poller: usize, asked_after: i64, result: Result<Bytes, ApiError>, rate: RateHeaders },
    /// A ping, which tells whether the key is accepted and the name of the workspace.
    Ping { result: Result<Ping, ApiError>, rate: RateHeaders },
    /// A background request, whose caller has its result already; nothing is known if it has gone away.
    Background { rate: Option<RateHeaders> },
}

/// What the budget learns from a response.
///
/// A `Retry-After` concerns the whole key only after a 429; otherwise only the route.
#[must_use]
pub fn seen(rate: &RateHeaders) -> KeyReading {
    KeyReading {
        limit: rate.limit,
        remaining: rate.remaining,
        refused: rate.refused,
        retry_after: rate.retry_after.filter(|_| rate.refused),
    }
}

impl Dispatcher {
    pub(super) async fn complete(&mut self, completed: Completed) -> Result<(), StoreError> {
        match completed {
            Completed::Ping { result, rate } => {
                self.observe_rate(&rate).await;
                self.complete_ping(result, rate.key).await
            }
            Completed::Background { rate } => {
                if let Some(rate) = rate {
                    self.observe_rate(&rate).await;
                }
                Ok(())
            }
            Completed::Poll { poller, asked_after, result, rate } => {
                self.observe_rate(&rate).await;
                match result {
                    Ok(_) if !self.workspace.accepts_response_of(rate.key) => {
                        // The key has changed, and it is not known yet which workspace this one reads.
                        let error = ApiError::OtherWorkspace("the key has changed".to_owned());
                        self.poll_again(poller, &error).await
                    }
                    Ok(body) => self.complete_poll(poller, asked_after, body, &rate).await,
                    Err(error) if self.is_of_older_key(&rate) && error.is_about_key() => {
                        self.poll_again(poller, &error).await
                    }
                    Err(error) => self.fail_poll(poller, error).await,
                }
            }
        }
    }

    /// Whether a response answers a request that was sent before the key changed.
    fn is_of_older_key(&self, rate: &RateHeaders) -> bool {
        rate.key < self.client.key_number()
    }

    /// The workspace refused the key before this one: the poll is repeated with this one.
    async fn poll_again(&mut self, poller: usize, error: &ApiError) -> Result<(), StoreError> {
        let now = self.clock.now();
        if let Some(to_poll) = &mut self.to_poll {
            to_poll.push_back(poller);
        }
        self.schedule.observe(poller, &PollResult::Failed { not_before: now.elapsed }, now);
        self.note_failed(poller, error).await
    }

    async fn observe_rate(&mut self, rate: &RateHeaders) {
        let now = self.clock.now();
        self.clocks.compare(rate.server_time, now);
        if self.is_of_older_key(rate) {
            // What is left of that key, and how long it has to wait, does not concern this one.
            return;
        }
        // Requests that were under way together are refused together.
        let was_resting = self.budget.resting(now).is_some_and(|rest| rest >= LONG_REST);
        self.budget.observe(&seen(rate), now);
        self.budget.set_needed(self.schedule.needed_per_minute());
        self.schedule.set_pace(self.budget.pace_per_minute(now), now);
        if !rate.refused {
            return;
        }
        let Some(rest) = self.budget.resting(now) else { return };
        if rest >= LONG_REST && !was_resting {
            tracing::warn!(
                wait_s = rest.as_secs_f64().round(),
                "the workspace asked shopmirror to wait (429 with Retry-After): no route is read until then; \
                 find out which programs use this key"
            );
        }
        if let Err(error) = self.note_spending(false).await {
            tracing::debug!(%error, "a restart will not know how long the workspace asked to wait");
        }
    }

    /// Stores the page of a poll.
    async fn complete_poll(
        &mut self,
        poller: usize,
        asked_after: i64,
        body: Bytes,
        rate: &RateHeaders,
    ) -> Result<(), StoreError> {
        let now = self.clock.now();
        let facts = PollFacts {
            at: now.wall,
            asked_after,
            limit: self.limit,
            latency: self.pollers[poller].latency(now.elapsed),
            served_business: rate.business.map(|id| id.to_string()),
        };
        let page = match api::decode(body.into()) {
            Ok(page) => page,
            Err(error) => return self.fail_poll(poller, error.into()).await,
        };
        let ages = ages(&page, rate.server_time.unwrap_or(now.wall));
        let id = self.pollers[poller].id.clone();
        let learned = self.schedule.learned(poller);
        match self.store.store_page(id, page, facts, Some(learned)).await {
            Ok(outcome) => self.succeed(poller, &outcome, ages),
            Err(error) if error.is_transient() => {
                let not_before = self.pause_for_store(&error);
                self.schedule.observe(poller, &PollResult::Failed { not_before }, now);
            }
            Err(error) if error.is_of_one_route() => {
                // The other routes go on.
                return self.fail_poll(poller, not_stored(&error)).await;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn succeed(&mut self, poller: usize, outcome: &PageOutcome, ages: Vec<Duration>) {
        let now = self.clock.now();
        self.clocks.page_read();
        // A disk that is almost full takes some pages and refuses others.
        if self.store_refused_at.is_some_and(|at| at + STORE_WORKS_AFTER <= now.elapsed) {
            self.store_refused_at = None;
            tracing::info!("the store can be written again: polling resumes");
        }
        if self.pollers[poller].is_backing_off(now.elapsed) {
            // An outage is over for every route: none waits for the end of its own back-off.
            for other in 0..self.pollers.len() {
                if self.pollers[other].is_backing_off(now.elapsed) {
                    self.schedule.wait_until(other, now.elapsed);
                }
            }
        }
        self.pollers[poller].succeeded(now, outcome);
        self.schedule.observe(poller, &outcome_of(outcome, ages), now);
    }

    async fn fail_poll(&mut self, poller: usize, error: ApiError) -> Result<(), StoreError> {
        let now = self.clock.now();
        let failure = self.pollers[poller].failed(&error, now.elapsed, fastrand::f64());
        let outcome = PollResult::Failed { not_before: now.elapsed + failure.wait };
        self.schedule.observe(poller, &outcome, now);
        if failure.class == Class::RouteBroken && error.class() != failure.class {
            // The other pollers go on, so no pause looks for the key that this one needs.
            if self.try_changed_key() {
                self.resume_broken();
            }
        }
        if let Some(reason) = PauseReason::of_class(failure.class) {
            match &mut self.hold {
                Some(hold) => {
                    if hold.refused(reason) {
                        log_pause(reason, &error);
                        self.try_changed_key();
                    }
                }
                None => {
                    let held = Held::Key { reason, poller: Some(poller) };
                    self.hold = Some(Hold::new(held, now.elapsed));
                    self.try_changed_key();
                }
            }
        }
        self.note_failed(poller, &error).await
    }

    /// Notes in the store that a poll failed.
    async fn note_failed(&mut self, poller: usize, error: &ApiError) -> Result<(), StoreError> {
        let (error, at) = (Some(word(error)), stamp(self.clock.now().wall));
        let poll = LastPoll { error, at, created: 0, updated: 0 };
        let noted = self.store.note_failed_poll(self.pollers[poller].id.clone(), poll).await;
        self.pause_if_transient(noted)
    }

    /// Pauses polling until the store can be written again; returns when that is tried.
    pub(super) fn pause_for_store(&mut self, error: &StoreError) -> Duration {
        let now = self.clock.now().elapsed;
        if self.store_refused_at.replace(now).is_none() {
            tracing::error!(%error, "polling is paused until the store can be written again");
        }
        self.hold.insert(Hold::of_store(error, now)).until
    }

    /// Reads the key, and takes it up if it has changed; true if so.
    pub(super) fn try_changed_key(&mut self) -> bool {
        let changed = (self.read_key)().is_some_and(|key| self.client.set_key(key));
        if changed {
            tracing::info!("the key has changed: trying the new one");
            self.key_changed();
        }
        changed
    }

    /// Reads the key again and ends every wait that a refusal caused.
    pub(super) fn resume(&mut self) {
        self.try_changed_key();
        match &mut self.hold {
            Some(hold) if hold.is_of_store() => {}
            Some(hold) if matches!(hold.held, Held::Key { .. }) => self.release(),
            Some(hold) => hold.until = self.clock.now().elapsed,
            None => {}
        }
        self.resume_broken();
    }

    fn resume_broken(&mut self) {
        for poller in 0..self.pollers.len() {
            if self.pollers[poller].is_broken() {
                self.pollers[poller].clear_failures();
                self.resume_poller(poller);
            }
        }
    }

    /// True once a page was read.
    pub(super) fn has_read(&self) -> bool {
        self.pollers.iter().any(|poller| poller.last_success.is_some())
    }

    /// Makes a poller due as its schedule says, but not before a time that the server asked for.
    pub(super) fn resume_poller(&mut self, poller: usize) {
        let now = self.clock.now().elapsed;
        self.schedule.wait_until(poller, self.pollers[poller].waits_until(now).unwrap_or(now));
    }
}

fn not_stored(error: &StoreError) -> ApiError {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    let cause = cause.unwrap_or_else(|| error.to_string());
    ApiError::NotStored(format!(
        "a page could not be stored and its route waits ({cause}); if this goes on, \
        stop the daemon and run `shopmirror verify --rebuild`"
    ))
}

pub(super) fn log_pause(reason: PauseReason, error: &ApiError) {
    tracing::error!(state = reason.as_str(), %error, "polling is paused until this is fixed");
}
