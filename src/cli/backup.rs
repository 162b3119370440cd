//! `backup`: copies the store into one file while it is in use, and checks the copy.

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
use crate::store::{self, CopyControl, CopyFacts, StoreError};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The file to write
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Overwrite the file if it exists
    #[arg(long)]
    replace: bool,
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

/// Runs a copy with a progress bar on a terminal. SIGINT and SIGTERM stop it; nothing of it stays.
pub(super) fn copy<T: Send + 'static>(
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
pub(super) fn described(facts: &CopyFacts) -> String {
    let changes = output::count(facts.last_seq, "change", "changes");
    let size = HumanBytes(facts.bytes);
    match &facts.last_change_at {
        Some(at) => format!("{changes} up to {at} ({size})"),
        None => format!("{changes} ({size})"),
    }
}
