//! What the dispatcher does with each completed request: what it stores, learns, logs and pauses.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use shopmirror_core::budget::{KeyReading, LONG_REST};
use shopmirror_core::record::Page;
use shopmirror_core::schedule::PollResult;

use super::hold::{Hold, reason_of};
use super::poller::outcome_of;
use super::{Dispatcher, NOTED_REQUESTS};
use crate::api::{ApiError, PageError, Ping, RateHeaders};
use crate::store::{PageOutcome, PollFacts, RouteRest, StoreError};

/// How long the store has to take every page until the journal says that it can be written again.
const STORE_WORKS_AFTER: Duration = Duration::from_secs(60);

/// A request that was answered or has failed.
pub(super) enum Completed {
    /// A poll.
    Poll {
        poller: usize,
        asked_after: i64,
        result: Result<Arc<Page>, ApiError>,
        rate: RateHeaders,
    },
    /// A ping, which tells whether the key is accepted and the name of the workspace.
    Ping {
        result: Result<Ping, ApiError>,
        rate: RateHeaders,
    },
    /// A background request, whose caller has its result already; nothing is known if it has gone
    /// away.
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
            Completed::Poll {
                poller,
                asked_after,
                result,
                rate,
            } => {
                let (result, rate) = self.unless_repeated(poller, result, rate);
                self.observe_rate(&rate).await;
                if self.verified != Some(rate.key) {
                    // The key has changed, and it is not known yet whose workspace this one reads.
                    self.poll_again(poller);
                    return Ok(());
                }
                match result {
                    Ok(page) => {
                        self.complete_poll(poller, asked_after, page, &rate).await?;
                    }
                    Err(error) => {
                        self.fail_poll(poller, &error);
                        self.note_rest(poller, &error).await;
                    }
                }
                self.note_handled(poller).await;
                Ok(())
            }
        }
    }

    /// Notes for a later process that this one lived on after a poll.
    async fn note_handled(&self, poller: usize) {
        let poller = &self.pollers[poller];
        if poller.sent > NOTED_REQUESTS {
            return;
        }
        if let Err(error) = self.store.note_handled(poller.id.clone()).await {
            tracing::debug!(poller = %poller.id, %error, "the next process may begin with it again");
        }
    }

    /// Notes for a later process what the workspace asked a route to wait.
    async fn note_rest(&self, poller: usize, error: &ApiError) {
        let now = self.clock.now();
        let poller = &self.pollers[poller];
        let (Some(until), ApiError::Status { status, .. }) =
            (poller.waits_until(now.elapsed), error)
        else {
            return;
        };
        let Ok(until) = now.wall.checked_add(until.saturating_sub(now.elapsed)) else {
            return;
        };
        let rest = RouteRest {
            account: self.client.account(),
            until,
            status: *status,
        };
        if let Err(error) = self
            .store
            .note_rest(poller.id.clone(), now.wall, rest)
            .await
        {
            tracing::debug!(%error, "a restart will not know how long the workspace asked to wait");
        }
    }

    /// Repeats a poll whose response is not used.
    fn poll_again(&mut self, poller: usize) {
        let now = self.clock.now();
        if let Some(to_poll) = &mut self.to_poll {
            to_poll.push_back(poller);
        }
        self.schedule.observe(
            poller,
            &PollResult::Failed {
                not_before: now.elapsed,
            },
            now,
        );
    }

    /// The result of a poll and what its headers say, unless a cache has repeated the page: then its
    /// time and what was left of the key are of long ago.
    fn unless_repeated(
        &mut self,
        poller: usize,
        result: Result<Arc<Page>, ApiError>,
        rate: RateHeaders,
    ) -> (Result<Arc<Page>, ApiError>, RateHeaders) {
        let Ok(page) = &result else {
            return (result, rate);
        };
        let now = self.clock.now().elapsed;
        match self.pollers[poller].repeated_for(page, rate.server_time, now) {
            Some(ago) => {
                let error = ApiError::page(PageError::Cached(ago.as_secs()));
                (Err(error), rate.of_somebody_between())
            }
            None => (result, rate),
        }
    }

    async fn observe_rate(&mut self, rate: &RateHeaders) {
        let now = self.clock.now();
        if let Some(server) = rate.server_time {
            self.clocks.compare(server, now);
        }
        if rate.key < self.client.key_number() {
            // What is left of that key, and how long it has to wait, does not concern this one.
            return;
        }
        // Requests that were under way together are refused together.
        let was_resting = self
            .budget
            .resting(now)
            .is_some_and(|rest| rest >= LONG_REST);
        self.budget.observe(&seen(rate), now);
        self.budget.set_needed(self.schedule.needed_per_minute());
        self.schedule
            .set_pace(self.budget.pace_per_minute(now), now);
        if !rate.refused {
            return;
        }
        let Some(rest) = self.budget.resting(now) else {
            return;
        };
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
        page: Arc<Page>,
        rate: &RateHeaders,
    ) -> Result<(), StoreError> {
        let now = self.clock.now();
        let since_request = now.elapsed.saturating_sub(self.pollers[poller].started_at);
        let facts = PollFacts {
            at: now.wall,
            asked_after,
            limit: self.limit,
            page_age: since_request + rate.age,
            served_business: rate.business.map(|id| id.to_string()),
        };
        self.pollers[poller].keep_page(&page);
        let id = self.pollers[poller].id.clone();
        let learned = self.schedule.learned(poller);
        let stored = self
            .store
            .store_page(id, Arc::clone(&page), facts, Some(learned))
            .await;
        match stored {
            Ok(outcome) => {
                let server_time = rate.server_time.unwrap_or(now.wall);
                if rate.server_time.is_none() {
                    // A workspace that names no time cannot be compared with.
                    self.clocks.compare(server_time, now);
                }
                self.succeed(poller, &outcome, &page, server_time);
            }
            Err(error) if error.is_transient() => {
                let not_before = self.pause_for_store(error);
                self.schedule
                    .observe(poller, &PollResult::Failed { not_before }, now);
            }
            Err(error) if error.is_of_one_route() => {
                // The other routes continue.
                self.fail_poll(poller, &not_stored(&error));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn succeed(
        &mut self,
        poller: usize,
        outcome: &PageOutcome,
        page: &Page,
        server_time: Timestamp,
    ) {
        let now = self.clock.now();
        // A disk that is almost full takes some pages and refuses others.
        if self
            .store_refused_at
            .is_some_and(|at| at + STORE_WORKS_AFTER <= now.elapsed)
        {
            self.store_refused_at = None;
            // At the priority of the pause, so that who reads only errors sees its end.
            tracing::error!("the store can be written again: polling resumes");
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
        let mut limit = self.limit;
        if let Some(records) = outcome.server_limit {
            limit = limit.min(u32::try_from(records).unwrap_or(limit));
        }
        self.schedule.set_limit(poller, limit);
        self.schedule
            .observe(poller, &outcome_of(outcome, page, server_time), now);
    }

    fn fail_poll(&mut self, poller: usize, error: &ApiError) {
        let now = self.clock.now();
        let wait = self.pollers[poller].failed(error, now.elapsed, fastrand::f64());
        let outcome = PollResult::Failed {
            not_before: now.elapsed + wait,
        };
        self.schedule.observe(poller, &outcome, now);
        if reason_of(error).is_none() {
            return;
        }
        // Unless a ping has shown that the route alone is refused, one shows whether the key is.
        if self.hold.is_none() && !self.pollers[poller].is_broken() {
            self.hold = Hold::for_poll(poller, error, now.elapsed, fastrand::f64());
            // A single run does not wait to try it.
            if let Some(hold) = &mut self.hold
                && self.to_poll.is_some()
            {
                hold.until = now.elapsed;
            }
        }
        self.try_changed_key();
    }

    /// Pauses polling until the store can be written again; returns when that is tried.
    pub(super) fn pause_for_store(&mut self, error: StoreError) -> Duration {
        let now = self.clock.now().elapsed;
        if self.store_refused_at.replace(now).is_none() {
            tracing::error!(%error, "polling is paused until the store can be written again");
        }
        self.hold.insert(Hold::for_store(error, now)).until
    }

    /// Reads the key, and takes it up if it has changed: a ping with it comes first.
    pub(super) fn try_changed_key(&mut self) {
        if !(self.read_key)().is_some_and(|key| self.client.set_key(key)) {
            return;
        }
        tracing::info!("the key has changed: trying the new one");
        self.verified = None;
        self.budget.end_rest();
        let now = self.clock.now().elapsed;
        self.hold.get_or_insert_with(|| Hold::new(now));
        self.end_waits();
    }

    /// Ends every wait that a refusal caused.
    pub(super) fn end_waits(&mut self) {
        let now = self.clock.now().elapsed;
        if let Some(hold) = self.hold.as_mut().filter(|hold| !hold.is_of_store()) {
            hold.until = now;
        }
        for poller in 0..self.pollers.len() {
            if self.pollers[poller].is_broken() {
                self.pollers[poller].clear_failures();
                self.resume_poller(poller);
            }
        }
    }

    /// Makes a poller due as its schedule says, but not before a time that the server asked for.
    pub(super) fn resume_poller(&mut self, poller: usize) {
        let now = self.clock.now().elapsed;
        self.schedule
            .wait_until(poller, self.pollers[poller].waits_until(now).unwrap_or(now));
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

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use shopmirror_core::budget::Budget;
    use shopmirror_core::clock::Clock;
    use shopmirror_core::record::{PollerId, Route};
    use shopmirror_core::schedule::PollerSettings;

    use super::*;
    use crate::api::{ApiRequest, ApiResponse, Client, Transport, TransportError, decode};
    use crate::config::{Base, Config};
    use crate::poll::hold::tests::{challenge, refusal};
    use crate::poll::{PauseReason, PollerPlan};
    use crate::store::{Store, StoredWorkspace};

    /// The test sends nothing: it makes the responses itself.
    struct NoNetwork;

    #[async_trait]
    impl Transport for NoNetwork {
        async fn send(&self, _: ApiRequest) -> Result<ApiResponse, TransportError> {
            Err(TransportError::Timeout)
        }
    }

    /// A dispatcher of one poller, and the store that it fills.
    async fn of_jobs(folder: &std::path::Path) -> (Dispatcher, Store) {
        let base = Base {
            dir: folder.to_owned(),
            env_key: Some("the first key".to_owned().into()),
            ..Base::default()
        };
        let text = "[workspace]\nbase_url = \"http://127.0.0.1:9/api\"\n";
        let config = Config::parse(text, "shopmirror.toml", &base).unwrap();
        let clock = Clock::starting_at("2026-05-06T08:00:00Z".parse().unwrap());
        let key = "the first key".to_owned().into();
        let transport = Arc::new(NoNetwork);
        let client = Client::new(
            &config.workspace,
            &config.poll,
            transport,
            key,
            clock.clone(),
        );
        let store = Store::open(&folder.join("mirror.db")).unwrap();
        let budget = Budget::new(config.budget, clock.now());
        let plan = PollerPlan {
            id: PollerId {
                route: Route::Jobs,
                business: None,
            },
            settings: PollerSettings {
                limit: 100,
                min_interval: Duration::from_secs(10),
                max_interval: Duration::from_secs(90),
            },
        };
        let dispatcher = Dispatcher::new(client.clone(), store.clone(), clock, budget)
            .configured(client, config.budget, vec![plan], Arc::new(|| None))
            .await
            .unwrap();
        (dispatcher, store)
    }

    /// A page of one job that was read with the key of this number.
    fn page_read_with(key: u64) -> Completed {
        let body = r#"[{"id":7,"created_at":"2026-05-06T07:59:00.000000Z"}]"#;
        Completed::Poll {
            poller: 0,
            asked_after: 0,
            result: Ok(Arc::new(decode(body.into()).unwrap())),
            rate: RateHeaders {
                key,
                ..RateHeaders::default()
            },
        }
    }

    #[tokio::test]
    async fn a_page_that_a_new_key_read_is_not_stored_before_its_workspace_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let (mut dispatcher, store) = of_jobs(folder.path()).await;
        let first = dispatcher.client.key_number();
        dispatcher.verified = Some(first);
        assert!(dispatcher.client.set_key("another key".to_owned().into()));
        let second = dispatcher.client.key_number();

        dispatcher.complete(page_read_with(second)).await.unwrap();
        assert_eq!(store.seq(), 0, "it may be another shop's");

        dispatcher.verified = Some(second);
        dispatcher.complete(page_read_with(second)).await.unwrap();
        assert_eq!(store.seq(), 1, "it is the shop's own");
    }

    /// A poll that failed so.
    fn poll(error: ApiError) -> Completed {
        Completed::Poll {
            poller: 0,
            asked_after: 0,
            result: Err(error),
            rate: RateHeaders::default(),
        }
    }

    /// A ping that was answered so.
    fn ping(result: Result<Option<&str>, ApiError>) -> Completed {
        let result = result.map(|workspace| Ping {
            status: "connected".to_owned(),
            workspace: workspace.map(str::to_owned),
            provider: None,
        });
        Completed::Ping {
            result,
            rate: RateHeaders::default(),
        }
    }

    #[tokio::test]
    async fn another_workspace_is_not_read_whatever_answers_meanwhile_until_a_name_shows_it() {
        for meanwhile in [challenge(), refusal(401), refusal(503)] {
            let folder = tempfile::tempdir().unwrap();
            let (mut dispatcher, _store) = of_jobs(folder.path()).await;
            dispatcher.stored_workspace = Some(StoredWorkspace {
                name: "North".to_owned(),
                account: "another key".to_owned(),
                at: Timestamp::UNIX_EPOCH,
            });
            let bad_page = ApiError::page(PageError::OtherBusiness);
            for pinged in [
                Ok(Some("South")),
                Err(meanwhile.clone()),
                Err(refusal(404)),
                Err(bad_page),
                Ok(None),
            ] {
                dispatcher.complete(ping(pinged.clone())).await.unwrap();
                assert_eq!(dispatcher.verified, None, "{meanwhile}, then {pinged:?}");
            }
            let reason = dispatcher.hold.as_ref().unwrap().reason();
            assert_eq!(reason, Some(PauseReason::OtherWorkspace), "{meanwhile}");
            dispatcher.complete(ping(Ok(Some("North")))).await.unwrap();
            assert!(dispatcher.verified.is_some(), "{meanwhile}");
        }
    }

    #[tokio::test]
    async fn a_key_is_proven_good_by_a_ping_that_it_opened_only() {
        for (held_by, pinged, is_held) in [
            (challenge(), Err(refusal(404)), true),
            (challenge(), Ok(None), true),
            (refusal(401), Ok(None), false),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let (mut dispatcher, _store) = of_jobs(folder.path()).await;
            dispatcher.complete(ping(Ok(None))).await.unwrap();
            dispatcher.complete(poll(held_by.clone())).await.unwrap();
            dispatcher.complete(ping(pinged)).await.unwrap();
            assert!(dispatcher.hold.is_none(), "{held_by}");
            dispatcher.complete(poll(refusal(401))).await.unwrap();
            assert_eq!(dispatcher.hold.is_some(), is_held, "{held_by}");
        }
    }

    #[tokio::test]
    async fn a_page_that_a_cache_repeats_moves_neither_the_clock_nor_the_budget() {
        let folder = tempfile::tempdir().unwrap();
        let (mut dispatcher, _store) = of_jobs(folder.path()).await;
        dispatcher.complete(ping(Ok(None))).await.unwrap();
        let page = Arc::new(decode(b"[]".to_vec()).unwrap());
        let date = dispatcher.clock.now().wall;
        let read = |remaining| Completed::Poll {
            poller: 0,
            asked_after: 0,
            result: Ok(Arc::clone(&page)),
            rate: RateHeaders {
                server_time: Some(date),
                limit: Some(remaining),
                ..RateHeaders::default()
            },
        };
        tokio::time::pause();
        dispatcher.complete(read(50)).await.unwrap();
        tokio::time::advance(Duration::from_secs(300)).await;
        dispatcher.complete(read(7)).await.unwrap();
        assert_eq!(dispatcher.pollers[0].refused_pages, 1);
        assert_eq!(dispatcher.clocks.ahead_s(), None);
        let pace = dispatcher.budget.pace_per_minute(dispatcher.clock.now());
        assert!(pace > 7.0, "{pace}");
    }
}
