//! `backup`: copies the store into one file while it is in use, and checks the copy.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueHint;

use super::copying;
use super::output;
use crate::config::Config;
use crate::store;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The file to write
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Overwrite the file if it exists
    #[arg(long)]
    replace: bool,
}

/// Writes a backup and says what it holds.
pub(super) fn run(config: &Config, args: &Args) -> anyhow::Result<ExitCode> {
    let source = config.store.path.clone();
    let (file, replace) = (args.file.clone(), args.replace);
    let facts = copying::run(move |control| store::back_up(&source, &file, replace, control))?;
    output::text(&output::plain(&format!(
        "{} holds {}; it was checked and is complete\n",
        args.file.display(),
        copying::described(&facts),
    )))?;
    Ok(ExitCode::SUCCESS)
}
