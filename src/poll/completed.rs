//! What the dispatcher does with each completed request: what it stores, learns, logs and pauses.

use std::time::Duration;

use bytes::Bytes;

use super::Dispatcher;
use super::pause::{PauseReason, StorePause};
use super::poller::{ages, outcome_of, word};
use crate::api::{self, ApiError, Class, Ping, RateHeaders};
use crate::budget::{KeyReading, LONG_REST};
use crate::clock::{Moment, stamp};
use crate::schedule::PollResult;
use crate::store::{PageOutcome, PollFacts, PollNote, PollOutcome, StoreError};

/// How long a route waits after the store refused its page.
const STORE_REFUSED: Duration = Duration::from_secs(60);

/// A request that was answered or has failed.
pub(super) enum Completed {
    /// A poll.
    Poll { poller: usize, asked_after: i64, result: Result<Bytes, ApiError>, rate: RateHeaders },
    /// A ping during a pause.
    Probe { result: Result<Ping, ApiError>, rate: RateHeaders },
    /// A ping that tells the name of the workspace.
    Name { result: Result<Ping, ApiError>, rate: RateHeaders },
    /// A background request, whose caller has its result already.
    Background { rate: RateHeaders },
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
            Completed::Probe { result, rate } => {
                self.observe_rate(&rate).await;
                self.complete_probe(result);
                Ok(())
            }
            Completed::Name { result, rate } => {
                self.observe_rate(&rate).await;
                self.complete_name(result, rate.key).await
            }
            Completed::Background { rate } => {
                self.background.completed();
                self.observe_rate(&rate).await;
                Ok(())
            }
            Completed::Poll { poller, asked_after, result, rate } => {
                self.observe_rate(&rate).await;
                match result {
                    Ok(_) if !self.guard.admits(rate.key) => {
                        // The key has changed, and it is not known yet which workspace this one reads.
                        let error = ApiError::OtherWorkspace("the key has changed".to_owned());
                        self.poll_again(poller, &error, &rate).await
                    }
                    Ok(body) => self.complete_poll(poller, asked_after, body, &rate).await,
                    Err(error) if self.is_of_older_key(&rate) && error.is_about_key() => {
                        self.poll_again(poller, &error, &rate).await
                    }
                    Err(error) => self.fail_poll(poller, error, &rate).await,
                }
            }
        }
    }

    /// Whether a response answers a request that was sent before the key changed.
    fn is_of_older_key(&self, rate: &RateHeaders) -> bool {
        rate.key < self.client.key_number()
    }

    /// The workspace refused the key before this one: the poll is repeated with this one.
    async fn poll_again(
        &mut self,
        poller: usize,
        error: &ApiError,
        rate: &RateHeaders,
    ) -> Result<(), StoreError> {
        let now = self.clock.now();
        self.schedule.observe(poller, &PollResult::Failed { not_before: now.elapsed }, now);
        let note = failed_note(word(error), now, rate);
        let noted = self.store.note_failed_poll(self.pollers[poller].id().clone(), note).await;
        self.pause_if_it_passes(noted)
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

    fn complete_probe(&mut self, result: Result<Ping, ApiError>) {
        match result {
            Ok(_) => {
                if let Some(pause) = self.gate.pause() {
                    self.pollers[pause.started_by()].set_key_is_good();
                }
                self.resume();
            }
            Err(error) => {
                let refused = PauseReason::of_class(error.class());
                let now = self.clock.now().elapsed;
                match self.gate.probe_failed(refused, now, fastrand::f64()) {
                    Some(reason) if refused.is_some() => log_pause(reason, &error),
                    Some(reason) => tracing::warn!(
                        state = reason.as_str(),
                        %error,
                        "the workspace refused a poll, and a ping to find out why failed: polling goes on when one succeeds; the next one follows within about a minute"
                    ),
                    None => {}
                }
            }
        }
    }

    /// Stores the page of a poll. A body that equals the one before is not even decoded.
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
            remaining: rate.remaining,
            served_business: rate.business.map(|id| id.to_string()),
        };
        let id = self.pollers[poller].id();
        if let Some(outcome) = self.store.note_unchanged(id, &body, &facts) {
            self.succeed(poller, &outcome, Vec::new());
            return Ok(());
        }
        let page = match api::decode(body.into()) {
            Ok(page) => page,
            Err(error) => return self.fail_poll(poller, error.into(), rate).await,
        };
        let ages = ages(&page, rate.server_time.unwrap_or(now.wall));
        let id = id.clone();
        let learned =
            self.pollers[poller].is_learned_due(now.elapsed).then(|| self.schedule.learned(poller));
        match self.store.store_page(id, page, facts, learned).await {
            Ok(outcome) => self.succeed(poller, &outcome, ages),
            Err(error) if error.passes() => {
                let not_before = self.pause_for_store(&error);
                self.schedule.observe(poller, &PollResult::Failed { not_before }, now);
            }
            Err(error) if error.is_of_one_route() => {
                return self.fail_to_store(poller, &error, rate).await;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn succeed(&mut self, poller: usize, outcome: &PageOutcome, ages: Vec<Duration>) {
        let now = self.clock.now();
        self.clocks.page_read();
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

    /// Puts off a route whose page the store refuses; the other routes go on.
    async fn fail_to_store(
        &mut self,
        poller: usize,
        error: &StoreError,
        rate: &RateHeaders,
    ) -> Result<(), StoreError> {
        let now = self.clock.now();
        let id = self.pollers[poller].id().clone();
        let error = ApiError::NotStored(match error {
            StoreError::OtherShop => error.to_string(),
            _ => {
                let cause = std::error::Error::source(error).map(ToString::to_string);
                let cause = cause.unwrap_or_else(|| error.to_string());
                format!(
                    "a page could not be stored and its route waits ({cause}); if this goes on, \
                    stop the daemon and run `shopmirror rebuild`"
                )
            }
        });
        self.pollers[poller].failed(&error, now.elapsed, fastrand::f64());
        let outcome = PollResult::Failed { not_before: now.elapsed + STORE_REFUSED };
        self.schedule.observe(poller, &outcome, now);
        let note = failed_note(word(&error), now, rate);
        let noted = self.store.note_failed_poll(id, note).await;
        self.pause_if_it_passes(noted)
    }

    async fn fail_poll(
        &mut self,
        poller: usize,
        error: ApiError,
        rate: &RateHeaders,
    ) -> Result<(), StoreError> {
        let now = self.clock.now();
        let failure = self.pollers[poller].failed(&error, now.elapsed, fastrand::f64());
        let outcome = PollResult::Failed { not_before: now.elapsed + failure.wait };
        self.schedule.observe(poller, &outcome, now);
        if failure.class == Class::RouteBroken && error.class() != failure.class {
            // The other pollers go on, so no pause looks for the key that this one needs.
            if self.read_changed_key() {
                self.resume();
            }
        }
        if let Some(reason) = PauseReason::of_class(failure.class) {
            let was_paused = self.gate.pause().is_some();
            let is_news = self.gate.close(reason, poller, now.elapsed);
            if is_news {
                log_pause(reason, &error);
            }
            if is_news || !was_paused {
                self.try_changed_key();
            }
        }
        let note = failed_note(word(&error), now, rate);
        let id = self.pollers[poller].id().clone();
        let noted = self.store.note_failed_poll(id, note).await;
        self.pause_if_it_passes(noted)
    }

    /// Pauses polling until the store can be written again; returns when that is tried.
    pub(super) fn pause_for_store(&mut self, error: &StoreError) -> Duration {
        if self.store_pause.is_none() {
            tracing::error!(%error, "polling is paused until the store can be written again");
        }
        let pause = StorePause::new(error, self.clock.now().elapsed);
        self.store_pause.insert(pause).probe_at()
    }

    /// Reads the key during a pause and sends a probe at once if it has changed.
    pub(super) fn try_changed_key(&mut self) {
        if self.read_changed_key() {
            self.gate.probe_now();
        }
    }

    pub(super) fn read_changed_key(&mut self) -> bool {
        let changed = (self.read_key)().is_some_and(|key| self.client.set_key(key));
        if changed {
            self.budget.end_rest();
            tracing::info!("the key has changed: trying the new one");
        }
        changed
    }

    /// Reads the key again and ends every wait that a refusal caused.
    pub(super) fn resume(&mut self) {
        if (self.read_key)().is_some_and(|key| self.client.set_key(key)) {
            self.budget.end_rest();
        }
        let pause = self.gate.open();
        let was_paused = pause.is_some();
        if pause.is_some_and(|pause| pause.is_confirmed()) {
            tracing::info!("polling resumes");
        }
        for poller in 0..self.pollers.len() {
            if was_paused || self.pollers[poller].is_broken() {
                self.pollers[poller].clear_failures();
                self.resume_poller(poller);
            }
        }
    }

    /// Makes a poller due as its schedule says, but not before a time that the server asked for.
    pub(super) fn resume_poller(&mut self, poller: usize) {
        let now = self.clock.now().elapsed;
        self.schedule.wait_until(poller, self.pollers[poller].retry_at(now).unwrap_or(now));
    }
}

fn log_pause(reason: PauseReason, error: &ApiError) {
    tracing::error!(state = reason.as_str(), %error, "polling is paused until this is fixed");
}

fn failed_note(detail: String, now: Moment, rate: &RateHeaders) -> PollNote {
    PollNote {
        outcome: PollOutcome::Failed,
        detail: Some(detail),
        at: stamp(now.wall),
        records: 0,
        created: 0,
        updated: 0,
        overlap: 0,
        latency: rate.latency,
        remaining: rate.remaining,
    }
}
