//! `lab`: runs what shopmirror decides against a known truth, for developers.
//!
//! `lab simulate` compares the adaptive schedule with fixed ones over a trace or a synthetic shop,
//! on a virtual clock. `lab pages` judges the rule of what a page proves, `lab vanished` that of
//! records which are gone from their list, `lab restored` that of ids which are used again.

mod pages;
mod restored;
mod simulate;
mod table;
mod vanished;

use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use clap::Parser;
use serde::Serialize;
use shopmirror_core::record::Route;

use self::pages::{EndsOutcome, Load, Server};
use self::simulate::{Shop, SimulationSettings, Traffic};

#[derive(Debug, Parser)]
#[command(name = "lab")]
enum Command {
    /// Compare the adaptive schedule with fixed ones on a virtual clock
    Simulate(Args),
    /// Judge the rule of what a page proves against lists whose truth is known
    Pages(PagesArgs),
    /// Judge whether a page is the whole list, for servers that show fewer records than requested
    Ends(EndsArgs),
    /// Judge the rule of records that are gone from a list against shops whose truth is known
    Vanished(VanishedArgs),
    /// Judge the rule of ids that a restored workspace uses again
    Restored(RestoredArgs),
    /// Judge whether the bounds of gaps hold every lost record
    Bursts(BurstsArgs),
}

// What every command that judges a rule takes. A doc comment would become the help of each.
#[derive(Debug, clap::Args)]
struct RunArgs {
    /// The same seed gives the same run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct BurstsArgs {
    /// Lists of each kind
    #[arg(long, value_name = "N", default_value_t = 50)]
    lists: u64,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, clap::Args)]
struct EndsArgs {
    /// Pages of each server
    #[arg(long, value_name = "N", default_value_t = 40_000)]
    pages: u64,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, clap::Args)]
struct VanishedArgs {
    /// Shops of each order and each life
    #[arg(long, value_name = "N", default_value_t = 20)]
    shops: u64,
    /// By what the workspace orders its lists [default: each in turn]
    #[arg(long, value_name = "ORDER")]
    listed_by: Option<vanished::ListedBy>,
    /// How much happens [default: each in turn]
    #[arg(long, value_name = "LIFE")]
    life: Option<vanished::Life>,
    /// Part of the pages that a lagging server answers
    #[arg(long, value_name = "PART", default_value_t = 0.01)]
    lagging: f64,
    /// Let the workspace hide finished records one by one
    #[arg(long)]
    archives: bool,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, clap::Args)]
struct RestoredArgs {
    /// Workspaces
    #[arg(long, value_name = "N", default_value_t = 40)]
    workspaces: u64,
    /// Polls of each list
    #[arg(long, value_name = "N", default_value_t = 400)]
    polls: u32,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, clap::Args)]
struct PagesArgs {
    /// What happens between two polls [default: each load in turn]
    #[arg(long, value_name = "LOAD")]
    load: Option<Load>,
    /// Polls of each load
    #[arg(long, value_name = "N", default_value_t = 250_000)]
    polls: u64,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, clap::Args)]
struct Args {
    /// A file of arrivals, one `seconds,route,id` per line
    #[arg(long, value_name = "FILE", group = "traffic")]
    trace: Option<PathBuf>,
    /// A synthetic shop, from midnight of a Monday, open from 9: quiet, busy or chain
    #[arg(long, value_name = "NAME", group = "traffic", default_value = "busy")]
    shop: String,
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
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Not read; callers of the former `shopmirror simulate` give it
    #[arg(long, value_name = "FILE", hide = true)]
    config: Option<PathBuf>,
}

/// Most hours that `--hours` can give: a year.
const MAX_HOURS: f64 = 24.0 * 366.0;
/// Most requests of one schedule. Each takes 16 bytes of memory.
const MAX_REQUESTS: f64 = 50_000_000.0;

fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Simulate(args) => simulate(&args),
        Command::Pages(args) => judge_pages(&args),
        Command::Ends(args) => judge_ends(&args),
        Command::Vanished(args) => judge_vanished(&args),
        Command::Restored(args) => judge_restored(&args),
        Command::Bursts(args) => judge_bursts(&args),
    }
}

fn judge_bursts(args: &BurstsArgs) -> anyhow::Result<()> {
    let outcomes = pages::run_bursts(args.lists, args.run.seed);
    let missed = pages::missed_bursts(&outcomes);
    print(&args.run, &outcomes, pages::bursts_table, &missed)
}

fn judge_ends(args: &EndsArgs) -> anyhow::Result<()> {
    let mut outcomes: Vec<EndsOutcome> = Vec::new();
    for server in Server::ALL {
        outcomes.push(pages::run_ends(server, args.pages, args.run.seed));
    }
    let missed = pages::missed_ends(&outcomes);
    print(&args.run, &outcomes, pages::ends_table, &missed)
}

fn judge_vanished(args: &VanishedArgs) -> anyhow::Result<()> {
    let outcomes = vanished::run(&vanished::Settings {
        shops: args.shops,
        listed_by: args.listed_by,
        life: args.life,
        lagging: args.lagging,
        archives: args.archives,
        seed: args.run.seed,
    });
    let missed = vanished::missed_goals(&outcomes);
    print(&args.run, &outcomes, vanished::table, &missed)
}

fn judge_restored(args: &RestoredArgs) -> anyhow::Result<()> {
    let outcomes = restored::run(&restored::Settings {
        workspaces: args.workspaces,
        polls: args.polls,
        seed: args.run.seed,
    });
    let missed = restored::missed_goals(&outcomes);
    print(&args.run, &outcomes, restored::table, &missed)
}

fn judge_pages(args: &PagesArgs) -> anyhow::Result<()> {
    let loads = match args.load {
        Some(load) => vec![load],
        None => vec![Load::Mix, Load::Life],
    };
    let mut outcomes = Vec::new();
    for load in loads {
        outcomes.push(pages::run(load, args.polls, args.run.seed));
    }
    let mut missed = Vec::new();
    for outcome in &outcomes {
        missed.extend(pages::missed_goals(outcome, 1.0));
    }
    print(&args.run, &outcomes, pages::table, &missed)
}

/// Prints the outcomes.
///
/// # Errors
/// If a goal is missed.
fn print<T: Serialize>(
    args: &RunArgs,
    outcomes: &[T],
    table: fn(&[T]) -> String,
    missed: &[String],
) -> anyhow::Result<()> {
    if args.json {
        println!("{}", serde_json::to_string_pretty(outcomes)?);
    } else {
        println!("{}", table(outcomes));
    }
    ensure!(missed.is_empty(), "missed goals: {}", missed.join("; "));
    Ok(())
}

fn simulate(args: &Args) -> anyhow::Result<()> {
    let traffic = traffic(args)?;
    let requests = traffic.span_s / 60.0 * f64::from(args.requests_per_minute);
    ensure!(
        requests <= MAX_REQUESTS,
        "{requests:.0} requests are more than the 50 million that a simulation can have: use fewer --hours or --requests-per-minute"
    );
    let settings = SimulationSettings {
        limit: args.limit,
        requests_per_minute: args.requests_per_minute,
        ..SimulationSettings::default()
    };
    let comparison = simulate::compare(&traffic, &settings);
    if let Some(path) = &args.svg {
        std::fs::write(path, simulate::svg(&comparison))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&comparison)?);
    } else {
        println!("{}", simulate::table(&comparison));
    }
    Ok(())
}

fn traffic(args: &Args) -> anyhow::Result<Traffic> {
    if args
        .hours
        .is_some_and(|hours| !(hours > 0.0 && hours <= MAX_HOURS))
    {
        bail!("--hours must be above 0 and at most a year (8784)");
    }
    let hours = args.hours.unwrap_or(24.0);
    if let Some(path) = &args.trace {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        return Traffic::from_trace(&text, args.hours).with_context(|| path.display().to_string());
    }
    if !args.rates.is_empty() {
        let is_one_a_route = args.rates.len() == Route::ALL.len();
        if !is_one_a_route || args.rates.iter().any(|rate| !(0.0..=1e6).contains(rate)) {
            let names = Route::ALL.map(Route::as_str).join(", ");
            bail!("--rates takes six numbers from 0 to 1000000, arrivals per hour of {names}");
        }
        return Ok(Traffic::rates(&args.rates, hours, args.seed));
    }
    let shop = Shop::named(&args.shop);
    let shop = shop.with_context(|| format!("there is no shop {:?}", args.shop))?;
    Ok(Traffic::shop(shop, hours, args.seed))
}
