//! `status`: the state of the workspace, from the running daemon or, without one, from the store.

use std::path::Path;
use std::process::ExitCode;

use serde::de::DeserializeOwned;

use super::exit::{UNAVAILABLE, Wrong};
use super::output::{self, ago, cell};
use super::{backup, read_config, runtime, sinks};
use crate::config::Config;
use crate::control::{self, ControlRequest};
use crate::deliver::behind;
use crate::poll::PollerStatus;
use crate::status::{BackupStatus, Health, WorkspaceStatus};
use crate::store::{BackupFolder, Reader};

/// The status from the daemon, or from the store if no daemon replies.
pub(super) fn current(config: &Config) -> anyhow::Result<WorkspaceStatus> {
    match runtime()?.block_on(control::send(&config.store.path, &ControlRequest::Status)) {
        Ok(reply) => decoded(&reply),
        Err(why) => {
            let reader = Reader::open(&config.store.path)?;
            let mut status = WorkspaceStatus::of_store(&reader, &why, jiff::Timestamp::now())?;
            for sink in &mut status.sinks {
                if let Some(settings) = config.sinks.get(&sink.name) {
                    sink.behind =
                        behind(&reader, &settings.filter, sink.position, status.last_seq)?;
                }
            }
            let folder = BackupFolder::new(&config.backup.path, &config.store.path);
            let backup = (config.backup.keep > 0).then(|| BackupStatus::of_folder(&folder));
            Ok(status.with_backup(backup))
        }
    }
}

/// A daemon's reply. A daemon of another version may send what this one cannot read.
pub(super) fn decoded<T: DeserializeOwned>(reply: &[u8]) -> anyhow::Result<T> {
    serde_json::from_slice(reply).map_err(|_| {
        let text = "the daemon's reply cannot be read, because the daemon is of another version: restart it";
        Wrong { code: UNAVAILABLE, text: text.to_owned() }.into()
    })
}

pub(super) fn run(path: &Path, json: bool) -> anyhow::Result<ExitCode> {
    let (store, status) = match read_config(path) {
        Ok(config) => (config.store.path.clone(), current(&config)?),
        Err(error) => {
            // The daemon runs on with what it read before, and can say how it is.
            let Some(store) = Config::store_path(path) else { return Err(error) };
            let asked = runtime()?.block_on(control::send(&store, &ControlRequest::Status));
            let Ok(reply) = asked else { return Err(error) };
            output::aside(&format!("shopmirror: {error:#}"));
            (store, decoded(&reply)?)
        }
    };
    if json {
        return output::json(&status);
    }
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
    if let Some(budget) = &status.budget {
        let remaining =
            budget.remaining_seen.map_or_else(String::new, |n| format!(", {n} left on the key"));
        text.push_str(&format!(
            "budget   {} of {} requests in the last minute{remaining}, others use {:.0} a minute\n",
            budget.used_last_60s, budget.limit, budget.others_per_minute
        ));
    }
    text.push_str(&format!(
        "store    {}, {} change(s) in the log\n",
        store.display(),
        status.last_seq
    ));
    text.push_str(&backup::status_line(&status));
    text.push('\n');
    output::text(&text)?;
    let rows = status.pollers.iter().map(|p| poller_row(p, &status)).collect();
    output::table(
        &["route", "business", "state", "records", "read", "every", "next", "an hour", "gaps"],
        rows,
        "no route has been read yet",
    )?;
    output::text("\n")?;
    sinks::table(&status.sinks)
}

fn poller_row(poller: &PollerStatus, status: &WorkspaceStatus) -> Vec<String> {
    let seconds = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), ago);
    // A route's records are counted together, so they stand beside the first of its pollers.
    let first = status.pollers.iter().find(|other| other.route == poller.route) == Some(poller);
    let records = status.records.get(&poller.route).filter(|_| first);
    vec![
        poller.route.clone(),
        poller.business.as_deref().map_or_else(|| "-".to_owned(), |b| cell(b, 20)),
        poller.state.as_str().to_owned(),
        records.map_or_else(|| "-".to_owned(), ToString::to_string),
        poller
            .last_success_age_s
            .map_or_else(|| "never".to_owned(), |age| format!("{} ago", ago(age))),
        seconds(poller.interval_s),
        seconds(poller.next_poll_s),
        poller.rate_per_hour.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}")),
        poller.gaps.to_string(),
    ]
}
