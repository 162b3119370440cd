//! What holds every poller back: a name that has yet to be read, a refused key, a wrong address,
//! another workspace, a store that cannot be written. There is one hold at a time, with its reason
//! and its end.
//!
//! Meanwhile only a ping is sent. After a refusal it is sent at once, because one route alone may be
//! refused, then after a minute, then every 5 minutes. While somebody between answers it is sent after
//! 15 seconds, then less and less often, down to every 2 minutes. After one without a response, the
//! next follows sooner. The key file and the operator's decision are checked far more often, because
//! that costs no request.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use shopmirror_core::backoff::Backoff;

use super::waits::{self, BETWEEN, PINGS_AFTER_REFUSAL};
use crate::api::{ApiError, Class, Retry};
use crate::store::StoreError;
use crate::text::Quotation;

/// How often the key file and the operator's decision are checked.
const CHECK_EVERY: Duration = Duration::from_secs(2);
/// How often a write is tried while the store cannot be written.
const PROBE: Duration = Duration::from_secs(2);
/// Waits after pings without a response.
const BUSY: Backoff = Backoff {
    base: Duration::from_secs(2),
    cap: Duration::from_secs(60),
};

/// Why every poller is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum PauseReason {
    /// The workspace refuses the key (401).
    KeyRefused,
    /// The key may not poll (403).
    KeyWrongType,
    /// The workspace is not served at this address (412).
    WrongHost,
    /// The address and the key lead to another workspace than the one that filled the store.
    OtherWorkspace,
    /// Somebody between shopmirror and the workspace answers: a bot check, a proxy, a portal.
    SomebodyBetween,
    /// The disk that holds the store is full.
    DiskFull,
    /// Another program holds the store's write lock.
    StoreLocked,
}

/// Keeps every poller back until what it waits for succeeds: a ping, or for the store a write.
#[derive(Debug)]
pub(super) struct Hold {
    /// The poller whose refusal began it, until a ping shows whether the key is refused as well.
    pub(super) poller: Option<usize>,
    /// When a ping or a write is tried next.
    pub(super) until: Duration,
    check_at: Duration,
    /// The reason that a ping reported last.
    reported: Option<PauseReason>,
    /// Pings in a row that have failed for this reason.
    failures: u32,
    /// Whether a reason was logged as an error: the operator has to do something.
    pub(super) is_logged_as_error: bool,
    /// Why they failed; before the first ping, why the poll did.
    pub(super) error: Option<ApiError>,
    /// Why the store cannot be written, if it is held for that.
    pub(super) store_error: Option<StoreError>,
}

impl Hold {
    /// A hold whose first ping is due now.
    pub(super) fn new(now: Duration) -> Self {
        Self {
            poller: None,
            until: now,
            check_at: now + CHECK_EVERY,
            reported: None,
            failures: 0,
            is_logged_as_error: false,
            error: None,
            store_error: None,
        }
    }

    /// The hold after this error of a poll, if it concerns every poller; `chance` is uniform in
    /// `0.0..1.0`.
    pub(super) fn for_poll(
        poller: usize,
        error: &ApiError,
        now: Duration,
        chance: f64,
    ) -> Option<Self> {
        let until = match reason_of(error)? {
            // It may pass, and would answer a ping as well.
            PauseReason::SomebodyBetween => now + waits::after(&BETWEEN, 0, chance),
            _ => now,
        };
        Some(Self {
            poller: Some(poller),
            error: Some(error.clone()),
            until,
            ..Self::new(now)
        })
    }

    /// The hold while the store cannot be written.
    pub(super) fn for_store(error: StoreError, now: Duration) -> Self {
        Self {
            store_error: Some(error),
            until: now + PROBE,
            ..Self::new(now)
        }
    }

    /// Why every poller waits; `None` while only the first ping has to come.
    pub(super) fn reason(&self) -> Option<PauseReason> {
        match &self.store_error {
            Some(error) if error.is_full() => Some(PauseReason::DiskFull),
            Some(_) => Some(PauseReason::StoreLocked),
            None => self.error.as_ref().and_then(reason_of),
        }
    }

    /// Why no request is sent and what the operator can do; `None` while the response to the first
    /// ping may still come.
    pub(super) fn advice(&self) -> Option<String> {
        if let Some(error) = &self.store_error {
            return Some(format!("{error}; polling resumes automatically"));
        }
        let error = self.error.as_ref()?;
        Some(match reason_of(error) {
            Some(PauseReason::SomebodyBetween) => {
                format!("{error}; every route waits for the workspace to answer a ping")
            }
            Some(_) => error.to_string(),
            None => format!(
                "no route is read until the workspace reports its name: {error}; see \
                 `shopmirror check`"
            ),
        })
    }

    /// What the other side said when it held the pollers back.
    pub(super) fn quotation(&self) -> Option<&Quotation> {
        self.error.as_ref()?.quotation()
    }

    pub(super) fn is_of_store(&self) -> bool {
        self.store_error.is_some()
    }

    /// True if the workspace refuses the key or the address.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(
            self.reason(),
            Some(PauseReason::KeyRefused | PauseReason::KeyWrongType | PauseReason::WrongHost)
        )
    }

    /// True once a ping has failed, so that the hold concerns more than one poll.
    pub(super) fn is_confirmed(&self) -> bool {
        self.failures > 0
    }

    /// When there is something to do. It is a fixed moment, so that it comes however often the
    /// dispatcher is woken in between.
    pub(super) fn wake_at(&self, now: Duration) -> Duration {
        if self.is_of_store() {
            self.until
        } else if self.until <= now {
            self.check_at
        } else {
            self.check_at.min(self.until)
        }
    }

    /// True if the key and the operator's decision are to be checked now.
    pub(super) fn start_check(&mut self, now: Duration) -> bool {
        let is_due = !self.is_of_store() && self.check_at <= now;
        if is_due {
            self.check_at = now + CHECK_EVERY;
        }
        is_due
    }

    /// Notes that a ping is sent. If there is no response for long, another follows.
    pub(super) fn ping_sent(&mut self, now: Duration) {
        self.until = now + BUSY.cap;
    }

    /// Notes a ping that did not end the hold; `chance` is uniform in `0.0..1.0`. True if it was
    /// the first, or reports another reason.
    pub(super) fn failed(&mut self, error: &ApiError, now: Duration, chance: f64) -> bool {
        let reason = reason_of(error);
        let is_new = self.failures == 0 || (reason.is_some() && reason != self.reported);
        if reason.is_some() {
            self.reported = reason;
            self.poller = None;
        }
        if reason.is_some() || self.reason().is_none() {
            self.error = Some(error.clone());
        }
        self.failures = if is_new {
            1
        } else {
            self.failures.saturating_add(1)
        };
        let wait = match error.retry() {
            Retry::After(asked) => BUSY.wait(self.failures, chance, Some(asked)),
            Retry::Backoff => BUSY.wait(self.failures, chance, None),
            Retry::Never if self.reason() == Some(PauseReason::SomebodyBetween) => {
                waits::after(&BETWEEN, self.failures as usize - 1, chance)
            }
            Retry::Never => waits::after(&PINGS_AFTER_REFUSAL, self.failures as usize - 1, chance),
        };
        self.until = now + wait;
        is_new
    }
}

/// The reason in an error, if it concerns every poller.
pub(super) fn reason_of(error: &ApiError) -> Option<PauseReason> {
    if let ApiError::OtherWorkspace(_) = error {
        return Some(PauseReason::OtherWorkspace);
    }
    match error.class() {
        Class::KeyRefused => Some(PauseReason::KeyRefused),
        Class::KeyForbidden => Some(PauseReason::KeyWrongType),
        Class::WrongHost => Some(PauseReason::WrongHost),
        Class::Between => Some(PauseReason::SomebodyBetween),
        Class::RouteBroken | Class::Busy | Class::BadPage => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::api::{Between, BetweenKind, PageError};

    /// A response of the workspace with this status.
    pub(in crate::poll) fn refusal(status: u16) -> ApiError {
        ApiError::Status {
            status,
            is_of_workspace: true,
            request_id: None,
            retry_after: None,
            quotation: None,
        }
    }

    /// A bot check in place of the workspace.
    pub(in crate::poll) fn challenge() -> ApiError {
        ApiError::Between(Between {
            status: 403,
            kind: BetweenKind::Html,
            is_address_proven: true,
            quotation: None,
        })
    }

    /// When pings are sent until `span` has passed, if each fails with this error.
    fn pings(error: &ApiError, chance: f64, span: Duration) -> Vec<Duration> {
        let mut hold = Hold::for_poll(0, error, Duration::ZERO, chance).unwrap();
        let mut now = Duration::ZERO;
        let mut pings = Vec::new();
        while now < span {
            if hold.until <= now {
                pings.push(now);
                hold.failed(error, now, chance);
            }
            now = hold.wake_at(now);
            hold.start_check(now);
        }
        pings
    }

    #[test]
    fn a_refused_key_costs_a_ping_at_once_after_a_minute_and_then_every_five_minutes() {
        for chance in [0.0, 0.5, 1.0] {
            let pings = pings(&refusal(401), chance, Duration::from_secs(86_400));
            let first_hour = pings.iter().filter(|at| at.as_secs() <= 3600).count();
            assert!((12..=15).contains(&first_hour), "{first_hour}");
            for pair in pings.windows(2) {
                assert!(pair[1] - pair[0] <= Duration::from_secs(330), "{pair:?}");
            }
            assert_eq!(pings[0], Duration::ZERO);
        }
    }

    #[test]
    fn while_somebody_between_answers_pings_follow_after_15_seconds_to_two_minutes() {
        let pings = pings(&challenge(), 0.5, Duration::from_secs(480));
        let seconds: Vec<u64> = pings.iter().map(Duration::as_secs).collect();
        assert_eq!(seconds, [15, 30, 60, 120, 240, 360]);
    }

    #[test]
    fn while_somebody_between_answers_no_ping_is_later_than_two_minutes() {
        let repeated = ApiError::page(PageError::Cached(99));
        let mut hold = Hold::for_poll(0, &challenge(), Duration::ZERO, 0.5).unwrap();
        for error in [challenge(), repeated.clone(), repeated.clone(), repeated] {
            hold.failed(&error, Duration::ZERO, 0.5);
        }
        assert_eq!(hold.until.as_secs(), 120);
    }

    #[test]
    fn each_reason_is_reported_once() {
        let mut hold = Hold::for_poll(0, &refusal(401), Duration::ZERO, 0.5).unwrap();
        let reported = [503, 401, 401, 503, 412, 412, 401]
            .map(|status| hold.failed(&refusal(status), Duration::ZERO, 0.5));
        assert_eq!(reported, [true, true, false, false, true, false, true]);
        assert!(hold.failed(&challenge(), Duration::ZERO, 0.5));
    }
}
