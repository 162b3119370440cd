//! `plan`: how often each route is polled and whether the budget is enough; `why` uses it too.

use std::process::ExitCode;

use super::{current_status, output, plan_text};
use crate::budget::{Budget, BudgetStatus};
use crate::clock::{Clock, Moment};
use crate::config::Config;
use crate::daemon;
use crate::plan::{Forecast, PollerView};
use crate::poll::PollerPlan;
use crate::schedule::Schedule;
use crate::store::{OpenError, Reader};

/// What the schedule knows about every poller: from the daemon, or from what it left in the store.
pub(super) struct PlanStatus {
    pub(super) pollers: Vec<(String, PollerView)>,
    pub(super) forecast: Forecast,
    pub(super) budget: BudgetStatus,
    /// Whether a daemon polls as planned.
    pub(super) running: bool,
}

pub(super) fn planned(config: &Config) -> anyhow::Result<PlanStatus> {
    let there = store_is_there(config)?;
    if there {
        let status = current_status::current(config)?;
        if let (Some(forecast), Some(budget)) = (status.forecast, status.budget) {
            let pollers =
                status.pollers.into_iter().filter_map(|p| Some((p.name(), p.plan?))).collect();
            return Ok(PlanStatus { pollers, forecast, budget, running: true });
        }
    }
    let now = Clock::system().now();
    let (plan, budget, mut schedule) = unlearned(config, now);
    if there {
        for row in Reader::open(&config.store.path)?.pollers()? {
            let index = row.id().and_then(|id| plan.iter().position(|poller| poller.id == id));
            if let (Some(index), Some(learned)) = (index, &row.learned) {
                schedule.restore(index, learned, now);
            }
        }
    }
    let pollers = plan
        .iter()
        .enumerate()
        .map(|(index, poller)| (poller.id.to_string(), schedule.view(index, now)))
        .collect();
    let forecast = schedule.forecast();
    Ok(PlanStatus { pollers, forecast, budget, running: false })
}

/// The pollers of the configuration, the budget, and the schedule before anything is learned.
pub(super) fn unlearned(config: &Config, now: Moment) -> (Vec<PollerPlan>, BudgetStatus, Schedule) {
    let budget = Budget::new(config.budget, now).snapshot(now);
    let plan = daemon::poller_plan(config);
    let settings = plan.iter().map(|poller| poller.settings.clone()).collect();
    let schedule = Schedule::new(settings, budget.pace_per_minute, now);
    (plan, budget, schedule)
}

/// Whether anything was learned yet; a store that may not be read is a failure.
fn store_is_there(config: &Config) -> anyhow::Result<bool> {
    match Reader::open(&config.store.path) {
        Ok(_) => Ok(true),
        Err(OpenError::Missing(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn run(config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let PlanStatus { pollers, forecast, budget, .. } = planned(config)?;
    if json {
        return output::json(&plan_text::plan_json(&pollers, &forecast, budget.pace_per_minute));
    }
    output::text(&plan_text::plan(
        &pollers,
        &forecast,
        budget.pace_per_minute,
        config.poll.thrift,
    ))?;
    Ok(ExitCode::SUCCESS)
}
