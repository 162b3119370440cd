//! `once`: polls every route once, delivers, and ends; for cron and CI.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use serde_json::json;
use shopmirror_core::clock::Clock;
use shopmirror_core::record::PollerId;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::exit::{self, refuse};
use super::output::{self, Output};
use super::run_as::read_config_and_become_owner;
use super::signals::stoppable;
use super::{logging, runtime};
use crate::api::{ApiError, Client};
use crate::config::Config;
use crate::daemon;
use crate::deliver::{SinkActivity, SinkStatus};
use crate::store::{Store, StorePlace};

/// Polls every route once, delivers, and prints the result.
pub(super) fn run(path: &Path, out: Output) -> anyhow::Result<ExitCode> {
    logging::start("warn");
    let config = read_config_and_become_owner(path)?;
    let runtime = runtime()?;
    let stop = CancellationToken::new();
    // A signal cancels what is in progress and keeps its result.
    let work = stoppable(&stop, poll_and_deliver(&config, out, &stop));
    let outcome = runtime.block_on(work).flatten();
    // A file system that hangs must not keep the process from ending.
    runtime.shutdown_timeout(Duration::from_secs(1));
    match outcome {
        Ok(_) if stop.is_cancelled() => refuse(
            exit::TRY_AGAIN,
            "interrupted; the next run continues from here",
        ),
        outcome => outcome,
    }
}

/// The result of one run.
struct OnceResult {
    stored: i64,
    failed: Vec<(PollerId, ApiError)>,
    unsettled: Vec<SinkStatus>,
}

async fn poll_and_deliver(
    config: &Config,
    out: Output,
    stop: &CancellationToken,
) -> anyhow::Result<ExitCode> {
    // Before the store, so that a run that cannot start creates nothing.
    let clock = Clock::system();
    let client = daemon::checked_client(config, clock.clone())?;
    let place = StorePlace::new(&config.store, &config.backup);
    // Opening may check a large file first.
    let store = tokio::task::spawn_blocking(move || Store::open(&place)).await??;
    let outcome = work_on(config, client, &clock, &store, stop).await;
    let closed = store.close().await;
    let outcome = outcome?;
    closed?;
    let path = config.store.path.clone();
    tokio::task::spawn_blocking(move || super::index_log(&path)).await?;
    print(&outcome, out)
}

/// Polls and delivers. After an error the rest is still done, and the first error is returned.
async fn work_on(
    config: &Config,
    client: Client,
    clock: &Clock,
    store: &Store,
    stop: &CancellationToken,
) -> anyhow::Result<OnceResult> {
    let dispatcher = daemon::dispatcher(config, client, clock.clone(), store, None).await?;
    let clocks = dispatcher.clocks();
    let before = store.read(|reader| reader.last_seq()).await?;
    // A new sink starts after the last row of now, so that it receives what this run stores.
    let deliverers = daemon::deliverers(config, clock, store).await?;
    let failed = dispatcher.once(stop).await;
    // At the same time, so that a sink that hangs does not delay the others.
    let mut delivering = JoinSet::new();
    for deliverer in deliverers {
        let stop = stop.clone();
        delivering.spawn(async move { deliverer.once(&stop).await });
    }
    let mut unsettled = Vec::new();
    let mut delivered = Ok(());
    while let Some(ended) = delivering.join_next().await {
        let sink = match ended {
            Ok(Ok(sink)) => sink,
            Ok(Err(error)) => {
                delivered = delivered.and(Err(anyhow::Error::from(error)));
                continue;
            }
            Err(error) => {
                delivered = delivered.and(Err(error.into()));
                continue;
            }
        };
        if sink.backlog > 0 || sink.state != SinkActivity::Active {
            unsettled.push(sink);
        }
    }
    unsettled.sort_by(|a, b| a.name.cmp(&b.name));
    let after = store.read(|reader| reader.last_seq()).await;
    let old_by = daemon::old_by(&clocks, clock.now());
    let upkeep = store.upkeep(old_by, config.store.log_retention).await;
    let reread = daemon::reread(store, stop).await;
    let failed = failed?;
    delivered.context("delivering")?;
    let stored = after? - before;
    upkeep?;
    reread?;
    Ok(OnceResult {
        stored,
        failed,
        unsettled,
    })
}

fn print(result: &OnceResult, out: Output) -> anyhow::Result<ExitCode> {
    let OnceResult {
        stored,
        failed,
        unsettled,
    } = result;
    let mut failures = Vec::new();
    for (poller, error) in failed {
        failures.push(json!({"poller": poller.to_string(), "error": error.to_string()}));
    }
    let printed = out.done(
        &json!({"stored": stored, "failed": failures, "undelivered": unsettled}),
        &format!("{} stored\n", output::count(*stored, "change", "changes")),
    );
    // A reader that has closed the pipe may still use the exit code.
    if let Err(error) = printed
        && !exit::is_closed_pipe(&error)
    {
        return Err(error);
    }
    for sink in unsettled {
        let why = sink
            .last_error
            .as_deref()
            .unwrap_or("see `shopmirror sinks`");
        let backlog = output::count(sink.backlog, "change", "changes");
        output::print_note(&format!(
            "sink {}: {backlog} not delivered: {why}",
            sink.name
        ));
    }
    print_failures(failed);
    if let Some((_, error)) = failed.first() {
        Ok(ExitCode::from(exit::code_of_api(error)))
    } else if !unsettled.is_empty() {
        Ok(ExitCode::from(exit::TRY_AGAIN))
    } else {
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints each error once, with every poller that had it.
fn print_failures(failed: &[(PollerId, ApiError)]) {
    let mut errors = BTreeMap::<String, Vec<String>>::new();
    for (poller, error) in failed {
        errors
            .entry(error.to_string())
            .or_default()
            .push(poller.to_string());
    }
    for (error, pollers) in errors {
        output::print_note(&format!("{}: {error}", pollers.join(", ")));
    }
}
