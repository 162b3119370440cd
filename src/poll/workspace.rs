//! Which workspace the address and the key lead to: a ping reports its name before anything is
//! polled, at the start and when the key has changed.
//!
//! While the address and the key are those of before, so is the workspace, and only its name is
//! renewed. Behind another name nothing is read until the operator has corrected the address or the
//! key, or has accepted the name. A workspace that reports no name holds nothing back.

use std::time::Duration;

use jiff::Timestamp;
use shopmirror_core::budget::Purpose;
use tokio::task::JoinSet;

use super::Dispatcher;
use super::completed::Completed;
use super::hold::{Hold, PauseReason};
use crate::api::{ApiError, Class, PageError, Ping};
use crate::store::{MetaKey, OtherWorkspace, StoreError, StoredWorkspace, judge_workspace};

impl Dispatcher {
    /// Sends the ping that ends the hold, if it is due; returns when to try again if the budget has
    /// no room.
    pub(super) fn start_ping(&mut self, in_flight: &mut JoinSet<Completed>) -> Option<Duration> {
        let now = self.clock.now();
        let hold = self.hold.as_mut()?;
        if hold.is_of_store() || hold.until > now.elapsed {
            return None;
        }
        if let Err(at) = self.budget.try_take(Purpose::Poll, now) {
            return Some(at);
        }
        hold.ping_sent(now.elapsed);
        self.schedule.spent(now);
        let client = self.client.clone();
        in_flight.spawn(async move {
            let (result, rate) = client.automation_ping().await;
            Completed::Ping { result, rate }
        });
        None
    }

    /// Acts on the result of a ping that was sent with the key of this number.
    pub(super) async fn complete_ping(
        &mut self,
        result: Result<Ping, ApiError>,
        key: u64,
    ) -> Result<(), StoreError> {
        let Some(account) = self.client.account_of(key) else {
            // Ignore the result of the previous key.
            return Ok(());
        };
        let reason = match &self.hold {
            Some(hold) if !hold.is_of_store() => hold.reason(),
            _ => return Ok(()),
        };
        let now = self.clock.now().wall;
        let stored = self.stored_workspace.as_ref();
        let was_other = self.other_workspace.is_some();
        let stored = match judge(result, stored, account, reason, was_other, now) {
            PingVerdict::Expected(workspace) => {
                let stored = self.store.set_value(MetaKey::WORKSPACE, &workspace).await;
                // A name that could not be stored is read again.
                if stored.is_ok() {
                    self.stored_workspace = Some(workspace);
                    self.end_hold();
                }
                stored
            }
            PingVerdict::Other(other) => {
                let error = ApiError::OtherWorkspace(other.to_string());
                self.ping_failed(&error);
                self.other_workspace = Some(error);
                self.store.set_value(MetaKey::OTHER_WORKSPACE, &other).await
            }
            PingVerdict::NoName { is_changed } => {
                if is_changed {
                    tracing::warn!(
                        "the address or the key has changed, and the workspace's name cannot be \
                         compared with the one of before: if they lead to another shop now, stop \
                         shopmirror and correct them"
                    );
                }
                self.end_hold();
                Ok(())
            }
            PingVerdict::StillOther => {
                if let Some(error) = self.other_workspace.clone() {
                    self.ping_failed(&error);
                }
                Ok(())
            }
            PingVerdict::Failed(error) => {
                self.ping_failed(&error);
                Ok(())
            }
        };
        self.pause_if_transient(stored)
    }

    fn ping_failed(&mut self, error: &ApiError) {
        let now = self.clock.now().elapsed;
        let Some(hold) = &mut self.hold else { return };
        // A single run ends with it.
        if !hold.failed(error, now, fastrand::f64()) || self.to_poll.is_some() {
            return;
        }
        let state = hold.reason().map(|reason| reason.to_string());
        if matches!(error.class(), Class::Busy | Class::Between) {
            tracing::warn!(state, %error, "polling waits until the workspace answers a ping");
        } else {
            hold.is_logged_as_error = true;
            tracing::error!(state, %error, "polling is paused until this is fixed");
        }
    }

    /// Ends the hold: the workspace of the present key is the one that fills the store.
    fn end_hold(&mut self) {
        self.verified = Some(self.client.key_number());
        self.other_workspace = None;
        if let Some(hold) = &self.hold {
            // Nothing but a ping that the key opened ends such a hold.
            if hold.is_refusal()
                && let Some(poller) = hold.poller
            {
                self.pollers[poller].key_is_good = true;
            }
            if hold.reason() == Some(PauseReason::SomebodyBetween) {
                // A route that is answered so again is held alone.
                for poller in &mut self.pollers {
                    poller.workspace_answers = true;
                }
            }
        }
        self.release();
    }

    /// Lets every poller continue, each as its schedule says, unless the workspace has yet to report
    /// its name.
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
            // At the priority of the pause, so that who reads only errors sees its end.
            if hold.is_logged_as_error {
                tracing::error!("polling resumes");
            } else {
                tracing::warn!("polling resumes");
            }
        }
    }

    /// Checks whether the operator has corrected the key or accepted the other workspace.
    pub(super) async fn check_correction(&mut self) -> Result<(), StoreError> {
        self.try_changed_key();
        let account = self.client.account();
        match &self.stored_workspace {
            Some(stored) if !stored.is_of(&account) => {}
            _ => return Ok(()),
        }
        let stored = match self.store.read(|reader| reader.workspace()).await {
            // It is checked again in a moment.
            Err(error) if error.is_transient() => return Ok(()),
            stored => stored?,
        };
        if let Some(stored) = stored
            && stored.is_of(&account)
        {
            tracing::info!("the workspace is accepted");
            self.stored_workspace = Some(stored);
            self.end_hold();
        }
        Ok(())
    }
}

/// What a ping decides.
#[derive(Debug, PartialEq)]
enum PingVerdict {
    /// The workspace is the one that fills the store, with the name it has now: the hold ends.
    Expected(StoredWorkspace),
    /// It is another workspace: nothing is read from it.
    Other(OtherWorkspace),
    /// There is no name to compare: the hold ends, with a warning if address or key have changed.
    NoName { is_changed: bool },
    /// There is no name, and the last one was another workspace's: the hold stays, for that.
    StillOther,
    /// The hold stays, for this reason.
    Failed(ApiError),
}

/// Judges a ping by the workspace that fills the store, if any, by the reason of the hold, and by
/// whether the last name was another workspace's (`was_other`), whatever has answered since.
///
/// | ping                     | account as before | changed, was another | changed, else |
/// |--------------------------|-------------------|----------------------|---------------|
/// | the stored name          | expected          | expected             | expected      |
/// | another name             | expected, renamed | other                | other         |
/// | no name                  | no name           | still other          | no name       |
/// | the ping alone is broken | no name           | still other          | no name       |
/// | no response              | no name           | failed               | failed        |
/// | somebody between         | no name           | failed               | failed        |
/// | key or address refused   | failed            | failed               | failed        |
///
/// A hold with a reason makes each of the last four `failed`, but one for somebody between ends with
/// each response of the workspace that refuses neither key nor address; while the account is a
/// changed one, not with a 5xx. The account is address and key.
/// Without a stored workspace there is nothing to compare with: the account counts as before.
fn judge(
    ping: Result<Ping, ApiError>,
    stored: Option<&StoredWorkspace>,
    account: String,
    reason: Option<PauseReason>,
    was_other: bool,
    now: Timestamp,
) -> PingVerdict {
    let is_changed = match stored {
        Some(stored) => !stored.is_of(&account),
        None => false,
    };
    let is_between = reason == Some(PauseReason::SomebodyBetween);
    let name = match ping {
        Ok(ping) => ping.workspace.unwrap_or_default(),
        Err(error) if reason.is_none() && is_harmless(&error, is_changed) => String::new(),
        Err(error) if is_between && is_answer(&error, is_changed) => String::new(),
        Err(error) => return PingVerdict::Failed(error),
    };
    if !name.trim().is_empty() {
        return match judge_workspace(stored, account, &name, now) {
            Ok(workspace) => PingVerdict::Expected(workspace),
            Err(other) => PingVerdict::Other(other),
        };
    }
    if is_changed && was_other {
        // The next ping may report the name again.
        return PingVerdict::StillOther;
    }
    PingVerdict::NoName { is_changed }
}

/// Whether a ping that failed holds no poller back: it alone is refused, or the address and key are
/// those of before.
fn is_harmless(error: &ApiError, is_changed: bool) -> bool {
    match error.class() {
        Class::RouteBroken | Class::BadPage => true,
        Class::Busy | Class::Between => !is_changed,
        Class::KeyRefused | Class::KeyForbidden | Class::WrongHost => false,
    }
}

/// Whether the workspace itself has answered, and refuses neither the key nor the address. A body
/// that could not be read may be anybody's.
fn is_answer(error: &ApiError, is_changed: bool) -> bool {
    match error {
        ApiError::Status {
            is_of_workspace: true,
            ..
        } => is_harmless(error, is_changed),
        ApiError::Page { problem, .. } => !matches!(problem, PageError::Cached(_)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::TransportError;
    use crate::poll::hold;

    fn ping(name: Option<&str>) -> Result<Ping, ApiError> {
        Ok(Ping {
            status: "connected".to_owned(),
            workspace: name.map(str::to_owned),
            provider: None,
        })
    }

    fn refusal(status: u16) -> Result<Ping, ApiError> {
        Err(hold::tests::refusal(status))
    }

    fn challenge() -> Result<Ping, ApiError> {
        Err(hold::tests::challenge())
    }

    /// A verdict as one word.
    fn word(
        ping: Result<Ping, ApiError>,
        stored: Option<&StoredWorkspace>,
        account: &str,
        reason: Option<PauseReason>,
    ) -> &'static str {
        match judge(
            ping,
            stored,
            account.to_owned(),
            reason,
            reason == Some(PauseReason::OtherWorkspace),
            Timestamp::UNIX_EPOCH,
        ) {
            PingVerdict::Expected(_) => "expected",
            PingVerdict::Other(_) => "other",
            PingVerdict::NoName { is_changed: false } => "no name",
            PingVerdict::NoName { is_changed: true } => "no name, changed",
            PingVerdict::StillOther => "still other",
            PingVerdict::Failed(_) => "failed",
        }
    }

    #[test]
    fn a_ping_is_judged_by_the_stored_workspace_and_the_reason_of_the_hold() {
        let stored = StoredWorkspace {
            name: "North".to_owned(),
            account: "before".to_owned(),
            at: Timestamp::UNIX_EPOCH,
        };
        let other = Some(PauseReason::OtherWorkspace);
        let refused = Some(PauseReason::KeyRefused);
        let between = Some(PauseReason::SomebodyBetween);
        for (case, ping, reason, unchanged, changed) in [
            ("same", ping(Some("North")), None, "expected", "expected"),
            ("renamed", ping(Some("South")), None, "expected", "other"),
            ("again", ping(Some("South")), other, "expected", "other"),
            (
                "blank",
                ping(Some(" ")),
                None,
                "no name",
                "no name, changed",
            ),
            ("absent", ping(None), None, "no name", "no name, changed"),
            ("lost", ping(None), other, "no name", "still other"),
            (
                "absent, held",
                ping(None),
                refused,
                "no name",
                "no name, changed",
            ),
            ("no ping", refusal(404), None, "no name", "no name, changed"),
            ("no ping, held", refusal(404), refused, "failed", "failed"),
            ("down", refusal(503), None, "no name", "failed"),
            ("down, held", refusal(503), refused, "failed", "failed"),
            ("bad key", refusal(401), None, "failed", "failed"),
            ("challenge", challenge(), None, "no name", "failed"),
            ("challenge, held", challenge(), between, "failed", "failed"),
            (
                "challenge is over",
                refusal(404),
                between,
                "no name",
                "no name, changed",
            ),
            (
                "challenge is over, down",
                refusal(503),
                between,
                "no name",
                "failed",
            ),
            (
                "portal compresses",
                Err(TransportError::Encoding("br".to_owned()).into()),
                between,
                "failed",
                "failed",
            ),
            (
                "portal is long",
                Err(TransportError::TooLarge.into()),
                between,
                "failed",
                "failed",
            ),
            (
                "cached, held",
                Err(ApiError::page(PageError::Cached(99))),
                between,
                "failed",
                "failed",
            ),
        ] {
            let verdict = word(ping.clone(), Some(&stored), "before", reason);
            assert_eq!(verdict, unchanged, "{case}, unchanged");
            let verdict = word(ping.clone(), Some(&stored), "after", reason);
            assert_eq!(verdict, changed, "{case}, changed");
            let verdict = word(ping, None, "after", reason);
            assert_eq!(verdict, unchanged, "{case}, nothing is stored");
        }
    }
}
