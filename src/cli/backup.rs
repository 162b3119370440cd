//! `backup`: copies the store into one file while it is in use, and checks the copy. `restore`: puts a backup
//! in the place of the store, and keeps the store that was there.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::ValueHint;
use indicatif::HumanBytes;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::progress::Bar;
use super::signals::StopSignals;
use super::{output, runtime};
use crate::config::Config;
use crate::store::{self, CopyControl, CopyFacts, StoreError};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The file to write
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Overwrite the file if it exists
    #[arg(long)]
    replace: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct RestoreArgs {
    /// The backup, as `shopmirror backup` or the daemon wrote it
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Writes a backup and prints what it holds.
pub(super) fn run(config: &Config, args: &Args) -> anyhow::Result<ExitCode> {
    let source = config.store.path.clone();
    let (file, replace) = (args.file.clone(), args.replace);
    let copied = copied(move |control| store::back_up(&source, &file, replace, control));
    let file = args.file.display();
    let facts = copied.with_context(|| format!("could not copy the store to {file}"))?;
    let CopyFacts { bytes, last_seq, last_change_at } = &facts;
    output::done(
        args.json,
        &json!({"file": file.to_string(), "bytes": bytes, "last_seq": last_seq, "last_change_at": last_change_at}),
        &format!("{file} holds {}; the copy was checked\n", described(&facts)),
    )
}

/// Restores a backup and prints what to do next.
pub(super) fn restore(config: &Config, args: RestoreArgs) -> anyhow::Result<ExitCode> {
    let path = config.store.path.clone();
    let now = jiff::Timestamp::now();
    let unrestored = format!("could not restore {}", args.file.display());
    let restored = copied(move |control| store::restore(&path, &args.file, now, control));
    let restored = restored.context(unrestored)?;
    super::index_log(&config.store.path);
    let kept = restored.kept.map(|kept| kept.display().to_string());
    let again = restored.forgotten;
    let mut text =
        format!("{} now holds {}\n", config.store.path.display(), described(&restored.facts));
    if let Some(kept) = &kept {
        text.push_str(&format!(
            "the replaced store is kept as {kept}; delete it when you no longer need it\n"
        ));
    }
    match again {
        Some(0) => {}
        Some(records) => {
            let records = output::count(records, "record", "records");
            text.push_str(&format!("{records} forgotten after the backup: forgotten again\n"));
        }
        None => text.push_str(
            "no replaced store says which records were forgotten after the backup: \
             run `shopmirror forget` for them before you start the daemon\n",
        ),
    }
    text.push_str(
        "start the daemon: polling continues from the backup; a sink may get the changes since the backup again, \
         under the same event ids\n",
    );
    let CopyFacts { bytes, last_seq, last_change_at } = &restored.facts;
    output::done(
        args.json,
        &json!({"bytes": bytes, "last_seq": last_seq, "last_change_at": last_change_at, "kept": kept, "forgotten_again": again}),
        &text,
    )
}

/// Runs a copy with a progress bar on a terminal. SIGINT and SIGTERM stop it; nothing of it stays.
fn copied<T: Send + 'static>(
    copy: impl FnOnce(&CopyControl) -> Result<T, StoreError> + Send + 'static,
) -> anyhow::Result<T> {
    let runtime = runtime()?;
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    runtime.block_on(async move {
        let mut signals = StopSignals::new()?;
        let copied = tokio::task::spawn_blocking(move || {
            let bar = Bar::bytes();
            let progress = Arc::new(move |bytes, total| bar.at(bytes, total));
            copy(&CopyControl { stop: stopped, progress })
        });
        tokio::pin!(copied);
        tokio::select! {
            copied = &mut copied => return Ok(copied??),
            () = signals.next() => {}
        }
        stop.cancel();
        Ok(copied.await??)
    })
}

/// What a copy holds, for people.
fn described(facts: &CopyFacts) -> String {
    let changes = output::count(facts.last_seq, "change", "changes");
    let until = facts.last_change_at.as_ref().map_or_else(String::new, |at| format!(" up to {at}"));
    format!("{changes}{until} ({})", HumanBytes(facts.bytes))
}
