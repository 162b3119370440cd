//! `status`: the state of the workspace, from the running daemon or, without one, from the store.

mod support;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueHint;
use shopmirror_core::record::Route;

use super::current::{current, decode, in_or_ago};
use super::exit::{self, refuse};
use super::output::{self, Output};
use super::{config_path, load_for_reading, runtime, sinks};
use crate::config::{Config, ConfigError};
use crate::control::{self, ControlRequest};
use crate::status::{Health, WorkspaceStatus};

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Args {
    /// Show only how often this route is polled, and why
    #[arg(value_parser = super::route())]
    route: Option<Route>,
    /// Exit with 0 if health is ok, 1 if degraded or at risk, 2 if failing, 3 if it is not known
    #[arg(long)]
    exit_code: bool,
    /// Write an archive for a question to somebody else: versions, configuration without secrets,
    /// status, log, gaps and schema; no record
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = ["route", "exit_code"])]
    support: Option<PathBuf>,
    /// Write the archive without showing it first
    #[arg(long, requires = "support")]
    yes: bool,
}

/// The exit code of `--exit-code` if the health is not known.
const UNKNOWN: u8 = 3;

/// Prints the status.
pub(super) fn run(place: Option<PathBuf>, args: &Args, out: Output) -> anyhow::Result<ExitCode> {
    if let Some(target) = &args.support {
        return support::run(&config_path(place)?, target, args.yes, out);
    }
    let option = place.clone();
    let is_for_exit_code = args.exit_code;
    let shown = config_path(place).and_then(|path| show(&path, args, out));
    if !is_for_exit_code {
        return shown.map(|_| ExitCode::SUCCESS);
    }
    match shown {
        Ok(Health::Ok) => Ok(ExitCode::SUCCESS),
        Ok(Health::Degraded | Health::AtRisk) => Ok(ExitCode::from(1)),
        Ok(Health::Failing) => Ok(ExitCode::from(2)),
        Err(error) if exit::is_closed_pipe(&error) => Err(error),
        Err(error) => {
            let advice = exit::advice(&error, option.as_deref());
            refuse(UNKNOWN, format!("{error:#}{advice}"))
        }
    }
}

/// Prints the status, and returns the health.
fn show(path: &Path, args: &Args, out: Output) -> anyhow::Result<Health> {
    let (mut status, store) = match load_for_reading(path) {
        Ok(config) => (current(&config)?, config.store.path),
        Err(error) => beside_a_mistake(path, error)?,
    };
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
    if out.json {
        output::json(&status)?;
    } else if args.route.is_some() {
        print_route(&status)?;
    } else {
        print(&store, &status, out)?;
    }
    Ok(status.health)
}

/// The status of a daemon whose configuration file has a mistake now, and its store; without a
/// daemon, the mistake.
fn beside_a_mistake(
    path: &Path,
    mistake: anyhow::Error,
) -> anyhow::Result<(WorkspaceStatus, PathBuf)> {
    if !matches!(mistake.downcast_ref(), Some(ConfigError::Invalid(_))) {
        return Err(mistake);
    }
    let store = Config::named_store_path(path)?;
    let reply = control::send(&store, &ControlRequest::Status);
    let Ok(reply) = runtime()?.block_on(reply) else {
        return Err(mistake);
    };
    let mut status: WorkspaceStatus = decode(&reply)?;
    status.file_mistake = Some(mistake.to_string().replace('\n', "; "));
    Ok((status, store))
}

/// What a route at risk means, and what to do about it.
const RISK: &str = "records may be missed: a page can fill between two polls; raise \
                    requests_per_minute, lower reserve or disable a route";

/// What it means that the server shows fewer records than requested, and what to do about it.
fn server_limit(records: usize) -> String {
    format!(
        "the server shows at most {records} records a page, fewer than requested: a shorter burst \
         can be missed; find out what removes `limit` from the requests"
    )
}

/// How often each of the pollers is polled, and why.
fn print_route(status: &WorkspaceStatus) -> anyhow::Result<ExitCode> {
    let rows = status.poller_table(&in_or_ago).rows;
    for (poller, mut facts) in status.pollers.iter().zip(rows) {
        let why = poller.reason.as_deref().unwrap_or("no daemon runs");
        facts.push(("why", why.to_owned()));
        if poller.at_risk {
            facts.push(("risk", RISK.to_owned()));
        }
        if let Some(records) = poller.server_limit {
            facts.push(("limit", server_limit(records)));
        }
        if let Some(error) = &poller.last_error_text {
            facts.push(("error", error.clone()));
        }
        if let Some(quotation) = &poller.last_error_quotation {
            facts.push(("response", quotation.clone()));
        }
        print_facts(&facts)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a line for each fact, and an empty one.
fn print_facts(facts: &[(&str, String)]) -> anyhow::Result<ExitCode> {
    let mut lines = String::new();
    for (label, text) in facts {
        lines += &format!("{label:<9} {}\n", output::plain(text));
    }
    output::text(&(lines + "\n"))
}

fn print(store: &Path, status: &WorkspaceStatus, out: Output) -> anyhow::Result<ExitCode> {
    let mut facts = vec![("health", status.health.in_words())];
    for reason in &status.reasons {
        facts.push(("", reason.clone()));
    }
    if let Some(mistake) = &status.file_mistake {
        facts.push((
            "mistake",
            format!("{mistake}; the daemon runs with an older configuration: correct the file"),
        ));
    }
    if let Some(page) = &status.page {
        facts.push(("page", page.clone()));
    }
    facts.push(("store", store.display().to_string()));
    facts.extend(status.facts(&in_or_ago));
    print_facts(&facts)?;
    out.overview(&status.poller_table(&in_or_ago))?;
    output::text("\n")?;
    sinks::table(status, out)
}
