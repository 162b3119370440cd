//! The status of polling, for people and tools.

use serde::{Deserialize, Serialize};
use shopmirror_core::budget::BudgetStatus;
use shopmirror_core::record::{PollerId, poller_name};

use super::Dispatcher;
use super::hold::{Hold, PauseReason};
use super::poller::{PollerHealth, word};
use crate::api::ApiError;
use crate::text::Quotation;

/// What one poller is doing, in one word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum PollerState {
    /// No daemon runs.
    #[default]
    Stopped,
    /// The workspace refuses this route although it accepts the key, or somebody between answers for
    /// this route alone.
    RouteBroken,
    /// The last poll failed and will be retried.
    Backoff,
    /// No page has been read since the start.
    Starting,
    /// The last poll succeeded.
    Ok,
    /// Paused with every other poller.
    #[serde(untagged)]
    #[strum(to_string = "{0}")]
    Paused(PauseReason),
}

impl PollerState {
    /// Whether the workspace refuses the key.
    #[must_use]
    pub fn is_key_refused(self) -> bool {
        matches!(
            self,
            Self::Paused(PauseReason::KeyRefused | PauseReason::KeyWrongType)
        )
    }

    fn from_health(poller: &PollerHealth, pause: Option<PauseReason>) -> Self {
        if let Some(reason) = pause {
            Self::Paused(reason)
        } else if poller.is_broken() {
            Self::RouteBroken
        } else if poller.failures > 0 {
            Self::Backoff
        } else if poller.last_success.is_none() {
            Self::Starting
        } else {
            Self::Ok
        }
    }
}

/// The status of one poller.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PollerStatus {
    /// The route.
    pub route: String,
    /// The business; `None` is the workspace's default.
    pub business: Option<String>,
    /// What it is doing.
    pub state: PollerState,
    /// Seconds since a page was last read and stored, or found unchanged.
    pub last_success_age_s: Option<f64>,
    /// True if the age is not known because the clock was ahead at the last success.
    pub last_success_unknown: bool,
    /// The interval that its share of the budget allows, in seconds; only of a running daemon.
    pub interval_s: Option<f64>,
    /// Seconds until the next poll.
    pub next_poll_s: Option<f64>,
    /// New records an hour, as estimated.
    pub rate_per_hour: Option<f64>,
    /// The guaranteed longest interval, in seconds; only of a running daemon.
    pub guarantee_s: Option<f64>,
    /// Whether records may be missed in traffic like that seen so far; only of a running daemon.
    pub at_risk: bool,
    /// Why it is polled when it is; only of a running daemon.
    pub reason: Option<String>,
    /// Gaps not yet repaired or accepted.
    pub gaps: i64,
    /// The most records that the server shows, where it was found to be less than was requested.
    pub server_limit: Option<usize>,
    /// Failures in a row.
    pub failures: u32,
    /// Responses since the start that were not a page.
    pub refused_pages: u64,
    /// The last failure, in one word.
    pub last_error: Option<String>,
    /// The last failure and what to do.
    pub last_error_text: Option<String>,
    /// What the other side said with it: not our words.
    pub last_error_quotation: Option<String>,
}

impl PollerStatus {
    /// The status while no daemon runs.
    #[must_use]
    pub fn stopped(id: &PollerId) -> Self {
        Self {
            route: id.route.to_string(),
            business: id.business.clone(),
            ..Self::default()
        }
    }

    /// When a page was last read, in words; `write_age` writes an age.
    #[must_use]
    pub fn last_read(&self, write_age: impl FnOnce(f64) -> String) -> String {
        match self.last_success_age_s {
            Some(age) => write_age(age),
            None if self.last_success_unknown => "unknown (the clock was ahead)".to_owned(),
            None => "never".to_owned(),
        }
    }

    /// The route, and the business if one is named: `leads@12`.
    #[must_use]
    pub fn name(&self) -> String {
        poller_name(&self.route, self.business.as_deref())
    }
}

/// The status of polling as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PollingStatus {
    /// One entry per poller.
    pub pollers: Vec<PollerStatus>,
    /// What was spent and what is left.
    pub budget: BudgetStatus,
    /// Why every poller is paused and what to do, if they are.
    pub paused: Option<String>,
    /// What the other side said with it: not our words.
    pub paused_quotation: Option<String>,
    /// By how many seconds this machine's clock is ahead of the workspace's, negative if behind;
    /// `None` if they differ by a minute or less, or if the workspace sends no time.
    pub clock_ahead_s: Option<f64>,
}

impl Dispatcher {
    pub(super) fn status(&self) -> PollingStatus {
        let now = self.clock.now();
        let budget = self.budget.snapshot(now);
        let mut pollers = Vec::new();
        for index in 0..self.pollers.len() {
            pollers.push(self.poller_status(index, budget.resting_s));
        }
        PollingStatus {
            pollers,
            budget,
            paused: self.hold.as_ref().and_then(Hold::advice),
            paused_quotation: shown(self.hold.as_ref().and_then(Hold::quotation)),
            clock_ahead_s: self.clocks.ahead_s(),
        }
    }

    fn poller_status(&self, index: usize, resting_s: Option<f64>) -> PollerStatus {
        let now = self.clock.now();
        let poller = &self.pollers[index];
        let mut plan = self.schedule.status(index, now);
        let hold = self.hold.as_ref();
        if let Some(hold) = hold
            && let Some(advice) = hold.advice()
        {
            plan.next_poll_s = Some(hold.until.saturating_sub(now.elapsed).as_secs_f64());
            plan.reason = format!("every poller is paused: {advice}");
        } else if let Some(rest) = resting_s
            && let Some(next) = plan.next_poll_s
        {
            plan.next_poll_s = Some(next.max(rest));
        }
        let last_success_age_s = poller
            .last_success
            .map(|at| now.elapsed.saturating_sub(at.elapsed).as_secs_f64());
        PollerStatus {
            route: poller.id.route.as_str().to_owned(),
            business: poller.id.business.clone(),
            state: PollerState::from_health(poller, hold.and_then(Hold::reason)),
            last_success_age_s,
            last_success_unknown: false,
            interval_s: Some(plan.interval_s),
            next_poll_s: plan.next_poll_s,
            rate_per_hour: Some(plan.rate_per_hour),
            guarantee_s: Some(plan.guarantee_s),
            at_risk: plan.at_risk,
            reason: Some(plan.reason),
            gaps: 0,
            server_limit: None,
            failures: poller.failures,
            refused_pages: poller.refused_pages,
            last_error: poller.last_error.as_ref().map(word),
            last_error_text: poller.last_error.as_ref().map(ToString::to_string),
            last_error_quotation: shown(poller.last_error.as_ref().and_then(ApiError::quotation)),
        }
    }
}

fn shown(quotation: Option<&Quotation>) -> Option<String> {
    quotation.map(|quotation| quotation.shown().to_owned())
}
