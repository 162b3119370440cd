//! `demo`: shows everything at work with one command, on loopback only.
//!
//! The sandbox is the workspace. The daemon polls it as it would poll a real one, within 60
//! requests per minute, and forwards to a file and to a webhook receiver of the demo. Its past has
//! one gap, which is explained and accepted, so that health is green.

mod receiver;

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use shopmirror_core::clock::Clock;
use shopmirror_core::record::{PollerId, Route, field_text};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::output::{self, Output};
use super::{locale, log, logging, read_config, run, runtime};
use crate::api::decode;
use crate::config::Config;
use crate::daemon::{self, Signals};
use crate::store::{Operator, PollFacts, Reader, Store};
use ::sandbox::{self, Options, Sandbox, Shop};

/// The most records on a page of the past, and the number of new records on each page. Pages
/// overlap, because a page is longer than a step. The first page is no longer than a step, so that it
/// is the whole list of its time.
const PAST_PAGE: u32 = 100;
const PAST_STEP: usize = 80;
/// Why the past has a gap.
const GAP_NOTE: &str = "made by the demo, as if this machine had been off then";
/// How often to check for new changes to print.
const CHECK_EVERY: Duration = Duration::from_millis(200);

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Stop after this time, for example 30s; without it, run until interrupted
    #[arg(long = "for", value_name = "DURATION", value_parser = humantime::parse_duration)]
    time: Option<Duration>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    logging::start("warn");
    let dir = tempfile::Builder::new()
        .prefix("shopmirror-demo-")
        .tempdir()
        .context("cannot make a temporary folder")?;
    let dir = dir.keep().canonicalize()?;
    runtime()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("cannot listen on a loopback port for the sandbox")?;
        let base_url = format!("http://{}/api", listener.local_addr()?);
        // A port that is free now, for the daemon to open.
        let page = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
        let hooks = TcpListener::bind("127.0.0.1:0").await?;
        let addresses = Addresses {
            base_url,
            page,
            hooks: hooks.local_addr()?,
        };
        let sandbox = Sandbox::new(Options {
            shop: Shop::Busy,
            past_in: Some(jiff::tz::TimeZone::system()),
            start: Some(jiff::Timestamp::now()),
            ..Options::default()
        });
        let stop = CancellationToken::new();
        let serving = tokio::spawn(sandbox::serve(listener, sandbox.clone(), stop.clone()));
        let receiving = tokio::spawn(receiver::serve(hooks, stop.clone()));
        let config = configure(&dir, &addresses, &sandbox.automation_key())?;
        let before = store_past(&config.store.path, &sandbox).await?;
        introduce(&dir, &addresses)?;
        let ended = work(config, &dir, before, args.time).await;
        stop.cancel();
        serving.await??;
        receiving.await??;
        ended?;
        output::text(&format!("\nThe folder is kept: {}\n", dir.display()))
    })
}

/// Where the parts of the demo listen.
struct Addresses {
    base_url: String,
    page: SocketAddr,
    hooks: SocketAddr,
}

/// Stores the past of the shop, as if it had been polled since its first day but for one gap of
/// leads; returns the number of changes that the log has then.
async fn store_past(path: &Path, sandbox: &Sandbox) -> anyhow::Result<i64> {
    let store = Store::open(path)?;
    for route in Route::ALL {
        let name = route.as_str().replace('_', "-");
        let Some(sandbox_route) = sandbox::Route::named(&name) else {
            continue;
        };
        let poller = PollerId {
            route,
            business: None,
        };
        let truth = sandbox.truth(sandbox_route);
        // Counted from the end, so that the last page is a full one: the first poll is compared
        // with it.
        let mut ends: Vec<usize> = (1..=truth.len()).rev().step_by(PAST_STEP).collect();
        if route == Route::Leads && ends.len() > 4 {
            // The pages beside it share no record.
            ends.remove(ends.len() / 2);
        }
        for end in ends.into_iter().rev() {
            let past = truth[end.saturating_sub(PAST_PAGE as usize)..end]
                .iter()
                .rev();
            let texts: Vec<&str> = past.map(|record| record.record.get()).collect();
            let newest = texts.first().copied().unwrap_or_default();
            let facts = PollFacts {
                at: created_at(newest).unwrap_or_else(jiff::Timestamp::now),
                asked_after: i64::MAX,
                limit: PAST_PAGE,
                page_age: Duration::ZERO,
                served_business: None,
            };
            let page = decode(format!("[{}]", texts.join(",")).into_bytes())?;
            store.store_page(poller.clone(), page, facts, None).await?;
        }
    }
    let last = store.seq();
    store.close().await?;
    Operator::open(path)?.accept_gaps(None, Some(GAP_NOTE))?;
    Ok(last)
}

fn created_at(record: &str) -> Option<jiff::Timestamp> {
    let text: String = serde_json::from_str(field_text(record, "created_at")?).ok()?;
    text.parse().ok()
}

/// Writes a configuration like a real one, and reads it as `run` does.
fn configure(dir: &Path, addresses: &Addresses, key: &str) -> anyhow::Result<Config> {
    write(&dir.join("api-key"), key)?;
    let Addresses {
        base_url,
        page,
        hooks,
    } = addresses;
    let currency = match locale::currency() {
        Some(currency) => format!("[reports]\ncurrency = \"{currency}\"\n\n"),
        None => String::new(),
    };
    let path = dir.join("shopmirror.toml");
    let text = format!(
        r#"# Made by `shopmirror demo`: the workspace is a sandbox on this machine.
[workspace]
base_url = "{base_url}"
api_key_file = "api-key"

[poll]
min_interval = "2s"
max_interval = "15s"

[store]
path = "mirror.db"

[status]
listen = "{page}"
show_records = true

{currency}[sinks.audit]
type = "file"
path = "audit.ndjson"
changes = ["baseline", "created", "updated", "gap"]
start = "beginning"

[sinks.hook]
type = "webhook"
url = "http://{hooks}/hook"
"#
    );
    write(&path, &text)?;
    read_config(&path)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o640)
        .open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn introduce(dir: &Path, addresses: &Addresses) -> anyhow::Result<ExitCode> {
    let Addresses {
        base_url,
        page,
        hooks,
    } = addresses;
    let dir = dir.display();
    // As it was called, because it may not be in PATH.
    let program = std::env::args()
        .next()
        .unwrap_or_else(|| "shopmirror".to_owned());
    output::text(&format!(
        "status page   http://{page}/\n\
         webhooks      http://{hooks}/\n\n\
         A simulated shop is running at {base_url}; shopmirror polls it at most 60 times a \
         minute.\n\
         Repairs that wait for a part are late, and some were taken home on account and are unpaid.\n\
         The past has one gap of leads, which is explained and accepted: see `gaps`.\n\n\
         database        {dir}/mirror.db\n\
         change log      {dir}/audit.ndjson (one change per line)\n\
         configuration   {dir}/shopmirror.toml\n\n\
         Try these commands while it runs:\n\
         \x20 sqlite3 -readonly {dir}/mirror.db 'select id, name, status_stage from leads'\n\
         \x20 {program} --config {dir}/shopmirror.toml status\n\
         \x20 {program} --config {dir}/shopmirror.toml gaps\n\
         \x20 {program} --config {dir}/shopmirror.toml log --follow\n\n"
    ))
}

/// Runs the daemon for a time, and prints changes as they arrive.
async fn work(
    config: Config,
    dir: &Path,
    before: i64,
    time: Option<Duration>,
) -> anyhow::Result<()> {
    let (signals, reloads) = Signals::new();
    let path = dir.join("shopmirror.toml");
    let store = config.store.path.clone();
    let reread = Box::new(move || read_config(&path));
    let running = daemon::run(config, reread, Clock::system(), signals.clone(), reloads);
    let ending = async {
        match time {
            Some(time) => tokio::time::sleep(time).await,
            None => std::future::pending().await,
        }
        signals.stop.cancel();
        std::future::pending().await
    };
    tokio::select! {
        outcome = running => outcome,
        refused = run::forward(&signals) => refused,
        () = ending => Ok(()),
        failed = print_changes(&store, before) => failed,
    }
}

/// Prints the changes as they arrive.
async fn print_changes(store: &Path, before: i64) -> anyhow::Result<()> {
    let reader = Reader::open(store)?;
    output::text(&format!(
        "         {before} changes were in the log before\n"
    ))?;
    let mut position = before;
    loop {
        let changes = reader.changes_after(position, 200)?;
        if let Some(last) = changes.last() {
            position = last.seq;
        }
        log::print(&changes, Output::default())?;
        tokio::time::sleep(CHECK_EVERY).await;
    }
}
