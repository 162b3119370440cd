//! `why`: how often a route is polled, and why.

use std::process::ExitCode;

use clap_complete::ArgValueCandidates;

use super::completions;
use super::exit::{ExitError, USAGE};
use super::plan::planned;
use super::route_name::RouteName;
use super::{output, plan_text};
use crate::budget::BudgetStatus;
use crate::config::Config;
use crate::plan::PollerView;
use crate::record::Route;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The route
    #[arg(value_parser = RouteName)]
    route: Route,
    /// The business (branch), if several are polled
    #[arg(long, add = ArgValueCandidates::new(completions::businesses))]
    business: Option<String>,
    #[command(flatten)]
    json: super::Json,
}

/// What `why --json` prints.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Why<'p> {
    /// The poller: the route, or `route@business`.
    poller: &'p str,
    /// What the schedule knows and plans.
    plan: &'p PollerView,
    /// What was spent and what is left.
    budget: &'p BudgetStatus,
    /// Whether the budget is enough to lose no records of any route.
    feasible: bool,
    /// Whether a daemon polls as planned; if not, the plan comes from the store.
    running: bool,
}

pub(super) fn run(config: &Config, args: &Args) -> anyhow::Result<ExitCode> {
    let planned = planned(config)?;
    let wanted = match &args.business {
        Some(business) => format!("{}@{business}", args.route),
        None => args.route.to_string(),
    };
    let of_route =
        |name: &str| args.business.is_none() && name.split('@').next() == Some(args.route.as_str());
    let found: Vec<_> =
        planned.pollers.iter().filter(|(name, _)| *name == wanted || of_route(name)).collect();
    let [(name, view)] = found.as_slice() else {
        let names = |pollers: Vec<&(String, PollerView)>| {
            pollers.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let text = if found.is_empty() {
            format!(
                "{wanted} is not polled; these are: {}",
                names(planned.pollers.iter().collect())
            )
        } else {
            format!(
                "{wanted} is polled in several businesses; name one with --business: {}",
                names(found)
            )
        };
        return Err(ExitError { code: USAGE, text }.into());
    };
    if args.json.json {
        return output::json(&Why {
            poller: name,
            plan: view,
            budget: &planned.budget,
            feasible: planned.forecast.feasible,
            running: planned.running,
        });
    }
    output::text(&plan_text::why(name, view, &planned.budget, &planned.forecast, planned.running))?;
    Ok(ExitCode::SUCCESS)
}
