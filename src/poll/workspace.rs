//! Whether the address and the key still lead to the workspace that filled the store, and the pings that
//! end a hold.
//!
//! They do while they are the same as before. When one of them has changed, nothing is polled until a ping
//! has told the name. Behind another name nothing is read until the operator has corrected the address or
//! the key, or has accepted the name. A ping without a name holds nothing back.

use std::time::Duration;

use tokio::task::JoinSet;

use super::Dispatcher;
use super::completed::{Completed, log_pause};
use super::hold::{Held, Hold, PauseReason};
use crate::api::{ApiError, Class, Ping};
use crate::budget::Purpose;
use crate::store::{KnownWorkspace, OtherWorkspace, StoreError, judge_workspace};

/// How often the name is read beside polls, and how soon again if that failed.
const NAME_EVERY: Duration = Duration::from_secs(86_400);
const NAME_RETRY: Duration = Duration::from_secs(600);

/// What is known of the workspace behind the address and the key.
pub(super) struct WorkspaceName {
    /// The workspace that filled the store, if its name was ever read.
    known: Option<KnownWorkspace>,
    /// The number of the key whose workspace is known to be that one.
    verified: Option<u64>,
    /// From when on its name is to be read beside polls.
    due_at: Option<Duration>,
    is_asking: bool,
}

impl WorkspaceName {
    pub(super) fn new(known: Option<KnownWorkspace>) -> Self {
        Self { known, verified: None, due_at: None, is_asking: false }
    }

    /// Whether what a request with this key has brought may be stored.
    pub(super) fn accepts_response_of(&self, key: u64) -> bool {
        self.verified == Some(key)
    }

    /// Whether the name is to be read beside polls now.
    pub(super) fn is_due(&self, now: Duration) -> bool {
        self.due_at.is_some_and(|at| at <= now)
    }

    pub(super) fn is_asking(&self) -> bool {
        self.is_asking
    }
}

impl Dispatcher {
    /// Holds every poller back until a ping has told the name, if the address or the key has changed.
    pub(super) fn verify_workspace(&mut self) {
        let (now, key) = (self.clock.now(), self.client.key_number());
        if self.workspace.verified == Some(key) {
            return;
        }
        let account = self.client.account();
        match &self.workspace.known {
            Some(known) if !known.is_of(&account) => {
                self.hold = Some(Hold::new(Held::Verifying, now.elapsed));
            }
            known => {
                let is_old = known.as_ref().is_none_or(|known| known.is_old(now.wall));
                let wait = if is_old { Duration::ZERO } else { NAME_EVERY };
                self.workspace.due_at = Some(now.elapsed + wait);
                self.workspace.verified = Some(key);
            }
        }
    }

    /// Sends the ping that ends the hold or reads the name, if it is due; returns when to try again if the
    /// budget has no room for it.
    pub(super) fn start_ping(&mut self, under_way: &mut JoinSet<Completed>) -> Option<Duration> {
        let now = self.clock.now();
        let is_due = match &self.hold {
            Some(hold) => !hold.is_of_store() && hold.until <= now.elapsed,
            // Only after a page has shown that the key is accepted.
            None => self.workspace.is_due(now.elapsed) && self.has_read(),
        };
        if !is_due || self.workspace.is_asking {
            return None;
        }
        // Polls that are held back or done leave the whole budget to the ping.
        let is_beside_polls = self.hold.is_none() && self.to_poll.is_none();
        if is_beside_polls && !self.schedule.can_spare(now) {
            return None;
        }
        let purpose = if is_beside_polls { Purpose::Background } else { Purpose::Poll };
        if let Err(at) = self.budget.try_take(purpose, now) {
            return Some(at);
        }
        self.schedule.spent(now);
        // Until it has succeeded: an answer may be lost, or come while the store cannot be written.
        self.workspace.due_at = Some(now.elapsed + NAME_RETRY);
        self.workspace.is_asking = true;
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
        self.workspace.is_asking = false;
        let (now, account) = (self.clock.now(), self.client.account_of(key));
        // An answer for the previous key says nothing of this one.
        let (Some(account), false) = (account, self.is_held_by_store()) else { return Ok(()) };
        let ping = match result {
            Ok(ping) => ping,
            Err(error) => {
                self.ping_failed(&error);
                return Ok(());
            }
        };
        let name = ping.workspace.filter(|name| !name.trim().is_empty());
        let known = self.workspace.known.as_ref();
        let judged = name.map(|name| judge_workspace(known, account, &name, now.wall));
        let kept = match judged {
            None => {
                self.go_on_without_name("the workspace tells no name");
                Ok(())
            }
            Some(Ok(read)) => {
                let before = self.workspace.known.replace(read.clone());
                if let Some(before) = before.filter(|before| before.name != read.name) {
                    tracing::warn!(
                        before = before.name,
                        now = read.name,
                        "the workspace has another name now, behind the same address and key"
                    );
                }
                self.workspace.due_at = Some(now.elapsed + NAME_EVERY);
                self.end_hold();
                self.store.keep_workspace(read).await
            }
            Some(Err(other)) => {
                let is_known = self.other_workspace().is_some_and(|met| met.found == other.found);
                if is_known {
                    self.hold_failed(None);
                    Ok(())
                } else {
                    tracing::error!(reason = %other, "polling is paused until this is fixed");
                    let held = Held::WrongWorkspace(other.clone());
                    self.hold = Some(Hold::new(held, now.elapsed));
                    self.hold_failed(None);
                    self.store.keep_other_workspace(Some(other)).await
                }
            }
        };
        self.pause_if_transient(kept)
    }

    fn ping_failed(&mut self, error: &ApiError) {
        let now = self.clock.now().elapsed;
        let refused = PauseReason::of_class(error.class());
        let Some(hold) = &mut self.hold else { return };
        match (&mut hold.held, refused) {
            (Held::Key { .. }, Some(reason)) => {
                let has_other_reason = hold.refused(reason);
                if self.hold_failed(Some(error)) || has_other_reason {
                    log_pause(reason, error);
                }
            }
            (Held::Key { reason, .. }, None) => {
                let state = reason.as_str();
                if self.hold_failed(Some(error)) {
                    tracing::warn!(
                        state,
                        %error,
                        "the workspace refused a poll, and a ping to find out why failed: polling goes on when one succeeds; the next one follows within about a minute"
                    );
                }
            }
            (Held::Verifying, Some(reason)) => {
                self.hold = Some(Hold::new(Held::Key { reason, poller: None }, now));
                self.hold_failed(Some(error));
                log_pause(reason, error);
                self.try_changed_key();
            }
            (Held::Verifying, None)
                if matches!(error.class(), Class::RouteBroken | Class::BadPage) =>
            {
                self.go_on_without_name(&error.to_string());
            }
            (Held::Verifying, None) => {
                if self.hold_failed(Some(error)) {
                    tracing::warn!(
                        %error,
                        "the address or the key has changed, and the workspace cannot be asked for its name: polling starts when it answers; if they lead to the same shop as before and its name cannot be read, run `shopmirror check --accept-workspace`"
                    );
                }
            }
            (Held::WrongWorkspace(_) | Held::Store(_), _) => {
                self.hold_failed(None);
            }
        }
    }

    /// Lets polls through although no name could be read. One that is known to be another's stays held.
    fn go_on_without_name(&mut self, why: &str) {
        if self.other_workspace().is_some() {
            self.hold_failed(None);
            return;
        }
        let account = self.client.account();
        if self.workspace.known.as_ref().is_some_and(|known| !known.is_of(&account)) {
            tracing::warn!(
                why,
                "the address or the key has changed, and the workspace's name cannot be compared with the one of before: if they lead to another shop now, stop shopmirror and correct them"
            );
        }
        self.end_hold();
    }

    /// Ends the hold: the workspace of the present key is the one that fills the store.
    fn end_hold(&mut self) {
        self.workspace.verified = Some(self.client.key_number());
        if let Some(Hold { held: Held::Key { poller: Some(poller), .. }, .. }) = &self.hold {
            self.pollers[*poller].key_is_good = true;
        }
        self.release();
    }

    /// Lets every poller go on, each as its schedule says.
    pub(super) fn release(&mut self) {
        let Some(hold) = self.hold.take() else { return };
        for poller in 0..self.pollers.len() {
            if matches!(hold.held, Held::Key { .. }) {
                self.pollers[poller].clear_failures();
            }
            self.resume_poller(poller);
        }
        self.verify_workspace();
        if self.hold.is_none() && hold.is_confirmed() {
            tracing::info!("polling resumes");
        }
    }

    /// Takes up a key that differs from the previous one.
    pub(super) fn key_changed(&mut self) {
        self.budget.end_rest();
        match &mut self.hold {
            // The ping with the new key tells its workspace too.
            Some(hold) if matches!(hold.held, Held::Key { .. }) => {
                hold.until = self.clock.now().elapsed;
            }
            Some(hold) if hold.is_of_store() => {}
            Some(_) => self.release(),
            None => self.verify_workspace(),
        }
    }

    fn hold_failed(&mut self, error: Option<&ApiError>) -> bool {
        let now = self.clock.now().elapsed;
        self.hold.as_mut().is_some_and(|hold| hold.failed(error, now, fastrand::f64()))
    }

    /// The other workspace that was met, if one answers.
    pub(super) fn other_workspace(&self) -> Option<&OtherWorkspace> {
        match &self.hold.as_ref()?.held {
            Held::WrongWorkspace(other) => Some(other),
            Held::Key { .. } | Held::Store(_) | Held::Verifying => None,
        }
    }

    fn is_held_by_store(&self) -> bool {
        self.hold.as_ref().is_some_and(Hold::is_of_store)
    }

    /// Looks whether the operator has corrected the key or accepted the other workspace.
    pub(super) async fn look_for_correction(&mut self) -> Result<(), StoreError> {
        let other = self.other_workspace().cloned();
        self.try_changed_key();
        if self.workspace.accepts_response_of(self.client.key_number()) {
            let Some(_) = other else { return Ok(()) };
            // The previous key is back.
            let forgotten = self.store.keep_other_workspace(None).await;
            return self.pause_if_transient(forgotten);
        }
        let known = match self.store.read(|reader| reader.workspace()).await {
            // It is looked for again in a moment.
            Err(error) if error.is_transient() => return Ok(()),
            known => known?,
        };
        if known.as_ref().is_some_and(|known| known.is_of(&self.client.account())) {
            self.workspace.known = known;
            if !matches!(&self.hold, Some(Hold { held: Held::Key { .. }, .. })) {
                tracing::info!("the workspace is accepted");
                self.end_hold();
            }
        }
        Ok(())
    }
}

/// What a dispatcher has to know when it starts. What was said of another workspace is over if the
/// address and key are again those of before, or others than those that led to it.
pub(super) async fn known_workspace(
    store: &crate::store::Store,
    account: &str,
) -> Result<Option<KnownWorkspace>, StoreError> {
    let (known, other) =
        store.read(|reader| Ok((reader.workspace()?, reader.other_workspace()?))).await?;
    let is_back = known.as_ref().is_none_or(|known| known.is_of(account));
    if other.is_some_and(|other| is_back || other.account != account) {
        match store.keep_other_workspace(None).await {
            Err(error) if !error.is_transient() => return Err(error),
            _ => {}
        }
    }
    Ok(known)
}
