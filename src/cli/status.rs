//! `status` and `sinks`: how everything stands, beside a running daemon and without one.

use std::path::Path;
use std::process::ExitCode;

use serde::de::DeserializeOwned;

use super::exit::{UNAVAILABLE, Wrong};
use super::output::{self, ago, cell};
use super::{read_config, runtime};
use crate::config::Config;
use crate::deliver::SinkStatus;
use crate::poll::PollerStatus;
use crate::status::{Ask, Health, Snapshot, ask};
use crate::store::Reader;

/// The snapshot of the daemon, or of the store when no daemon answers.
pub(super) fn snapshot(config: &Config) -> anyhow::Result<Snapshot> {
    match runtime()?.block_on(ask(&config.store.path, &Ask::Status)) {
        Ok(answer) => understood(&answer),
        Err(why) => {
            let reader = Reader::open(&config.store.path)?;
            Ok(Snapshot::of_store(&reader, &why, jiff::Timestamp::now())?)
        }
    }
}

/// What a daemon answered, unless it is of another version.
pub(super) fn understood<T: DeserializeOwned>(answer: &[u8]) -> anyhow::Result<T> {
    serde_json::from_slice(answer).map_err(|_| {
        let text = "the daemon answered something else: it is of another version, restart it";
        Wrong { code: UNAVAILABLE, text: text.to_owned() }.into()
    })
}

pub(super) fn status(path: &Path, json: bool) -> anyhow::Result<ExitCode> {
    let (store, snapshot) = match read_config(path) {
        Ok(config) => (config.store.path.clone(), snapshot(&config)?),
        Err(error) => {
            // The daemon runs on with what it read before, and can say how it is.
            let Some(store) = Config::store_path(path) else { return Err(error) };
            let asked = runtime()?.block_on(ask(&store, &Ask::Status));
            let Ok(answer) = asked else { return Err(error) };
            output::aside(&format!("shopmirror: {error:#}"));
            (store, understood(&answer)?)
        }
    };
    if json {
        return output::json(&snapshot);
    }
    let health = match snapshot.health {
        Health::Ok => "ok",
        Health::Degraded => "DEGRADED",
        Health::AtRisk => "AT RISK",
        Health::Failing => "FAILING",
    };
    let mut text = format!("health   {health}\n");
    for reason in &snapshot.reasons {
        text.push_str(&format!("         {}\n", output::plain(reason)));
    }
    if let Some(budget) = &snapshot.budget {
        let remaining =
            budget.remaining_seen.map_or_else(String::new, |n| format!(", {n} left on the key"));
        text.push_str(&format!(
            "budget   {} of {} requests in the last minute{remaining}, others use {:.0} a minute\n",
            budget.used_last_60s, budget.limit, budget.others_per_minute
        ));
    }
    text.push_str(&format!(
        "store    {}, {} change(s) in the log\n\n",
        store.display(),
        snapshot.last_seq
    ));
    output::text(&text)?;
    let rows = snapshot.pollers.iter().map(|p| poller_row(p, &snapshot)).collect();
    output::table(
        &["route", "business", "state", "records", "read", "every", "next", "an hour", "gaps"],
        rows,
        "no route has been read yet",
    )?;
    output::text("\n")?;
    sink_table(&snapshot.sinks)
}

fn poller_row(poller: &PollerStatus, snapshot: &Snapshot) -> Vec<String> {
    let seconds = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), ago);
    // A route's records are counted together, so they stand beside the first of its pollers.
    let first = snapshot.pollers.iter().find(|other| other.route == poller.route) == Some(poller);
    let records = snapshot.records.get(&poller.route).filter(|_| first);
    vec![
        poller.route.clone(),
        poller.business.as_deref().map_or_else(|| "-".to_owned(), |b| cell(b, 20)),
        poller.state.clone(),
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

pub(super) fn sinks(config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let snapshot = snapshot(config)?;
    if json { output::json(&snapshot.sinks) } else { sink_table(&snapshot.sinks) }
}

fn sink_table(sinks: &[SinkStatus]) -> anyhow::Result<ExitCode> {
    let rows = sinks
        .iter()
        .map(|sink| {
            vec![
                sink.name.clone(),
                sink.type_name.clone(),
                sink.state.clone(),
                sink.delivered.to_string(),
                sink.behind.to_string(),
                sink.retrying.to_string(),
                sink.dead.to_string(),
                sink.last_error.as_deref().map_or_else(|| "-".to_owned(), |error| cell(error, 60)),
            ]
        })
        .collect();
    output::table(
        &["sink", "type", "state", "delivered", "behind", "retrying", "dead", "last fault"],
        rows,
        "no sink has been opened yet: add [sinks.NAME] to the configuration",
    )
}
