//! `status`: the state of the workspace, from the running daemon or, without one, from the store.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use jiff::Timestamp;
use serde::de::DeserializeOwned;

use super::exit::{self, UNAVAILABLE, refuse};
use super::{output, read_shared_config, runtime, sinks};
use crate::config::Config;
use crate::control::{self, ControlRequest};
use crate::daemon::poller_plan;
use crate::deliver::behind;
use crate::duration;
use crate::poll::PollerStatus;
use crate::record::Route;
use crate::status::{BackupStatus, Health, ScheduledReportStatus, WorkspaceStatus};
use crate::store::{BackupFolder, Kept, Reader};

#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct Args {
    /// Show only how often this route is polled, and why
    #[arg(value_parser = super::route())]
    route: Option<Route>,
    /// Exit with 0 if health is ok, 1 if degraded or at risk, 2 if failing, 3 if unknown
    #[arg(long)]
    exit_code: bool,
    #[command(flatten)]
    listing: super::Listing,
}

/// The exit code of `--exit-code` when the status cannot be read.
const UNKNOWN: u8 = 3;

/// Prints the status.
pub(super) fn run(path: &Path, args: Args) -> anyhow::Result<ExitCode> {
    let printed = read(path).and_then(|(store, mut status)| {
        if let Some(route) = args.route {
            keep_route(&mut status, route)?;
        }
        match args.route {
            _ if args.listing.json => output::json(&status),
            Some(_) => print_route(&status),
            None => print(&store, &status, args.listing.wide),
        }?;
        Ok(status.health)
    });
    match printed {
        Ok(health) if args.exit_code => Ok(ExitCode::from(match health {
            Health::Ok => 0,
            Health::Degraded | Health::AtRisk => 1,
            Health::Failing => 2,
        })),
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(error) if args.exit_code && !exit::is_closed_pipe(&error) => {
            output::aside(&format!("shopmirror: {error:#}"));
            Ok(ExitCode::from(UNKNOWN))
        }
        Err(error) => Err(error),
    }
}

/// Leaves out the pollers of other routes.
fn keep_route(status: &mut WorkspaceStatus, route: Route) -> anyhow::Result<()> {
    let (wanted, others): (Vec<_>, Vec<_>) =
        status.pollers.drain(..).partition(|poller| poller.route == route.as_str());
    if wanted.is_empty() {
        let names: Vec<String> = others.iter().map(PollerStatus::name).collect();
        return refuse(
            exit::USAGE,
            format!("{route} is not polled; these are: {}", names.join(", ")),
        );
    }
    status.pollers = wanted;
    Ok(())
}

/// How often each of the pollers is polled, and why.
fn print_route(status: &WorkspaceStatus) -> anyhow::Result<ExitCode> {
    let pollers = status.pollers.iter().zip(status.poller_table(&in_or_ago).rows);
    for (poller, mut facts) in pollers {
        let risk = match (&poller.reason, poller.at_risk) {
            (None, _) => "unknown while no daemon runs",
            (_, false) => "none: at the rates seen no page overflows",
            (_, true) => {
                "records may be missed: a page can fill between two polls; raise requests_per_minute, lower reserve or disable a route"
            }
        };
        let why = poller.reason.as_deref().unwrap_or("no daemon runs");
        facts.extend([("why", why.to_owned()), ("risk", risk.to_owned())]);
        facts.extend(poller.last_error_text.clone().map(|error| ("error", error)));
        print_facts(&facts)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a line for each fact, and an empty one.
fn print_facts(facts: &[(&str, String)]) -> anyhow::Result<ExitCode> {
    let line = |(label, text): &(&str, String)| format!("{label:<9} {}\n", output::plain(text));
    output::text(&(facts.iter().map(line).collect::<String>() + "\n"))
}

/// The store's path and the status. A file with problems does not hide the status of a daemon that
/// runs with what it read before, if its database is where it is by default.
fn read(path: &Path) -> anyhow::Result<(PathBuf, WorkspaceStatus)> {
    let error = match read_shared_config(path) {
        Ok(config) => return Ok((config.store.path.clone(), current(&config)?)),
        Err(error) => error,
    };
    let store = Config::default_store_path(path);
    let reply = runtime()?.block_on(control::send(&store, &ControlRequest::Status));
    let Ok(reply) = reply else { return Err(error) };
    output::aside(&format!("shopmirror: {error:#}"));
    let status = decoded(&reply)?;
    Ok((store, status))
}

/// The status from the daemon, or from the store if no daemon replies.
pub(super) fn current(config: &Config) -> anyhow::Result<WorkspaceStatus> {
    match runtime()?.block_on(control::send(&config.store.path, &ControlRequest::Status)) {
        Ok(reply) => decoded(&reply),
        Err(why) => {
            let reader = Reader::open(&config.store.path)?;
            let now = Timestamp::now();
            let mut status = WorkspaceStatus::stored(&reader, now)?;
            let folder = BackupFolder::new(&config.backup.path, &config.store.path);
            status.backup = (config.backup.keep > 0).then(|| BackupStatus::of_folder(&folder, now));
            let zone = &config.workspace.time_zone;
            let runs = reader.kept(Kept::REPORT_RUNS)?.unwrap_or_default();
            status.reports = ScheduledReportStatus::of_all(&config.reports, zone, &runs, now);
            let pollers: Vec<_> = poller_plan(config).into_iter().map(|plan| plan.id).collect();
            let mut status = status.without_daemon(&reader, &why, &pollers, config.once_every)?;
            for sink in &mut status.sinks {
                if let Some(settings) = config.sinks.get(&sink.name) {
                    let (name, last) = (&sink.name, status.last_seq);
                    sink.behind = behind(&reader, name, &settings.filter, sink.position, last)?;
                }
            }
            Ok(status)
        }
    }
}

/// A daemon's reply. A daemon of another version may send what this one cannot read.
pub(super) fn decoded<T: DeserializeOwned>(reply: &[u8]) -> anyhow::Result<T> {
    serde_json::from_slice(reply).map_err(|_| {
        let text = "the daemon's reply cannot be read, because the daemon is of another version: restart it";
        exit::error(UNAVAILABLE, text)
    })
}

fn print(store: &Path, status: &WorkspaceStatus, wide: bool) -> anyhow::Result<ExitCode> {
    let health = match status.health {
        Health::Ok => "ok".to_owned(),
        other => other.as_str().to_uppercase(),
    };
    let mut facts = vec![("health", health)];
    facts.extend(status.reasons.iter().map(|reason| ("", reason.clone())));
    facts.extend(status.page.iter().map(|page| ("page", page.clone())));
    facts.push(("store", store.display().to_string()));
    facts.extend(status.facts(&in_or_ago));
    print_facts(&facts)?;
    output::overview(&status.poller_table(&in_or_ago), wide)?;
    output::text("\n")?;
    sinks::table(status, wide)
}

/// A time seen from the status.
pub(super) fn in_or_ago(seconds: f64) -> String {
    match seconds.is_sign_negative() {
        true => format!("{} ago", duration::seconds(-seconds)),
        false => format!("in {}", duration::seconds(seconds)),
    }
}
