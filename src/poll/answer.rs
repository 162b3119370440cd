//! What the dispatcher makes of each answer: what is stored, learned, told, and paused.

use super::gate::{self, Halt};
use super::poller::{outcome_of, word};
use super::{Answer, BUSY, DISK_PROBE, Dispatcher, LOCK_PROBE, StorePause};
use crate::api::{ApiError, Class, Rate, Retry};
use crate::budget::Seen;
use crate::clock::stamp;
use crate::record::Page;
use crate::schedule::Outcome;
use crate::store::{PollFacts, PollNote, PollOutcome, StoreError};

/// What the budget learns from an answer. A `Retry-After` of any other refusal than a 429 is about
/// the route alone.
#[must_use]
pub fn seen(rate: &Rate) -> Seen {
    Seen {
        limit: rate.limit,
        remaining: rate.remaining,
        refused: rate.refused,
        retry_after: rate.retry_after.filter(|_| rate.refused),
    }
}

impl Dispatcher {
    pub(super) async fn take(&mut self, answer: Answer) -> Result<(), StoreError> {
        match answer {
            Answer::Probe { result, rate } => {
                self.observe_rate(&rate);
                let now = self.clock.now();
                match result {
                    Ok(_) => {
                        if let Some(poller) = self.gate.closed_by() {
                            self.pollers[poller].refused_alone = true;
                        }
                        self.resume();
                    }
                    Err(error) => {
                        let halt = Halt::of(error.class());
                        self.gate.probe_failed(halt, now.elapsed, fastrand::f64());
                    }
                }
                Ok(())
            }
            Answer::Background { rate } => {
                self.background.came_back();
                self.observe_rate(&rate);
                Ok(())
            }
            Answer::Page { poller, asked_after, result: Ok(page), rate } => {
                self.observe_rate(&rate);
                self.store_page(poller, asked_after, page, &rate).await
            }
            Answer::Page { poller, result: Err(error), rate, .. } => {
                self.observe_rate(&rate);
                self.failed(poller, error, &rate).await
            }
        }
    }

    fn observe_rate(&mut self, rate: &Rate) {
        let now = self.clock.now();
        self.clocks.compare(rate.server_time, now);
        self.budget.observe(&seen(rate), now);
        self.budget.set_needed(self.schedule.needed_per_minute());
        self.schedule.set_pace(self.budget.snapshot(now).pace_per_minute);
    }

    async fn store_page(
        &mut self,
        poller: usize,
        asked_after: i64,
        page: Page,
        rate: &Rate,
    ) -> Result<(), StoreError> {
        let now = self.clock.now();
        let key = self.pollers[poller].key.clone();
        let facts = PollFacts {
            at: now.wall,
            asked_after,
            limit: self.limit,
            latency: rate.latency,
            remaining: rate.remaining,
            served_business: rate.business.map(|id| id.to_string()),
        };
        let learned = self.schedule.learned(poller);
        let stored = match self.store.store_page(key, page, facts, learned).await {
            Ok(stored) => stored,
            Err(error) if error.passes() => {
                self.wait_for_store(&error);
                let outcome = Outcome::Failed { not_before: now.elapsed + DISK_PROBE };
                self.schedule.observe(poller, &outcome, now);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.pollers[poller].succeeded(now, &stored);
        self.schedule.observe(poller, &outcome_of(&stored), self.clock.now());
        Ok(())
    }

    async fn failed(
        &mut self,
        poller: usize,
        error: ApiError,
        rate: &Rate,
    ) -> Result<(), StoreError> {
        let now = self.clock.now();
        let standing = &mut self.pollers[poller];
        // A ping was answered since this poller stopped all: the refusal is this route's own.
        let class = match error.class() {
            Class::KeyRefused | Class::KeyForbidden | Class::WrongHost
                if standing.refused_alone =>
            {
                Class::RouteBroken
            }
            class => class,
        };
        standing.failed(&error, class);
        let wait = match class {
            // A route that is missing while the workspace is renewed is back within minutes.
            Class::RouteBroken => gate::rest(standing.refusals - 1, fastrand::f64()),
            _ => {
                let asked = match error.retry() {
                    Retry::After(wait) => Some(wait),
                    Retry::Backoff | Retry::Never => None,
                };
                BUSY.wait(standing.failures, fastrand::f64(), asked)
            }
        };
        let key = standing.key.clone();
        let note = PollNote {
            outcome: PollOutcome::Failed,
            detail: Some(word(&error)),
            at: stamp(now.wall),
            records: 0,
            created: 0,
            updated: 0,
            overlap: 0,
            latency: rate.latency,
            remaining: rate.remaining,
        };
        let outcome = Outcome::Failed { not_before: now.elapsed + wait };
        self.schedule.observe(poller, &outcome, now);
        // The gate stays open for the others, so nothing else looks for the key that may mend it.
        if class == Class::RouteBroken && error.class() != class {
            self.take_new_key();
        }
        if let Some(halt) = Halt::of(class)
            && self.gate.close(halt, poller, now.elapsed)
        {
            tracing::error!(state = halt.as_str(), %error, "every poller is paused until this is mended");
            self.look_for_new_key();
        }
        match self.store.note_failed_poll(key, note).await {
            Err(error) if error.passes() => self.wait_for_store(&error),
            Err(error) => return Err(error),
            Ok(()) => {}
        }
        Ok(())
    }

    /// Pauses polling until the store can be written again.
    pub(super) fn wait_for_store(&mut self, error: &StoreError) {
        if self.store_pause.is_none() {
            tracing::error!(%error, "polling pauses until the store can be written again");
        }
        let full = matches!(error, StoreError::Full);
        let wait = if full { DISK_PROBE } else { LOCK_PROBE };
        let until = self.clock.now().elapsed + wait;
        self.store_pause = Some(StorePause { until, why: error.to_string(), full });
    }

    /// A key that differs from the refused one is tried at once.
    pub(super) fn look_for_new_key(&mut self) {
        if self.read_new_key() {
            self.gate.probe_now();
        }
    }

    /// A key that differs from the one a route refused is tried on all routes that refuse.
    fn take_new_key(&mut self) {
        if self.read_new_key() {
            self.resume();
        }
    }

    fn read_new_key(&mut self) -> bool {
        let changed = (self.read_key)().is_some_and(|key| self.client.set_key(key));
        if changed {
            tracing::info!("the key has changed: trying it");
        }
        changed
    }

    pub(super) fn resume(&mut self) {
        if let Some(key) = (self.read_key)() {
            self.client.set_key(key);
        }
        let now = self.clock.now();
        let was_closed = self.gate.open();
        if was_closed {
            tracing::info!("polling goes on");
        }
        for (index, poller) in self.pollers.iter_mut().enumerate() {
            if was_closed || poller.refusals > 0 {
                poller.failures = 0;
                poller.refusals = 0;
                self.schedule.resume(index, now);
            }
        }
    }
}
