//! One poll of every route, for cron and CI: the schedule is not asked, the budget is.

use tokio_util::sync::CancellationToken;

use super::Dispatcher;
use super::completed::Completed;
use super::pause::PauseReason;
use super::poller::PollerHealth;
use super::workspace::{Passage, TELLS_NO_NAME};
use crate::api::{ApiError, Class};
use crate::budget::Purpose;
use crate::record::PollerId;
use crate::store::StoreError;

const INTERRUPTED: &str = "the run was interrupted";

impl Dispatcher {
    /// Polls every route once, as fast as the budget allows; returns what failed.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails or cannot be written.
    pub async fn once(
        mut self,
        stop: &CancellationToken,
    ) -> Result<Vec<(PollerId, ApiError)>, StoreError> {
        self.start_cycle().await?;
        let polled = self.poll_each(stop).await;
        self.end_sending().await?;
        polled
    }

    async fn poll_each(
        &mut self,
        stop: &CancellationToken,
    ) -> Result<Vec<(PollerId, ApiError)>, StoreError> {
        if let Some(error) = self.confirm_workspace(stop).await? {
            return Ok(self.all_failed(&error));
        }
        let mut failed = Vec::new();
        for poller in 0..self.pollers.len() {
            if self.wait_for_budget(stop).await.is_none() {
                return Ok(failed);
            }
            let id = self.pollers[poller].id().clone();
            let now = self.clock.now();
            self.schedule.started(poller, now);
            self.pollers[poller].started(now.elapsed);
            let asked_after = self.store.seq();
            let (result, rate) = tokio::select! {
                () = stop.cancelled() => return Ok(failed),
                answered = self.client.poll_body(&id) => answered,
            };
            if result.is_ok()
                && let Some(error) = self.confirm_page(stop).await?
            {
                return Ok(self.all_failed(&error));
            }
            self.complete(Completed::Poll { poller, asked_after, result, rate }).await?;
            if let Some(pause) = &self.store_pause {
                return Err(match pause.reason() {
                    PauseReason::DiskFull => StoreError::Full,
                    _ => StoreError::Busy,
                });
            }
            if let Some(error) = self.pollers[poller].last_error().cloned() {
                let concerns_all = PauseReason::of_class(error.class()).is_some();
                failed.push((id, error));
                if concerns_all && !self.is_key_accepted(stop).await? {
                    break;
                }
            }
        }
        self.read_name(stop).await?;
        Ok(failed)
    }

    fn all_failed(&self, error: &ApiError) -> Vec<(PollerId, ApiError)> {
        let of_each = |poller: &PollerHealth| (poller.id().clone(), error.clone());
        self.pollers.iter().map(of_each).collect()
    }

    /// Asks for the workspace's name if polls have to wait for it; returns why nothing may be polled. An
    /// answer without a name holds nothing back here: the first page shows whether the key is accepted.
    async fn confirm_workspace(
        &mut self,
        stop: &CancellationToken,
    ) -> Result<Option<ApiError>, StoreError> {
        if self.may_poll() {
            return Ok(None);
        }
        let failure = self.ask_name(stop).await?;
        // The key may be another one since then.
        if self.may_poll() {
            return Ok(None);
        }
        if let Passage::Closed(other) = self.guard.passage() {
            return Ok(Some(ApiError::OtherWorkspace(other.to_string())));
        }
        Ok(match failure {
            Some(error) if error.class() == Class::Busy || stop.is_cancelled() => Some(error),
            failure => {
                let why = failure.map_or_else(|| TELLS_NO_NAME.to_owned(), |why| why.to_string());
                self.guard.go_on(&why, self.clock.now().elapsed);
                None
            }
        })
    }

    /// Asks once more with the first page of a workspace whose name could not be read, before the page is
    /// stored: it is the workspace that answers by now. Returns why the page may not be stored.
    async fn confirm_page(
        &mut self,
        stop: &CancellationToken,
    ) -> Result<Option<ApiError>, StoreError> {
        if !self.guard.is_unchecked() || self.last_read().is_some() {
            return Ok(None);
        }
        let failure = self.ask_name(stop).await?;
        Ok(match self.guard.passage() {
            Passage::Closed(other) => Some(ApiError::OtherWorkspace(other.to_string())),
            _ => failure.filter(|error| error.class() == Class::Busy || stop.is_cancelled()),
        })
    }

    /// Reads the name of the workspace if it was not read for a day.
    async fn read_name(&mut self, stop: &CancellationToken) -> Result<(), StoreError> {
        let now = self.clock.now();
        // Nothing waits for it, so the run does not wait for a full budget.
        if self.guard.is_due(now.elapsed, self.last_read())
            && self.budget.try_take(Purpose::Poll, now).is_ok()
        {
            self.send_name_ping(stop).await?;
        }
        Ok(())
    }

    /// Sends the ping that tells the name; returns its error.
    async fn ask_name(&mut self, stop: &CancellationToken) -> Result<Option<ApiError>, StoreError> {
        if self.wait_for_budget(stop).await.is_none() {
            return Ok(Some(ApiError::Unsendable(INTERRUPTED)));
        }
        self.send_name_ping(stop).await
    }

    async fn send_name_ping(
        &mut self,
        stop: &CancellationToken,
    ) -> Result<Option<ApiError>, StoreError> {
        self.guard.started();
        let (result, rate) = tokio::select! {
            () = stop.cancelled() => return Ok(Some(ApiError::Unsendable(INTERRUPTED))),
            answered = self.client.integrations_ping() => answered,
        };
        let failure = result.as_ref().err().cloned();
        self.complete(Completed::Name { result, rate }).await?;
        Ok(failure)
    }

    /// Waits until a request may be sent; `None` if stopped meanwhile.
    async fn wait_for_budget(&mut self, stop: &CancellationToken) -> Option<()> {
        while let Err(at) = self.budget.try_take(Purpose::Poll, self.clock.now()) {
            tokio::select! {
                () = stop.cancelled() => return None,
                () = tokio::time::sleep_until(self.clock.instant(at)) => {}
            }
        }
        Some(())
    }

    /// Asks whether a refusal concerns one route only: then the workspace still answers a ping.
    async fn is_key_accepted(&mut self, stop: &CancellationToken) -> Result<bool, StoreError> {
        if self.wait_for_budget(stop).await.is_none() {
            return Ok(false);
        }
        let (result, rate) = tokio::select! {
            () = stop.cancelled() => return Ok(false),
            answered = self.client.automation_ping() => answered,
        };
        self.complete(Completed::Probe { result, rate }).await?;
        Ok(self.gate.pause().is_none())
    }
}
