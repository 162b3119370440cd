//! How the dispatcher asks for the name, and what it keeps of the answer.

use std::time::Duration;

use tokio::task::JoinSet;

use super::{GuardAction, Passage};
use crate::api::{ApiError, Ping};
use crate::budget::Purpose;
use crate::poll::Dispatcher;
use crate::poll::completed::Completed;
use crate::store::{KnownWorkspace, StoreError};

impl Dispatcher {
    /// Sends the ping that tells the workspace's name if it is due; returns when to try again if the budget
    /// has no room for it.
    pub(in crate::poll) fn ask_workspace(
        &mut self,
        under_way: &mut JoinSet<Completed>,
    ) -> Option<Duration> {
        let now = self.clock.now();
        if !self.guard.is_due(now.elapsed, self.last_read()) {
            return None;
        }
        let beside_polls = *self.guard.passage() == Passage::Open;
        if beside_polls && !self.schedule.can_spare(now) {
            return None;
        }
        // Polls that wait for the name may use the whole budget, and so may the ping.
        let purpose = if beside_polls { Purpose::Background } else { Purpose::Poll };
        if let Err(at) = self.budget.try_take(purpose, now) {
            return Some(at);
        }
        self.schedule.spent(now);
        self.guard.started();
        let client = self.client.clone();
        under_way.spawn(async move {
            let (result, rate) = client.integrations_ping().await;
            Completed::Name { result, rate }
        });
        None
    }

    /// When a page was read last.
    pub(in crate::poll) fn last_read(&self) -> Option<Duration> {
        self.pollers.iter().filter_map(|poller| Some(poller.last_success()?.elapsed)).max()
    }

    /// Acts on what a ping told.
    pub(in crate::poll) async fn complete_name(
        &mut self,
        result: Result<Ping, ApiError>,
        key: u64,
    ) -> Result<(), StoreError> {
        let now = self.clock.now();
        let account = self.client.account_of(key);
        match self.guard.answered(result, key, account, now, fastrand::f64()) {
            GuardAction::Nothing => Ok(()),
            GuardAction::Keep(known) => {
                let kept = self.store.keep_workspace(known).await;
                self.pause_if_it_passes(kept)
            }
            GuardAction::Refuse(other) => {
                let kept = self.store.keep_other_workspace(Some(other)).await;
                self.pause_if_it_passes(kept)
            }
            GuardAction::Pause(reason) => {
                self.gate.close(reason, 0, now.elapsed);
                self.try_changed_key();
                Ok(())
            }
        }
    }

    /// Looks whether the operator has corrected the key or accepted the other workspace.
    pub(in crate::poll) async fn look_for_correction(&mut self) -> Result<(), StoreError> {
        self.read_changed_key();
        let now = self.clock.now();
        let known = match self.store.read(|reader| reader.workspace()).await {
            // It is looked for again in a moment.
            Err(error) if error.passes() => return Ok(()),
            known => known?,
        };
        let is_accepted = known != self.guard.known;
        if self.guard.accept(known, &self.client.account(), now) {
            if is_accepted {
                tracing::info!("the workspace is accepted: polling resumes");
            } else {
                tracing::info!("the key leads to the workspace of before again: polling resumes");
            }
            for poller in 0..self.pollers.len() {
                self.resume_poller(poller);
            }
        }
        Ok(())
    }

    /// Removes from the store that another workspace is met, once this is over.
    pub(in crate::poll) async fn forget_other_workspace(&mut self) -> Result<(), StoreError> {
        if !self.guard.has_left_other || self.store_pause.is_some() {
            return Ok(());
        }
        let forgotten = self.store.keep_other_workspace(None).await;
        self.guard.has_left_other = forgotten.is_err();
        self.pause_if_it_passes(forgotten)
    }

    /// Decides for the key of now whether polls may start; true if so.
    pub(in crate::poll) fn may_poll(&mut self) -> bool {
        let now = self.clock.now();
        let client = &self.client;
        self.guard.follow(client.key_number(), || client.account(), now);
        *self.guard.passage() == Passage::Open
    }
}

/// What the guard has to know when a dispatcher starts. What was said of another workspace is over if the
/// address and key are again those of before, or others than those that led to it.
pub(in crate::poll) async fn known_workspace(
    store: &crate::store::Store,
    account: &str,
) -> Result<Option<KnownWorkspace>, StoreError> {
    let (known, other) =
        store.read(|reader| Ok((reader.workspace()?, reader.other_workspace()?))).await?;
    let is_back = known.as_ref().is_none_or(|known| known.is_of(account));
    if other.is_some_and(|other| is_back || other.account != account) {
        match store.keep_other_workspace(None).await {
            Err(error) if !error.passes() => return Err(error),
            _ => {}
        }
    }
    Ok(known)
}
