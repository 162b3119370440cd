//! `sinks`: what each sink has received and what is still to be delivered; tries one of them, or
//! releases it.

mod attempt;
mod forget;
mod release;

use std::process::ExitCode;

use clap::Subcommand;

use super::current_status::current;
use super::output;
use crate::config::Config;
use crate::duration;
use crate::status::WorkspaceStatus;
#[cfg(test)]
pub(super) use attempt::{SinkPreview, SinkTestResult};
#[cfg(test)]
pub(super) use forget::ForgetSinkResult;
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
    Test(attempt::TestArgs),
    /// Print what would be sent for a change, and send nothing
    Preview(attempt::Args),
    /// Let the changes of a held sink go, or drop them
    Release(release::Args),
    /// Let go of a sink that is no longer configured, with what it never got
    Forget(forget::Args),
}

pub(super) fn run(config: &Config, args: &Args) -> anyhow::Result<ExitCode> {
    match &args.action {
        None | Some(SinkAction::List) => {
            let status = current(config)?;
            if args.json {
                return output::json(&status.sinks);
            }
            table(&status)
        }
        Some(SinkAction::Test(which)) => attempt::test(config, which, args.json),
        Some(SinkAction::Preview(which)) => attempt::preview(config, which, args.json),
        Some(SinkAction::Release(which)) => release::run(config, which, args.json),
        Some(SinkAction::Forget(which)) => forget::run(config, which, args.json),
    }
}

/// The table of the sinks, and what is to be said of replays and of sinks that are no longer configured.
pub(super) fn table(status: &WorkspaceStatus) -> anyhow::Result<ExitCode> {
    let sinks = &status.sinks;
    let rows: Vec<Vec<String>> = sinks
        .iter()
        .map(|sink| {
            vec![
                sink.name.clone(),
                sink.type_name.clone(),
                match sink.next_attempt_s {
                    Some(left) => {
                        format!("{}, next try in {}", sink.state, duration::seconds(left))
                    }
                    None => sink.state.to_string(),
                },
                sink.behind.to_string(),
                sink.retrying.to_string(),
                sink.dead.to_string(),
                sink.delivered.to_string(),
                sink.filtered.to_string(),
                sink.skipped.to_string(),
            ]
        })
        .collect();
    output::table(
        &[
            "sink",
            "type",
            "state",
            "behind",
            "retrying",
            "dead",
            "delivered",
            "not wanted",
            "before start",
        ],
        &rows,
        "no sink has been opened yet: add [sinks.NAME] to the configuration",
    )?;
    for sink in sinks {
        if let Some(error) = &sink.last_error {
            output::text(&format!("{}: {}\n", sink.name, output::plain(error)))?;
        }
    }
    for sink in sinks.iter().filter(|sink| sink.notices.refused > 0) {
        let (name, refused) = (&sink.name, sink.notices.refused);
        output::text(&format!(
            "{name} refused {refused} of its alerts or reports for good: see `shopmirror dead {name} list`\n"
        ))?;
    }
    for replay in sinks.iter().filter_map(|sink| sink.replay.as_ref()) {
        output::text(&format!("{}\n", output::plain(&super::replay::line(replay))))?;
    }
    for removed in &status.removed_sinks {
        output::text(&format!("{removed}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}
