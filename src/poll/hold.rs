//! What holds every poller back: a refused key, a wrong address, another workspace, a store that cannot
//! be written. There is one hold at a time, which says why and until when.
//!
//! While the workspace refuses the key, only a ping is sent: at once, because a refusal may concern
//! one route only, then after 1, 5, 15 and 30 minutes, then hourly. The key file and the operator's answer
//! are looked at far more often, because that costs no request.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::poller::wait_after_refusal;
use crate::api::{ApiError, Class, Retry};
use crate::backoff::Backoff;
use crate::store::{OtherWorkspace, StoreError};

/// How often the key file and the operator's answer are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How often a write to a full disk and to a locked store is tried.
const DISK_PROBE: Duration = Duration::from_secs(10);
const LOCK_PROBE: Duration = Duration::from_secs(1);
/// How often another workspace is asked again, because its name may have been corrected.
const ASK_OTHER_EVERY: Duration = Duration::from_secs(1800);
/// Waits while the workspace cannot be asked for its name.
const BUSY: Backoff = Backoff { base: Duration::from_secs(2), cap: Duration::from_secs(60) };

/// Why every poller is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PauseReason {
    /// The workspace refuses the key (401).
    KeyRefused,
    /// The key may not poll (403).
    KeyWrongType,
    /// The workspace is not served at this address (412).
    WrongHost,
    /// The address and the key lead to another workspace than the one that filled the store.
    OtherWorkspace,
    /// The disk that holds the store is full.
    DiskFull,
    /// Another program holds the store's write lock.
    StoreLocked,
}

impl PauseReason {
    /// The reason in an error of this class, if it concerns every poller.
    pub(super) fn of_class(class: Class) -> Option<Self> {
        match class {
            Class::KeyRefused => Some(Self::KeyRefused),
            Class::KeyForbidden => Some(Self::KeyWrongType),
            Class::WrongHost => Some(Self::WrongHost),
            Class::RouteBroken | Class::Busy | Class::BadPage => None,
        }
    }

    /// The reason in one word, as the status and the journal show it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::KeyRefused => "key_refused",
            Self::KeyWrongType => "key_wrong_type",
            Self::WrongHost => "wrong_host",
            Self::OtherWorkspace => "other_workspace",
            Self::DiskFull => "disk_full",
            Self::StoreLocked => "store_locked",
        }
    }

    /// What is wrong and what the operator can do.
    #[must_use]
    pub fn advice(self) -> &'static str {
        match self {
            Self::KeyRefused => {
                "the workspace refuses the key (401): put the current key into the key file"
            }
            Self::KeyWrongType => {
                "the key may not poll (403): create an automation key and put it into the key file"
            }
            Self::WrongHost => {
                "the workspace is not served at this address (412): set base_url to its white-label address"
            }
            Self::OtherWorkspace => {
                "base_url and the key lead to another workspace than the one that filled the store, and nothing is read from it: see `shopmirror check`"
            }
            Self::DiskFull => {
                "the disk that holds the store is full: free some space, polling resumes by itself"
            }
            Self::StoreLocked => {
                "another program holds the store's write lock: end its transaction, polling resumes by itself"
            }
        }
    }
}

/// What nothing is polled for.
#[derive(Debug, Clone)]
pub(super) enum Held {
    /// The workspace refuses the key or the address. The poller is the one whose refusal began it, if a
    /// poll did.
    Key { reason: PauseReason, poller: Option<usize> },
    /// The store cannot be written.
    Store(PauseReason),
    /// A ping has yet to tell whose workspace it is.
    Verifying,
    /// Another workspace answers.
    WrongWorkspace(OtherWorkspace),
}

/// Keeps every poller back until what it waits for succeeds: a ping, or for the store a write.
#[derive(Debug, Clone)]
pub(super) struct Hold {
    pub(super) held: Held,
    /// When that is tried next.
    pub(super) until: Duration,
    look_at: Duration,
    tries: u32,
    /// Why the last try failed.
    error: Option<ApiError>,
}

impl Hold {
    /// A hold whose first try is due now.
    pub(super) fn new(held: Held, now: Duration) -> Self {
        Self { held, until: now, look_at: now + LOOK_EVERY, tries: 0, error: None }
    }

    pub(super) fn of_store(error: &StoreError, now: Duration) -> Self {
        let (reason, wait) = match error.is_full() {
            true => (PauseReason::DiskFull, DISK_PROBE),
            false => (PauseReason::StoreLocked, LOCK_PROBE),
        };
        Self { until: now + wait, ..Self::new(Held::Store(reason), now) }
    }

    /// Why, in the words of the status; none while the first ping is awaited.
    pub(super) fn reason(&self) -> Option<PauseReason> {
        match &self.held {
            Held::Key { reason, .. } | Held::Store(reason) => Some(*reason),
            Held::WrongWorkspace(_) => Some(PauseReason::OtherWorkspace),
            Held::Verifying => None,
        }
    }

    /// Why no request is sent and what the operator can do; none while the answer to the first ping may still come.
    pub(super) fn advice(&self) -> Option<String> {
        match &self.held {
            Held::Key { reason, .. } | Held::Store(reason) => Some(reason.advice().to_owned()),
            Held::WrongWorkspace(other) => Some(other.to_string()),
            Held::Verifying => self.error.as_ref().map(|why| {
                format!("the address or the key has changed, and no route is read until the workspace tells its name: {why}. If they lead to the same shop as before and its name cannot be read, run `shopmirror check --accept-workspace`")
            }),
        }
    }

    pub(super) fn is_of_store(&self) -> bool {
        matches!(self.held, Held::Store(_))
    }

    /// True once a try has failed, so that the hold concerns more than one poll.
    pub(super) fn is_confirmed(&self) -> bool {
        self.tries > 0
    }

    /// When there is something to do. It is a fixed moment, so that it comes however often the
    /// dispatcher is woken in between.
    pub(super) fn wake_at(&self, now: Duration, is_trying: bool) -> Duration {
        match self.is_of_store() {
            true => self.until,
            false if is_trying || self.until <= now => self.look_at,
            false => self.look_at.min(self.until),
        }
    }

    /// True if the key and the operator's answer are to be looked at now.
    pub(super) fn start_look(&mut self, now: Duration) -> bool {
        let due = !self.is_of_store() && self.look_at <= now;
        if due {
            self.look_at = now + LOOK_EVERY;
        }
        due
    }

    /// Another poll or ping was refused. True if a hold that the operator knows of has another reason now.
    pub(super) fn refused(&mut self, new: PauseReason) -> bool {
        match &mut self.held {
            Held::Key { reason, .. } if *reason != new => {
                *reason = new;
                self.is_confirmed()
            }
            _ => false,
        }
    }

    /// Notes a ping that did not end the hold; `chance` is uniform in `0.0..1.0`. True if it was the first.
    pub(super) fn failed(&mut self, error: Option<&ApiError>, now: Duration, chance: f64) -> bool {
        self.tries = self.tries.saturating_add(1);
        self.error = error.cloned();
        let asked = match error.map(ApiError::retry) {
            Some(Retry::After(wait)) => Some(wait),
            Some(Retry::Backoff | Retry::Never) | None => None,
        };
        let wait = match &self.held {
            Held::WrongWorkspace(_) => ASK_OTHER_EVERY,
            Held::Verifying => BUSY.wait(self.tries, chance, asked),
            Held::Key { .. } | Held::Store(_) => {
                wait_after_refusal(self.tries as usize - 1, chance)
            }
        };
        self.until = now + wait;
        self.tries == 1
    }

    /// What a single run says of every poller because of it; none if that is yet to be seen.
    pub(super) fn ends_run(&self) -> Option<ApiError> {
        match &self.held {
            Held::WrongWorkspace(other) => Some(ApiError::OtherWorkspace(other.to_string())),
            Held::Verifying | Held::Key { poller: None, .. } => self.error.clone(),
            Held::Key { .. } | Held::Store(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_hold() -> Hold {
        let held = Held::Key { reason: PauseReason::KeyRefused, poller: Some(0) };
        Hold::new(held, Duration::ZERO)
    }

    #[test]
    fn a_refused_key_costs_six_requests_in_the_first_hour_and_at_most_thirty_pings_a_day() {
        for chance in [0.0, 0.5, 1.0] {
            let mut hold = key_hold();
            let mut now = Duration::ZERO;
            let mut probes = Vec::new();
            while now < Duration::from_secs(86_400) {
                if hold.until <= now {
                    probes.push(now);
                    hold.failed(None, now, chance);
                }
                now = hold.wake_at(now, false);
                hold.start_look(now);
            }
            let first_hour = probes.iter().filter(|at| **at <= Duration::from_secs(3600)).count();
            // The poll that was refused is a request as well.
            assert_eq!(first_hour, 5);
            assert!((20..=30).contains(&probes.len()), "{}", probes.len());
        }
    }

    #[test]
    fn each_reason_is_reported_once() {
        let mut hold = key_hold();
        assert!(!hold.refused(PauseReason::WrongHost), "a ping comes first");
        assert!(hold.failed(None, Duration::ZERO, 0.5));
        assert!(!hold.failed(None, Duration::ZERO, 0.5));
        assert!(!hold.refused(PauseReason::WrongHost));
        assert!(hold.refused(PauseReason::KeyRefused));
    }
}
