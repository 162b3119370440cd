//! How polling stands, for people and tools.

use serde::{Deserialize, Serialize};

use super::{Dispatcher, word};
use crate::budget::BudgetStatus;
use crate::schedule::{Forecast, PollerView};

/// How one poller stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PollerStatus {
    /// The route.
    pub route: String,
    /// The branch; `None` is the workspace default.
    pub business: Option<String>,
    /// `starting`, `ok`, `backoff`, `route_broken`, `key_refused`, `key_wrong_type`, `wrong_host`, `disk_full`, `store_locked`
    pub state: String,
    /// Seconds since a page was last read and stored, or found unchanged.
    pub last_success_age_s: Option<f64>,
    /// The interval the schedule aims at.
    pub interval_s: Option<f64>,
    /// Seconds until the next poll.
    pub next_poll_s: Option<f64>,
    /// New records an hour, as estimated.
    pub rate_per_hour: Option<f64>,
    /// What the schedule knows and plans; only of a running daemon.
    pub plan: Option<PollerView>,
    /// Gaps not yet repaired or accepted.
    pub gaps: i64,
    /// Failures in a row.
    pub failures: u32,
    /// Pages refused since the start because they were none.
    pub refused_pages: u64,
    /// The last failure, in one word.
    pub last_error: Option<String>,
    /// The last failure, and what to do.
    pub last_error_text: Option<String>,
}

impl PollerStatus {
    /// The route, and the branch if one is named: `leads@12`.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.business {
            Some(business) => format!("{}@{business}", self.route),
            None => self.route.clone(),
        }
    }
}

/// How polling stands as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PollingStatus {
    /// One entry a poller.
    pub pollers: Vec<PollerStatus>,
    /// What was spent and what is left.
    pub budget: BudgetStatus,
    /// Why every poller is paused, and what to do.
    pub halted: Option<String>,
    /// Why polling waits for the store, and what to do.
    pub store_pause: Option<String>,
    /// Whether every poller's safe interval fits the budget.
    pub forecast: Forecast,
}

impl Dispatcher {
    pub(super) fn view(&self) -> PollingStatus {
        let now = self.clock.now();
        let halt = self.gate.halt();
        let budget = self.budget.snapshot(now);
        let forecast = self.schedule.forecast(budget.pace_per_minute, now);
        let paused =
            self.store_pause.as_ref().map(|pause| (pause.until, pause.why.clone())).or_else(|| {
                halt.map(|closed| (closed.next_probe(), closed.halt.advice().to_owned()))
            });
        let pollers = self
            .pollers
            .iter()
            .enumerate()
            .map(|(index, poller)| {
                let mut plan = self.schedule.view(index, now);
                if let Some((until, why)) = &paused {
                    plan.next_poll_s = Some(until.saturating_sub(now.elapsed).as_secs_f64());
                    plan.reason = format!("every poller is paused: {why}");
                }
                let state = match () {
                    () if self.store_pause.as_ref().is_some_and(|pause| pause.full) => "disk_full",
                    () if self.store_pause.is_some() => "store_locked",
                    () if halt.is_some() => halt.map_or("", |h| h.halt.as_str()),
                    () if poller.refusals > 0 => "route_broken",
                    () if poller.failures > 0 => "backoff",
                    () if poller.last_success.is_none() => "starting",
                    () => "ok",
                };
                PollerStatus {
                    route: poller.key.route.as_str().to_owned(),
                    business: poller.key.business.clone(),
                    state: state.to_owned(),
                    last_success_age_s: poller
                        .last_success
                        .map(|at| now.elapsed.saturating_sub(at.elapsed).as_secs_f64()),
                    interval_s: Some(plan.interval_s),
                    next_poll_s: plan.next_poll_s,
                    rate_per_hour: Some(plan.rate_per_hour),
                    plan: Some(plan),
                    gaps: 0,
                    failures: poller.failures,
                    refused_pages: poller.refused_pages,
                    last_error: poller.last_error.as_ref().map(word),
                    last_error_text: poller.last_error.as_ref().map(ToString::to_string),
                }
            })
            .collect();
        PollingStatus {
            pollers,
            budget,
            halted: halt.map(|closed| closed.halt.advice().to_owned()),
            store_pause: self.store_pause.as_ref().map(|pause| pause.why.clone()),
            forecast,
        }
    }
}
