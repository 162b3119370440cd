//! Whether the address and the key still lead to the workspace that filled the store.
//!
//! They do while they are the same as before. When one of them has changed, polls wait until a ping has
//! told the name; behind another name nothing is read until the operator has corrected the address or the
//! key, or has accepted the name. A store whose workspace is not known yet is polled at once, and the name
//! is read beside the polls; so it is once a day, because a shop may be renamed.

use std::time::Duration;

use super::pause::PauseReason;
use crate::api::{ApiError, Class, Ping, Retry};
use crate::backoff::Backoff;
use crate::clock::Moment;
use crate::store::{KnownWorkspace, OtherWorkspace, WorkspaceJudgement, judge_workspace};

/// How often the key and the operator's answer are looked for while another workspace answers.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How often another workspace is asked again, because its name may have been corrected.
const ASK_OTHER_EVERY: Duration = Duration::from_secs(1800);
/// How often the name is read while nothing has changed.
const ASK_DAILY: Duration = Duration::from_secs(86_400);
/// Waits while the workspace does not answer and polls wait for it.
const BUSY: Backoff = Backoff { base: Duration::from_secs(2), cap: Duration::from_secs(60) };
/// How long the name waits that no poll waits for, after a failure.
const ASK_AGAIN: Duration = Duration::from_secs(600);
/// How many answers without a name there must be, and over what time, before polls go on without it: a
/// network that asks for a login, or an address that is being moved, answers so for some minutes.
const NAMELESS: (u32, Duration) = (5, Duration::from_secs(300));

/// Why the name is not known although a ping was answered.
pub(super) const TELLS_NO_NAME: &str = "the workspace tells no name";

/// Why no request is sent while the name cannot be read.
const NAME_UNREAD: &str = "the address or the key has changed, and the workspace has not told its name yet: see `shopmirror status`";

/// What the guard lets through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Passage {
    /// Polls.
    Open,
    /// Nothing until a ping has told the name.
    Asking,
    /// Nothing, because another workspace answers.
    Closed(OtherWorkspace),
}

/// What is to be done after an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GuardAction {
    Nothing,
    /// Keep this in the store.
    Keep(KnownWorkspace),
    /// Keep in the store that another workspace was met.
    Refuse(OtherWorkspace),
    /// Pause every poller, because the key or the address is refused.
    Pause(PauseReason),
}

/// Holds polls back until it is known that they reach the workspace that filled the store.
pub(super) struct WorkspaceGuard {
    known: Option<KnownWorkspace>,
    passage: Passage,
    /// The key that the passage was decided for.
    key: Option<u64>,
    is_asking: bool,
    ask_at: Duration,
    look_at: Duration,
    failures: u32,
    /// How many answers had no name although polls wait for it, and when the first of them came.
    nameless: (u32, Duration),
    /// Since when polls go on although the name could not be compared.
    unchecked_since: Option<Duration>,
    /// True if a ping was refused although another one may be accepted.
    was_refused: bool,
    last_error: Option<String>,
    /// True if the store still says that another workspace is met, and this is over.
    has_left_other: bool,
}

impl WorkspaceGuard {
    pub(super) fn new(known: Option<KnownWorkspace>) -> Self {
        Self {
            known,
            passage: Passage::Open,
            key: None,
            is_asking: false,
            ask_at: Duration::ZERO,
            look_at: Duration::ZERO,
            failures: 0,
            nameless: (0, Duration::ZERO),
            unchecked_since: None,
            was_refused: false,
            last_error: None,
            has_left_other: false,
        }
    }

    pub(super) fn passage(&self) -> &Passage {
        &self.passage
    }

    /// Whether what this key has brought may be stored.
    pub(super) fn admits(&self, key: u64) -> bool {
        let is_open = self.passage == Passage::Open;
        self.key.is_some_and(|held| key < held || (key == held && is_open))
    }

    /// Why polls wait, if the workspace could not be asked.
    pub(super) fn waits_after(&self) -> Option<&str> {
        self.last_error.as_deref().filter(|_| self.passage == Passage::Asking)
    }

    /// Why a request that is no poll is not sent, unless the answer to the first ping may still come.
    pub(super) fn refuses_requests(&self) -> Option<&'static str> {
        match &self.passage {
            Passage::Closed(_) => Some(PauseReason::OtherWorkspace.advice()),
            Passage::Asking => self.last_error.is_some().then_some(NAME_UNREAD),
            Passage::Open => None,
        }
    }

    /// True if polls go on although the name could not be compared after a change.
    pub(super) fn is_unchecked(&self) -> bool {
        self.unchecked_since.is_some()
    }

    /// Decides anew if the key is another one than before.
    pub(super) fn follow(&mut self, key: u64, account: impl FnOnce() -> String, now: Moment) {
        if self.key != Some(key) {
            self.key = Some(key);
            self.decide(&account(), now);
        }
    }

    fn decide(&mut self, account: &str, now: Moment) {
        self.forget_answers();
        self.has_left_other |= matches!(self.passage, Passage::Closed(_));
        self.ask_at = now.elapsed;
        self.passage = match &self.known {
            Some(known) if !known.is_of(account) => Passage::Asking,
            known => {
                if known.as_ref().is_some_and(|known| !known.is_old(now.wall)) {
                    self.ask_at = now.elapsed + ASK_DAILY;
                }
                Passage::Open
            }
        };
    }

    fn forget_answers(&mut self) {
        (self.failures, self.nameless) = (0, (0, Duration::ZERO));
        (self.unchecked_since, self.was_refused, self.last_error) = (None, false, None);
    }

    /// Whether a ping is to be sent now. Beside polls one is sent only after a page, the last one of which
    /// was read at `read_at`, has shown that the key is accepted.
    pub(super) fn is_due(&self, now: Duration, read_at: Option<Duration>) -> bool {
        let may_ask = match (&self.passage, self.unchecked_since) {
            (Passage::Open, Some(since)) => read_at.is_some_and(|at| at >= since),
            (Passage::Open, None) => read_at.is_some(),
            (Passage::Asking | Passage::Closed(_), _) => true,
        };
        !self.is_asking && self.ask_at <= now && may_ask
    }

    pub(super) fn started(&mut self) {
        self.is_asking = true;
    }

    /// Whether the operator may have to correct the key or accept what answers.
    fn needs_operator(&self) -> bool {
        matches!(self.passage, Passage::Closed(_)) || self.waits_after().is_some()
    }

    /// When there is something to do while polls wait.
    pub(super) fn wake_at(&self, now: Duration) -> Duration {
        let ask_at = if self.is_asking { Duration::MAX } else { self.ask_at.max(now) };
        if self.needs_operator() { ask_at.min(self.look_at) } else { ask_at }
    }

    /// True if the key and the operator's answer are to be looked for now.
    pub(super) fn start_look(&mut self, now: Duration) -> bool {
        let due = self.needs_operator() && self.look_at <= now;
        if due {
            self.look_at = now + LOOK_EVERY;
        }
        due
    }

    /// Takes over what the store says is known; true if that lets polls through.
    pub(super) fn accept(
        &mut self,
        known: Option<KnownWorkspace>,
        account: &str,
        now: Moment,
    ) -> bool {
        if !known.as_ref().is_some_and(|known| known.is_of(account)) {
            return false;
        }
        self.known = known;
        self.decide(account, now);
        true
    }

    /// Has the workspace asked again at once, because the operator wants it.
    pub(super) fn ask_now(&mut self) {
        if self.passage != Passage::Open {
            (self.ask_at, self.was_refused) = (Duration::ZERO, false);
        }
    }

    /// What a ping of the key number `key` told; `account` is `None` if the key has changed since it was
    /// sent, `chance` is uniform in `0.0..1.0`.
    pub(super) fn answered(
        &mut self,
        result: Result<Ping, ApiError>,
        key: u64,
        account: Option<String>,
        now: Moment,
        chance: f64,
    ) -> GuardAction {
        self.is_asking = false;
        let Some(account) = account.filter(|_| self.key == Some(key)) else {
            // This answers for the key of before.
            return GuardAction::Nothing;
        };
        match result {
            Ok(ping) => self.named(ping.workspace.as_deref(), account, now, chance),
            Err(error) => self.failed(&error, now.elapsed, chance),
        }
    }

    fn named(
        &mut self,
        name: Option<&str>,
        account: String,
        now: Moment,
        chance: f64,
    ) -> GuardAction {
        let Some(name) = name.filter(|name| !name.trim().is_empty()) else {
            self.without_name(TELLS_NO_NAME, now.elapsed, chance);
            return GuardAction::Nothing;
        };
        self.forget_answers();
        match judge_workspace(self.known.as_ref(), account, name, now.wall) {
            WorkspaceJudgement::Same { now: known, renamed_from } => {
                if let Some(before) = renamed_from {
                    tracing::warn!(
                        before,
                        now = known.name,
                        "the workspace has another name now, behind the same address and key"
                    );
                }
                self.passage = Passage::Open;
                self.ask_at = now.elapsed + ASK_DAILY;
                self.known = Some(known.clone());
                GuardAction::Keep(known)
            }
            WorkspaceJudgement::Other(other) => {
                let is_news =
                    !matches!(&self.passage, Passage::Closed(met) if met.found == other.found);
                self.ask_at = now.elapsed + ASK_OTHER_EVERY;
                self.passage = Passage::Closed(other.clone());
                if !is_news {
                    return GuardAction::Nothing;
                }
                // What the store said of one before is replaced.
                self.has_left_other = false;
                tracing::error!(reason = %other, "polling is paused until this is fixed");
                GuardAction::Refuse(other)
            }
        }
    }

    /// Polls wait for an answer that may come. They do not wait for ever for one that does not.
    fn failed(&mut self, error: &ApiError, now: Duration, chance: f64) -> GuardAction {
        if self.passage == Passage::Open {
            self.ask_at = now + ASK_AGAIN;
            return GuardAction::Nothing;
        }
        match (error.class(), PauseReason::of_class(error.class())) {
            (Class::Busy, _) => {
                let asked = match error.retry() {
                    Retry::After(wait) => Some(wait),
                    Retry::Backoff | Retry::Never => None,
                };
                self.wait_for_name(error.to_string(), asked, now, chance);
            }
            // Pings of the pause end it. If this one is refused even so, the name cannot be read.
            (_, Some(reason)) if !self.was_refused => {
                self.was_refused = true;
                self.ask_at = now + BUSY.base;
                return GuardAction::Pause(reason);
            }
            (_, Some(_)) => self.go_on(&error.to_string(), now),
            (_, None) => self.without_name(&error.to_string(), now, chance),
        }
        GuardAction::Nothing
    }

    /// Polls wait while such an answer may come from something between here and the workspace.
    fn without_name(&mut self, why: &str, now: Duration, chance: f64) {
        if self.passage == Passage::Asking {
            let (count, first_at) = self.nameless;
            self.nameless = (count + 1, if count == 0 { now } else { first_at });
            let (enough, over) = NAMELESS;
            if self.nameless.0 < enough || now < self.nameless.1 + over {
                return self.wait_for_name(why.to_owned(), None, now, chance);
            }
        }
        self.go_on(why, now);
    }

    /// Has the workspace asked again while polls wait.
    fn wait_for_name(&mut self, why: String, asked: Option<Duration>, now: Duration, chance: f64) {
        self.failures += 1;
        self.ask_at = now + BUSY.wait(self.failures, chance, asked);
        if self.failures == 1 {
            tracing::warn!(
                error = why,
                "the address or the key has changed, and the workspace cannot be asked for its name: polling starts when it answers; if they lead to the same shop as before and its name cannot be read, run `shopmirror workspace accept`"
            );
        }
        self.last_error = Some(why);
    }

    /// Lets polls through although no name could be read. One that is known to be another's stays closed.
    pub(super) fn go_on(&mut self, why: &str, now: Duration) {
        self.last_error = None;
        match self.passage {
            Passage::Closed(_) => self.ask_at = now + ASK_OTHER_EVERY,
            Passage::Asking => {
                tracing::warn!(
                    why,
                    "the address or the key has changed, and the workspace's name cannot be compared with the one of before: if they lead to another shop now, stop shopmirror and correct them"
                );
                self.passage = Passage::Open;
                (self.unchecked_since, self.ask_at) = (Some(now), now);
            }
            Passage::Open if self.is_unchecked() => self.ask_at = now + ASK_AGAIN,
            Passage::Open => self.ask_at = now + ASK_DAILY,
        }
    }
}

mod asking;
#[cfg(test)]
mod tests;

pub(super) use asking::known_workspace;
