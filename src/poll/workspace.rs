//! Whose workspace the address and the key lead to: a ping tells its name before anything is
//! polled, at the start and when the key has changed.
//!
//! While the address and the key are those of before, so is the workspace, and its name is only
//! renewed. Behind another name nothing is read until the operator has corrected the address or the
//! key, or has accepted the name. A workspace that tells no name holds nothing back.

use std::time::Duration;

use shopmirror_core::budget::Purpose;
use tokio::task::JoinSet;

use super::Dispatcher;
use super::completed::Completed;
use super::hold::{Hold, PauseReason};
use crate::api::{ApiError, Class, Ping};
use crate::store::{Kept, StoreError, judge_workspace, word};

impl Dispatcher {
    /// Sends the ping that ends the hold, if it is due; returns when to try again if the budget has
    /// no room.
    pub(super) fn start_ping(&mut self, under_way: &mut JoinSet<Completed>) -> Option<Duration> {
        let now = self.clock.now();
        let hold = self.hold.as_mut().filter(|hold| !hold.is_of_store())?;
        if hold.until > now.elapsed {
            return None;
        }
        if let Err(at) = self.budget.try_take(Purpose::Poll, now) {
            return Some(at);
        }
        hold.ping_sent(now.elapsed);
        self.schedule.spent(now);
        let client = self.client.clone();
        under_way.spawn(async move {
            let (result, rate) = client.automation_ping().await;
            Completed::Ping { result, rate }
        });
        None
    }

    /// Acts on what a ping told.
    pub(super) async fn complete_ping(
        &mut self,
        result: Result<Ping, ApiError>,
        key: u64,
    ) -> Result<(), StoreError> {
        // An answer for the previous key says nothing of this one.
        let account = self.client.account_of(key);
        let hold = self.hold.as_ref().filter(|hold| !hold.is_of_store());
        let (Some(account), Some(hold)) = (account, hold) else {
            return Ok(());
        };
        let known = self.known.as_ref();
        // Without a known workspace there is nothing to compare with.
        let is_changed = known.is_some_and(|known| !known.is_of(&account));
        let told = match result {
            Ok(ping) => Ok(ping.workspace.filter(|name| !name.trim().is_empty())),
            Err(error) if hold.reason().is_none() && tells_nothing(&error, is_changed) => Ok(None),
            Err(error) => Err(error),
        };
        let kept = match told {
            Ok(Some(name)) => match judge_workspace(known, account, &name, self.clock.now().wall) {
                Ok(read) => {
                    let kept = self.store.keep(Kept::WORKSPACE, &read).await;
                    // A name that could not be kept is read again.
                    if kept.is_ok() {
                        self.known = Some(read);
                        self.end_hold();
                    }
                    kept
                }
                Err(other) => {
                    self.ping_failed(&ApiError::OtherWorkspace(other.to_string()));
                    self.store.keep(Kept::OTHER_WORKSPACE, &other).await
                }
            },
            // The next ping may tell it again.
            Ok(None) if is_changed && hold.reason() == Some(PauseReason::OtherWorkspace) => Ok(()),
            Ok(None) => {
                if is_changed {
                    tracing::warn!(
                        "the address or the key has changed, and the workspace's name cannot be compared with the one of before: if they lead to another shop now, stop shopmirror and correct them"
                    );
                }
                self.end_hold();
                Ok(())
            }
            Err(error) => {
                self.ping_failed(&error);
                Ok(())
            }
        };
        self.pause_if_transient(kept)
    }

    fn ping_failed(&mut self, error: &ApiError) {
        let now = self.clock.now().elapsed;
        let Some(hold) = &mut self.hold else { return };
        // A single run ends with it.
        if !hold.failed(error, now, fastrand::f64()) || self.to_poll.is_some() {
            return;
        }
        let state = hold.reason().map(|reason| word(&reason));
        if error.class() == Class::Busy {
            tracing::warn!(state, %error, "polling waits until the workspace answers a ping");
        } else {
            tracing::error!(state, %error, "polling is paused until this is fixed");
        }
    }

    /// Ends the hold: the workspace of the present key is the one that fills the store.
    fn end_hold(&mut self) {
        self.verified = Some(self.client.key_number());
        if let Some(poller) = self.hold.as_ref().and_then(|hold| hold.poller) {
            self.pollers[poller].key_is_good = true;
        }
        self.release();
    }

    /// Lets every poller go on, each as its schedule says, unless the workspace has yet to tell its
    /// name.
    pub(super) fn release(&mut self) {
        let Some(hold) = self.hold.take() else { return };
        for poller in 0..self.pollers.len() {
            if !hold.is_of_store() {
                self.pollers[poller].clear_failures();
            }
            self.resume_poller(poller);
        }
        if self.verified.is_none() {
            self.hold = Some(Hold::new(self.clock.now().elapsed));
        } else if hold.is_confirmed() {
            tracing::info!("polling resumes");
        }
    }

    /// Looks whether the operator has corrected the key or accepted the other workspace.
    pub(super) async fn look_for_correction(&mut self) -> Result<(), StoreError> {
        self.try_changed_key();
        let account = self.client.account();
        let is_known = self
            .known
            .as_ref()
            .is_none_or(|known| known.is_of(&account));
        if is_known {
            return Ok(());
        }
        let known = match self.store.read(|reader| reader.workspace()).await {
            // It is looked for again in a moment.
            Err(error) if error.is_transient() => return Ok(()),
            known => known?,
        };
        if known.as_ref().is_some_and(|known| known.is_of(&account)) {
            tracing::info!("the workspace is accepted");
            self.known = known;
            self.end_hold();
        }
        Ok(())
    }
}

/// Whether a ping that failed keeps no poller back: it alone is refused, or the address and key are
/// those of before.
fn tells_nothing(error: &ApiError, is_changed: bool) -> bool {
    match error.class() {
        Class::RouteBroken | Class::BadPage => true,
        Class::Busy => !is_changed,
        Class::KeyRefused | Class::KeyForbidden | Class::WrongHost => false,
    }
}
