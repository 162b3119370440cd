//! `backup`: copies the store into one file while it is in use, and checks the copy.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueHint;
use jiff::Timestamp;

use super::copying;
use super::output;
use crate::config::Config;
use crate::duration;
use crate::status::WorkspaceStatus;
use crate::store;

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

/// Writes a backup and prints what it holds.
pub(super) fn run(config: &Config, args: &Args) -> anyhow::Result<ExitCode> {
    let source = config.store.path.clone();
    let (file, replace) = (args.file.clone(), args.replace);
    let facts = copying::run(move |control| store::back_up(&source, &file, replace, control))?;
    if args.json {
        let mut printed = copying::json(&facts);
        printed["file"] = args.file.display().to_string().into();
        return output::json(&printed);
    }
    output::text(&output::plain(&format!(
        "{} holds {}; the copy was checked\n",
        args.file.display(),
        copying::described(&facts),
    )))
}

/// The line of `status` about the daily backup; empty if none are made.
pub(super) fn status_line(status: &WorkspaceStatus) -> String {
    let Some(backup) = &status.backup else { return String::new() };
    let now = status.at.parse::<Timestamp>().unwrap_or_default();
    let seconds = |at: &Option<String>| {
        let at = at.as_ref()?.parse::<Timestamp>().ok()?;
        Some(at.duration_since(now).as_secs_f64())
    };
    let last = seconds(&backup.last_at)
        .map_or_else(|| "none yet".to_owned(), |s| format!("{} ago", duration::seconds(-s)));
    let next = seconds(&backup.next_at)
        .map_or_else(String::new, |s| format!(", next in {}", duration::seconds(s)));
    format!("backup   {last}{next}\n")
}
