//! `simulate`: the adaptive schedule beside fixed ones, on a virtual clock.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

use super::exit::{DATA, ExitError, USAGE};
use super::output;
use crate::record::Route;
use crate::simulate::{self, Shop, SimulationSettings, Traffic};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A file of arrivals, one `seconds,route,id` per line, as printed by `trace`
    #[arg(long, value_name = "FILE", group = "traffic")]
    trace: Option<PathBuf>,
    /// A synthetic shop, from midnight of a Monday, open from 9: quiet, busy or chain [default: busy]
    #[arg(long, value_name = "NAME", group = "traffic")]
    shop: Option<String>,
    /// Constant arrivals per hour of jobs, customers, leads, payments, job_status_changes and
    /// outsourced_jobs, in this order
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', group = "traffic")]
    rates: Vec<f64>,
    /// Requests per minute
    #[arg(long, value_name = "N", default_value_t = 45, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    requests_per_minute: u32,
    /// Records per page
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
    /// The simulated time in hours [default: 24, or the whole trace]
    #[arg(long)]
    hours: Option<f64>,
    /// The same seed gives the same run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Draw the comparison as SVG into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    json: super::Json,
}

/// Most hours that `--hours` can give: a year.
const MOST_HOURS: f64 = 24.0 * 366.0;
/// Most requests of one schedule. Each takes 16 bytes of memory.
const MOST_REQUESTS: f64 = 50_000_000.0;

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let traffic = traffic(args)?;
    if let Some(text) = too_long(traffic.span_s, args.requests_per_minute) {
        return Err(ExitError { code: USAGE, text }.into());
    }
    let settings = SimulationSettings {
        limit: args.limit,
        requests_per_minute: args.requests_per_minute,
        ..SimulationSettings::default()
    };
    if traffic.routes.iter().all(|route| route.arrivals.is_empty()) {
        let why = if args.trace.is_some() {
            "the first record of the trace is later"
        } else if args.rates.is_empty() {
            "the shop opens at 9, and the simulation starts at midnight"
        } else {
            "the rates are too low"
        };
        output::aside(&format!("no records arrived: {why}; use more --hours"));
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

/// Why a simulation of so many seconds is refused, if it is.
fn too_long(span_s: f64, requests_per_minute: u32) -> Option<String> {
    let most_s = MOST_REQUESTS / f64::from(requests_per_minute) * 60.0;
    (span_s > most_s).then(|| {
        // In tenths of an hour.
        let most_hours = ((most_s / 360.0).floor() / 10.0).min(MOST_HOURS);
        format!(
            "{:.1} hours at {requests_per_minute} requests per minute are more than the 50 million requests that a simulation can have: use --hours {most_hours} or fewer, or fewer --requests-per-minute",
            span_s / 3600.0,
        )
    })
}

fn traffic(args: &Args) -> anyhow::Result<Traffic> {
    let wrong = |text: String| ExitError { code: USAGE, text };
    if args.hours.is_some_and(|hours| !(hours > 0.0 && hours <= MOST_HOURS)) {
        return Err(wrong("--hours must be above 0 and at most a year (8784)".to_owned()).into());
    }
    let hours = args.hours.unwrap_or(24.0);
    if let Some(path) = &args.trace {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        return Ok(Traffic::from_trace(&text, args.hours).map_err(|error| ExitError {
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
                "--rates takes six numbers from 0 to 1000000, arrivals per hour of {names}"
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
