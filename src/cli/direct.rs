//! How a command reaches the workspace: through the running daemon, whose budget it then shares, or
//! directly if no daemon runs.

use std::time::Duration;

use serde::de::DeserializeOwned;

use super::current_status::decoded;
use super::exit::{ExitError, TRY_AGAIN};
use super::output;
use crate::api::{ApiError, Client, RateHeaders};
use crate::budget::{Budget, Purpose};
use crate::clock::Clock;
use crate::config::Config;
use crate::control::{
    self, ControlError, ControlReply, ControlRequest, SearchRequest, SearchResult,
};
use crate::poll;
use crate::store::Store;

/// How long a command waits before it says what it waits for.
const SILENCE: Duration = Duration::from_secs(2);

/// A client of the workspace with a budget of its own, for use while no daemon runs.
pub(super) struct DirectClient {
    client: Client,
    budget: Budget,
    clock: Clock,
}

impl DirectClient {
    pub(super) fn new(config: &Config) -> anyhow::Result<Self> {
        let clock = Clock::system();
        Ok(Self::with(crate::daemon::client(config, clock.clone())?, clock, config))
    }

    pub(super) fn with(client: Client, clock: Clock, config: &Config) -> Self {
        let budget = Budget::new(config.budget, clock.now());
        Self { client, budget, clock }
    }

    /// Makes one request as soon as the budget allows it.
    pub(super) async fn request<T>(
        &mut self,
        request: impl AsyncFnOnce(&Client) -> (Result<T, ApiError>, RateHeaders),
    ) -> Result<T, ApiError> {
        while let Err(at) = self.budget.try_take(Purpose::Poll, self.clock.now()) {
            tokio::time::sleep_until(self.clock.instant(at)).await;
        }
        let (result, rate) = request(&self.client).await;
        self.budget.observe(&poll::seen(&rate), self.clock.now());
        result
    }

    /// Searches customers and stores what the request says. The inner error is the workspace's.
    pub(super) async fn search(
        &mut self,
        store: Option<&Store>,
        request: SearchRequest,
    ) -> anyhow::Result<Result<SearchResult, ApiError>> {
        let searched_after = store.map_or(0, Store::seq);
        let (term, business) = (request.term.clone(), request.business.clone());
        let page =
            self.request(async |client| client.search_customers(&term, business.as_deref()).await);
        match page.await {
            Ok(page) => {
                Ok(Ok(request.keep(page, store, searched_after, self.clock.now().wall).await?))
            }
            Err(error) => Ok(Err(error)),
        }
    }
}

/// As [`through_daemon`], and says what it waits for if that takes some time.
pub(super) async fn ask_daemon<T: DeserializeOwned>(
    config: &Config,
    request: &ControlRequest,
) -> anyhow::Result<Option<ControlReply<T>>> {
    let reply = through_daemon(config, request);
    tokio::pin!(reply);
    tokio::select! {
        reply = &mut reply => return reply,
        () = tokio::time::sleep(SILENCE) => {}
    }
    output::aside("waiting for a free request in the rate budget (usually under a minute)");
    reply.await
}

/// Sends a request to the daemon; `None` if no daemon runs.
pub(super) async fn through_daemon<T: DeserializeOwned>(
    config: &Config,
    request: &ControlRequest,
) -> anyhow::Result<Option<ControlReply<T>>> {
    match control::send(&config.store.path, request).await {
        Ok(reply) => Ok(Some(decoded(&reply)?)),
        Err(ControlError::NotRunning) => Ok(None),
        Err(error @ ControlError::NotListening(_)) => {
            Err(ExitError { code: TRY_AGAIN, text: error.to_string() }.into())
        }
        Err(ControlError::NoReply(_)) => Err(ExitError {
            code: TRY_AGAIN,
            text: "the daemon runs but did not reply: its polls use the whole budget, or it is paused; see `shopmirror status`, then try again".to_owned(),
        }
        .into()),
    }
}

/// The result in a reply, or its error with the exit code.
pub(super) fn result_of<T>(reply: ControlReply<T>) -> anyhow::Result<T> {
    match reply {
        ControlReply::Done(result) => Ok(result),
        ControlReply::Failed { code, text, .. } => Err(ExitError { code, text }.into()),
    }
}
