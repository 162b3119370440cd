//! `backup`: copies the store into one file while it is in use, and checks the copy. `restore`:
//! puts a backup in the place of the store, and keeps the store that was there.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::ValueHint;
use indicatif::HumanBytes;
use tokio_util::sync::CancellationToken;

use super::output::{self, Bar, Output};
use super::runtime;
use super::signals::stoppable;
use crate::config::Config;
use crate::store::{self, CopyControl, CopyFacts, Restored, StoreError, StorePlace};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The file to write
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Overwrite the file if it exists
    #[arg(long)]
    replace: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct RestoreArgs {
    /// The backup, as `shopmirror backup` or the daemon wrote it
    #[arg(value_hint = ValueHint::FilePath, required_unless_present = "new_store")]
    file: Option<PathBuf>,
    /// Make an empty store where one was lost; needs no key
    #[arg(long, conflicts_with = "file")]
    new_store: bool,
}

/// Writes a backup and prints what it holds.
pub(super) fn run(config: &Config, args: Args, out: Output) -> anyhow::Result<ExitCode> {
    let source = config.store.path.clone();
    let file = args.file.display().to_string();
    let copied = copy(move |control| store::back_up(&source, &args.file, args.replace, control));
    let facts = copied.with_context(|| format!("could not copy the store to {file}"))?;
    out.done(
        &facts,
        &format!("{file} holds {}; the copy was checked\n", described(&facts)),
    )
}

/// Makes an empty store where one was lost.
fn begin_again(config: &Config, out: Output) -> anyhow::Result<ExitCode> {
    let place = StorePlace::new(&config.store, &config.backup);
    store::begin_again(&place, jiff::Timestamp::now())?;
    let path = place.path.display();
    let text = format!(
        "{path} is an empty store: start the daemon; the first page of each list is its baseline, \
         and sinks begin as new ones. Backups of the lost store stay until you delete them\n"
    );
    out.done(&serde_json::json!({ "new_store": place.path }), &text)
}

/// Restores a backup and prints what to do next.
pub(super) fn restore(config: &Config, args: RestoreArgs, out: Output) -> anyhow::Result<ExitCode> {
    let Some(file) = args.file else {
        return begin_again(config, out);
    };
    let path = config.store.path.clone();
    let now = jiff::Timestamp::now();
    let problem = format!("could not restore {}", file.display());
    let restored = copy(move |control| store::restore(&path, &file, now, control));
    let restored = restored.context(problem)?;
    super::index_log(&config.store.path);
    let Restored {
        facts,
        kept,
        forgotten_again,
    } = &restored;
    let mut text = format!(
        "{} now holds {}\n",
        config.store.path.display(),
        described(facts)
    );
    if let Some(kept) = kept {
        text.push_str(&format!(
            "the replaced store is kept as {}; delete it when you no longer need it\n",
            kept.display()
        ));
    }
    match forgotten_again {
        Some(0) => {}
        Some(records) => {
            let records = output::count(*records, "record", "records");
            text.push_str(&format!(
                "{records} forgotten after the backup: forgotten again\n"
            ));
        }
        None => text.push_str(
            "no replaced store says which records were forgotten after the backup: \
             run `shopmirror forget` for them before you start the daemon\n",
        ),
    }
    text.push_str(
        "start the daemon: polling continues from the backup; a sink may get the changes since \
         the backup again, under the same event ids\n",
    );
    out.done(&restored, &text)
}

/// Runs a copy with a progress bar on a terminal. SIGINT and SIGTERM stop it; nothing of it stays.
fn copy<T: Send + 'static>(
    work: impl FnOnce(&CopyControl) -> Result<T, StoreError> + Send + 'static,
) -> anyhow::Result<T> {
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    runtime()?.block_on(async move {
        let copied = tokio::task::spawn_blocking(move || {
            let bar = Bar::bytes();
            let progress = Arc::new(move |bytes, total| bar.at(bytes, total));
            work(&CopyControl {
                stop: stopped,
                progress,
            })
        });
        Ok(stoppable(&stop, copied).await???)
    })
}

/// The content of a copy, for people.
fn described(facts: &CopyFacts) -> String {
    let changes = output::count(facts.last_seq, "change", "changes");
    let size = HumanBytes(facts.bytes);
    match &facts.last_change_at {
        Some(at) => format!("{changes} up to {at} ({size})"),
        None => format!("{changes} ({size})"),
    }
}
