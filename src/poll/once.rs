//! One poll of every route, for cron and CI: the dispatcher until each route was polled.

use std::collections::VecDeque;

use shopmirror_core::record::PollerId;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Dispatcher;
use super::completed::Completed;
use crate::api::ApiError;
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
        // Whose route the workspace asked to wait is not polled, and counts as failed.
        let now = self.clock.now().elapsed;
        let mut to_poll = VecDeque::from(self.schedule.by_last_request());
        to_poll.retain(|poller| self.pollers[*poller].waits_until(now).is_none());
        self.to_poll = Some(to_poll);
        let (_open, mut no_requests) = mpsc::channel(1);
        self.work(&mut no_requests, stop).await?;
        if let Some(error) = self.hold.as_mut().and_then(|hold| hold.store_error.take()) {
            return Err(error);
        }
        // The error of a hold concerns every poller.
        let common_error = match &self.hold {
            Some(hold) => hold.error.as_ref(),
            None => None,
        };
        let mut failed = Vec::new();
        for poller in &self.pollers {
            if let Some(error) = common_error.or(poller.last_error.as_ref()) {
                failed.push((poller.id.clone(), error.clone()));
            }
        }
        Ok(failed)
    }

    /// Whether a single run has nothing more to do: every route was polled, or none can be.
    pub(super) fn has_ended(&self, in_flight: &JoinSet<Completed>) -> bool {
        let Some(to_poll) = &self.to_poll else {
            return false;
        };
        let is_over = match &self.hold {
            Some(hold) => hold.is_of_store() || hold.is_confirmed(),
            None => to_poll.is_empty(),
        };
        is_over && in_flight.is_empty()
    }
}
