//! `status`: the state of the workspace, from the running daemon or, without one, from the store.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use jiff::Timestamp;
use serde::de::DeserializeOwned;

use super::exit::{self, ExitError, UNAVAILABLE, refuse};
use super::output::{self, cell};
use super::{moment, read_shared_config, runtime, sinks};
use crate::config::Config;
use crate::control::{self, ControlRequest};
use crate::deliver::behind;
use crate::duration;
use crate::poll::{PollerState, PollerStatus};
use crate::record::Route;
use crate::status::{BackupStatus, Health, LastRun, ScheduledReportStatus, WorkspaceStatus};
use crate::store::{BackupFolder, Kept, Reader, missing_link};

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
    for poller in &status.pollers {
        output::text(&output::plain(&described(poller)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn described(poller: &PollerStatus) -> String {
    let name = poller.name();
    let rate = poller.rate_per_hour.map_or_else(
        || "unknown".to_owned(),
        |rate| {
            let digits = if rate < 10.0 { 2 } else { 0 };
            format!("{rate:.digits$} new records an hour")
        },
    );
    let risk = match (poller.at_risk, poller.guarantee_s) {
        (_, None) => "unknown while no daemon runs".to_owned(),
        (false, _) => "none: at the rates seen no page overflows".to_owned(),
        (true, _) => format!(
            "records of {name} may be missed: a page can fill between two polls; raise requests_per_minute, lower reserve or disable a route"
        ),
    };
    let next = match poller.next_poll_s {
        None if poller.guarantee_s.is_none() => "after the daemon is started".to_owned(),
        None => "the request is under way".to_owned(),
        Some(left) if left < 0.5 => "now, with the next free request of the budget".to_owned(),
        Some(left) => format!("in {}", duration::seconds(left)),
    };
    let read = poller.last_read(ago);
    let mut lines = vec![
        ("poller", format!("{name}, {}", poller.state.as_str())),
        ("rate", rate),
        ("interval", poller.interval_s.map_or_else(|| "unknown".to_owned(), duration::seconds)),
        ("why", poller.reason.clone().unwrap_or_else(|| "no daemon runs".to_owned())),
        (
            "guarantee",
            poller.guarantee_s.map_or_else(
                || "unknown while no daemon runs".to_owned(),
                |longest| {
                    format!("polled again after {} at the latest", duration::seconds(longest))
                },
            ),
        ),
        ("risk", risk),
        ("last read", read),
        ("next poll", next),
    ];
    lines.extend(poller.last_error_text.clone().map(|error| ("error", error)));
    lines.iter().map(|(label, text)| format!("{label:<10} {text}\n")).collect::<String>() + "\n"
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

/// The status from the daemon, or from the store if no daemon replies.
pub(super) fn current(config: &Config) -> anyhow::Result<WorkspaceStatus> {
    match runtime()?.block_on(control::send(&config.store.path, &ControlRequest::Status)) {
        Ok(reply) => decoded(&reply),
        Err(why) => {
            let reader = Reader::open(&config.store.path)?;
            let now = Timestamp::now();
            let every = config.once_every;
            let mut status = WorkspaceStatus::of_store(&reader, &why, every, now)?;
            for sink in &mut status.sinks {
                if let Some(settings) = config.sinks.get(&sink.name) {
                    let (name, last) = (&sink.name, status.last_seq);
                    sink.behind = behind(&reader, name, &settings.filter, sink.position, last)?;
                }
            }
            let folder = BackupFolder::new(&config.backup.path, &config.store.path);
            let backup = (config.backup.keep > 0).then(|| BackupStatus::of_folder(&folder, now));
            let zone = &config.workspace.time_zone;
            let runs = reader.kept(Kept::REPORT_RUNS)?.unwrap_or_default();
            let reports = ScheduledReportStatus::of_all(&config.reports, zone, &runs, now);
            Ok(status.with_backup(backup).with_reports(reports))
        }
    }
}

/// A daemon's reply. A daemon of another version may send what this one cannot read.
pub(super) fn decoded<T: DeserializeOwned>(reply: &[u8]) -> anyhow::Result<T> {
    serde_json::from_slice(reply).map_err(|_| {
        let text = "the daemon's reply cannot be read, because the daemon is of another version: restart it";
        ExitError { code: UNAVAILABLE, text: text.to_owned() }.into()
    })
}

fn print(store: &Path, status: &WorkspaceStatus, wide: bool) -> anyhow::Result<ExitCode> {
    output::text(&heading(store, status))?;
    let shown: Vec<ShownPoller<'_>> =
        status.pollers.iter().map(|poller| ShownPoller { poller, status }).collect();
    output::table(
        &shown,
        &[
            ("route", |shown| cell(&shown.poller.name(), 40)),
            ("state", |shown| match shown.poller.state {
                PollerState::Ok if shown.poller.at_risk => "AT RISK".to_owned(),
                state => state.as_str().to_owned(),
            }),
            ("gaps", |shown| shown.poller.gaps.to_string()),
            ("last read", |shown| shown.poller.last_read(ago)),
            ("next", |shown| or_dash(shown.poller.next_poll_s, duration::seconds)),
            ("interval", |shown| or_dash(shown.poller.interval_s, duration::seconds)),
            ("at latest", |shown| or_dash(shown.poller.guarantee_s, duration::seconds)),
            ("records", |shown| or_dash(shown.records(), |count| count.to_string())),
            ("per hour", |shown| or_dash(shown.poller.rate_per_hour, |rate| format!("{rate:.0}"))),
        ],
        "no route has been read yet",
        wide,
    )?;
    output::text("\n")?;
    sinks::table(status, wide)
}

fn heading(store: &Path, status: &WorkspaceStatus) -> String {
    let health = match status.health {
        Health::Ok => "ok".to_owned(),
        other => other.as_str().to_uppercase(),
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
    text.push_str(&backup_line(status));
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
    let polled = output::count(run.polled, "poller", "pollers");
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

fn ago(age_s: f64) -> String {
    format!("{} ago", duration::seconds(age_s))
}

fn or_dash<V>(value: Option<V>, shown: impl FnOnce(V) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), shown)
}

/// A poller in the table.
struct ShownPoller<'s> {
    poller: &'s PollerStatus,
    status: &'s WorkspaceStatus,
}

impl ShownPoller<'_> {
    /// The records of the route, in the row of its first poller.
    fn records(&self) -> Option<i64> {
        let route = &self.poller.route;
        let first = self.status.pollers.iter().find(|other| other.route == *route);
        let records = self.status.records.get(route).copied();
        records.filter(|_| first == Some(self.poller))
    }
}

/// The line of `status` about the daily backup; empty if none are made.
fn backup_line(status: &WorkspaceStatus) -> String {
    let Some(backup) = &status.backup else { return String::new() };
    let now = status.at.parse::<Timestamp>().unwrap_or_default();
    let seconds = |at: &Option<String>| {
        let at = at.as_ref()?.parse::<Timestamp>().ok()?;
        Some(at.duration_since(now).as_secs_f64())
    };
    let last = seconds(&backup.last_at)
        .map_or_else(|| "none yet".to_owned(), |s| format!("{} ago", duration::seconds(-s)));
    let next = seconds(&backup.next_at)
        .map_or_else(String::new, |s| format!(", next in {}", duration::seconds(s)));
    format!("backup   {last}{next}\n")
}
