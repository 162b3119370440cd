//! One poll of every route, for cron and CI: the schedule is not asked, the budget is.

use tokio_util::sync::CancellationToken;

use super::Dispatcher;
use super::completed::Completed;
use super::pause::PauseReason;
use crate::api::ApiError;
use crate::budget::Purpose;
use crate::record::PollerId;
use crate::store::StoreError;

impl Dispatcher {
    /// Polls every route once, as fast as the budget allows; returns what failed.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails or cannot be written.
    pub async fn once(
        mut self,
        stop: &CancellationToken,
    ) -> Result<Vec<(PollerId, ApiError)>, StoreError> {
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
        self.save_learned().await?;
        Ok(failed)
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
