//! `restore`: puts a backup in the place of the store, and keeps the store that was there.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueHint;

use super::copying;
use super::output;
use super::search_index;
use crate::config::Config;
use crate::store::{self, ForgottenSince};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The backup, as `shopmirror backup` or the daemon wrote it
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Restore a damaged backup as it is; `shopmirror verify` then lists what disagrees
    #[arg(long)]
    accept_damage: bool,
}

/// Restores a backup and prints what to do next.
pub(super) fn run(config: &Config, args: Args) -> anyhow::Result<ExitCode> {
    let path = config.store.path.clone();
    let now = jiff::Timestamp::now();
    let restored = copying::run(move |control| {
        store::restore(&path, &args.file, args.accept_damage, now, control)
    })?;
    search_index::follow(&config.store.path);
    let mut text = format!(
        "{} now holds {}\n",
        config.store.path.display(),
        copying::described(&restored.facts)
    );
    if let Some(kept) = restored.kept {
        text.push_str(&format!(
            "the replaced store is kept as {}; delete it when you no longer need it\n",
            kept.display()
        ));
    }
    match restored.forgotten {
        ForgottenSince::Again(0) => {}
        ForgottenSince::Again(1) => {
            text.push_str("1 record that was forgotten after the backup was forgotten again\n");
        }
        ForgottenSince::Again(count) => text.push_str(&format!(
            "{count} records that were forgotten after the backup were forgotten again\n"
        )),
        ForgottenSince::Unknown => text.push_str(
            "no replaced store says which records were forgotten after the backup: \
             run `shopmirror forget` for them before you start the daemon\n",
        ),
    }
    text.push_str(
        "start the daemon: polling continues from the backup; a sink may get the changes since the backup again, \
         under the same event ids\n",
    );
    output::text(&output::plain(&text))
}
