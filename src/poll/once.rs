//! One poll of every route, for cron and CI: no schedule decides, only the budget.

use tokio_util::sync::CancellationToken;

use super::{Answer, Dispatcher};
use crate::api::{ApiError, Class};
use crate::budget::Purpose;
use crate::record::PollerId;
use crate::store::StoreError;

impl Dispatcher {
    /// Polls every route once, as fast as the budget allows; returns what failed.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub async fn once(
        mut self,
        stop: &CancellationToken,
    ) -> Result<Vec<(PollerId, ApiError)>, StoreError> {
        let mut failed = Vec::new();
        for index in 0..self.pollers.len() {
            while let Err(at) = self.budget.try_take(Purpose::Poll, self.clock.now()) {
                tokio::select! {
                    () = stop.cancelled() => return Ok(failed),
                    () = tokio::time::sleep_until(self.clock.instant(at)) => {}
                }
            }
            let key = self.pollers[index].key.clone();
            self.schedule.started(index, self.clock.now());
            let asked_after = self.store.seq();
            let (result, rate) = tokio::select! {
                () = stop.cancelled() => return Ok(failed),
                answer = self.client.poll(&key) => answer,
            };
            let error = result.as_ref().err().cloned();
            self.take(Answer::Page { poller: index, asked_after, result, rate }).await?;
            if let Some(pause) = &self.store_pause {
                return Err(if pause.full { StoreError::Full } else { StoreError::Busy });
            }
            if let Some(error) = error {
                let for_all = matches!(
                    error.class(),
                    Class::KeyRefused | Class::KeyForbidden | Class::WrongHost
                );
                failed.push((key, error));
                if for_all {
                    break;
                }
            }
        }
        self.remember().await?;
        Ok(failed)
    }
}
