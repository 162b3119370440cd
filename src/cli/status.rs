//! `status`: the state of the workspace, from the running daemon or, without one, from the store.

use std::path::Path;
use std::process::ExitCode;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use shopmirror_core::record::Route;

use super::exit::{self, UNAVAILABLE, refuse};
use super::output::{self, Output};
use super::{runtime, sinks};
use crate::config::Config;
use crate::control::{self, ControlRequest};
use crate::daemon::poller_plan;
use crate::deliver::behind;
use crate::status::{BackupStatus, Health, ScheduledReportStatus, WorkspaceStatus};
use crate::store::{BackupFolder, Kept, Reader, word};
use crate::text::duration;

#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct Args {
    /// Show only how often this route is polled, and why
    #[arg(value_parser = super::route())]
    route: Option<Route>,
    /// Exit with 0 if health is ok, 1 if degraded or at risk, 2 if failing; more if it is unknown
    #[arg(long)]
    exit_code: bool,
}

/// Prints the status.
pub(super) fn run(config: &Config, args: Args, out: Output) -> anyhow::Result<ExitCode> {
    let mut status = current(config)?;
    if let Some(route) = args.route {
        status
            .pollers
            .retain(|poller| poller.route == route.as_str());
        if status.pollers.is_empty() {
            return refuse(
                exit::USAGE,
                format!("{route} is not polled: see `shopmirror status`"),
            );
        }
    }
    match args.route {
        _ if out.json => output::json(&status),
        Some(_) => print_route(&status),
        None => print(&config.store.path, &status, out),
    }?;
    Ok(ExitCode::from(match status.health {
        _ if !args.exit_code => 0,
        Health::Ok => 0,
        Health::Degraded | Health::AtRisk => 1,
        Health::Failing => 2,
    }))
}

/// What a route at risk means, and what to do about it.
const RISK: &str = "records may be missed: a page can fill between two polls; raise requests_per_minute, lower reserve or disable a route";

/// How often each of the pollers is polled, and why.
fn print_route(status: &WorkspaceStatus) -> anyhow::Result<ExitCode> {
    let pollers = status
        .pollers
        .iter()
        .zip(status.poller_table(&in_or_ago).rows);
    for (poller, mut facts) in pollers {
        let why = poller.reason.as_deref().unwrap_or("no daemon runs");
        facts.push(("why", why.to_owned()));
        if poller.at_risk {
            facts.push(("risk", RISK.to_owned()));
        }
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
            let pollers: Vec<_> = poller_plan(config)
                .into_iter()
                .map(|plan| plan.id)
                .collect();
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

fn print(store: &Path, status: &WorkspaceStatus, out: Output) -> anyhow::Result<ExitCode> {
    let mut facts = vec![("health", word(&status.health).replace('_', " "))];
    facts.extend(status.reasons.iter().map(|reason| ("", reason.clone())));
    facts.extend(status.page.iter().map(|page| ("page", page.clone())));
    facts.push(("store", store.display().to_string()));
    facts.extend(status.facts(&in_or_ago));
    print_facts(&facts)?;
    out.overview(&status.poller_table(&in_or_ago))?;
    output::text("\n")?;
    sinks::table(status, out)
}

/// A time seen from the status.
pub(super) fn in_or_ago(seconds: f64) -> String {
    match seconds.is_sign_negative() {
        true => format!("{} ago", duration::seconds(-seconds)),
        false => format!("in {}", duration::seconds(seconds)),
    }
}
