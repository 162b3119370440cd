//! What pauses every poller at once: a refused key, a wrong address, a store that cannot be written.
//!
//! While the workspace refuses the key, only a ping is sent: at once, because a refusal may concern
//! one route only, then after 1, 5, 15 and 30 minutes, then hourly. The key file is read far more
//! often, because that costs no request. A store that cannot be written is tried again within seconds.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::poller::wait_after_refusal;
use crate::api::Class;
use crate::store::StoreError;

/// How often the key is read again while the workspace refuses it.
const KEY_READ_EVERY: Duration = Duration::from_secs(2);
/// How often a write to a full disk is tried.
const DISK_PROBE: Duration = Duration::from_secs(10);
/// How often a write to a locked store is tried.
const LOCK_PROBE: Duration = Duration::from_secs(1);

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
                "base_url and the key lead to another workspace than the one that filled the store, and nothing is read from it: see `shopmirror workspace`"
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

/// A pause because the store cannot be written.
pub(super) struct StorePause {
    reason: PauseReason,
    probe_at: Duration,
}

impl StorePause {
    /// A pause that starts now.
    pub(super) fn new(error: &StoreError, now: Duration) -> Self {
        if error.is_full() {
            Self { reason: PauseReason::DiskFull, probe_at: now + DISK_PROBE }
        } else {
            Self { reason: PauseReason::StoreLocked, probe_at: now + LOCK_PROBE }
        }
    }

    pub(super) fn reason(&self) -> PauseReason {
        self.reason
    }

    /// When the next write is tried.
    pub(super) fn probe_at(&self) -> Duration {
        self.probe_at
    }
}

/// A pause because the workspace refuses the key or the address.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyPause {
    reason: PauseReason,
    /// The poller whose refusal started it.
    started_by: usize,
    key_read_at: Duration,
    probe_at: Duration,
    probes: usize,
    is_probing: bool,
    /// True if the key has changed since the probe under way was sent.
    is_outdated: bool,
}

impl KeyPause {
    pub(super) fn reason(&self) -> PauseReason {
        self.reason
    }

    pub(super) fn started_by(&self) -> usize {
        self.started_by
    }

    /// True once a ping was refused too, so that the pause does not concern one route alone.
    pub(super) fn is_confirmed(&self) -> bool {
        self.probes > 0
    }

    pub(super) fn is_probe_due(&self, now: Duration) -> bool {
        !self.is_probing && self.probe_at <= now
    }

    /// When the next ping is sent.
    pub(super) fn probe_at(&self) -> Duration {
        self.probe_at
    }

    /// When there is something to do: read the key, or send a ping. It is a fixed moment, so that
    /// it comes however often the dispatcher is woken in between.
    pub(super) fn wake_at(&self, now: Duration) -> Duration {
        if !self.is_probing && self.probe_at > now {
            self.key_read_at.min(self.probe_at)
        } else {
            self.key_read_at
        }
    }
}

/// Lets polls through, or holds the pause that keeps them back.
#[derive(Debug, Default)]
pub(super) struct Gate(Option<KeyPause>);

impl Gate {
    pub(super) fn pause(&self) -> Option<KeyPause> {
        self.0
    }

    /// Pauses every poller. True if a pause that the operator knows of has another reason now; a new
    /// pause is told only after its first ping has failed.
    pub(super) fn close(&mut self, reason: PauseReason, poller: usize, now: Duration) -> bool {
        match &mut self.0 {
            Some(pause) if pause.reason == reason => false,
            Some(pause) => {
                pause.reason = reason;
                pause.is_confirmed()
            }
            None => {
                self.0 = Some(KeyPause {
                    reason,
                    started_by: poller,
                    key_read_at: now + KEY_READ_EVERY,
                    probe_at: now,
                    probes: 0,
                    is_probing: false,
                    is_outdated: false,
                });
                false
            }
        }
    }

    /// Ends the pause, if there is one, and returns it.
    pub(super) fn open(&mut self) -> Option<KeyPause> {
        self.0.take()
    }

    /// Makes a probe due now, because the key has changed.
    pub(super) fn probe_now(&mut self) {
        if let Some(pause) = &mut self.0 {
            pause.probe_at = Duration::ZERO;
            pause.is_outdated = pause.is_probing;
        }
    }

    pub(super) fn probe_started(&mut self) {
        if let Some(pause) = &mut self.0 {
            pause.is_probing = true;
        }
    }

    /// Notes a failed probe. A failure that may pass keeps the reason of the pause. Returns the reason
    /// if this was the first probe, which makes the pause known.
    pub(super) fn probe_failed(
        &mut self,
        reason: Option<PauseReason>,
        now: Duration,
        chance: f64,
    ) -> Option<PauseReason> {
        let pause = self.0.as_mut()?;
        pause.is_probing = false;
        pause.reason = reason.unwrap_or(pause.reason);
        let news = (!pause.is_confirmed()).then_some(pause.reason);
        // The changed key has not been tried yet, so its probe stays due.
        if !pause.is_outdated {
            pause.probe_at = now + wait_after_refusal(pause.probes, chance);
        }
        pause.probes += 1;
        pause.is_outdated = false;
        news
    }

    /// True if the key is to be read now; the next reading is then [`KEY_READ_EVERY`] later.
    pub(super) fn start_key_read(&mut self, now: Duration) -> bool {
        match &mut self.0 {
            Some(pause) if pause.key_read_at <= now => {
                pause.key_read_at = now + KEY_READ_EVERY;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed() -> Gate {
        let mut gate = Gate::default();
        assert!(!gate.close(PauseReason::KeyRefused, 0, Duration::ZERO), "a ping comes first");
        assert!(gate.pause().unwrap().is_probe_due(Duration::ZERO));
        gate
    }

    #[test]
    fn a_refused_key_costs_six_requests_in_the_first_hour_and_at_most_thirty_pings_a_day() {
        for chance in [0.0, 0.5, 1.0] {
            let mut gate = closed();
            let mut now = Duration::ZERO;
            let mut probes = Vec::new();
            while now < Duration::from_secs(86_400) {
                now = gate.pause().unwrap().wake_at(now);
                gate.start_key_read(now);
                if gate.pause().unwrap().is_probe_due(now) {
                    gate.probe_started();
                    probes.push(now);
                    gate.probe_failed(Some(PauseReason::KeyRefused), now, chance);
                }
            }
            let first_hour = probes.iter().filter(|at| **at <= Duration::from_secs(3600)).count();
            // The poll that was refused is a request as well.
            assert_eq!(first_hour, 5);
            assert!((20..=30).contains(&probes.len()), "{}", probes.len());
        }
    }

    #[test]
    fn each_reason_is_reported_once() {
        let mut gate = closed();
        let refused = Some(PauseReason::KeyRefused);
        assert_eq!(gate.probe_failed(refused, Duration::ZERO, 0.5), refused);
        assert_eq!(gate.probe_failed(refused, Duration::ZERO, 0.5), None);
        assert!(!gate.close(PauseReason::KeyRefused, 0, Duration::ZERO));
        assert!(gate.close(PauseReason::WrongHost, 0, Duration::ZERO));
        assert!(gate.open().is_some());
        assert!(gate.open().is_none());
    }
}
