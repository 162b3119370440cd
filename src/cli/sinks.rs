//! `sinks`: what each sink has received and what is still to be delivered; tries one of them, or
//! releases it.

mod attempt;
mod release;

use std::process::ExitCode;

use clap::Subcommand;

use super::current_status::current;
use super::output::{self, cell};
use crate::config::Config;
use crate::deliver::SinkStatus;
#[cfg(test)]
pub(super) use attempt::{SinkPreview, SinkTestResult};
#[cfg(test)]
pub(super) use release::ReleaseResult;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Option<SinkAction>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum SinkAction {
    /// List the sinks with their position and backlog (the default)
    List,
    /// Send one change, marked as a test, and report what became of it
    Test(attempt::Args),
    /// Print what would be sent for a change, and send nothing
    Preview(attempt::Args),
    /// Let the changes of a held sink go, or drop them
    Release(release::Args),
}

pub(super) fn run(config: &Config, args: &Args) -> anyhow::Result<ExitCode> {
    match &args.action {
        None | Some(SinkAction::List) => {
            let status = current(config)?;
            if args.json { output::json(&status.sinks) } else { table(&status.sinks) }
        }
        Some(SinkAction::Test(which)) => attempt::test(config, which, args.json),
        Some(SinkAction::Preview(which)) => attempt::preview(config, which, args.json),
        Some(SinkAction::Release(which)) => release::run(config, which, args.json),
    }
}

/// The table of the sinks.
pub(super) fn table(sinks: &[SinkStatus]) -> anyhow::Result<ExitCode> {
    let rows: Vec<Vec<String>> = sinks
        .iter()
        .map(|sink| {
            vec![
                sink.name.clone(),
                sink.type_name.clone(),
                sink.state.to_string(),
                sink.delivered.to_string(),
                sink.behind.to_string(),
                sink.retrying.to_string(),
                sink.dead.to_string(),
                sink.last_error.as_deref().map_or_else(|| "-".to_owned(), |error| cell(error, 60)),
            ]
        })
        .collect();
    output::table(
        &["sink", "type", "state", "delivered", "behind", "retrying", "dead", "last fault"],
        &rows,
        "no sink has been opened yet: add [sinks.NAME] to the configuration",
    )
}
