//! `restore`: puts a backup in the place of the store, and keeps the store that was there.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueHint;

use super::copying;
use super::output;
use crate::config::Config;
use crate::store;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The backup, as `shopmirror backup` or the daemon wrote it
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
}

/// Restores a backup and prints what to do next.
pub(super) fn run(config: &Config, args: Args) -> anyhow::Result<ExitCode> {
    let path = config.store.path.clone();
    let now = jiff::Timestamp::now();
    let restored = copying::run(move |control| store::restore(&path, &args.file, now, control))?;
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
    text.push_str(
        "start the daemon: polling continues from the backup; a sink may get the changes since the backup again, \
         under the same event ids\n",
    );
    output::text(&output::plain(&text))?;
    Ok(ExitCode::SUCCESS)
}
