//! `status`: the state of the workspace, from the running daemon or, without one, from the store.

mod frame;
mod watch;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::current_status::{current, decoded};
use super::exit;
use super::output::{self, cell};
use super::{backup, moment, read_shared_config, runtime, sinks};
use crate::config::Config;
use crate::control::{self, ControlRequest};
use crate::duration;
use crate::poll::PollerStatus;
use crate::status::{Health, LastRun, WorkspaceStatus};
use crate::store::missing_link;

#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct Args {
    /// Exit with 0 if health is ok, 1 if degraded or at risk, 2 if failing, 3 if unknown
    #[arg(long)]
    exit_code: bool,
    /// Show it on the whole terminal, drawn anew every second; q ends
    #[arg(long, conflicts_with_all = ["exit_code", "json"])]
    watch: bool,
    #[command(flatten)]
    json: super::Json,
}

/// The exit code of `--exit-code` when the status cannot be read.
const UNKNOWN: u8 = 3;

/// Prints the status.
pub(super) fn run(path: &Path, args: Args) -> anyhow::Result<ExitCode> {
    if args.watch {
        return watch::run(path);
    }
    let printed = read(path).and_then(|(store, status)| {
        if args.json.json { output::json(&status) } else { print(&store, &status) }?;
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

/// The status alone, of a file without problems.
fn read_quietly(path: &Path) -> anyhow::Result<WorkspaceStatus> {
    current(&read_shared_config(path)?)
}

/// The store's path and the status. A file with problems does not hide the status of a daemon that
/// runs with what it read before.
fn read(path: &Path) -> anyhow::Result<(PathBuf, WorkspaceStatus)> {
    let error = match read_shared_config(path) {
        Ok(config) => return Ok((config.store.path.clone(), current(&config)?)),
        Err(error) => error,
    };
    let Some(store) = Config::store_path(path) else { return Err(error) };
    let reply = runtime()?.block_on(control::send(&store, &ControlRequest::Status));
    let Ok(reply) = reply else { return Err(error) };
    output::aside(&format!("shopmirror: {error:#}"));
    let status = decoded(&reply)?;
    Ok((store, status))
}

/// What is shown of each poller.
const HEADS: [&str; 10] = [
    "route",
    "business",
    "state",
    "records",
    "last read",
    "interval",
    "at latest",
    "next",
    "per hour",
    "gaps",
];

fn print(store: &Path, status: &WorkspaceStatus) -> anyhow::Result<ExitCode> {
    output::text(&heading(store, status))?;
    let rows: Vec<Vec<String>> =
        status.pollers.iter().map(|poller| poller_row(poller, status).into()).collect();
    output::table(&HEADS, &rows, "no route has been read yet")?;
    output::text("\n")?;
    sinks::table(status)
}

fn heading(store: &Path, status: &WorkspaceStatus) -> String {
    let health = match status.health {
        Health::Ok => "ok",
        Health::Degraded => "DEGRADED",
        Health::AtRisk => "AT RISK",
        Health::Failing => "FAILING",
    };
    let mut text = format!("health   {health}\n");
    for reason in &status.reasons {
        text.push_str(&format!("         {}\n", output::plain(reason)));
    }
    if let Some(page) = &status.page {
        text.push_str(&format!("page     {page}\n"));
    }
    if let Some(run) = &status.last_run {
        text.push_str(&format!("last run {}\n", run_line(run)));
    }
    if let Some(budget) = &status.budget {
        let remaining =
            budget.remaining_seen.map_or_else(String::new, |n| format!(", {n} left on the key"));
        text.push_str(&format!(
            "budget   {} of {} requests used in the last minute{remaining}; other clients use {:.0} per minute\n",
            budget.used_last_60s, budget.limit, budget.others_per_minute
        ));
    }
    let changes = output::count(status.last_seq, "change", "changes");
    text.push_str(&format!("store    {}, {changes} in the log\n", store.display()));
    if !status.job_links.is_empty() {
        let links: Vec<String> = status.job_links.iter().map(ToString::to_string).collect();
        text.push_str(&format!("links    {}\n", output::plain(&links.join(", "))));
    }
    for route in &status.unlinked_routes {
        text.push_str(&format!("links    {}\n", missing_link(*route)));
    }
    text.push_str(&backup::status_line(status));
    if let Some(next) = status.reports.iter().min_by(|a, b| a.next_at.cmp(&b.next_at)) {
        let made = match status.reports.len() {
            1 => "1 report is made by itself".to_owned(),
            count => format!("{count} reports are made by themselves"),
        };
        text.push_str(&format!(
            "reports  {made}, next {} at {}\n",
            next.name,
            moment::shown(&next.next_at)
        ));
    }
    text.push('\n');
    text
}

fn run_line(run: &LastRun) -> String {
    let polled = output::count(i64::try_from(run.polled).unwrap_or(i64::MAX), "poller", "pollers");
    let mut text = format!(
        "{} ago: {polled}, {} new, {} changed",
        duration::seconds(run.age_s),
        output::count(run.created, "record", "records"),
        run.updated
    );
    if !run.failed.is_empty() {
        let failed: Vec<String> = run
            .failed
            .iter()
            .map(|failed| format!("{} ({})", cell(&failed.poller, 40), cell(&failed.error, 40)))
            .collect();
        text.push_str(&format!("; failed: {}", failed.join(", ")));
    }
    text
}

fn poller_row(poller: &PollerStatus, status: &WorkspaceStatus) -> [String; HEADS.len()] {
    let seconds = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), duration::seconds);
    // Records are counted per route, so they are shown in the row of its first poller.
    let first = status.pollers.iter().find(|other| other.route == poller.route) == Some(poller);
    let records = status.records.get(&poller.route).filter(|_| first);
    [
        poller.route.clone(),
        poller.business.as_deref().map_or_else(|| "-".to_owned(), |b| cell(b, 20)),
        poller.state.as_str().to_owned(),
        records.map_or_else(|| "-".to_owned(), ToString::to_string),
        poller.last_read(|age| format!("{} ago", duration::seconds(age))),
        seconds(poller.interval_s),
        seconds(poller.guarantee_s()),
        seconds(poller.next_poll_s),
        poller.rate_per_hour.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}")),
        poller.gaps.to_string(),
    ]
}
