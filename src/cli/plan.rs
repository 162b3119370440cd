//! `why`, `plan`, `simulate` and `trace`: what the schedule knows, and what it would do.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

use super::exit::{DATA, USAGE, Wrong};
use super::{output, status};
use crate::budget::{Budget, BudgetStatus};
use crate::clock::Clock;
use crate::config::Config;
use crate::daemon;
use crate::record::{Kind, Route, field};
use crate::schedule::{Forecast, PollerView, Schedule};
use crate::simulate::{self, Settings, Shop, Traffic};
use crate::store::{OpenError, Reader};

/// Rows of the log read at once.
const LOG_STEP: usize = 1_000;

#[derive(Debug, clap::Args)]
pub(super) struct WhyArgs {
    /// The route
    route: Route,
    /// The branch, when several are polled
    #[arg(long)]
    business: Option<String>,
    #[command(flatten)]
    json: super::Json,
}

#[derive(Debug, clap::Args)]
pub(super) struct SimulateArgs {
    /// A file of arrivals, `seconds,route,id` a line, as `trace` prints it
    #[arg(long, value_name = "FILE", group = "traffic")]
    trace: Option<PathBuf>,
    /// A synthetic shop from a Monday's midnight on, open at 9: quiet, busy or chain [default: busy]
    #[arg(long, value_name = "NAME", group = "traffic")]
    shop: Option<String>,
    /// Constant arrivals an hour of jobs, customers, leads, payments, job_status_changes and
    /// outsourced_jobs, in this order
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', group = "traffic")]
    rates: Vec<f64>,
    /// Requests a minute to spend
    #[arg(long, value_name = "N", default_value_t = 45, value_parser = clap::value_parser!(u32).range(1..))]
    requests_per_minute: u32,
    /// Records a page can hold
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
    /// How long, in hours [default: 24, or the whole trace]
    #[arg(long)]
    hours: Option<f64>,
    /// The same seed gives the same run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Draw the comparison into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    json: super::Json,
}

/// What the schedule knows of every poller: from the daemon, or from what it left in the store.
struct Planned {
    pollers: Vec<(String, PollerView)>,
    forecast: Forecast,
    budget: BudgetStatus,
    /// Whether a daemon polls as planned.
    running: bool,
}

fn planned(config: &Config) -> anyhow::Result<Planned> {
    let there = store_is_there(config)?;
    if there {
        let snapshot = status::snapshot(config)?;
        if let (Some(forecast), Some(budget)) = (snapshot.forecast, snapshot.budget) {
            let pollers =
                snapshot.pollers.into_iter().filter_map(|p| Some((p.name(), p.plan?))).collect();
            return Ok(Planned { pollers, forecast, budget, running: true });
        }
    }
    let now = Clock::system().now();
    let budget = Budget::new(config.budget, now).snapshot(now);
    let plan = daemon::poller_plan(config);
    let settings = plan.iter().map(|poller| poller.settings.clone()).collect();
    let mut schedule = Schedule::new(settings, budget.pace_per_minute, now);
    if there {
        for row in Reader::open(&config.store.path)?.pollers()? {
            let index = row.key().and_then(|key| plan.iter().position(|poller| poller.key == key));
            if let (Some(index), Some(learned)) = (index, &row.learned) {
                schedule.restore(index, learned, now);
            }
        }
    }
    let pollers = plan
        .iter()
        .enumerate()
        .map(|(index, poller)| (poller.key.to_string(), schedule.view(index, now)))
        .collect();
    let forecast = schedule.forecast(budget.pace_per_minute, now);
    Ok(Planned { pollers, forecast, budget, running: false })
}

/// Whether anything was learned yet; a store that may not be read is a failure.
fn store_is_there(config: &Config) -> anyhow::Result<bool> {
    match Reader::open(&config.store.path) {
        Ok(_) => Ok(true),
        Err(OpenError::Missing(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn why(config: &Config, args: &WhyArgs) -> anyhow::Result<ExitCode> {
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
                "{wanted} is not polled; polled are: {}",
                names(planned.pollers.iter().collect())
            )
        } else {
            format!(
                "{wanted} is polled in several branches, name one with --business: {}",
                names(found)
            )
        };
        return Err(Wrong { code: USAGE, text }.into());
    };
    if args.json.json {
        return output::json(&serde_json::json!({
            "poller": name, "plan": view, "budget": planned.budget,
            "feasible": planned.forecast.feasible, "running": planned.running,
        }));
    }
    output::text(&simulate::why(name, view, &planned.budget, &planned.forecast, planned.running))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn plan(config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let Planned { pollers, forecast, budget, .. } = planned(config)?;
    if json {
        return output::json(&simulate::plan_json(&pollers, &forecast, budget.pace_per_minute));
    }
    output::text(&simulate::plan(&pollers, &forecast, budget.pace_per_minute))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn simulate(args: &SimulateArgs) -> anyhow::Result<ExitCode> {
    let traffic = traffic(args)?;
    let settings = Settings {
        limit: args.limit,
        requests_per_minute: args.requests_per_minute,
        ..Settings::default()
    };
    if traffic.routes.iter().all(|route| route.arrivals.is_empty()) {
        let why = if args.trace.is_some() {
            "the trace shows no record that early"
        } else if args.rates.is_empty() {
            "the shop opens at 9, and the run begins at midnight"
        } else {
            "no rate brought a record"
        };
        output::aside(&format!("nothing arrived: {why}; give it more --hours"));
    }
    let comparison = simulate::compare(&traffic, &settings);
    if let Some(path) = &args.svg {
        std::fs::write(path, simulate::svg(&comparison))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if args.json.json {
        return output::json(&comparison);
    }
    output::text(&format!("{}\n", simulate::table(&comparison)))?;
    Ok(ExitCode::SUCCESS)
}

fn traffic(args: &SimulateArgs) -> anyhow::Result<Traffic> {
    let wrong = |text: String| Wrong { code: USAGE, text };
    if args.hours.is_some_and(|hours| !(hours > 0.0 && hours <= 24.0 * 366.0)) {
        return Err(wrong("--hours is a number above 0, a year at most".to_owned()).into());
    }
    let hours = args.hours.unwrap_or(24.0);
    if let Some(path) = &args.trace {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        return Ok(Traffic::from_trace(&text, args.hours).map_err(|error| Wrong {
            code: DATA,
            text: format!("{}: {error}", path.display()),
        })?);
    }
    if !args.rates.is_empty() {
        if args.rates.len() != Route::ALL.len()
            || args.rates.iter().any(|rate| !(0.0..=1e6).contains(rate))
        {
            let names = Route::ALL.map(Route::as_str).join(", ");
            return Err(wrong(format!(
                "--rates takes six numbers from 0 to 1000000, arrivals an hour of {names}"
            ))
            .into());
        }
        return Ok(Traffic::rates(&args.rates, hours, args.seed));
    }
    let name = args.shop.as_deref().unwrap_or("busy");
    let shop = Shop::named(name)
        .ok_or_else(|| wrong(format!("there is no shop {name:?}: use quiet, busy or chain")))?;
    Ok(Traffic::shop(shop, hours, args.seed))
}

/// Prints the arrivals the log holds: a record's own `created_at` where it shows one, else when it
/// was seen. What was there before the first poll is left out.
pub(super) fn trace(config: &Config) -> anyhow::Result<ExitCode> {
    let reader = Reader::open(&config.store.path)?;
    let mut arrivals = Vec::new();
    let mut position = 0;
    loop {
        let rows = reader.changes_after(position, LOG_STEP)?;
        let Some(last) = rows.last() else { break };
        position = last.seq;
        for change in rows.iter().filter(|change| change.kind == Kind::Created) {
            let shown = field(&change.body, "created_at")
                .and_then(|text| serde_json::from_str::<String>(text).ok());
            let at: Option<jiff::Timestamp> = shown
                .and_then(|text| text.parse().ok())
                .or_else(|| change.observed_at.parse().ok());
            if let (Some(at), Some(id)) = (at, &change.record_id) {
                arrivals.push((at, change.route, id.clone()));
            }
        }
    }
    arrivals.sort();
    let Some(first) = arrivals.first().map(|(at, ..)| *at) else {
        let text = "the log holds no new record yet: let the daemon run for a while".to_owned();
        return Err(Wrong { code: DATA, text }.into());
    };
    let mut text = String::from("seconds,route,id\n");
    for (at, route, id) in &arrivals {
        let seconds = at.duration_since(first).as_secs_f64();
        // An id that would break the line, or steer a terminal, is no use to a simulation, its arrival is.
        let id = if id.contains(['"', ',']) || id.contains(output::is_unsafe) { "-" } else { id };
        text.push_str(&format!("{seconds:.3},{route},{id}\n"));
    }
    output::raw(text.as_bytes())
}
