//! `restore`: puts a backup in the place of the store, and keeps the store that was there.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueHint;
use serde_json::Value;

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
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Restores a backup and prints what to do next.
pub(super) fn run(config: &Config, args: Args) -> anyhow::Result<ExitCode> {
    let path = config.store.path.clone();
    let now = jiff::Timestamp::now();
    let restored = copying::run(move |control| {
        store::restore(&path, &args.file, args.accept_damage, now, control)
    })?;
    search_index::follow(&config.store.path);
    if args.json {
        let mut printed = copying::json(&restored.facts);
        printed["kept"] = restored.kept.map(|kept| kept.display().to_string()).into();
        printed["forgotten_again"] = match restored.forgotten {
            ForgottenSince::Again(count) => count.into(),
            ForgottenSince::Unknown => Value::Null,
        };
        return output::json(&printed);
    }
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
        ForgottenSince::Again(records) => {
            let records = output::count(records, "record", "records");
            text.push_str(&format!("{records} forgotten after the backup: forgotten again\n"));
        }
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
